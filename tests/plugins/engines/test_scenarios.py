"""One scenario for every model server: ours, ours behind SGLang's router, SGLang, and both."""

import asyncio
import itertools
import json
import os
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import (
    GenerateRequest,
    Generation,
    ImageFile,
    Sampling,
    WeightsRef,
)
from mintact_platform.models.sglang import generate_body

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = itertools.count()
_seeds = itertools.count(100)


def _rid():
    return f"scenario-{next(_numbers)}"


def _prompt(seed, length=40):
    """Ordinary ids; another seed shares no prefix with them."""
    return np.random.default_rng(seed).integers(30, 250, length).tolist()


def _request(ids, images=(), *, tokens=8, temperature=1.0, stops=(), seed=None, rid=None):
    # a seed of its own: what is compared is the same in every run
    seed = next(_seeds) if seed is None else seed
    sampling = Sampling(temperature, tokens, tuple(stops), seed)
    return GenerateRequest(rid or _rid(), np.array(ids, dtype=np.int32), list(images), sampling)


def _body(ids, *, images=(), rid=None, tokens=8, **changes):
    """What the client sends, with changes; it goes on after the end of a turn."""
    body = generate_body(_request(ids, tokens=tokens, rid=rid), images)
    body["sampling_params"] |= {"ignore_eos": True} | changes.pop("sampling_params", {})
    return body | changes


@asynccontextmanager
async def _streaming(servers, body):
    """The chunks of a generation while it runs."""
    url = f"{servers.url}/generate"
    async with servers.http.stream("POST", url, json=body | {"stream": True}) as response:
        assert response.status_code == 200, await response.aread()
        yield _chunks(response)


async def _chunks(response):
    async for line in response.aiter_lines():
        if line == "data: [DONE]":
            return
        if line:
            chunk = json.loads(line.removeprefix("data: "))
            assert "error" not in chunk, chunk
            yield chunk
    raise AssertionError("the stream ended without [DONE]")


async def _until(chunks, wanted):
    async for chunk in chunks:
        assert chunk["meta_info"]["finish_reason"] is None, "it ended before it was as wanted"
        if wanted(chunk):
            return
    raise AssertionError("the stream ended before it was as wanted")


async def _last(chunks):
    return [chunk async for chunk in chunks][-1]


def _is(weights, chunk):
    return chunk["meta_info"]["weight_version"] == str(weights.version)


def _logprobs(reply):
    assert [pair[1] for pair in reply["meta_info"]["output_token_logprobs"]] == reply["output_ids"]
    return np.array([pair[0] for pair in reply["meta_info"]["output_token_logprobs"]])


# ---- what comes back ---------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.7])
async def test_ids_and_images_go_in_and_the_policys_logprobs_come_out(
    servers, picture, agree, temperature
):
    client, weights, pad = servers.client(), servers.weights, servers.pad
    stops = servers.special.values()
    images = [picture(1, 64, 64), picture(2, 128, 96)]
    ids = [*_prompt(0, 20), pad, *_prompt(1, 20), pad, 90, 91]
    expanded = 42 + 4 + 12
    for turn in range(2):
        request = _request(ids, images, tokens=12, temperature=temperature, stops=stops)
        got = await client.generate(request)
        assert got.prompt_tokens == expanded
        agree(ids, got.ids, got.logprobs, images, temperature=temperature)
        assert set(got.versions.tolist()) == {weights.version}
        said = [token for token in got.ids.tolist() if token not in stops]
        ids = [*ids, *said, *_prompt(turn, 5), pad]
        images.append(picture(10 + turn, 96, 64))
        expanded += len(said) + 5 + 6


async def test_ids_that_no_tokenizer_would_make_are_taken_as_they_are(servers, agree):
    # single bytes of a text that its tokenizer would have merged
    ids = [token for token in range(32, 60) for _ in range(2)]
    got = await servers.client().generate(_request(ids))
    assert got.prompt_tokens == len(ids)
    agree(ids, got.ids, got.logprobs)


async def test_a_stop_id_or_a_reserved_id_is_the_last_one_and_is_kept(servers):
    client, stops = servers.client(), set(servers.special.values())
    requests = [
        _request(_prompt(seed), tokens=60, stops=stops, temperature=2.0) for seed in range(12)
    ]
    results = await asyncio.gather(*map(client.generate, requests))
    ended = set()
    for got in results:
        *before, last = got.ids.tolist()
        assert not set(before) & stops
        assert got.finish == ("stop" if last in stops else "length")
        ended.add(got.finish)
    assert "stop" in ended


async def test_a_seed_decides_what_is_sampled_where_the_server_says_so(servers):
    client, ids = servers.client(), _prompt(3)
    first, again, other = [
        (await client.generate(_request(ids, tokens=16, seed=seed))).ids.tolist()
        for seed in (7, 7, 8)
    ]
    assert (first == again) == servers.kind.seeds
    assert first != other


async def test_greedy_is_the_same_every_time(servers, agree):
    client, ids = servers.client(), _prompt(4)
    first, again = [
        await client.generate(_request(ids, tokens=12, temperature=0.0)) for _ in range(2)
    ]
    assert first.ids.tolist() == again.ids.tolist()
    agree(ids, first.ids, first.logprobs)


async def test_a_stream_is_cumulative_and_ends_with_done(servers):
    async with _streaming(servers, _body(_prompt(5), tokens=12, rid="stream")) as chunks:
        chunks = [chunk async for chunk in chunks]
    for before, after in itertools.pairwise(chunks):
        assert after["output_ids"][: len(before["output_ids"])] == before["output_ids"]
        assert before["meta_info"]["finish_reason"] is None
    assert len(chunks) > 1
    assert len(_logprobs(chunks[-1])) == 12
    assert chunks[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 12}
    assert chunks[-1]["meta_info"]["id"] == "stream"


# ---- aborts, pauses, updates -------------------------------------------------------------------


async def test_an_abort_returns_what_there_is(servers, agree):
    ids = _prompt(6)
    async with _streaming(servers, _body(ids, tokens=1500, rid="abort")) as chunks:
        await _until(chunks, lambda chunk: len(chunk["output_ids"]) >= 3)
        await servers.client().abort("abort")
        reply = await _last(chunks)
    assert reply["meta_info"]["finish_reason"]["type"] == "abort"
    assert 3 <= len(reply["output_ids"]) < 1500
    agree(ids, reply["output_ids"], _logprobs(reply))


async def test_a_caller_that_goes_away_leaves_nothing_running(servers):
    client = servers.client()

    def ask(number):
        # each may end at once, where the first token is the end of a turn
        requests = [_request(_prompt(7 + 8 * number + k), tokens=1500) for k in range(8)]
        return [asyncio.create_task(client.generate(request)) for request in requests]

    asked = await servers.under_way(ask)
    for call in asked:
        call.cancel()
    ends = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(end) for end in ends} - {Generation} == {asyncio.CancelledError}
    await servers.until_running(lambda number: number == 0)


@pytest.mark.parametrize("pause", ["abort", "retract", "in_place"])
async def test_an_update_in_the_middle_shows_in_the_tokens_versions(servers, agree, pause):
    old, new = servers.weights, servers.weights_of(servers.version + 1)
    replies = await asyncio.gather(
        *(_across_an_update(servers, _prompt(f, 30), pause, new) for f in range(3)),
        _update(servers, new, pause, running=3),
    )
    for seed, reply in enumerate(replies[:-1]):
        spans = reply["meta_info"]["weight_versions"]
        names = [str(old.version)] if pause == "abort" else [str(old.version), str(new.version)]
        assert [span["version"] for span in spans] == names
        assert spans[-1]["end"] - spans[0]["start"] == len(reply["output_ids"])
        assert (reply["meta_info"]["num_retractions"] > 0) == (pause == "retract")
        cut = spans[0]["end"] - spans[0]["start"]
        prompt, ids, got = _prompt(seed, 30), reply["output_ids"], _logprobs(reply)
        agree(prompt, ids[:cut], got[:cut], weights=old)
        # in place, the rest is read from keys and values of the old weights
        if pause == "retract" and servers.pad not in ids[:cut]:
            agree(prompt + ids[:cut], ids[cut:], got[cut:], weights=new)


async def _across_an_update(servers, ids, pause, new):
    rid = _rid()
    async with _streaming(servers, _body(ids, tokens=1500, rid=rid)) as chunks:
        if pause != "abort":
            # a chunk of before may be stamped with the version of now
            new_chunks = itertools.count()
            await _until(chunks, lambda chunk: _is(new, chunk) and next(new_chunks) > 2)
            await servers.client().abort(rid)
        return await _last(chunks)


async def _update(servers, new, pause, running):
    await servers.until_running(lambda number: number == running)
    await servers.client().update(new, pause=pause)
    servers.version = new.version


async def test_an_update_is_served_by_every_worker_and_a_refused_one_by_none(
    servers, agree, tmp_path
):
    client, new = servers.client(), servers.weights_of(servers.version + 1)
    await client.update(new)
    servers.version = new.version
    with pytest.raises(ModelServerError):
        await client.update(WeightsRef(tmp_path, 999))
    assert await client.healthy()
    for url in servers.worker_urls:
        info = (await servers.http.get(f"{url}/model_info")).json()
        assert info["weight_version"] == str(new.version)
    for seed in range(4):
        ids = _prompt(100 + seed)
        got = await client.generate(_request(ids))
        assert set(got.versions.tolist()) == {new.version}
        agree(ids, got.ids, got.logprobs)


async def test_a_worker_left_behind_gets_the_weights_before_its_answers_count(servers, agree):
    client, now = servers.client(), servers.weights
    old = servers.weights_of(now.version - 1)
    behind = servers.worker_urls[-1]
    body = {"model_path": str(old.path), "weight_version": str(old.version)}
    reply = await servers.http.post(f"{behind}/update_weights_from_disk", json=body)
    assert reply.json()["success"]
    requests = [_request(_prompt(200 + seed)) for seed in range(6)]
    for request in requests:
        got = await client.generate(request)
        assert set(got.versions.tolist()) == {now.version}
        agree(request.ids, got.ids, got.logprobs)
    assert await client.healthy()
    info = (await servers.http.get(f"{behind}/model_info")).json()
    assert info["weight_version"] == str(now.version)


# ---- caches ------------------------------------------------------------------------------------


async def test_a_turn_finds_the_one_before_it_in_the_cache(servers, picture):
    client = servers.client()
    # SGLang overlooks a placeholder that is the first id, and cuts the prompt into ids anew
    image, ids = picture(20, 128, 128), [90, servers.pad, *_prompt(8, 60)]
    first = await client.generate(_request(ids, [image], stops=servers.special.values()))
    assert first.prompt_tokens == 61 + 16
    said = [token for token in first.ids.tolist() if token != servers.pad]
    ids = [*ids, *said, *_prompt(9, 10)]
    second = await client.generate(_request(ids, [image]))
    assert second.cached_tokens >= first.prompt_tokens


async def test_an_image_by_path_and_inline_is_one_image(servers, picture):
    pad = servers.pad
    # not those of another set-up, whose worker may be the same
    seed = 1000 + next(_numbers)
    image, ids = picture(seed, 128, 128), [*_prompt(seed, 30), pad, 90]
    by_path = await servers.client(image_transport="path").generate(_request(ids, [image]))
    inline = await servers.client(image_transport="inline").generate(_request(ids, [image]))
    other = await servers.client().generate(_request(ids, [picture(seed + 1, 128, 128)]))
    assert by_path.prompt_tokens == inline.prompt_tokens == 31 + 16
    assert inline.cached_tokens == by_path.prompt_tokens - 1
    assert other.cached_tokens <= 30, "other pixels, other tokens"


async def test_an_image_that_the_server_cannot_open_is_sent_inline(servers, agree, picture):
    image, ids = picture(23), [*_prompt(14, 20), servers.pad, 90]
    # a file of this process alone: the path it resolves to is no file of any other
    with os.fdopen(os.memfd_create("picture"), "wb") as file:
        file.write(image.path.read_bytes())
        file.flush()
        own = ImageFile(Path(f"/proc/self/fd/{file.fileno()}"), image.digest)
        client = servers.client(image_transport="auto")
        got = await client.generate(_request(ids, [own]))
    assert client.image_transport == "inline"
    agree(ids, got.ids, got.logprobs, [image])


# ---- what is refused ---------------------------------------------------------------------------


async def test_a_prompt_beyond_the_context_is_refused(servers):
    body = _body([40] * 2049)
    response = await servers.http.post(f"{servers.url}/generate", json=body)
    assert response.status_code == 400
    with pytest.raises(ModelServerError, match="HTTP 400") as caught:
        await servers.client().generate(_request([40] * 2049))
    assert caught.value.kind == "http"


BAD = {
    "no ids": {"input_ids": []},
    "an id beyond the vocabulary": {"input_ids": [10**6]},
    "a negative temperature": {"sampling_params": {"temperature": -1}},
    "no new tokens": {"sampling_params": {"max_new_tokens": -1}},
    "top_p of 0": {"sampling_params": {"top_p": 0.0}},
    "an unknown sampling parameter": {"sampling_params": {"no_such_parameter": 1}},
    "no such image": {"image_data": ["/no/such/file.png"]},
    "a broken image": {"image_data": ["aGVsbG8="]},
}


@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_request_is_refused_and_the_server_lives(servers, bad):
    status = servers.status_of(bad)
    if status is None:
        pytest.skip("the server would die of it")
    response = await servers.http.post(f"{servers.url}/generate", json=_body([40, 41], **BAD[bad]))
    assert response.status_code == status, response.text
    assert len((await servers.client().generate(_request(_prompt(11)))).ids)


# ---- deaths and repeats ------------------------------------------------------------------------


async def test_a_request_run_twice_gives_one_result(servers, agree):
    ids, rid = _prompt(12), _rid()
    async with _cut_once(servers.url) as proxy:
        client = servers.client(generate_url=proxy.url)
        got = await client.generate(_request(ids, tokens=30, rid=rid))
    assert proxy.bodies == 2, "the same request went out twice"
    assert got.finish in ("stop", "length")
    agree(ids, got.ids, got.logprobs)
    await servers.until_running(lambda number: number == 0)


class _Proxy:
    """Hands bytes on; its first connection is cut when the reply comes, which is lost."""

    def __init__(self, target):
        self.host, port = target.removeprefix("http://").split(":")
        self.port, self.bodies, self.url = int(port), 0, ""

    async def serve(self, reader, writer):
        self.bodies += 1
        first = self.bodies == 1
        up_reader, up_writer = await asyncio.open_connection(self.host, self.port)
        back = up_reader.read(1) if first else self._pipe(up_reader, writer)
        ways = [
            asyncio.create_task(self._pipe(reader, up_writer)),
            asyncio.create_task(back),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, up_writer):
            end.close()

    @staticmethod
    async def _pipe(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def _cut_once(target):
    proxy = _Proxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield proxy


async def _answered(client, ids, *, tokens):
    """The prompt and what came of it."""
    return ids, await client.generate(_request(ids, tokens=tokens))


# last: it leaves one worker
async def test_a_worker_killed_under_load_costs_no_request(servers, agree, behind_router):
    client = servers.client()

    def ask(number):
        prompts = [_prompt(300 + 16 * number + k) for k in range(16)]
        return [asyncio.create_task(_answered(client, ids, tokens=100)) for ids in prompts]

    asked = await servers.under_way(ask, servers.worker_urls[-1:])
    await asyncio.to_thread(servers.workers[-1].child.kill)
    for ids, got in await asyncio.gather(*asked):
        assert got.finish in ("stop", "length")
        agree(ids, got.ids, got.logprobs)
    assert not await client.healthy()
