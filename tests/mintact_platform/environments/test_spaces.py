import warnings

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from mintact_platform.environments import AsyncEnvironment, CallSpace, ScreenSpace

CLICK = {"name": "click", "arguments": {"coordinate": [1, 2]}}


class Screen(gymnasium.Env):
    metadata = {"render_modes": []}
    action_space = CallSpace([CLICK])
    observation_space = ScreenSpace(6, 4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._see(), {}

    def step(self, action):
        return self._see(), 0.0, False, False, {}

    def _see(self):
        noise = self.np_random.integers(0, 256, (4, 6, 3), dtype=np.uint8)
        return {"screenshot": noise, "text": "<b>é漢</b>"}


def test_gymnasiums_checker_accepts_an_environment_with_these_spaces():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(Screen(), skip_render_check=True)


def test_samples_lie_in_their_space_and_are_reproducible():
    for make in (lambda: CallSpace([CLICK], seed=3), lambda: ScreenSpace(6, 4, seed=3)):
        one, two = make(), make()
        first = one.sample()
        assert first in one
        assert repr(first) == repr(two.sample())
        assert one == two


def test_a_sampled_call_may_be_changed_by_its_user():
    space = CallSpace([CLICK])
    space.sample()["arguments"]["coordinate"][0] = 99
    assert space.sample() == CLICK


def test_other_things_are_not_in_the_spaces():
    assert {"name": "click"} not in CallSpace()
    assert "click" not in CallSpace()
    screen = ScreenSpace(6, 4)
    assert {"screenshot": np.zeros((6, 4, 3), np.uint8)} not in screen
    assert {"screenshot": np.zeros((4, 6, 3))} not in screen
    assert {"text": 5} not in screen
    assert {"state": 5} not in screen
    assert {"text": "only"} in screen
    assert {"screenshot": np.zeros((9, 9, 3), np.uint8)} in ScreenSpace()


def test_an_async_class_is_recognised_by_its_methods():
    class Awaited:
        metadata = {}

        async def reset(self, *, seed=None, options=None): ...

        async def step(self, action): ...

        async def close(self): ...

    assert isinstance(Awaited(), AsyncEnvironment)
