"""What the engine says it sampled is what the policy computes over the whole conversation."""

import asyncio

import numpy as np
import pytest

# float32 carries a value around -6 with steps of 5e-7
TOLERANCE = {"atol": 2e-6, "rtol": 1e-6}


def _logprobs(reply):
    assert [pair[1] for pair in reply["meta_info"]["output_token_logprobs"]] == reply["output_ids"]
    return [pair[0] for pair in reply["meta_info"]["output_token_logprobs"]]


class Conversation:
    """An append-only conversation with one new image and some text a turn."""

    def __init__(self, seed, picture, inline, placeholder):
        self.rng = np.random.default_rng(seed)
        self.ids, self.images, self.places = list(range(30, 60)), [], []
        self.picture, self.inline, self.placeholder = picture, inline, placeholder

    def observe(self, width=64, height=64):
        self.images.append(self.picture(int(self.rng.integers(1 << 30)), width, height))
        self.places.append(len(self.ids))
        self.ids += [self.placeholder, *self.rng.integers(30, 200, 9).tolist()]

    async def turn(self, engine, ask, **sampling):
        sources = [self.inline(image) for image in self.images]
        stops = [self.placeholder]
        reply = await ask(engine, self.ids, sources, stop_token_ids=stops, **sampling)
        self.ids = self.ids + reply["output_ids"]
        return reply

    def cut_placeholder(self):
        if self.ids[-1] == self.placeholder:
            self.ids = self.ids[:-1]


async def _play(engine, ask, recompute, conversation, temperature, turns=4):
    cached = []
    for turn in range(turns):
        conversation.observe(*((64, 64), (96, 32), (64, 128), (32, 32))[turn % 4])
        reply = await conversation.turn(engine, ask, temperature=temperature)
        expected = recompute(
            conversation.ids,
            conversation.images,
            conversation.places,
            last=len(reply["output_ids"]),
            temperature=temperature,
        )
        np.testing.assert_allclose(_logprobs(reply), expected, **TOLERANCE)
        cached.append((reply["meta_info"]["cached_tokens"], reply["meta_info"]["prompt_tokens"]))
        conversation.cut_placeholder()
    return cached


@pytest.mark.parametrize("temperature", [1.0, 0.7])
async def test_logprobs_are_the_policys_over_turns_images_and_reuse(
    open_engine, ask, recompute, picture, inline, temperature
):
    async with open_engine() as engine:
        placeholder = engine.policy.image_token_id
        conversations = [Conversation(seed, picture, inline, placeholder) for seed in range(4)]
        cached = await asyncio.gather(
            *(_play(engine, ask, recompute, c, temperature) for c in conversations)
        )
    for turns in cached:
        for (now, _), (_, before) in zip(turns[1:], turns[:-1], strict=True):
            assert now >= before, "a turn reuses at least the whole prompt before it"


@pytest.mark.parametrize("limits", [{"forward_tokens": 16}, {"slots": 1}])
async def test_small_forwards_and_a_single_slot_change_no_logprob(
    open_engine, ask, recompute, picture, inline, limits
):
    async with open_engine(**limits) as engine:
        placeholder = engine.policy.image_token_id
        conversations = [Conversation(seed, picture, inline, placeholder) for seed in range(3)]
        await asyncio.gather(*(_play(engine, ask, recompute, c, 1.0, 2) for c in conversations))


async def test_a_group_shares_its_prompt_and_is_scored_as_if_alone(
    open_engine, ask, recompute, picture, inline
):
    async with open_engine() as engine:
        image, placeholder = picture(1, 128, 128), engine.policy.image_token_id
        ids = [*range(30, 70), placeholder, *range(70, 90)]
        replies = await asyncio.gather(
            *(ask(engine, ids, [inline(image)], sampling_seed=seed) for seed in range(8))
        )
    length = replies[0]["meta_info"]["prompt_tokens"]
    cached = sorted(reply["meta_info"]["cached_tokens"] for reply in replies)
    assert cached == [0] + [length - 1] * 7
    for reply in replies:
        expected = recompute(ids + reply["output_ids"], [image], [40], last=8)
        np.testing.assert_allclose(_logprobs(reply), expected, **TOLERANCE)


async def test_long_prompts_at_once_take_several_forwards_and_their_slots_grow(
    open_engine, ask, recompute, picture, inline
):
    rng = np.random.default_rng(0)
    async with open_engine() as engine:
        placeholder = engine.policy.image_token_id
        images = [picture(seed, 64, 64) for seed in range(4)]
        prompts = [
            [*rng.integers(30, 200, 350).tolist(), placeholder, *rng.integers(30, 200, 130 + k)]
            for k in range(4)
        ]
        prompts = [[int(token) for token in ids] for ids in prompts]
        # the first slots have room for 512 tokens: they grow while the same four rows decode
        calls = [
            ask(engine, ids, [inline(image)], stop_token_ids=[placeholder], max_new_tokens=48)
            for ids, image in zip(prompts, images, strict=True)
        ]
        replies = await asyncio.gather(*calls)
        assert engine.scheduler.runner.slots.capacity > 512
    for ids, image, reply in zip(prompts, images, replies, strict=True):
        last = len(reply["output_ids"])
        expected = recompute(ids + reply["output_ids"], [image], [350], last=last)
        np.testing.assert_allclose(_logprobs(reply), expected, **TOLERANCE)


async def test_a_batch_samples_what_each_request_samples_alone(open_engine, ask):
    prompts = [list(range(30, 40 + 7 * k)) for k in range(8)]

    async def run(engine, together):
        calls = [
            ask(engine, ids, sampling_seed=k, max_new_tokens=24) for k, ids in enumerate(prompts)
        ]
        if together:
            return await asyncio.gather(*calls)
        return [await call for call in calls]

    async with open_engine() as engine:
        batched = await run(engine, True)
        await engine.scheduler.ask(engine.scheduler.flush)
        single = await run(engine, False)
    for a, b in zip(batched, single, strict=True):
        assert a["output_ids"] == b["output_ids"]
        np.testing.assert_allclose(_logprobs(a), _logprobs(b), **TOLERANCE)


async def test_deterministic_replies_are_bit_equal_in_any_company(
    open_engine, ask, picture, inline
):
    async with open_engine(deterministic=True, forward_tokens=32) as engine:
        image, placeholder = inline(picture(3)), engine.policy.image_token_id

        async def one(seed):
            ids = [*range(30, 60 + seed), placeholder, 99]
            return await ask(engine, ids, [image], sampling_seed=seed, max_new_tokens=16)

        alone = [await one(seed) for seed in range(6)]
        together = await asyncio.gather(*(one(seed) for seed in range(6)))
    for a, b in zip(alone, together, strict=True):
        assert a["output_ids"] == b["output_ids"]
        assert _logprobs(a) == _logprobs(b)
