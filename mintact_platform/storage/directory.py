"""A run directory: created whole, opened by one scheduler at a time, read by anyone."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mintact_platform.errors import StorageError, near_match
from mintact_platform.storage.database import Database
from mintact_platform.storage.images import ImageStore
from mintact_platform.storage.ledger import get_meta, set_meta
from mintact_platform.storage.trajectories import TrajectoryStore

_DATABASE, _LOCK, _CONFIG, _PLUGINS = "run.db", "run.lock", "config.toml", "plugins.json"
_FOLDERS = ("trajectories", "images", "checkpoints", "weights", "logs")


class RunDirectory:
    """The truth about a run. Made by `create` or `open`.

    Attributes:
        path: the directory.
        images: its screenshots.
        trajectories: its rollouts.
        database: its tables.
    """

    def __init__(self, path: Path, database: Database) -> None:
        self.path, self.database = path, database
        self.images = ImageStore(path / "images")
        self.trajectories = TrajectoryStore(path / "trajectories")
        self._lock: int | None = None

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        config_toml: str,
        plugins: Mapping[str, str],
        metadata: Mapping[str, str],
    ) -> RunDirectory:
        """Make a new run directory, all of it or nothing, and open it for writing.

        Args:
            path: where; nothing may be there.
            config_toml: the merged run file.
            plugins: version by distribution.
            metadata: first rows of the `meta` table.

        Raises:
            StorageError: something is there already.
        """
        if path.exists():
            raise _exists(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            aside.chmod(0o755)
            for folder in _FOLDERS:
                (aside / folder).mkdir()
            (aside / _CONFIG).write_text(config_toml, encoding="utf-8")
            (aside / _PLUGINS).write_text(json.dumps(dict(plugins), indent=1, sort_keys=True))
            (aside / _LOCK).touch()
            _first_rows(aside / _DATABASE, metadata)
            try:
                os.rename(aside, path)
            except OSError:
                raise _exists(path) from None
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return cls(path, Database(path / _DATABASE, writable=True))

    @classmethod
    def open(cls, path: Path, *, writable: bool = False) -> RunDirectory:
        """Open an existing run.

        Raises:
            StorageError: no run there; the near match among its siblings is named.
            DatabaseVersion: written by another version of the platform.
        """
        if not (path / _DATABASE).is_file():
            raise StorageError(
                "no such run", where=str(path), next=near_match(path.name, run_names(path.parent))
            )
        return cls(path, Database(path / _DATABASE, writable=writable))

    @property
    def config_toml(self) -> str:
        """The merged run file."""
        return (self.path / _CONFIG).read_text(encoding="utf-8")

    @property
    def plugins(self) -> dict[str, str]:
        """Version by distribution, as the run was created with."""
        try:
            versions: dict[str, str] = json.loads((self.path / _PLUGINS).read_bytes())
        except (OSError, ValueError) as error:
            place = str(self.path / _PLUGINS)
            raise StorageError(f"cannot be read ({error})", where=place) from None
        return versions

    @property
    def checkpoints(self) -> Path:
        """Folder of the trainer's checkpoints."""
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        """Folder of the children's logs."""
        return self.path / "logs"

    @property
    def judgements_cache(self) -> Path:
        """Folder of cached judgements; there once one is cached, and free to be removed."""
        return self.path / "cache" / "judgements"

    def weights(self, version: int) -> Path:
        """Folder of a pushed weight version."""
        return self.path / "weights" / str(version)

    def retain_weights(self, keep: int = 2) -> list[Path]:
        """Remove all pushed weights but the newest `keep` versions; returns what was removed."""
        root = self.path / "weights"
        versions = sorted(
            (p for p in root.iterdir() if p.name.isdigit()), key=lambda p: int(p.name)
        )
        removed = versions[:-keep]
        for path in removed:
            shutil.rmtree(path)
        return removed

    def lock(self) -> None:
        """Become this run's only scheduler until `close`, or until the process ends.

        Raises:
            StorageError: another process is.
        """
        if self._lock is not None:
            return
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StorageError(
                f"the run is being trained by process {holder}",
                where=str(self.path),
                next="wait for it or stop it first",
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._lock = descriptor

    def begin_incarnation(self) -> int:
        """Count one more start of this run's scheduler and return the number, from 1 on."""
        incarnation = int(get_meta(self.database, "incarnation", "0") or 0) + 1
        self.database.submit(set_meta("incarnation", str(incarnation))).result()
        return incarnation

    def close(self) -> None:
        """Finish the writes, close the database, give up the lock. May be called again."""
        self.database.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def run_names(root: Path) -> list[str]:
    """Names of the runs in a folder."""
    if not root.is_dir():
        return []
    return sorted(p.name for p in root.iterdir() if (p / _DATABASE).is_file() and p.name[0] != ".")


def _first_rows(path: Path, metadata: Mapping[str, str]) -> None:
    database = Database(path, writable=True)
    try:
        database.submit(*(set_meta(key, value) for key, value in metadata.items())).result()
    finally:
        database.close()


def _exists(path: Path) -> StorageError:
    if (path / _DATABASE).is_file():
        what, following = (
            "the run exists already",
            "train, sft and rollout go on with it by --resume; or choose a new name",
        )
    else:
        what, following = "something is there that is no run", "choose a new name"
    return StorageError(what, where=str(path), next=following)
