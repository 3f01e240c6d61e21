"""Nothing referenced is ever removed, everything unreferenced is."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintact_platform.errors import StorageError
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.storage import checkpoints, ledger
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.files import ASIDE
from mintact_platform.storage.images import image_digest
from mintact_platform.storage.retention import leftovers, prune, references


def opened(root: Path) -> RunDirectory:
    return RunDirectory.create(root / "run", config_toml="", plugins={}, metadata={})


def record(directory: RunDirectory, id: str, images: list[bytes], *, known: bool) -> None:
    """A rollout with these screenshots; one that is not known was killed before its row."""
    digests = [directory.images.put(image, "png") for image in images]
    task = Task("t", "goal", "web")
    shown = dict.fromkeys(digests, "png")
    trajectory = Trajectory(id, "g", 0, 0, task, Outcome.COMPLETED, image_extensions=shown)
    path = directory.trajectories.save(replace(trajectory, final_images=tuple(digests[:1])))
    if known:
        rows = [ledger.add_trajectory(trajectory, path)]
        if not directory.database.read("select 1 from groups"):
            rows.insert(0, ledger.open_group("g", task, "web", 0.0))
        directory.database.submit(*rows).result()


rollouts = st.lists(
    st.tuples(st.lists(st.integers(0, 9), max_size=5), st.booleans()), min_size=1, max_size=12
)


@given(rollouts, st.lists(st.integers(5, 14), max_size=4))
@settings(max_examples=30, deadline=None)
def test_what_a_recorded_trajectory_shows_stays_and_all_else_goes(made, stray):
    with TemporaryDirectory() as root:
        directory = opened(Path(root))
        try:
            for number, (images, known) in enumerate(made):
                record(directory, f"t{number}", [b"%d" % i for i in images], known=known)
            for image in stray:
                directory.images.put(b"%d" % image, "png")
            referenced = {i for images, known in made if known for i in images}
            everything = {i for images, _ in made for i in images} | set(stray)
            removed = prune(directory)
            for image in everything:
                digest = image_digest(b"%d" % image)
                assert directory.images.path(digest, "png").exists() == (image in referenced)
            assert len(removed.images) == len(everything - referenced)
            assert len(removed.trajectories) == sum(not known for _, known in made)
            assert ledger.check(directory.database, directory.path) == []
        finally:
            directory.close()


def test_an_image_counts_once_a_trajectory_and_goes_with_the_last(tmp_path):
    directory = opened(tmp_path)
    record(directory, "a", [b"1", b"1", b"2"], known=True)
    record(directory, "b", [b"1"], known=True)
    assert references(directory) == {image_digest(b"1"): 2, image_digest(b"2"): 1}
    directory.close()


def test_debris_of_a_killed_writer_goes_too(tmp_path):
    directory = opened(tmp_path)
    record(directory, "a", [b"1"], known=True)
    debris = directory.images.path(image_digest(b"1"), "png").parent / f"{ASIDE}x"
    debris.write_bytes(b"half")
    assert prune(directory).unfinished == (debris,)
    assert leftovers(directory).paths == ()
    directory.close()


def test_a_run_that_is_being_trained_is_left_alone(tmp_path):
    directory = opened(tmp_path)
    directory.images.put(b"of a rollout that still runs", "png")
    directory.lock()
    other = RunDirectory.open(directory.path)
    with pytest.raises(StorageError, match="being trained"):
        prune(other)
    other.close()
    assert len(leftovers(directory).images) == 1
    directory.close()


def test_when_a_recorded_trajectory_cannot_be_read_nothing_is_removed(tmp_path):
    directory = opened(tmp_path)
    record(directory, "a", [b"1"], known=True)
    stray = directory.images.path(directory.images.put(b"2", "png"), "png")
    directory.trajectories.path("a").write_bytes(b"cut")
    with pytest.raises(StorageError, match="not a whole trajectory"):
        prune(directory)
    assert stray.exists()
    directory.close()


@given(st.dictionaries(st.integers(1, 30), st.booleans(), max_size=10), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_newest_whole_checkpoints_are_never_removed(made, keep):
    with TemporaryDirectory() as root:
        for step, whole in made.items():
            path = Path(root) / str(step)
            path.mkdir()
            (path / "w").write_bytes(b"%d" % step)
            if whole:
                checkpoints.seal(path, step=step, incarnation=1)
        kept = sorted(step for step, whole in made.items() if whole)[-keep:]
        checkpoints.retain(Path(root), keep=keep)
        assert [c.step for c in checkpoints.complete(Path(root))] == kept
        for checkpoint in checkpoints.complete(Path(root)):
            checkpoint.verify()
