"""Plugins by import path that make a run of an untrained model exercise everything, or break it."""

import asyncio
import dataclasses
import itertools
import os
import time
from hashlib import blake2b

from mintact_plugin_torch.engine.embedded import EmbeddedEngine

from mintact_platform import Verdict, judge
from mintact_platform.actions.space import Call
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse, ToolUse
from mintact_platform.errors import ModelServerError
from mintact_platform.judging.errors import RetryNever
from mintact_platform.models.chat import Qwen3VLChat

opened = itertools.count(1)


def held(*, seed: int):
    """Demonstrations on the phone; whoever opens them the nth time waits for the test's kill."""
    from mintact_env_micro.demonstrations import episodes

    if str(next(opened)) == os.environ.get("HELD_AT"):
        time.sleep(600)
    yield from episodes(seed=seed, domains=["mobile"], demonstrator="exact")


def draw(text):
    return blake2b(text.encode(), digest_size=4).digest()


async def coin(task, view, *, p: float = 0.5):
    """Success by a coin that the trajectory's id tosses."""
    success = draw(view.trajectory.id)[0] < 256 * p
    return Verdict("success" if success else "failure", reward=float(success))


async def always(task, view):
    """The same reward for everyone: every group is uniform."""
    return Verdict("success", reward=1.0)


async def broken_judge(task, view):
    raise RuntimeError("the judge's endpoint is down")


@judge(remote=True, cacheable=True)
async def far_coin(task, view):
    """A judge that reaches out and is reached."""
    return await coin(task, view)


@judge(remote=True)
async def wrong_key(task, view):
    """A judge that reaches out and is turned away."""
    raise RetryNever("HTTP 401: wrong key")


def anything(text, name, action, ending):
    """Any text becomes a call: a click where its hash says, or the end."""
    where = draw(text)
    if where[0] < 48:
        return (ending,)
    return (Call(name, {"action": action, "coordinate": [4 * where[1], 4 * where[2]]}),)


class AnyMobile(MobileUse):
    def parse(self, text, tools=()):
        end = Call("mobile_use", {"action": "terminate", "status": "success"}, ends=True)
        return anything(text, "mobile_use", "click", end)


class AnyDesktop(ComputerUse):
    def parse(self, text, tools=()):
        end = Call("computer_use", {"action": "terminate", "status": "success"}, ends=True)
        return anything(text, "computer_use", "left_click", end)


class AnyBrowser(BrowserUse):
    def parse(self, text, tools=()):
        end = Call("browser_use", {"action": "stop", "response": "done"}, ends=True)
        return anything(text, "browser_use", "click", end)


class AnyTools(ToolUse):
    def parse(self, text, tools=()):
        if draw(text)[0] < 48:
            return (Call("terminate", {"status": "success"}, ends=True),)
        return (Call("search_tool", {"query": "share"}),)


class SlowPush(EmbeddedEngine):
    """Gives a test time to kill the scheduler during the third push (two are the pre-flight's)."""

    pushes = 0

    async def update(self, weights):
        self.pushes += 1
        if self.pushes > 2 and "SLOW_PUSH" in os.environ:
            await asyncio.sleep(600)
        await super().update(weights)


class OnlyDrains(EmbeddedEngine):
    """Declares nothing beyond what every engine can."""

    sync_modes = ("drain",)


class RefusesOnce(EmbeddedEngine):
    """Refuses the third push (two are the pre-flight's)."""

    pushes = 0

    async def update(self, weights, **how):
        self.pushes += 1
        if self.pushes == 3:
            raise ModelServerError("no room for the new weights", kind="http", where="server")
        await super().update(weights, **how)


class DyingEngine(EmbeddedEngine):
    """Its server is killed once, after some generations."""

    count = 0

    async def generate(self, request):
        self.count += 1
        if self.count == 40:
            self._child.process.kill()
        return await super().generate(request)


class ForgetsTemperature(EmbeddedEngine):
    """Returns log-probabilities as if the temperature were 1."""

    async def generate(self, request):
        sampling = dataclasses.replace(request.sampling, temperature=1.0)
        return await super().generate(dataclasses.replace(request, sampling=sampling))


class ForgetsPush(EmbeddedEngine):
    """Says it took the new weights and keeps the old ones."""

    async def update(self, weights):
        return None


class CountsOtherwise(EmbeddedEngine):
    """Expands images to another size than the rollouter does."""

    async def generate(self, request):
        generation = await super().generate(request)
        return dataclasses.replace(generation, prompt_tokens=generation.prompt_tokens + 12)


class ForgetfulChat(Qwen3VLChat):
    """Rewrites history: a later user message depends on how many came before."""

    calls = 0

    def user(self, text, images):
        self.calls += 1
        return super().user(text if self.calls % 2 else text + " again", images)


async def by_words(task, view):
    """Success by what was said, so that the same words are judged the same in every run."""
    success = draw(" ".join(turn.response for turn in view.turns))[0] % 2
    return Verdict("success" if success else "failure", reward=float(success))


CONSTANT = 3


def takes_nothing():
    """Cannot be given what it is called with."""


def takes_one(trajectory):
    """A judge that forgot the task."""


def returns_a_number(task, trajectory):
    """A judge that gives no verdict."""
    return 1


def adds(left: int, right: int) -> int:
    """No judge at all."""
    return left + right


def gives_words(*, split: str):
    """A task set that holds none."""
    return [split]


def gives_a_mapping(*, split: str):
    """A task set that has no first task."""
    return {split: split}


def gives_nothing(*, split: str):
    """A task set that is none."""


class Interrupted:
    """A judge during whose making somebody presses Ctrl-C."""

    def __init__(self):
        raise KeyboardInterrupt
