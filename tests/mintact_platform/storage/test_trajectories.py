import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mintact_platform.errors import StorageError
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.trajectory import Segment, Trajectory
from mintact_platform.storage import trajectories
from mintact_platform.storage.trajectories import TrajectoryStore


def same(one: Segment, other: Segment) -> bool:
    return one.images == other.images and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        and getattr(one, name).dtype == getattr(other, name).dtype
        for name in ("ids", "mask", "logprobs", "versions")
    )


def test_a_trajectory_comes_back_as_it_was_stored(directory, make):
    stored = make.trajectory("01A", "g1", member=3)
    path = directory.trajectories.save(stored)
    read = trajectories.load(path)
    assert read.to_json() == stored.to_json()
    assert all(map(same, read.segments, stored.segments))
    assert path == directory.trajectories.path("01A")


def test_a_masked_rollout_without_tokens_is_stored_too(directory, make):
    failure = Failure("reset", "timeout", "no answer in 60 s", instance="env-3")
    stored = Trajectory("01B", "", 0, 1, make.task(), Outcome.ENVIRONMENT_FAILURE, failure=failure)
    read = trajectories.load(directory.trajectories.save(stored))
    assert (read.failure, read.segments) == (failure, ())


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=40), max_size=3), st.randoms())
def test_token_arrays_survive_bit_for_bit(directory, make, tokens, rng):
    segments = tuple(
        Segment(
            ids=np.array(ids, np.int32),
            mask=np.array([rng.random() < 0.5 for _ in ids], np.bool_),
            logprobs=np.array([-rng.random() for _ in ids], np.float32),
            versions=np.array([rng.randrange(-1, 9) for _ in ids], np.int32),
        )
        for ids in tokens
    )
    stored = Trajectory("01C", "", 0, 0, make.task(), Outcome.COMPLETED, segments=segments)
    read = trajectories.load_arrays(directory.trajectories.save(stored))
    assert len(read) == len(segments)
    assert all(map(same, read, segments))


def test_a_missing_or_cut_file_is_a_storage_error(directory, make):
    path = directory.trajectories.save(make.trajectory("01D"))
    path.write_bytes(path.read_bytes()[:-3])
    for read in (trajectories.load, trajectories.load_arrays, trajectories.load_record):
        with pytest.raises(StorageError, match="not a whole trajectory"):
            read(path)
        with pytest.raises(StorageError, match="no such trajectory"):
            read(path.with_name("other.safetensors"))


def test_ids_that_begin_alike_are_spread_over_folders(tmp_path):
    store = TrajectoryStore(tmp_path)
    folders = {store.path(f"01JABCDEFG{n:016d}").parent.name for n in range(300)}
    assert len(folders) > 100
