import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from mintact_platform.errors import StorageError
from mintact_platform.storage.images import ImageStore


def test_an_image_is_stored_once_under_the_hash_of_its_bytes(tmp_path):
    store = ImageStore(tmp_path)
    digest = store.put(b"pixels", "png")
    assert digest == hashlib.blake2b(b"pixels", digest_size=16).hexdigest()
    assert store.path(digest, "png") == tmp_path / digest[:2] / f"{digest}.png"
    written = store.path(digest, "png").stat().st_mtime_ns
    assert store.put(b"pixels", "png") == digest
    assert store.path(digest, "png").stat().st_mtime_ns == written
    assert store.get(digest, "png") == b"pixels"


def test_many_threads_store_the_same_image_and_leave_one_file(tmp_path):
    store = ImageStore(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        digests = set(threads.map(lambda _: store.put(b"x" * 50_000, "jpg"), range(32)))
    assert len(digests) == 1
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [f"{digests.pop()}.jpg"]


def test_a_changed_image_is_noticed_when_it_is_read(tmp_path):
    store = ImageStore(tmp_path)
    digest = store.put(b"pixels", "png")
    store.path(digest, "png").write_bytes(b"pix")
    with pytest.raises(StorageError, match="do not match its name"):
        store.get(digest, "png")


def test_an_image_never_stored_is_an_error_with_its_digest(tmp_path):
    with pytest.raises(StorageError, match="no image 'abcd'"):
        ImageStore(tmp_path).get("abcd", "png")
