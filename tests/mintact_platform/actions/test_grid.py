"""The coordinate grid: always on the screen, and back again within half a step and a pixel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.actions.grid import Grid

extents = st.integers(1, 10_000)
steps = st.sampled_from([999, 1000, 99, 1])


@given(st.floats(allow_nan=False) | st.integers(-(10**400), 10**400), extents, steps)
def test_every_value_is_a_pixel_of_the_screen(value, extent, steps):
    assert 0 <= Grid(steps).to_pixel(value, extent) < extent
    assert 0 <= Grid(0).to_pixel(value, extent) < extent


@given(st.data(), extents, steps)
def test_a_pixel_comes_back_within_half_a_step_and_one_pixel(data, extent, steps):
    grid, pixel = Grid(steps), data.draw(st.integers(0, extent - 1))
    back = grid.to_pixel(grid.to_grid(pixel, extent), extent)
    assert abs(back - pixel) <= extent / (2 * steps) + 1


@given(st.data(), extents, steps)
def test_grid_values_stay_inside_the_grid(data, extent, steps):
    pixel = data.draw(st.integers(-10, extent + 10))
    assert 0 <= Grid(steps).to_grid(pixel, extent) <= steps


@given(st.data(), st.integers(1, 998))
def test_on_a_small_screen_a_grid_value_names_its_own_pixel_again(data, extent):
    value = data.draw(st.integers(0, 999))
    pixel = Grid().to_pixel(value, extent)
    assert abs(Grid().to_pixel(Grid().to_grid(pixel, extent), extent) - pixel) <= 1


@pytest.mark.parametrize(
    ("value", "extent", "pixel"),
    [(0, 1280, 0), (500, 1280, 640), (999, 1280, 1279), (998, 1280, 1278)],
)
def test_the_formula_of_the_qwen_agents_with_the_far_edge_pulled_in(value, extent, pixel):
    assert Grid(999).to_pixel(value, extent) == pixel


@given(st.data(), extents)
def test_a_grid_of_pixels_changes_nothing(data, extent):
    pixel = data.draw(st.integers(0, extent - 1))
    assert Grid(0).to_pixel(pixel, extent) == Grid(0).to_grid(pixel, extent) == pixel


def test_a_negative_grid_is_refused():
    with pytest.raises(ValueError, match="0 or more"):
        Grid(-1)
