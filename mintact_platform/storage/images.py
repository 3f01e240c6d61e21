"""Screenshots, stored once under the hash of their bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mintact_platform.errors import StorageError
from mintact_platform.storage.files import write_aside


def image_digest(data: bytes) -> str:
    """The name of an image: blake2b of its encoded bytes, 128 bits in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class ImageStore:
    """A content-addressed folder, `<2 hex>/<blake2b>.<extension>`. Safe from any thread.

    Args:
        root: the folder; made when the first image comes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, data: bytes, extension: str) -> str:
        """Store encoded bytes, `png` or `jpg`, once; returns their digest."""
        name = image_digest(data)
        path = self.path(name, extension)
        if not path.exists():
            write_aside(path, data)
        return name

    def path(self, digest: str, extension: str) -> Path:
        """Where the image is, or would be."""
        return self.root / digest[:2] / f"{digest}.{extension}"

    def get(self, digest: str, extension: str) -> bytes:
        """The encoded bytes.

        Raises:
            StorageError: it was never stored, or its bytes changed.
        """
        path = self.path(digest, extension)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise StorageError(f"no image {digest!r}", where=str(self.root)) from None
        if image_digest(data) != digest:
            raise StorageError(
                "the image's bytes do not match its name",
                where=str(path),
                next="the file was changed or cut; remove it and the trajectories that show it",
            )
        return data
