"""The client of model servers against a worker that speaks the routes over real sockets."""

import asyncio
import base64
import hashlib
import json
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from mintact_platform.errors import ModelServerError
from mintact_platform.models.client import ModelServers
from mintact_platform.models.protocol import GenerateRequest, ImageFile, Sampling, WeightsRef

CONTROL = (
    "/pause_generation",
    "/flush_cache",
    "/begin_weight_update",
    "/update_weights_from_disk",
    "/end_weight_update",
    "/continue_generation",
)


def _reply(ids=(5, 6), logprobs=(-0.5, -0.25), finish="stop", **meta):
    pairs = [[logprob, token, None] for logprob, token in zip(logprobs, ids, strict=False)]
    return {
        "output_ids": list(ids),
        "meta_info": {
            "finish_reason": {"type": finish, "message": "Aborted"},
            "prompt_tokens": 3,
            "cached_tokens": 1,
            "weight_version": "4",
            "output_token_logprobs": pairs,
            **meta,
        },
    }


@dataclass
class Worker:
    """What a worker does and what it saw."""

    reply: dict = field(default_factory=_reply)
    status: int = 200
    hang: bool = False
    reads_paths: bool = True
    version: str = "4"
    brackets: bool = True
    busy_flushes: int = 0
    known_rids: int = 0
    lost: int = 0
    refuses: tuple[str, ...] = ()
    deaf_to_updates: bool = False
    url: str = ""
    calls: list = field(default_factory=list)
    keys: set = field(default_factory=set)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)

    def bodies(self, route):
        return [body for path, body in self.calls if path == route]

    def routes(self):
        return [path for path, _ in self.calls if path in CONTROL]


def _app(worker, loop):
    app = FastAPI()

    @app.middleware("http")
    async def record(request: Request, call):
        body = await request.body()
        worker.keys.add(request.headers.get("authorization"))
        worker.calls.append((request.url.path, json.loads(body) if body else {}))
        return await call(request)

    @app.post("/generate")
    async def generate(request: Request):
        body = worker.calls[-1][1]
        images = body.get("image_data", [])
        if worker.lost:
            worker.lost -= 1
            message = "error sending request for url (http://127.0.0.1:1/generate)"
            return JSONResponse({"error": {"message": message}}, status_code=500)
        if worker.known_rids:
            worker.known_rids -= 1
            message = f"Duplicate request ID detected: {body['rid']}"
            return JSONResponse({"error": {"message": message}}, status_code=400)
        if not worker.reads_paths and any(image.startswith("/") for image in images):
            return JSONResponse({"error": {"message": "cannot read image"}}, status_code=400)
        while worker.hang and not await request.is_disconnected():
            await asyncio.sleep(0.01)
        return JSONResponse(worker.reply, status_code=worker.status)

    @app.post("/abort_request")
    async def abort():
        loop.call_soon_threadsafe(worker.aborted.set)
        return Response()

    @app.get("/health")
    async def health():
        return Response()

    @app.get("/model_info")
    async def info():
        return {"weight_version": worker.version}

    @app.post("/{route}")
    async def control(route: str):
        body = worker.calls[-1][1]
        if route in ("begin_weight_update", "end_weight_update") and not worker.brackets:
            return Response(status_code=404)
        if route == "flush_cache" and worker.busy_flushes:
            worker.busy_flushes -= 1
            return Response(status_code=400)
        if route == "update_weights_from_disk":
            if body["weight_version"] in worker.refuses:
                return JSONResponse({"success": False, "message": "bad path"}, status_code=400)
            if not worker.deaf_to_updates:
                worker.version = body["weight_version"]
        return {"success": True, "status": "ok"}

    return app


@pytest.fixture
async def workers():
    servers, threads = [], []
    loop = asyncio.get_running_loop()

    async def start(**behaviour):
        worker = Worker(**behaviour)
        config = uvicorn.Config(
            _app(worker, loop), port=0, log_level="error", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        worker.url = f"http://127.0.0.1:{port}"
        servers.append(server)
        threads.append(thread)
        return worker

    yield start
    for server in servers:
        server.should_exit = True
    for thread in threads:
        await asyncio.to_thread(thread.join)


@pytest.fixture
async def connect():
    clients = []

    def make(*workers, **options):
        urls = [worker.url for worker in workers]
        options = {"generate_deadline": 20, "control_deadline": 20, **options}
        clients.append(ModelServers(urls[0], urls, **options))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()


def _request(rid="r", images=(), seed=None):
    sampling = Sampling(0.7, 16, (1, 2), seed)
    return GenerateRequest(rid, np.array([1, 2, 3], dtype=np.int32), list(images), sampling)


def _image(path, content=b"\x89PNG pixels"):
    path.write_bytes(content)
    return ImageFile(path, hashlib.sha256(content).hexdigest())


# ---- generation ----------------------------------------------------------------------------------


async def test_a_generation_is_asked_and_read_as_sglang_means_it(workers, connect):
    spans = [{"version": "4", "start": 0, "end": 1}, {"version": "5", "start": 1, "end": 2}]
    worker = await workers(reply=_reply(weight_versions=spans))
    generation = await connect(worker).generate(_request(seed=9))
    [body] = worker.bodies("/generate")
    sampling = body.pop("sampling_params")
    assert body == {
        "rid": "r",
        "input_ids": [1, 2, 3],
        "return_logprob": True,
        "logprob_start_len": -1,
        "stream": False,
    }
    wanted = {"temperature": 0.7, "max_new_tokens": 16, "stop_token_ids": [1, 2], "top_p": 1}
    assert wanted.items() <= sampling.items()
    assert {"top_k": -1, "min_p": 0, "sampling_seed": 9}.items() <= sampling.items()
    assert generation.ids.tolist() == [5, 6]
    assert generation.logprobs.tolist() == [-0.5, -0.25]
    assert generation.versions.tolist() == [4, 5]
    assert (generation.finish, generation.prompt_tokens, generation.cached_tokens) == ("stop", 3, 1)


async def test_without_spans_the_whole_output_has_the_servers_version(workers, connect):
    worker = await workers()
    assert (await connect(worker).generate(_request())).versions.tolist() == [4, 4]
    worker.reply = _reply(weight_version="default")
    assert (await connect(worker).generate(_request())).versions.tolist() == [-1, -1]


@pytest.mark.parametrize(
    "reply",
    [
        _reply(ids=(5, 6, 7)),
        _reply(logprobs=(-0.5, float("nan"))),
        _reply(finish="tired"),
        {**_reply(), "output_ids": [6, 5]},
        {"text": "hi"},
        [],
    ],
    ids=["lengths", "nan", "finish", "order", "shape", "list"],
)
async def test_a_reply_that_does_not_fit_itself_is_void(workers, connect, reply, monkeypatch):
    worker = await workers()
    # the worker's own JSON encoder refuses NaN, a real server may send it
    monkeypatch.setattr(JSONResponse, "render", lambda _, content: json.dumps(content).encode())
    worker.reply = reply
    with pytest.raises(ModelServerError, match="cannot be read") as caught:
        await connect(worker).generate(_request())
    assert caught.value.kind == "void"


async def test_an_abort_keeps_its_tokens_and_without_any_is_an_error(workers, connect):
    worker = await workers(reply=_reply(finish="abort"))
    servers = connect(worker)
    assert (await servers.generate(_request())).finish == "abort"
    worker.reply = _reply(ids=(), logprobs=(), finish="abort")
    with pytest.raises(ModelServerError, match="Aborted") as caught:
        await servers.generate(_request())
    assert caught.value.kind == "aborted"


async def test_a_refusal_tells_what_the_server_said(workers, connect):
    worker = await workers(status=400, reply={"error": {"message": "prompt\ntoo long"}})
    with pytest.raises(ModelServerError, match="HTTP 400: prompt too long") as caught:
        await connect(worker).generate(_request())
    assert caught.value.kind == "http"


async def test_no_server_is_unreachable(workers, connect, unused_tcp_port):
    servers = connect(Worker(url=f"http://127.0.0.1:{unused_tcp_port}"))
    with pytest.raises(ModelServerError) as caught:
        await servers.generate(_request())
    assert caught.value.kind == "unreachable"
    assert not await servers.healthy()


async def test_a_late_reply_is_aborted_on_the_server(workers, connect):
    worker = await workers(hang=True)
    with pytest.raises(ModelServerError, match=r"deadlines\.generate") as caught:
        await connect(worker, generate_deadline=0.2).generate(_request("late"))
    assert caught.value.kind == "timeout"
    assert worker.bodies("/abort_request") == [{"rid": "late"}]


async def test_cancelling_aborts_on_every_worker(workers, connect):
    first, second = await workers(hang=True), await workers()
    asked = asyncio.create_task(connect(first, second).generate(_request("gone")))
    while not first.bodies("/generate"):
        await asyncio.sleep(0.005)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert first.bodies("/abort_request") == second.bodies("/abort_request") == [{"rid": "gone"}]


async def test_cancelling_twice_still_aborts(workers, connect):
    worker = await workers(hang=True)
    asked = asyncio.create_task(connect(worker).generate(_request()))
    while not worker.bodies("/generate"):
        await asyncio.sleep(0.005)
    asked.cancel()
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await worker.aborted.wait()


async def test_a_rid_that_the_server_has_not_forgotten_is_sent_until_it_has(workers, connect):
    worker = await workers(known_rids=2)
    client = connect(worker)
    assert (await client.generate(_request())).ids.tolist() == [5, 6]
    assert [body["rid"] for body in worker.bodies("/generate")] == ["r"] * 3


@pytest.mark.parametrize(("lost", "asked"), [(2, 3), (99, 4)])
async def test_a_router_that_has_a_dead_worker_is_asked_until_it_has_not(
    workers, connect, monkeypatch, lost, asked
):
    monkeypatch.setattr("mintact_platform.models.client._LOST_SECONDS", 0)
    monkeypatch.setattr("mintact_platform.models.client._LOST_TIMES", 3)
    router = await workers(lost=lost)
    if lost < asked:
        assert (await connect(router).generate(_request())).ids.tolist() == [5, 6]
    else:
        with pytest.raises(ModelServerError, match="error sending request"):
            await connect(router).generate(_request())
    assert [body["rid"] for body in router.bodies("/generate")] == ["r"] * asked


@pytest.mark.parametrize("losses", [1, 2])
async def test_a_lost_connection_is_asked_once_more_under_the_same_rid(connect, losses):
    seen = []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        body = json.loads(await reader.readexactly(length))
        if b"/generate" in head:
            seen.append(body["rid"])
        if len(seen) > losses:
            content = json.dumps(_reply()).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(content) + content)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        asked = connect(Worker(url=f"http://127.0.0.1:{port}")).generate(_request())
        if losses == 1:
            assert (await asked).ids.tolist() == [5, 6]
        else:
            with pytest.raises(ModelServerError) as caught:
                await asked
            assert caught.value.kind == "unreachable"
    assert seen == ["r", "r"]


async def test_proxies_of_the_environment_are_ignored(workers, connect, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    worker = await workers()
    assert (await connect(worker).generate(_request())).finish == "stop"


async def test_an_api_key_is_sent(workers, connect):
    worker = await workers()
    servers = connect(worker, bearer="secret")
    assert await servers.healthy()
    await servers.generate(_request())
    assert worker.keys == {"Bearer secret"}


# ---- images --------------------------------------------------------------------------------------


async def test_images_go_by_path_while_the_server_reads_them(workers, connect, tmp_path):
    worker = await workers()
    servers = connect(worker)
    await servers.generate(_request(images=[_image(tmp_path / "a.png")]))
    assert worker.bodies("/generate")[0]["image_data"] == [str(tmp_path / "a.png")]
    assert servers.image_transport == "auto"


async def test_a_server_that_cannot_read_paths_gets_data_from_then_on(workers, connect, tmp_path):
    worker = await workers(reads_paths=False)
    servers = connect(worker)
    image = _image(tmp_path / "a.png")
    for _ in range(2):
        assert (await servers.generate(_request(images=[image]))).finish == "stop"
    sent = [body["image_data"][0] for body in worker.bodies("/generate")]
    data = "data:image/png;base64," + base64.b64encode(image.path.read_bytes()).decode()
    assert sent == [str(image.path), data, data]


async def test_a_refusal_for_another_reason_does_not_change_the_transport(
    workers, connect, tmp_path
):
    worker = await workers(status=400)
    servers = connect(worker)
    with pytest.raises(ModelServerError):
        await servers.generate(_request(images=[_image(tmp_path / "a.png")]))
    assert servers.image_transport == "auto"


async def test_inline_data_is_encoded_once_a_digest_and_kept_within_bounds(
    workers, connect, tmp_path
):
    worker = await workers()
    servers = connect(worker, image_transport="inline", inline_bytes=300_000)
    large, small = (_image(tmp_path / n, n.encode() * s) for n, s in (("a", 200_000), ("b", 9)))
    await servers.generate(_request(images=[large, small]))
    large.path.unlink()
    await servers.generate(_request(images=[large, small]))
    first, second = (body["image_data"] for body in worker.bodies("/generate"))
    assert first == second
    assert base64.b64decode(first[0].split(",")[1]) == b"a" * 200_000
    await servers.generate(_request(images=[_image(tmp_path / "c", b"c" * 100_000)]))
    with pytest.raises(FileNotFoundError):
        await servers.generate(_request(images=[large]))


# ---- weights -------------------------------------------------------------------------------------


async def test_an_update_runs_the_whole_sequence_on_every_worker(workers, connect, tmp_path):
    both = [await workers(busy_flushes=2), await workers()]
    servers = connect(*both, weights=WeightsRef(tmp_path, 4))
    assert await servers.healthy()
    await servers.update(WeightsRef(tmp_path, 5))
    assert both[1].routes() == list(CONTROL)
    assert both[0].routes() == [CONTROL[0], *["/flush_cache"] * 3, *CONTROL[2:]]
    assert both[0].bodies("/pause_generation") == [{"mode": "abort"}]
    [body] = both[0].bodies("/update_weights_from_disk")
    assert (body["model_path"], body["weight_version"]) == (str(tmp_path), "5")
    assert servers.weights.version == 5
    assert await servers.healthy()


async def test_a_server_without_brackets_is_updated_without_them(workers, connect, tmp_path):
    worker = await workers(brackets=False)
    await connect(worker).update(WeightsRef(tmp_path, 5))
    assert worker.version == "5"
    assert "/end_weight_update" not in worker.routes()


async def test_a_refused_update_changes_nothing_and_generation_continues(
    workers, connect, tmp_path
):
    worker = await workers(refuses=("5",))
    servers = connect(worker, weights=WeightsRef(tmp_path, 4))
    with pytest.raises(ModelServerError, match="bad path"):
        await servers.update(WeightsRef(tmp_path, 5))
    assert worker.routes()[-2:] == ["/end_weight_update", "/continue_generation"]
    assert await servers.healthy()


async def test_when_one_worker_refuses_the_other_gets_its_old_weights_back(
    workers, connect, tmp_path
):
    good, bad = await workers(), await workers(refuses=("5",))
    servers = connect(good, bad, weights=WeightsRef(tmp_path, 4))
    with pytest.raises(ModelServerError, match="bad path"):
        await servers.update(WeightsRef(tmp_path, 5))
    assert good.version == bad.version == "4"
    assert good.routes()[-1] == bad.routes()[-1] == "/continue_generation"
    assert await servers.healthy()


async def test_an_update_that_is_not_served_is_an_error(workers, connect, tmp_path):
    worker = await workers(deaf_to_updates=True)
    with pytest.raises(ModelServerError, match="serves version 4 after an update to 5"):
        await connect(worker).update(WeightsRef(tmp_path, 5))


async def test_a_cancelled_update_lets_the_servers_continue(workers, connect, tmp_path):
    worker = await workers(busy_flushes=10**6)
    servers = connect(worker, weights=WeightsRef(tmp_path, 4))
    update = asyncio.create_task(servers.update(WeightsRef(tmp_path, 5)))
    while not worker.bodies("/flush_cache"):
        await asyncio.sleep(0.005)
    update.cancel()
    with pytest.raises(asyncio.CancelledError):
        await update
    assert worker.routes()[-1] == "/continue_generation"
    assert worker.version == "4"


async def test_an_update_that_takes_too_long_is_a_timeout(workers, connect, tmp_path):
    worker = await workers(busy_flushes=10**6)
    servers = connect(worker, weights=WeightsRef(tmp_path, 4), update_deadline=0.3)
    with pytest.raises(ModelServerError, match=r"deadlines\.push") as caught:
        await servers.update(WeightsRef(tmp_path, 5))
    assert caught.value.kind == "timeout"
    assert await servers.healthy()


async def test_a_worker_with_other_weights_is_not_healthy(workers, connect, tmp_path):
    worker = await workers(version="3", deaf_to_updates=True)
    assert not await connect(worker, weights=WeightsRef(tmp_path, 4)).healthy()
    assert await connect(worker).healthy()


async def test_a_server_that_came_late_or_was_restarted_gets_the_current_weights(
    workers, connect, tmp_path
):
    late, current = await workers(version="default"), await workers(version="4")
    servers = connect(late, current, weights=WeightsRef(tmp_path, 4))
    assert await servers.healthy()
    assert late.version == "4"
    assert late.routes() == list(CONTROL)
    assert current.routes() == []


async def test_an_answer_of_older_weights_is_asked_again_once_its_server_caught_up(
    workers, connect, tmp_path
):
    worker = await workers(version="default", reply=_reply(weight_version="default"))
    servers = connect(worker, weights=WeightsRef(tmp_path, 4))
    with pytest.raises(ModelServerError, match="generates with version -1, not 4"):
        await servers.generate(_request())
    assert worker.version == "4"
    worker.reply = _reply(weight_version="4")
    assert (await servers.generate(_request())).versions.tolist() == [4, 4]
    assert len(worker.bodies("/generate")) == 3


@pytest.mark.parametrize("pause", ["retract", "in_place"])
async def test_generations_in_flight_may_be_paused_instead_of_ended(
    workers, connect, tmp_path, pause
):
    worker = await workers()
    await connect(worker).update(WeightsRef(tmp_path, 5), pause=pause)
    assert worker.bodies("/pause_generation") == [{"mode": pause}]
    assert ("/flush_cache" in worker.routes()) == (pause == "retract")
    [body] = worker.bodies("/update_weights_from_disk")
    assert body["flush_cache"] == (pause == "retract")
    assert not body["abort_all_requests"]
