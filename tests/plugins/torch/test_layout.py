import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_plugin_torch.layout import GridLayout, expand

from mintact_platform.errors import ConfigurationError

TINY = GridLayout(patch=16, merge=2)
SIZES = st.tuples(st.integers(1, 5), st.integers(1, 5)).map(lambda s: (32 * s[0], 32 * s[1]))


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int, int]]]:
    ids = draw(st.lists(st.integers(0, 400), min_size=1, max_size=30))
    places = draw(st.sets(st.integers(0, len(ids) - 1), max_size=4))
    return ids, [(place, *draw(SIZES)) for place in sorted(places)]


def test_text_counts_up_in_all_three_rows():
    expanded = expand([7, 8, 9], [], TINY, start=4)
    assert expanded.positions.tolist() == [[4, 5, 6]] * 3
    assert expanded.next_position == 7
    assert not expanded.is_image.any()


def test_an_image_spans_rows_and_columns_and_moves_on_by_its_longer_side():
    expanded = expand([1, 5, 2], [(1, 96, 64)], TINY)
    assert expanded.ids.tolist() == [1, 5, 5, 5, 5, 5, 5, 2]
    assert expanded.source.tolist() == [0, 1, 1, 1, 1, 1, 1, 2]
    assert expanded.positions.tolist() == [
        [0, 1, 1, 1, 1, 1, 1, 4],
        [0, 1, 1, 1, 2, 2, 2, 4],
        [0, 1, 2, 3, 1, 2, 3, 4],
    ]
    assert expanded.next_position == 5


def test_a_side_that_does_not_divide_is_refused():
    with pytest.raises(ConfigurationError, match="multiple of 32"):
        TINY.tokens(100, 64)
    with pytest.raises(ConfigurationError):
        expand([5], [(0, 0, 32)], TINY)


def test_spans_out_of_order_are_refused():
    with pytest.raises(ValueError, match="in order"):
        expand([5, 5], [(1, 32, 32), (0, 32, 32)], TINY)
    with pytest.raises(ValueError, match="in order"):
        expand([5], [(1, 32, 32)], TINY)


@given(rows())
def test_a_prefix_and_its_suffix_expand_to_the_whole(row):
    ids, images = row
    whole = expand(ids, images, TINY)
    for cut in range(len(ids) + 1):
        head = expand(ids[:cut], [i for i in images if i[0] < cut], TINY)
        tail = expand(
            ids[cut:],
            [(place - cut, w, h) for place, w, h in images if place >= cut],
            TINY,
            start=head.next_position,
        )
        assert np.array_equal(np.concatenate([head.ids, tail.ids]), whole.ids)
        joined = np.concatenate([head.positions, tail.positions], axis=1)
        assert np.array_equal(joined, whole.positions)
        assert tail.next_position == whole.next_position


@given(rows())
def test_every_collapsed_token_is_kept_once_or_once_an_image_token(row):
    ids, images = row
    expanded = expand(ids, images, TINY)
    counts = np.bincount(expanded.source, minlength=len(ids))
    sizes = {place: TINY.tokens(w, h) for place, w, h in images}
    assert counts.tolist() == [sizes.get(place, 1) for place in range(len(ids))]
    assert expanded.is_image.sum() == sum(sizes.values())
