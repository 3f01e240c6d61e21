import random
from dataclasses import replace

import numpy as np
import pytest
from mintact_env_micro.scene import Layout
from mintact_env_micro.tiles import PageTiles, render_sheet
from mintact_env_micro.web import WORDS, WebState

pytestmark = pytest.mark.browser
LAYOUT = Layout()


def test_a_sheet_of_whole_forms_equals_the_stacked_strips():
    rng = random.Random(1)
    states = []
    for seed in range(40):
        state = WebState.start(seed, Layout(colours=8))
        typed = tuple(rng.choice(("", *WORDS)) for _ in range(3))
        focus = rng.choice((None, *state.fields))
        states.append(replace(state, typed=typed, focus=focus, sent=rng.random() < 0.5))
    tiles = PageTiles(Layout(colours=8))
    for state, picture in zip(states, render_sheet(states), strict=True):
        assert (tiles.render(state) == picture).all()


def test_strips_are_copied_into_every_screenshot():
    tiles = PageTiles(LAYOUT)
    state = WebState.start(0, LAYOUT)
    tiles.render(state)[:] = 0
    assert np.any(tiles.render(state))
