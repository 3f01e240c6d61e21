from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintact_platform.errors import TrainerError
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Segment, Trajectory, Turn
from mintact_platform.training.batch import (
    choose_segments,
    micro_batches,
    plan,
    read_rows,
    split_updates,
    turns_of_tokens,
)
from mintact_platform.training.trainer import RowRef


def segment(mask: str) -> Segment:
    n = len(mask)
    return Segment(
        np.arange(n, dtype=np.int32),
        np.array([c == "1" for c in mask]),
        np.zeros(n, np.float32),
        np.zeros(n, np.int32),
    )


def trajectory(masks: Sequence[str], turns: Sequence[Turn] = ()) -> Trajectory:
    task = Task("t", "goal", "web")
    segments = tuple(segment(mask) for mask in masks)
    return Trajectory(
        "id", "g", 0, 0, task, Outcome.COMPLETED, turns=tuple(turns), segments=segments
    )


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), max_size=60), st.integers(1, 500))
def test_every_row_is_in_one_micro_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = micro_batches(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=40), st.integers(1, 9))
def test_a_group_is_never_split_over_updates(groups: list[str], updates: int) -> None:
    split = split_updates(groups, updates)
    assert sorted(i for members in split for i in members) == list(range(len(groups)))
    assert len(split) == min(updates, len(set(groups)))
    for members in split:
        assert members
        own = {groups[i] for i in members}
        assert [i for i, group in enumerate(groups) if group in own] == members


def test_groups_in_domain_blocks_are_spread_over_updates() -> None:
    assert split_updates(["web1", "web2", "tools1", "tools2"], 2) == [[0, 2], [1, 3]]


def test_the_longest_segment_is_kept_and_the_later_of_equals() -> None:
    short, first, later = "01", "0011", "0101"
    chosen = choose_segments(trajectory([short, first, later, short]), "longest")
    assert [s.mask.tolist() for s in chosen] == [[False, True, False, True]]
    assert len(choose_segments(trajectory([short, first]), "all")) == 2


def test_rows_of_all_segments_count_the_tokens_before_them() -> None:
    rows = read_rows([None, trajectory(["011", "000", "0101"])], "all", lambda s: len(s.ids))
    assert [(row.index, row.first, row.length) for row in rows] == [(1, 0, 3), (1, 2, 4)]


def test_a_supervised_first_token_is_refused() -> None:
    with pytest.raises(TrainerError, match="first token is supervised"):
        read_rows([trajectory(["110"])], "longest", lambda s: len(s.ids))


def test_tokens_know_the_turn_that_sampled_them() -> None:
    turns = [
        Turn(0, "", (), "a", segment=0),
        Turn(1, "", (), "", error="empty", segment=0),
        Turn(2, "", (), "b", segment=0),
        Turn(3, "", (), "c", segment=1),
    ]
    whole = trajectory(["0110010", "00011"], turns)
    assert turns_of_tokens(whole, whole.segments) == [0, 0, 2, 3, 3]


def test_turns_that_do_not_match_the_mask_are_unknown() -> None:
    whole = trajectory(["0110010"], [Turn(0, "", (), "a", segment=0)])
    assert turns_of_tokens(whole, whole.segments) == [-1, -1, -1]


def test_an_update_counts_its_masked_members() -> None:
    refs = [
        RowRef("a", "", "g1", "web", 1.0),
        RowRef("b", "", "g1", "web", 0.0, live=False),
        RowRef("c", "", "g2", "web", 0.0),
    ]
    rows = read_rows([trajectory(["011"]), None, trajectory(["0111"])], "longest", lambda s: 4)
    one, two = plan(refs, rows, updates=2, micro_batch_tokens=8)
    assert (one.members, two.members) == ((0, 1), (2,))
    assert [row.index for row in one.rows] == [0]
