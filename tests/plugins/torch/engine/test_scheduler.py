"""Life of requests on the engine's thread: ends, aborts, pauses, and weights that change."""

import asyncio
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from mintact_plugin_torch.engine.weights import BadWeights
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart.tiny import make_tiny

IDS = list(range(30, 70))


@pytest.fixture(scope="session")
def other_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp("other") / "tiny", seed=1)


def _spans(reply):
    return [(s["version"], s["start"], s["end"]) for s in reply["meta_info"]["weight_versions"]]


@pytest.fixture
def pause(standing, sent):
    """Pause once a request has so many tokens."""

    async def paused(engine, mode, tokens=1):
        scheduler = engine.scheduler
        async with standing(engine, tokens=tokens):
            pausing = asyncio.create_task(scheduler.ask(partial(scheduler.pause, mode)))
            await sent(engine)
        await pausing

    return paused


async def test_equal_seeds_sample_equal_ids_and_none_does_not(open_engine, ask):
    async with open_engine() as engine:
        seeds = [3, 3, 4, None, None]
        replies = [await ask(engine, IDS, sampling_seed=s, max_new_tokens=32) for s in seeds]
    a, b, other, free, freer = [reply["output_ids"] for reply in replies]
    assert a == b != other
    assert free != freer


async def test_a_stop_id_ends_the_output_and_belongs_to_it(open_engine, ask):
    async with open_engine() as engine:
        plain = await ask(engine, IDS, sampling_seed=0, max_new_tokens=64)
        stop = plain["output_ids"][5]
        reply = await ask(engine, IDS, sampling_seed=0, max_new_tokens=64, stop_token_ids=[stop, 1])
    first = plain["output_ids"].index(stop)
    assert reply["output_ids"] == plain["output_ids"][: first + 1]
    assert reply["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert plain["meta_info"]["finish_reason"] == {"type": "length", "length": 64}


async def test_the_end_of_turn_of_the_model_stops_unless_ignored(open_engine, ask):
    async with open_engine() as engine:
        end = engine.policy.model.config.text_config.eos_token_id
        weight = engine.policy.model.model.language_model.norm.weight
        with torch.inference_mode():
            weight.zero_()
        replies = await asyncio.gather(
            *(
                ask(engine, IDS, sampling_seed=seed, max_new_tokens=600, ignore_eos=seed >= 6)
                for seed in range(7)
            )
        )
    assert any(reply["output_ids"][-1] == end for reply in replies[:6])
    assert all(end not in reply["output_ids"][:-1] for reply in replies[:6])
    assert len(replies[6]["output_ids"]) == 600


async def test_abort_returns_what_was_generated_with_its_logprobs(open_engine, ask, standing):
    async with open_engine() as engine:
        asked = asyncio.create_task(ask(engine, IDS, rid="a", max_new_tokens=900))
        async with standing(engine, tokens=3):
            engine.scheduler.abort(lambda job: job.rid == "a")
        reply = await asked
        assert engine.scheduler.runner.slots.busy == 0
    tokens = len(reply["output_ids"])
    assert tokens >= 3
    assert len(reply["meta_info"]["output_token_logprobs"]) == tokens
    assert reply["meta_info"]["finish_reason"]["type"] == "abort"


async def test_a_repeated_rid_takes_the_place_of_the_earlier_request(
    open_engine, ask, standing, sent
):
    async with open_engine() as engine:
        first = asyncio.create_task(ask(engine, IDS, rid="a", max_new_tokens=900))
        async with standing(engine):
            asked = asyncio.create_task(ask(engine, IDS, rid="a"))
            await sent(engine)
        second = await asked
        assert (await first)["meta_info"]["finish_reason"]["type"] == "abort"
    assert second["meta_info"]["finish_reason"]["type"] == "length"


async def test_more_requests_than_slots_all_end(open_engine, ask):
    async with open_engine(slots=2) as engine:
        prompts = [[40 + k, *IDS] for k in range(7)]
        replies = await asyncio.gather(*(ask(engine, ids) for ids in prompts))
        assert engine.scheduler.runner.slots.busy == 0
    assert [len(reply["output_ids"]) for reply in replies] == [8] * 7


async def test_an_update_waits_for_running_requests_and_holds_new_ones(
    open_engine, ask, other_model_dir, standing, sent
):
    async with open_engine() as engine:
        before = asyncio.create_task(ask(engine, IDS, max_new_tokens=60))
        async with standing(engine):
            update = asyncio.create_task(engine.load(str(other_model_dir), "2", abort=False))
            await sent(engine)
            asked = asyncio.create_task(ask(engine, IDS))
            await sent(engine, 2)
        after = await asked
        await update
        assert _spans(await before) == [("1", 0, 60)]
    assert _spans(after) == [("2", 0, 8)]
    assert after["meta_info"]["cached_tokens"] == 0, "nothing computed by old weights is reused"


async def test_logprobs_right_after_an_update_are_those_of_the_new_weights(
    open_engine, ask, recompute, picture, inline, other_model_dir
):
    async with open_engine() as engine:
        image = picture(5)
        ids = [*IDS, engine.policy.image_token_id, 50]
        await ask(engine, ids, [inline(image)])
        await engine.load(str(other_model_dir), "2", abort=False)
        reply = await ask(engine, ids, [inline(image)])
    values = [pair[0] for pair in reply["meta_info"]["output_token_logprobs"]]
    new = Policy.load(other_model_dir)
    expected = recompute(ids + reply["output_ids"], [image], [len(IDS)], last=8, model=new)
    np.testing.assert_allclose(values, expected, atol=2e-6, rtol=1e-6)
    old = recompute(ids + reply["output_ids"], [image], [len(IDS)], last=8)
    assert np.abs(np.array(values) - old).max() > 1e-2


@pytest.mark.parametrize("mode", ["retract", "in_place"])
async def test_a_paused_request_goes_on_under_new_weights_and_says_which_sampled_what(
    open_engine, ask, other_model_dir, mode, pause
):
    async with open_engine() as engine:
        scheduler = engine.scheduler
        asked = asyncio.create_task(ask(engine, IDS, max_new_tokens=400))
        await pause(engine, mode, tokens=5)
        assert await scheduler.ask(scheduler.flush) == (mode == "retract")
        await engine.load(str(other_model_dir), "2", abort=False)
        await scheduler.ask(scheduler.resume)
        reply = await asked
        # what an untrained model samples may hold image placeholders, which a prompt may not
        again = await ask(engine, [*IDS, *(i for i in reply["output_ids"] if i in IDS)])
    (one, start, middle), (two, same, end) = _spans(reply)
    assert (one, start, two, end) == ("1", 0, "2", 400)
    assert 5 <= middle == same < 400
    assert reply["meta_info"]["num_retractions"] == (mode == "retract")
    if mode == "in_place":
        assert again["meta_info"]["cached_tokens"] == 0, "a cache of two weights is not shared"


async def test_a_retracted_request_samples_as_if_never_interrupted(open_engine, ask, pause):
    async with open_engine() as engine:
        scheduler = engine.scheduler
        plain = await ask(engine, IDS, max_new_tokens=60, sampling_seed=9)
        await scheduler.ask(scheduler.flush)
        asked = asyncio.create_task(ask(engine, IDS, max_new_tokens=60, sampling_seed=9))
        await pause(engine, "retract", tokens=5)
        await scheduler.ask(scheduler.flush)
        await scheduler.ask(scheduler.resume)
        assert (await asked)["output_ids"] == plain["output_ids"]


async def test_requests_during_an_abort_pause_wait_for_its_end(open_engine, ask, pause):
    async with open_engine() as engine:
        scheduler = engine.scheduler
        running = asyncio.create_task(ask(engine, IDS, max_new_tokens=900))
        await pause(engine, "abort")
        assert (await running)["meta_info"]["finish_reason"]["type"] == "abort"
        waits = asyncio.create_task(ask(engine, IDS))
        assert await scheduler.ask(scheduler.flush)
        assert not waits.done()
        await scheduler.ask(scheduler.resume)
        assert (await waits)["meta_info"]["finish_reason"]["type"] == "length"


async def test_weights_of_another_shape_are_refused_and_the_old_ones_stay(
    open_engine, ask, tmp_path, tiny_model_dir
):
    async with open_engine() as engine:
        before = await ask(engine, IDS, sampling_seed=0)
        with pytest.raises(BadWeights, match="no safetensors file"):
            await engine.load(str(tmp_path), "2", abort=False)
        (tmp_path / "model.safetensors").write_bytes(b"not weights")
        with pytest.raises(BadWeights, match="cannot be read"):
            await engine.load(str(tmp_path), "2", abort=False)
        policy = Policy.load(tiny_model_dir)
        policy.model.model.language_model.norm.weight = torch.nn.Parameter(torch.ones(7))
        policy.save(tmp_path)
        with pytest.raises(BadWeights, match=r"misshapen .*norm\.weight"):
            await engine.load(str(tmp_path), "2", abort=False)
        assert (await ask(engine, IDS, sampling_seed=0))["output_ids"] == before["output_ids"]
        assert engine.scheduler.version == "1"


async def test_a_failing_forward_ends_its_requests_and_the_engine_lives(
    open_engine, ask, monkeypatch
):
    async with open_engine() as engine:
        step = engine.scheduler.runner.step
        monkeypatch.setattr(engine.scheduler.runner, "step", lambda *_: 1 / 0)
        for _ in range(3):
            reply = await ask(engine, IDS)
            assert reply["meta_info"]["finish_reason"]["status_code"] == 500
        assert not engine.scheduler.healthy
        monkeypatch.setattr(engine.scheduler.runner, "step", step)
        assert len((await ask(engine, IDS))["output_ids"]) == 8
        assert engine.scheduler.healthy
        assert engine.scheduler.runner.slots.busy == 0


@pytest.mark.parametrize("seed", range(3))
async def test_random_aborts_and_updates_leave_no_slot_in_use(
    open_engine, ask, picture, inline, tiny_model_dir, other_model_dir, seed
):
    rng = random.Random(seed)
    async with open_engine(slots=5, forward_tokens=64) as engine:
        scheduler, placeholder = engine.scheduler, engine.policy.image_token_id
        images = [inline(picture(number)) for number in range(4)]

        async def request(number):
            for _ in range(rng.randrange(20)):
                await asyncio.sleep(0)
            ids = [*IDS[: rng.randrange(5, 40)], placeholder, rng.randrange(30, 200)]
            rid, budget = f"r{number}", rng.randrange(1, 40)
            return await ask(engine, ids, [rng.choice(images)], rid=rid, max_new_tokens=budget)

        async def disturb():
            for version in range(2, 8):
                await asyncio.sleep(0.005)
                rid = f"r{rng.randrange(30)}"
                scheduler.abort(lambda job, rid=rid: job.rid == rid)
                mode = rng.choice(["abort", "retract", "in_place", None])
                if mode:
                    await scheduler.ask(partial(scheduler.pause, mode))
                path = rng.choice([tiny_model_dir, other_model_dir])
                await engine.load(str(path), str(version), abort=rng.random() < 0.3)
                await scheduler.ask(scheduler.resume)

        *replies, _ = await asyncio.gather(*(request(n) for n in range(30)), disturb())
        assert (scheduler.running, scheduler.waiting) == (0, 0)
        assert scheduler.runner.slots.busy == 0
        final = await ask(engine, IDS)
    assert _spans(final) == [("7", 0, 8)]
    for reply in replies:
        ids, meta = reply["output_ids"], reply["meta_info"]
        assert [pair[1] for pair in meta["output_token_logprobs"]] == ids
        edges = [edge for _, start, end in _spans(reply) for edge in (start, end)]
        assert edges == sorted(edges)
        assert not ids or (edges[0], edges[-1]) == (0, len(ids))
