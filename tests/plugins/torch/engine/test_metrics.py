"""Figures for Prometheus: what is counted is what was done."""

import asyncio
import re

import httpx
import pytest
import pytest_asyncio
from mintact_plugin_torch.engine.app import create_app

LINE = re.compile(r'^sglang:(\w+)\{model_name="tiny"\} ([0-9.]+)$')


@pytest_asyncio.fixture
async def served(open_engine):
    async with open_engine() as engine:
        transport = httpx.ASGITransport(create_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
            yield engine, client


async def _figures(client):
    reply = await client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.text.splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    values = [LINE.match(line) for line in lines if not line.startswith("#")]
    assert {f"sglang:{name}" for name, _ in (v.groups() for v in values)} == set(kinds)
    assert all((kind == "counter") == name.endswith("_total") for name, kind in kinds.items())
    return {name: float(value) for name, value in (v.groups() for v in values)}


async def test_a_groups_shared_prompt_is_computed_once(served, ask, monkeypatch):
    engine, client = served
    forwarded = []
    embed = engine.scheduler.runner.decoder.embed

    def counted(ids):
        forwarded.append(len(ids))
        return embed(ids)

    monkeypatch.setattr(engine.scheduler.runner.decoder, "embed", counted)
    prompt = list(range(30, 190))
    await asyncio.gather(*(ask(engine, prompt, max_new_tokens=4) for _ in range(8)))
    figures = await _figures(client)
    # the members that share compute the last token alone: its logits are what they sample from
    assert sum(forwarded) == len(prompt) + 7 + 8 * 3
    assert figures["prompt_tokens_total"] - figures["cached_tokens_total"] == len(prompt) + 7
    assert figures["cache_hit_rate"] == pytest.approx(7 * (len(prompt) - 1) / (8 * len(prompt)))
    assert figures["generation_tokens_total"] == 8 * 4
    assert (figures["num_requests_total"], figures["num_aborted_requests_total"]) == (8, 0)
    loads = (await client.get("/v1/loads")).json()["loads"][0]
    assert loads["cache_hit_rate"] == pytest.approx(figures["cache_hit_rate"])


async def test_what_runs_waits_and_is_aborted_is_seen(served, ask, standing, sent):
    engine, client = served
    idle = await _figures(client)
    assert set(idle.values()) == {0.0}
    await client.post("/pause_generation", json={"mode": "in_place"})
    asked = [
        asyncio.create_task(ask(engine, [40 + k, *range(30, 60)], max_new_tokens=900))
        for k in range(10)
    ]
    async with asyncio.timeout(60):
        while engine.scheduler.waiting < 10:
            await asyncio.sleep(0.001)
    going_on = asyncio.create_task(client.post("/continue_generation", json={}))
    async with standing(engine, 8):
        pausing = asyncio.create_task(client.post("/pause_generation", json={"mode": "in_place"}))
        await sent(engine)
    await asyncio.gather(going_on, pausing)
    busy = await _figures(client)
    assert (busy["num_running_reqs"], busy["num_queue_reqs"], busy["token_usage"]) == (8, 2, 1)
    engine.scheduler.abort(lambda job: True)
    replies = await asyncio.gather(*asked)
    after = await _figures(client)
    assert after["num_requests_total"] == after["num_aborted_requests_total"] == 10
    assert after["generation_tokens_total"] == sum(len(r["output_ids"]) for r in replies)
    assert after["prompt_tokens_total"] == 8 * 31, "those that waited were never computed"
    assert (after["num_running_reqs"], after["token_usage"]) == (0, 0)
    assert after["num_used_tokens"] == engine.scheduler.runner.slots.held_tokens
