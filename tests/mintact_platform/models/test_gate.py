"""The gate: drained or cut off, no request is lost and every token knows who sampled it."""

import asyncio

import numpy as np
import pytest

from mintact_platform.errors import ModelServerError
from mintact_platform.models.gate import Gate
from mintact_platform.models.protocol import (
    GenerateRequest,
    Generation,
    Sampling,
    WeightsRef,
    sync_modes,
)


class Engine:
    """Samples a token a moment, the last of the prompt plus one; an update ends what runs."""

    sync_modes = ("drain", "abort_resume")

    def __init__(self):
        self.version, self.asked, self.updates = 0, [], 0

    async def generate(self, request):
        self.asked.append(request)
        ids, started = [], self.updates
        finish = "length"
        for _ in range(request.sampling.max_new_tokens):
            await asyncio.sleep(0)
            if self.updates != started:
                finish = "abort"
                break
            ids.append(int(request.ids[-1]) + len(ids) + 1)
        if finish == "abort" and not ids:
            raise ModelServerError("ended", kind="aborted", where="x")
        count = len(ids)
        return Generation(
            np.array(ids, np.int32),
            np.full(count, -0.5, np.float32),
            np.full(count, self.version - (finish == "abort"), np.int32),
            finish,
            len(request.ids),
        )

    async def update(self, weights):
        self.updates += 1
        self.version = weights.version


def request(tokens=20, seed=3):
    ids = np.array([7, 8], np.int32)
    return GenerateRequest("r", ids, (), Sampling(1.0, tokens, (), seed))


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def push(gate, version, mode):
    await gate.update(WeightsRef(None, version), mode=mode, deadline=60)


@pytest.mark.parametrize("after", range(1, 24))
async def test_what_an_update_cuts_off_is_continued_under_the_new_weights(after):
    engine = Engine()
    gate = Gate(engine)
    running = asyncio.create_task(gate.generate(request()))
    await turns(after)
    await push(gate, 1, "abort_resume")
    generation = await running
    assert generation.ids.tolist() == list(range(9, 29))
    assert generation.finish == "length"
    assert generation.prompt_tokens == 2
    versions = generation.versions.tolist()
    assert versions == sorted(versions)
    assert len(versions) == len(generation.logprobs) == 20
    assert gate.in_flight == 0
    if len(engine.asked) == 2 and len(engine.asked[1].ids) > 2:
        assert set(versions) == {0, 1}
        first, second = engine.asked
        assert second.rid != first.rid
        assert second.sampling.seed != first.sampling.seed
        assert len(second.ids) + second.sampling.max_new_tokens == 22


async def test_many_updates_cut_many_times():
    engine = Engine()
    gate = Gate(engine)
    running = [asyncio.create_task(gate.generate(request(60))) for _ in range(5)]
    for version in range(1, 8):
        await turns(7)
        await push(gate, version, "abort_resume")
    for generation in await asyncio.gather(*running):
        assert generation.ids.tolist() == list(range(9, 69))
        assert len(set(generation.versions.tolist())) > 3


async def test_draining_waits_for_requests_and_holds_new_ones_back():
    engine = Engine()
    gate = Gate(engine)
    running = asyncio.create_task(gate.generate(request()))
    await turns(3)
    pushing = asyncio.create_task(push(gate, 1, "drain"))
    await turns(1)
    late = asyncio.create_task(gate.generate(request()))
    assert set((await running).versions.tolist()) == {0}
    await pushing
    assert set((await late).versions.tolist()) == {1}
    assert len(engine.asked) == 2


async def test_a_request_that_ended_for_another_reason_is_not_continued():
    class Ending(Engine):
        async def generate(self, request):
            self.asked.append(request)
            return Generation(request.ids, request.ids * 0.0, request.ids, "abort", 2)

    engine = Ending()
    assert (await Gate(engine).generate(request())).finish == "abort"
    assert len(engine.asked) == 1


async def test_an_abort_without_a_token_is_an_error_unless_an_update_did_it():
    class Ending(Engine):
        async def generate(self, request):
            raise ModelServerError("ended", kind="aborted", where="x")

    with pytest.raises(ModelServerError):
        await Gate(Ending()).generate(request())


@pytest.mark.parametrize("mode", ["retract", "in_place"])
async def test_other_modes_are_the_engines_own(mode):
    class Pausing(Engine):
        async def update(self, weights, *, mode):
            self.mode, self.version = mode, weights.version

    engine = Pausing()
    gate = Gate(engine)
    running = asyncio.create_task(gate.generate(request()))
    await turns(3)
    await push(gate, 1, mode)
    assert engine.mode == mode
    assert not running.done()
    assert len((await running).ids) == 20


async def test_a_failed_update_reopens_the_gate():
    class Refusing(Engine):
        async def update(self, weights):
            self.updates += 1
            raise ModelServerError("no room", kind="http", where="x")

    gate = Gate(Refusing())
    running = asyncio.create_task(gate.generate(request()))
    await turns(3)
    with pytest.raises(ModelServerError, match="no room"):
        await push(gate, 1, "abort_resume")
    assert (await running).ids.tolist() == list(range(9, 29))


def test_an_engine_that_declares_nothing_can_only_be_drained():
    assert sync_modes(object()) == ("drain",)
    assert sync_modes(Engine) == ("drain", "abort_resume")
