import json

import pytest

from mintact_platform.errors import CheckpointCorrupt
from mintact_platform.storage import checkpoints


def write(root, step, *, incarnation=1):
    path = root / str(step)
    (path / "deep").mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"weights %d" % step)
    (path / "deep" / "rng.bin").write_bytes(b"random state")
    return checkpoints.seal(path, step=step, incarnation=incarnation)


def test_a_sealed_checkpoint_is_complete_and_sound(tmp_path):
    sealed = write(tmp_path, 8)
    assert set(sealed.files) == {"model.safetensors", "deep/rng.bin"}
    assert checkpoints.complete(tmp_path) == [sealed]
    sealed.verify()


def test_without_its_manifest_a_checkpoint_does_not_exist(tmp_path):
    write(tmp_path, 4)
    (write(tmp_path, 8).path / "manifest.json").unlink()
    assert [one.step for one in checkpoints.complete(tmp_path)] == [4]
    with pytest.raises(CheckpointCorrupt, match="incomplete"):
        checkpoints.read(tmp_path / "8")


@pytest.mark.parametrize("text", ["", "[]", '{"step": 1}', '{"step": 1, "files": 3}', "\xff"])
def test_a_broken_manifest_is_corrupt_and_passed_over(tmp_path, text):
    path = write(tmp_path, 4).path
    (path / "manifest.json").write_bytes(text.encode("latin-1"))
    assert checkpoints.complete(tmp_path) == []
    with pytest.raises(CheckpointCorrupt, match="manifest"):
        checkpoints.read(path)


def test_changed_or_missing_bytes_are_found(tmp_path):
    sealed = write(tmp_path, 4)
    (sealed.path / "model.safetensors").write_bytes(b"weights 5")
    with pytest.raises(CheckpointCorrupt, match=r"bytes of model\.safetensors changed"):
        sealed.verify()
    (sealed.path / "model.safetensors").unlink()
    with pytest.raises(CheckpointCorrupt, match=r"model\.safetensors is missing"):
        sealed.verify()


def test_hashes_of_any_length_are_compared(tmp_path):
    import hashlib

    path = write(tmp_path, 4).path
    long = hashlib.blake2b((path / "model.safetensors").read_bytes()).hexdigest()
    manifest = {"step": 4, "incarnation": 1, "files": {"model.safetensors": long}}
    (path / "manifest.json").write_text(json.dumps(manifest))
    checkpoints.read(path).verify()


def test_steps_are_numbers_not_words(tmp_path):
    for step in (8, 12, 100):
        write(tmp_path, step)
    assert [c.step for c in checkpoints.complete(tmp_path)] == [8, 12, 100]


def test_the_newest_are_kept_and_older_ones_go_with_their_debris(tmp_path):
    for step in (4, 8, 12):
        write(tmp_path, step)
    (tmp_path / "6").mkdir()
    (tmp_path / "16").mkdir()
    removed = checkpoints.retain(tmp_path, keep=2)
    assert sorted(p.name for p in removed) == ["4", "6"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["12", "16", "8"]


def test_an_empty_or_missing_folder_has_no_checkpoints(tmp_path):
    assert checkpoints.complete(tmp_path / "none") == []
    assert checkpoints.retain(tmp_path, keep=1) == []
