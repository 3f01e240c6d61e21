"""Every error the platform raises, by cause: one line that says what, where, and what next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LONGEST = 120
"""Characters of a value that are shown."""


class MintactError(Exception):
    """Root of the tree. Its text is one line: what happened, where, what to do next."""

    def __init__(self, what: str, *, where: str = "", next: str = "") -> None:
        self.what, self.where, self.next = what, where, next
        line = f"{where}: {what}" if where else what
        super().__init__(f"{line}; {next}" if next else line)


class ConfigurationError(MintactError):
    """The user's input is wrong: a key, a type, a path, a combination."""


class PluginError(MintactError):
    """A plugin cannot be used."""


class PluginNotFound(PluginError):
    """No installed plugin registers the name asked for."""


class PluginConflict(PluginError):
    """Two distributions register the name asked for."""


class EnvironmentFailure(MintactError):
    """The environment's fault, never the agent's: crash, hang, garbage, refused reset.

    Attributes:
        phase: `create`, `reset`, `step`, `evaluate` or `close`.
        kind: `crash`, `timeout`, `invalid`, `full`, `unreachable` or the exception's type name.
        retryable: whether the same call may be sent again to another instance.
        log_tail: the last lines that the instance's worker wrote.
        retry_after: seconds to wait before asking the same server again, None where it said none.
    """

    def __init__(
        self,
        what: str,
        *,
        phase: str,
        kind: str = "crash",
        retryable: bool = True,
        log_tail: str = "",
        where: str = "",
        next: str = "",
        retry_after: float | None = None,
    ) -> None:
        self.phase, self.kind, self.retryable, self.log_tail = phase, kind, retryable, log_tail
        self.retry_after = retry_after
        super().__init__(what, where=where or f"environment ({phase})", next=next)


class LeaseExpired(EnvironmentFailure):
    """The lease is gone: its time ran out, its token is old, or its worker died (HTTP 410)."""


class ModelServerError(MintactError):
    """A model server answered wrongly, late or not at all; `kind` says which."""

    def __init__(self, what: str, *, kind: str = "error", where: str = "", next: str = "") -> None:
        self.kind = kind
        super().__init__(what, where=where or "model server", next=next)


class JudgeError(MintactError):
    """A judge failed to give a verdict; the trajectory is masked, never scored 0."""


class TrainerError(MintactError):
    """The trainer process died, hung or refused a request."""


class StorageError(MintactError):
    """The run directory cannot be used as asked."""


class WriteFailed(StorageError):
    """The run directory cannot be written any more: the disk is full, or went away."""


class DatabaseVersion(StorageError):
    """run.db was written by another version of the platform."""


class CheckpointCorrupt(StorageError):
    """A checkpoint is incomplete or its bytes changed."""


@contextmanager
def about(key: str) -> Iterator[None]:
    """What is wrong inside stands under this key of the run file: its line begins with it.

    An error that names a key of the same section already is left as it is.

    Example:
        >>> with about("domains.web.judge"):
        ...     raise ConfigurationError("no key", where="judge 'vlm'")
        Traceback (most recent call last):
        mintact_platform.errors.ConfigurationError: domains.web.judge: judge 'vlm': no key
    """
    try:
        yield
    except (ConfigurationError, PluginError) as error:
        section, dot, _ = key.partition(".")
        if not (dot and error.where.startswith(section + dot)):
            where = f"{key}: {error.where}" if error.where else key
            MintactError.__init__(error, error.what, where=where, next=error.next)
        raise


def first_cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error of a task group to tell people: bad input first, then any of ours, else the first.

    Args:
        group: what `asyncio.TaskGroup` raised.
    """
    leaves = _leaves(group)
    for kind in (ConfigurationError, MintactError):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0]


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def shown(value: object) -> str:
    """A value as Python writes it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def near_match(name: str, known: Iterable[str]) -> str:
    """Say what was probably meant: `did you mean 'x'?`, else the known names.

    Example:
        >>> near_match("qouta", ["quota", "tasks"])
        "did you mean 'quota'?"
    """
    options = sorted(known)
    hint = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    if hint:
        return f"did you mean {hint[0]!r}?"
    return f"known: {', '.join(options) or 'none'}"
