"""What a judge sees of a trajectory, and that it cannot change it."""

import dataclasses

import pytest


def test_a_view_offers_what_a_judge_reads(view):
    assert view.task.goal == "do it"
    assert view.outcome == "completed"
    assert view.answer == "done"
    assert view.step_rewards == (0.0, 1.0)
    assert view.state_check.success
    assert len(view.turns) == 2


def test_images_of_a_turn_come_as_bytes_in_their_order(view):
    assert view.images(0) == [b"aa.png"]
    assert view.images(-1) == [b"aa.png", b"bb.jpg"]
    with pytest.raises(IndexError):
        view.images(2)


def test_a_copy_shares_nothing_writable(view):
    copy = view.copy()
    copy.turns[0].calls[0]["arguments"]["x"].append(2)
    copy.task.params["k"].append(2)
    copy.state_check.details["seen"].append(2)
    copy.trajectory.image_extensions["cc"] = "png"
    assert view.turns[0].calls[0]["arguments"]["x"] == [1]
    assert view.task.params["k"] == [1]
    assert view.state_check.details["seen"] == [1]
    assert "cc" not in view.trajectory.image_extensions


def test_a_copys_tokens_are_read_only_and_the_originals_are_not(view):
    for name in ("ids", "mask", "logprobs", "versions"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(view.copy().trajectory.segments[0], name)[0] = 1
        assert getattr(view.trajectory.segments[0], name).flags.writeable


def test_a_view_itself_is_frozen(view):
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.trajectory = None
