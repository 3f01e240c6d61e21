"""The routes over HTTP: what is answered, and what is refused without harm."""

import asyncio
import json
import re

import httpx
import pytest
import pytest_asyncio
from mintact_plugin_torch.engine.app import create_app

IDS = list(range(30, 60))


@pytest_asyncio.fixture
async def served(open_engine):
    async with open_engine() as engine:
        transport = httpx.ASGITransport(create_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
            yield engine, client


def _body(**changes):
    sampling = {"max_new_tokens": 4, "ignore_eos": True, **changes.pop("sampling_params", {})}
    return {"input_ids": IDS, "sampling_params": sampling, "return_logprob": True, **changes}


async def test_a_reply_has_sglangs_shape(served, picture, inline):
    engine, client = served
    ids = [*IDS, engine.policy.image_token_id]
    body = _body(rid="r", input_ids=ids, image_data=inline(picture(0, 64, 32)), unknown_field=1)
    reply = (await client.post("/generate", json=body)).json()
    meta = reply["meta_info"]
    assert meta["id"] == "r"
    assert (meta["prompt_tokens"], meta["image_tokens"]) == (len(IDS) + 2, 2)
    assert (meta["completion_tokens"], meta["cached_tokens"]) == (4, 0)
    assert meta["weight_versions"] == [{"version": "1", "start": 0, "end": 4}]
    assert meta["finish_reason"] == {"type": "length", "length": 4}
    assert [pair[1:] for pair in meta["output_token_logprobs"]] == [
        [token, None] for token in reply["output_ids"]
    ]
    bare = await client.post("/generate", json=_body(return_logprob=False))
    assert "output_token_logprobs" not in bare.json()["meta_info"]


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
async def test_a_path_a_data_url_and_base64_are_one_image_in_the_cache(
    served, picture, inline, tmp_path, kind
):
    engine, client = served
    content = picture(0, 128, 128, kind)
    (tmp_path / "image").write_bytes(content)
    text = inline(content)
    url = f"data:image/{kind.lower()};base64,{text}"
    ids = [engine.policy.image_token_id, *IDS]
    cached = []
    for source in (str(tmp_path / "image"), text, url):
        reply = await client.post("/generate", json=_body(input_ids=ids, image_data=[source]))
        cached.append(reply.json()["meta_info"]["cached_tokens"])
    assert cached == [0, 16 + len(IDS) - 1, 16 + len(IDS) - 1]
    other = inline(picture(1, 128, 128, kind))
    reply = await client.post("/generate", json=_body(input_ids=ids, image_data=[other]))
    assert reply.json()["meta_info"]["cached_tokens"] == 0, "other pixels, other tokens"


async def test_a_stream_is_cumulative_and_ends_with_done(served):
    _, client = served
    body = _body(stream=True, sampling_params={"sampling_seed": 1})
    whole = (
        await client.post("/generate", json=_body(sampling_params={"sampling_seed": 1}))
    ).json()
    lines = (await client.post("/generate", json=body)).text.strip().split("\n\n")
    assert lines.pop() == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert [len(chunk["output_ids"]) for chunk in chunks] == [1, 2, 3, 4]
    assert [chunk["meta_info"]["finish_reason"] for chunk in chunks[:3]] == [None] * 3
    assert chunks[-1]["output_ids"] == whole["output_ids"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": None}, "input_ids"),
        ({"input_ids": [[30], [31]]}, "input_ids"),
        ({"input_ids": [30, -1]}, r"must lie in \[0"),
        ({"input_ids": [10**9]}, r"must lie in \[0"),
        ({"input_ids": [30] * 1022}, "exceed the context of 1024"),
        ({"sampling_params": {"max_new_tokens": 2000}}, "exceed the context"),
        ({"sampling_params": {"max_new_tokens": 0}}, "max_new_tokens"),
        ({"sampling_params": {"temperature": -1}}, "temperature"),
        ({"sampling_params": {"top_p": 0.5}}, "top_p"),
        ({"sampling_params": {"repetition_penalty": 1.1}}, "repetition_penalty"),
        ({"sampling_params": {"no_such_parameter": 1}}, "no_such_parameter"),
        ({"logprob_start_len": 0}, "logprob_start_len"),
        ({"image_data": ["/no/such/file.png"]}, "No such file"),
        ({"image_data": ["%%%"]}, "neither an absolute path nor base64"),
        ({"image_data": ["aGVsbG8="]}, "not a usable image"),
    ],
)
async def test_a_wrong_request_is_a_400_that_says_why(served, change, message):
    engine, client = served
    response = await client.post("/generate", json=_body(**change))
    assert response.status_code == 400
    assert re.search(message, response.json()["error"]["message"])
    assert (await client.post("/generate", json=_body())).status_code == 200
    assert engine.scheduler.runner.slots.busy == 0


async def test_placeholders_must_be_collapsed_and_match_the_images(served, picture, inline):
    engine, client = served
    pad = engine.policy.image_token_id
    image = inline(picture(0, 64, 64))
    for ids, images in (([*IDS, *[pad] * 4], [image]), ([*IDS, pad], []), (IDS, [image])):
        body = _body(input_ids=ids, image_data=images)
        response = await client.post("/generate", json=body)
        assert response.status_code == 400
        assert "image placeholders" in response.json()["error"]["message"]


async def test_an_image_of_odd_size_is_refused(served, picture, inline):
    engine, client = served
    ids = [engine.policy.image_token_id]
    body = _body(input_ids=ids, image_data=[inline(picture(0, 50, 64))])
    response = await client.post("/generate", json=body)
    assert response.status_code == 400
    assert "does not divide" in response.json()["error"]["message"]


async def test_an_images_tokens_count_against_the_context(served, picture, inline):
    engine, client = served
    ids = [*IDS, engine.policy.image_token_id]
    body = _body(input_ids=ids, image_data=[inline(picture(0, 1024, 1024))])
    response = await client.post("/generate", json=body)
    assert response.status_code == 400
    assert "1054 tokens" in response.json()["error"]["message"]


async def test_the_update_sequence_changes_the_version_and_a_bad_path_does_not(
    served, tiny_model_dir
):
    _, client = served
    posts = [
        ("/pause_generation", {"mode": "abort"}, 200),
        ("/flush_cache", {}, 200),
        ("/begin_weight_update", {}, 200),
        ("/update_weights_from_disk", {"model_path": "/no/such", "weight_version": "5"}, 400),
        ("/update_weights_from_disk", {"model_path": str(tiny_model_dir)}, 200),
        ("/update_weights_from_disk", {"weight_version": "5"}, 400),
        ("/end_weight_update", {}, 200),
    ]
    for route, body, status in posts:
        assert (await client.post(route, json=body)).status_code == status, route
    assert (await client.get("/model_info")).json()["weight_version"] == "1"
    body = {"model_path": str(tiny_model_dir), "weight_version": "7"}
    assert (await client.post("/update_weights_from_disk", json=body)).json()["success"]
    assert (await client.post("/continue_generation", json={})).status_code == 200
    assert (await client.get("/get_model_info")).json()["weight_version"] == "7"
    await client.post("/update_weight_version", json={"new_version": "8"})
    reply = (await client.post("/generate", json=_body())).json()
    assert reply["meta_info"]["weight_version"] == "8"


@pytest.mark.parametrize(
    "route",
    [
        "/update_weights_from_tensor",
        "/update_weights_from_distributed",
        "/init_weights_update_group",
        "/destroy_weights_update_group",
    ],
)
async def test_other_weight_transports_are_not_served(served, route):
    _, client = served
    response = await client.post(route, json={"anything": 1})
    assert response.status_code == 501
    assert "update_weights_from_disk" in response.json()["message"]


async def test_flushing_is_refused_while_a_request_runs(served, standing, sent):
    engine, client = served
    asked = asyncio.create_task(
        client.post("/generate", json=_body(rid="r", sampling_params={"max_new_tokens": 900}))
    )
    async with standing(engine):
        pausing = asyncio.create_task(client.post("/pause_generation", json={"mode": "in_place"}))
        await sent(engine)
    await pausing
    assert (await client.post("/flush_cache")).status_code == 400
    assert (await client.get("/v1/loads")).json()["loads"][0]["num_running_reqs"] == 1
    assert (await client.get("/get_load")).json()[0]["num_reqs"] == 1
    await client.post("/abort_request", json={"rid": "other"})
    await client.post("/abort_request", json={"rid": "r"})
    assert (await asked).json()["meta_info"]["finish_reason"]["type"] == "abort"
    assert (await client.get("/flush_cache?timeout=5")).status_code == 200


async def test_abort_all_and_an_unknown_pause_mode(served, standing, sent):
    engine, client = served
    body = _body(sampling_params={"max_new_tokens": 900})
    asked = [asyncio.create_task(client.post("/generate", json=body)) for _ in range(3)]
    async with standing(engine):
        await sent(engine, 3 - engine.scheduler.running - engine.scheduler.waiting)
        await client.post("/abort_request", json={"abort_all": True})
    replies = [(await one).json()["meta_info"]["finish_reason"]["type"] for one in asked]
    assert replies == ["abort"] * 3
    assert (await client.post("/pause_generation", json={"mode": "drain"})).status_code == 400


async def test_health_and_information(served):
    _, client = served
    for route in ("/health", "/ready", "/health_generate"):
        assert (await client.get(route)).status_code == 200
    await client.post("/pause_generation", json={})
    assert (await client.get("/health_generate")).status_code == 200
    info = (await client.get("/server_info")).json()
    assert (info["tp_size"], info["dp_size"], info["limits"]["slots"]) == (1, 1, 8)
    assert info["model_type"] == "qwen3_vl"
