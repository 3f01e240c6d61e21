"""Every way an environment can be wrong is caught by the check that is about it."""

from __future__ import annotations

import itertools
import sys
import textwrap
import threading

import gymnasium as gym
import numpy as np
import pytest

from mintact_platform import StateCheck, Task
from mintact_platform.environments import CallSpace, ScreenSpace
from mintact_platform.testing import ConformanceError, check_environment, playing

TAP = {"name": "mobile_use", "arguments": {"action": "click", "coordinate": [3, 4]}}
METADATA = {"mintact": {"domain": "mobile", "action_space": "mobile_use"}}


class Light(gym.Env):
    """Nothing is wrong with it: a lamp that every tap changes, over after three."""

    metadata = METADATA

    def __init__(self, *, size: int = 8):
        self.size = size
        self.action_space = CallSpace([TAP])
        self.observation_space = ScreenSpace(size, size)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.taps = int(self.np_random.integers(100)), 0
        return self.screen(), {"level": self.level}

    def step(self, action):
        self.taps += 1
        return self.screen(), 0.0, self.taps >= 3, False, {}

    def evaluate(self):
        return StateCheck(self.taps == 3, self.taps / 3, {"taps": self.taps})

    def screen(self):
        shade = (self.level + 20 * self.taps) % 256
        return {"screenshot": np.full((self.size, self.size, 3), shade, np.uint8)}


def caught(specimen, **options):
    """The text of the failure."""
    with pytest.raises(ConformanceError) as failure:
        check_environment(specimen, **{"http": False, **options})
    return str(failure.value)


def test_nothing_is_wrong_with_the_light():
    check_environment(Light, http=False)
    check_environment(Light, params={"size": 20}, http=False)


def test_a_failure_says_what_was_checked_what_was_seen_where_and_how_to_mend_it():
    class Broken(AwaitedLight):
        async def step(self, action):
            raise KeyError("colour")

    text = caught(Broken)
    line = Broken.step.__code__.co_firstlineno + 1
    assert "   seen: KeyError: 'colour'" in text
    assert f"test_check_environment.py:{line}" in text
    assert "    fix: what an agent does must never raise" in text


# ---- what is told without playing ---------------------------------------------------------------


class Nameless(Light):
    metadata = {}


class Homeless(Light):
    metadata = {"mintact": {"domain": "mobile", "action_space": "telephone_use"}}


class Positional(Light):
    def __init__(self, size=8):
        super().__init__(size=size)


class Needy(Light):
    def __init__(self, *, size):
        super().__init__(size=size)


class Fragile(Light):
    def __init__(self):
        raise OSError("no display")


class Lacking(Light):
    @staticmethod
    def missing():
        return "needs the program 'emulator'"


# ---- what gymnasium's checker sees --------------------------------------------------------------


class Spaceless(Light):
    def __init__(self):
        super().__init__()
        del self.action_space


class Unseeded(Light):
    def reset(self, *, seed=None, options=None):
        self.level, self.taps = 0, 0
        return self.screen(), {}


class Reuses(Light):
    held = np.zeros((8, 8, 3), np.uint8)

    def screen(self):
        self.held[:] = self.level
        return {"screenshot": self.held}


class Numbers(Light):
    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Discrete(2)


# ---- what resets show ---------------------------------------------------------------------------


class Random(Light):
    def screen(self):
        noise = np.random.default_rng().integers(0, 256, (8, 8, 3), np.uint8)
        return {"screenshot": noise if self.taps == 0 else super().screen()["screenshot"]}


class Worn(Light):
    """Remembers an earlier episode with another seed."""

    worn = 0

    def reset(self, *, seed=None, options=None):
        _, info = super().reset(seed=seed)
        self.worn = self.worn + 1 if seed == 1 else self.worn
        return {"text": f"{self.level} worn {self.worn}"}, info


class Numbered(Light):
    numbers = itertools.count()

    def __init__(self):
        super().__init__()
        self.number = next(self.numbers)

    def screen(self):
        return {"text": f"{self.level + self.taps} in instance {self.number}"}


class Shares(Light):
    """Its state is its class's."""

    metadata = {"mintact": {**METADATA["mintact"], "instances_per_worker": 4}}
    board = {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Shares.board = {"level": self.level, "taps": 0}
        return self.screen(), {}

    def step(self, action):
        Shares.board["taps"] += 1
        return self.screen(), 0.0, False, False, {}

    def screen(self):
        return {"text": str(Shares.board or 0)}


# ---- what a random agent meets ------------------------------------------------------------------


class AwaitedLight:
    """An awaited one, which gymnasium's checker does not see."""

    metadata = METADATA

    async def reset(self, *, seed=None, options=None):
        self.taps = 0
        return {"text": f"seed {seed}"}, {}

    async def step(self, action):
        self.taps += 1
        return {"text": f"tap {self.taps}"}, 0.0, self.taps >= 3, False, {}

    async def evaluate(self):
        return StateCheck(True, 1.0)

    async def close(self):
        pass


class FloatPicture(AwaitedLight):
    async def step(self, action):
        return {"screenshot": np.zeros((4, 4, 3))}, 0.0, False, False, {}


class FourValues(AwaitedLight):
    async def step(self, action):
        return {"text": ""}, 0.0, False, {}


class NotANumber(AwaitedLight):
    async def step(self, action):
        return {"text": ""}, float("nan"), False, False, {}


class OddInfo(AwaitedLight):
    async def reset(self, *, seed=None, options=None):
        return {"text": ""}, {"thread": [threading.Lock()]}


class NumberedInfo(AwaitedLight):
    async def reset(self, *, seed=None, options=None):
        return {"text": ""}, {"scores": {1: 0.5}}


class OutsideItsSpace(AwaitedLight):
    observation_space = ScreenSpace(16, 16)

    async def reset(self, *, seed=None, options=None):
        return {"screenshot": np.zeros((8, 8, 3), np.uint8)}, {}


class WithoutOptions(AwaitedLight):
    async def reset(self, *, seed=None):
        return {"text": ""}, {}


class LeavesSchool(AwaitedLight):
    """Raises only at the second step."""

    async def step(self, action):
        if self.taps == 1:
            raise RuntimeError("the widget fell off")
        return await super().step(action)


class ScoreAboveOne(AwaitedLight):
    async def evaluate(self):
        return StateCheck(True, 3.0)


class WordyCheck(AwaitedLight):
    async def evaluate(self):
        return {"success": True}


class Meddles(AwaitedLight):
    async def evaluate(self):
        self.taps += 1
        return StateCheck(False, 0.0, {"taps": self.taps})


class EarlyCheck(AwaitedLight):
    async def evaluate(self):
        return StateCheck(self.taps / self.taps == 1, 1.0)


class ForeignSamples(Light):
    def __init__(self):
        super().__init__()
        self.action_space = CallSpace([{"name": "mobile_use", "arguments": {"action": "fly"}}])


class TrustingTool(AwaitedLight):
    metadata = {"mintact": {"domain": "tools", "action_space": "tool_use"}}
    action_space = CallSpace([{"name": "look_up", "arguments": {"city": "Oslo"}}])

    async def step(self, action):
        return {"text": action["arguments"]["city"].lower()}, 0.0, True, False, {}


# ---- the end ------------------------------------------------------------------------------------


class ClosesOnce(AwaitedLight):
    closed = False

    async def close(self):
        if self.closed:
            raise ValueError("already closed")
        self.closed = True


class ExitsLate(AwaitedLight):
    closed = False

    async def close(self):
        self.closed = True

    async def step(self, action):
        if self.closed:
            sys.exit("closed")
        return await super().step(action)


SPECIMENS = {
    Nameless: "metadata names the domain and its action space",
    Homeless: "no action space named 'telephone_use'",
    Positional: "'size' is positional: a run file could not set it",
    Needy: "parameter 'size': field required",
    Fragile: "seen: OSError: no display",
    Lacking: "seen: needs the program 'emulator'",
    Spaceless: "must specify an action space",
    Unseeded: "super().reset(seed=seed)",
    Reuses: "share an object",
    Numbers: "actions are calls",
    Random: "the same task and seed show the same first observation",
    Worn: "an episode leaves nothing behind for the next one",
    Numbered: "another instance starts the same episode alike",
    Shares: "instances of one worker share no state",
    FloatPicture: "seen: a screenshot is uint8 [height, width, 3], got float64 [4, 4, 3]",
    FourValues: "seen: step must return (observation, reward, terminated, truncated, info)",
    NotANumber: "seen: reward must be finite, got nan",
    OddInfo: "seen: info['thread'][] is a lock",
    NumberedInfo: "seen: info['scores'] has the key 1",
    OutsideItsSpace: "seen: it is not in its own observation space ScreenSpace(16, 16)",
    WithoutOptions: "seen: 'options' missing in reset(seed)",
    LeavesSchool: "seen: RuntimeError: the widget fell off",
    ScoreAboveOne: "seen: score is 3.0, not in [0, 1]",
    WordyCheck: "seen: it returned dict without 'success'",
    Meddles: "evaluate only reads",
    EarlyCheck: "seen: ZeroDivisionError",
    ForeignSamples: "mobile_use has no action 'fly'",
    TrustingTool: "seen: KeyError: 'city'",
    ClosesOnce: "seen: ValueError: already closed",
    ExitsLate: "a step after close raises an exception or nothing",
}


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda kind: kind.__name__)
def test_a_broken_environment_is_caught_by_the_check_that_is_about_it(specimen):
    assert SPECIMENS[specimen] in caught(specimen)


def test_nothing_is_wrong_with_the_awaited_light():
    check_environment(AwaitedLight, http=False)


def test_a_call_that_never_ends_is_told(monkeypatch):
    class Hangs(Light):
        def evaluate(self):
            threading.Event().wait()

    monkeypatch.setattr(playing, "SECONDS", 1.0)
    assert "no answer within 1 s" in caught(Hangs)


def test_a_name_that_is_not_registered_says_how_to_register_it():
    text = caught("acme/nothing")
    assert "no environment named 'acme/nothing'" in text
    assert "`pip install -e .`" in text


def test_an_instance_is_not_enough():
    assert "hand over what makes it" in caught(Light())


def test_tasks_can_be_handed_in():
    class Goal(Light):
        def reset(self, *, seed=None, options=None):
            assert options["task"]["params"]["goal"] == 3
            return super().reset(seed=seed)

    with pytest.raises(ConformanceError, match="KeyError: 'goal'"):
        check_environment(Goal, http=False)
    check_environment(Goal, tasks=[Task("1", "three", "mobile", params={"goal": 3})], http=False)


# ---- the far side of a lease --------------------------------------------------------------------

SERVED = """
import os, subprocess, sys, tempfile
from pathlib import Path
from mintact_platform import StateCheck

LOCK = Path(os.environ["SPECIMEN_LOCK"])


class Light:
    metadata = {"mintact": {"domain": "mobile", "action_space": "mobile_use"}}

    async def reset(self, *, seed=None, options=None):
        self.taps = 0
        return {"text": f"seed {seed}"}, {}

    async def step(self, action):
        self.taps += 1
        return {"text": str(self.taps)}, 0.0, False, False, {}

    async def evaluate(self):
        return StateCheck(True, 1.0)

    async def close(self):
        pass


class Litters(Light):
    async def reset(self, *, seed=None, options=None):
        if "MINTACT_MARK" in os.environ:
            Path("notes.txt").write_text("mine")
            Path(tempfile.mkdtemp(), "more.txt").write_text("mine")
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"],
                             start_new_session=True)
        return await super().reset(seed=seed)


class Whereabouts(Light):
    async def reset(self, *, seed=None, options=None):
        self.taps = 0
        return {"text": "in a worker" if "MINTACT_MARK" in os.environ else "here"}, {}


class DiesAway(Light):
    async def step(self, action):
        if "MINTACT_MARK" in os.environ:
            print("about to die", flush=True)
            os._exit(3)
        return await super().step(action)


class Locks(Light):
    held = False

    async def reset(self, *, seed=None, options=None):
        if not self.held and LOCK.exists():
            raise RuntimeError("another one is running")
        LOCK.write_text("")
        self.held = True
        return await super().reset(seed=seed)

    async def close(self):
        if self.held:
            LOCK.unlink(missing_ok=True)
        self.held = False
"""


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A module that other processes can import too."""
    (tmp_path / "served_specimens.py").write_text(textwrap.dedent(SERVED))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SPECIMEN_LOCK", str(tmp_path / "lock"))
    monkeypatch.delenv("MINTACT_MARK", raising=False)
    yield lambda name: f"served_specimens:{name}"
    sys.modules.pop("served_specimens", None)


@pytest.mark.parametrize("name", ["Light", "Litters"])
def test_what_stays_in_its_directory_and_its_processes_may_be_killed(served, name):
    check_environment(served(name))


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("Whereabouts", "it shows the same in a worker as here"),
        ("DiesAway", "step works over a lease"),
        ("Locks", "a fresh instance works after one was killed"),
        ("Missing", "no attribute 'Missing'"),
    ],
)
def test_what_works_only_here_is_caught_on_the_far_side(served, name, fragment):
    assert fragment in caught(served(name), http=True)
