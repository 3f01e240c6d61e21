"""Many requests at once, aborts, weights that change under them: over HTTP, all of it counted."""

import asyncio
import random
from collections import Counter

import httpx
import numpy as np
import pytest
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart.tiny import make_tiny

pytestmark = pytest.mark.runs

MODES = ("abort", "retract", "in_place")


@pytest.fixture(scope="session")
def models(tiny_model_dir, tmp_path_factory):
    return (tiny_model_dir, make_tiny(tmp_path_factory.mktemp("other") / "tiny", seed=1))


class Storm:
    """Requests, aborts and updates against one server."""

    def __init__(self, client, models, seed):
        self.client, self.models, self.rng = client, models, random.Random(seed)
        self.path_of, self.modes, self.prompts, self.replies = {}, Counter(), {}, {}

    async def post(self, route, **body):
        reply = await self.client.post(route, json=body)
        assert reply.status_code == 200, (route, reply.text)
        return reply

    async def update(self, version, mode):
        model = self.rng.choice(self.models)
        await self.post("/pause_generation", mode=mode)
        if mode != "in_place":
            await self.post("/flush_cache")
        path = self.path_of[version] = model
        await self.post("/update_weights_from_disk", model_path=str(path), weight_version=version)
        await self.post("/continue_generation")
        self.modes[mode] += 1

    async def request(self, rid):
        ids = [*range(30, 30 + self.rng.randrange(5, 60)), self.rng.randrange(100, 200)]
        self.prompts[rid] = ids
        sampling = {"max_new_tokens": self.rng.randrange(1, 48), "ignore_eos": True}
        reply = await self.client.post(
            "/generate",
            json={
                "rid": rid,
                "input_ids": ids,
                "sampling_params": sampling,
                "return_logprob": True,
            },
        )
        assert reply.status_code == 200, reply.text
        self.replies[rid] = reply.json()

    async def blow(self, requests, updates):
        async def disturb():
            for number in range(updates):
                await self.progress(len(self.replies) + requests // (2 * updates), requests)
                for _ in range(requests // (10 * updates)):
                    await self.post("/abort_request", rid=f"r{self.rng.randrange(requests)}")
                await self.update(f"v{number}", MODES[number % 3])

        # so that some are aborted however fast the others end
        await self.post("/pause_generation", mode="in_place")
        tasks = [asyncio.create_task(self.request(f"r{n}")) for n in range(requests)]
        while (await self.loads())["num_waiting_reqs"] < requests:
            await asyncio.sleep(0.01)
        await self.post("/abort_request", rid="r0")
        await self.post("/continue_generation")
        await disturb()
        await asyncio.gather(*tasks)

    async def progress(self, replies, requests):
        while len(self.replies) < min(replies, requests):
            await asyncio.sleep(0.001)

    async def loads(self):
        return (await self.client.get("/v1/loads")).json()["loads"][0]

    async def figures(self):
        lines = (await self.client.get("/metrics")).text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.partition("{")[0].removeprefix("sglang:"): float(n) for name, n in pairs}


def _check_spans(reply, known):
    meta, ids = reply["meta_info"], reply["output_ids"]
    assert meta["finish_reason"]["type"] in ("length", "abort")
    assert [pair[1] for pair in meta["output_token_logprobs"]] == ids
    spans = [(s["version"], s["start"], s["end"]) for s in meta["weight_versions"]]
    edges = [0, *(end for _, _, end in spans)]
    assert [start for _, start, _ in spans] == edges[:-1]
    assert edges[-1] == len(ids)
    order = [known.index(version) for version, _, _ in spans]
    assert order == sorted(set(order)), "versions only go forward, each named once"
    assert meta["finish_reason"]["type"] == "abort" or meta["weight_version"] == spans[-1][0]


async def _storm(url, models, recompute, *, requests, updates, checked):
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        storm = Storm(client, models, seed=requests)
        await storm.update("start", "abort")
        before = await storm.figures()
        await storm.blow(requests, updates)
        after, loads = await storm.figures(), await storm.loads()
        final = (
            await storm.post(
                "/generate", input_ids=[*range(30, 50)], sampling_params={"max_new_tokens": 1}
            )
        ).json()
        await storm.post("/flush_cache")
        emptied = await storm.figures()
    known, replies = ["start", *(f"v{n}" for n in range(updates))], list(storm.replies.values())
    assert set(storm.modes) == set(MODES)
    assert len(replies) == requests
    for reply in replies:
        _check_spans(reply, known)
    assert final["meta_info"]["weight_version"] == known[-1]
    assert [loads[f"num_{what}"] for what in ("running_reqs", "waiting_reqs", "used_slots")] == [
        0
    ] * 3
    assert loads["num_used_tokens"] <= 32 * 512
    assert emptied["num_used_tokens"] == 0, "nothing is held once the cache is flushed"
    gone = {name: after[name] - before[name] for name in after}
    ends = Counter(reply["meta_info"]["finish_reason"]["type"] for reply in replies)
    assert gone["num_requests_total"] == requests
    assert gone["num_aborted_requests_total"] == ends["abort"] > 0
    assert gone["generation_tokens_total"] == sum(len(reply["output_ids"]) for reply in replies)
    _check_logprobs(storm, recompute, checked)


def _check_logprobs(storm, recompute, checked):
    """What one version sampled is what its weights say, cached prefixes and company included."""
    loaded = {path: Policy.load(path) for path in storm.models}
    whole = [
        (storm.prompts[rid], reply)
        for rid, reply in storm.replies.items()
        if len(reply["meta_info"]["weight_versions"]) == 1
    ]
    for prompt, reply in random.Random(0).sample(whole, min(checked, len(whole))):
        ids = reply["output_ids"]
        path = storm.path_of[reply["meta_info"]["weight_versions"][0]["version"]]
        expected = recompute(prompt, ids, loaded[path])
        values = [pair[0] for pair in reply["meta_info"]["output_token_logprobs"]]
        np.testing.assert_allclose(values, expected, atol=2e-6, rtol=1e-6)


@pytest.fixture
def recompute_text(recompute):
    def logprobs(prompt, ids, model):
        # a sampled placeholder stands for no image: it is the plain token the engine fed itself
        return recompute([*prompt, *ids], [], [], last=len(ids), model=model)

    return logprobs


async def test_a_storm_of_requests_aborts_and_updates_ends_well(
    server_process, models, recompute_text
):
    await _storm(server_process, models, recompute_text, requests=150, updates=6, checked=40)


@pytest.mark.slow
async def test_a_thousand_requests_end_well(server_process, models, recompute_text):
    await _storm(server_process, models, recompute_text, requests=1000, updates=30, checked=300)
