"""The client of model servers generates: what it asks, what it believes, what it asks again."""

import asyncio
import base64
import hashlib
import json
import socket

import numpy as np
import pytest
from fastapi.responses import JSONResponse

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import GenerateRequest, ImageFile, Sampling, WeightsRef


def _request(rid="r", images=(), seed=None):
    sampling = Sampling(0.7, 16, (1, 2), seed)
    return GenerateRequest(rid, np.array([1, 2, 3], dtype=np.int32), list(images), sampling)


def _image(path, content=b"\x89PNG pixels"):
    path.write_bytes(content)
    return ImageFile(path, hashlib.sha256(content).hexdigest())


# ---- generation ----------------------------------------------------------------------------------


async def test_a_generation_is_asked_and_read_as_sglang_means_it(workers, connect):
    spans = [{"version": "4", "start": 0, "end": 1}, {"version": "5", "start": 1, "end": 2}]
    worker = await workers()
    worker.reply = worker.reply_with(weight_versions=spans)
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
    worker.reply = worker.reply_with(weight_version="default")
    assert (await connect(worker).generate(_request())).versions.tolist() == [-1, -1]


@pytest.mark.parametrize(
    "reply",
    [
        lambda worker: worker.reply_with(ids=(5, 6, 7)),
        lambda worker: worker.reply_with(logprobs=(-0.5, float("nan"))),
        lambda worker: worker.reply_with(finish="tired"),
        lambda worker: {**worker.reply, "output_ids": [6, 5]},
        lambda worker: {"text": "hi"},
        lambda worker: [],
    ],
    ids=["lengths", "nan", "finish", "order", "shape", "list"],
)
async def test_a_reply_that_does_not_fit_itself_is_void(workers, connect, reply, monkeypatch):
    worker = await workers()
    # the worker's own JSON encoder refuses NaN, a real server may send it
    monkeypatch.setattr(JSONResponse, "render", lambda _, content: json.dumps(content).encode())
    worker.reply = reply(worker)
    with pytest.raises(ModelServerError, match="cannot be read") as caught:
        await connect(worker).generate(_request())
    assert caught.value.kind == "void"


async def test_an_abort_keeps_its_tokens_and_without_any_is_an_error(workers, connect):
    worker = await workers()
    worker.reply = worker.reply_with(finish="abort")
    servers = connect(worker)
    assert (await servers.generate(_request())).finish == "abort"
    worker.reply = worker.reply_with(ids=(), logprobs=(), finish="abort")
    with pytest.raises(ModelServerError, match="Aborted") as caught:
        await servers.generate(_request())
    assert caught.value.kind == "aborted"


async def test_a_refusal_tells_what_the_server_said(workers, connect):
    worker = await workers(status=400, reply={"error": {"message": "prompt\ntoo long"}})
    with pytest.raises(ModelServerError, match="HTTP 400: prompt too long") as caught:
        await connect(worker).generate(_request())
    assert caught.value.kind == "http"


async def test_no_server_is_unreachable(workers, connect):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        servers = connect(f"http://127.0.0.1:{deaf.getsockname()[1]}")
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
async def test_a_lost_connection_is_asked_once_more_under_the_same_rid(workers, connect, losses):
    seen, content = [], json.dumps((await workers()).reply).encode()

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        body = json.loads(await reader.readexactly(length))
        if b"/generate" in head:
            seen.append(body["rid"])
        if len(seen) > losses:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(content) + content)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        asked = connect(f"http://127.0.0.1:{port}").generate(_request())
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


async def test_an_answer_of_older_weights_is_asked_again_once_its_server_caught_up(
    workers, connect, tmp_path
):
    worker = await workers(version="default")
    worker.reply = worker.reply_with(weight_version="default")
    servers = connect(worker, weights=WeightsRef(tmp_path, 4))
    with pytest.raises(ModelServerError, match="generates with version -1, not 4"):
        await servers.generate(_request())
    assert worker.version == "4"
    worker.reply = worker.reply_with(weight_version="4")
    assert (await servers.generate(_request())).versions.tolist() == [4, 4]
    assert len(worker.bodies("/generate")) == 3


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
