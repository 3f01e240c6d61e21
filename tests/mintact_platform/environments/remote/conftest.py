"""Environments of every kind of space, leased as gymnasium environments."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from mintact_platform.environments.client.remote import RemoteEnvironment

GYMS = '''
import gymnasium, numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1, 1, (3,))
KINDS = {
    "box": BOX,
    "scalar": spaces.Box(-1, 1, ()),
    "discrete": spaces.Discrete(4, start=-1),
    "multi discrete": spaces.MultiDiscrete([2, 3]),
    "multi binary": spaces.MultiBinary(4),
    "text": spaces.Text(5),
    "tuple": spaces.Tuple((spaces.Discrete(2), BOX)),
    "dict": spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Text(3)})}),
    "sequence": spaces.Sequence(BOX),
    "stack": spaces.Sequence(BOX, stack=True),
    "graph": spaces.Graph(BOX, spaces.Discrete(3)),
    "one of": spaces.OneOf((spaces.Discrete(2), BOX)),
}


class Kind(gymnasium.Env):
    """Observes what its space draws, and says in info what it was told."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(self, kind="box", render_mode=None):
        self.observation_space = self.action_space = KINDS[kind]
        self.render_mode = render_mode

    def see(self):
        self.observation_space.seed(int(self.np_random.integers(1000)))
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.see(), {"options": options, "mask": np.array([1, 0], np.int8)}

    def step(self, action):
        self.steps += 1
        if self.action_space == BOX and action[0] > 8:
            raise RuntimeError("far out")
        return self.see(), float(self.steps), self.steps >= 5, False, {"told": np.asarray(
            action if isinstance(action, np.ndarray) else 0.0)}

    def render(self):
        return np.full((5, 6, 3), self.steps, np.uint8)


gymnasium.register("trial/Kind-v0", entry_point=Kind)
'''


@pytest.fixture(scope="module", autouse=True)
def gyms(trial_path):
    (trial_path / "trial_gyms.py").write_text(GYMS)


@pytest.fixture(scope="session")
def server(start_server):
    """A server that only these tests use: they count its leases."""
    return asyncio.run(start_server())


@pytest.fixture
def make(server):
    """Make remote environments that are closed at the end of the test."""
    made = []

    def one(environment="gym/CartPole-v1", **options):
        made.append(RemoteEnvironment(server.url, environment, **options))
        return made[-1]

    yield one
    for environment in made:
        environment.close()


@pytest.fixture
def leases(server, until):
    """How many leases the server holds; those of earlier tests are gone."""

    def count():
        reply = httpx.get(f"{server.url}/v1/environments", trust_env=False, timeout=60)
        return reply.json()["leases"]

    # what nobody gave back is gone after its time to live
    until(lambda: count() == 0, seconds=120)
    return count


@pytest.fixture
def until():
    """Wait until something holds."""

    def wait(condition, seconds=60.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it never happened"
            time.sleep(0.02)

    return wait
