"""Judgements made after a run, in files of their own: one line a trajectory, each complete."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mintact_platform.errors import ConfigurationError, StorageError
from mintact_platform.evaluation.recorded import Recorded
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.verdict import Verdict

FOLDER = "judgements"
"""Under the run directory; one file an invocation, `<judge>-<utc time>.jsonl`."""

SHOWN = 32
"""Characters of a parameter's value in a judge's title."""

Said = Literal["success", "failure", "abstain", "environment_failure", "failed"]
"""What came of judging a trajectory: a verdict's label, or `failed`."""


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """Which judge judged; judgements of equal identities are interchangeable.

    Attributes:
        name: registered name.
        params: as given.
        distribution: that registers it.
        version: of the distribution.
        source: hash of the module it stands in; an edited judge is another judge.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    distribution: str = ""
    version: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        """Equal for equal judges."""
        values = [self.name, self.params, self.distribution, self.version, self.source]
        return json.dumps(values, sort_keys=True, ensure_ascii=False)

    def __str__(self) -> str:
        words = (f"{k}={_short(v)}" for k, v in self.params.items())
        return " ".join([self.name, *words])


@dataclass(frozen=True, slots=True)
class Judgement:
    """One line of a judgements file.

    Attributes:
        id: trajectory id.
        domain: of its task.
        task: task id.
        outcome: recorded outcome.
        judge: who judged.
        verdict: what it said; None when it failed.
        failure: why there is no verdict.
        at: when, in seconds since the epoch.
        evaluation: the evaluation's label, "" in training.
    """

    id: str
    domain: str
    task: str
    outcome: str
    judge: JudgeIdentity
    verdict: Verdict | None
    failure: Failure | None = None
    at: float = 0.0
    evaluation: str = ""

    @classmethod
    def of(
        cls, recorded: Recorded, judge: JudgeIdentity, result: Verdict | Failure, at: float
    ) -> Judgement:
        """What came of judging a recorded trajectory."""
        return cls(
            id=recorded.id,
            domain=recorded.domain,
            task=recorded.task,
            outcome=str(recorded.outcome),
            judge=judge,
            verdict=result if isinstance(result, Verdict) else None,
            failure=result if isinstance(result, Failure) else None,
            at=at,
            evaluation=recorded.evaluation,
        )

    @property
    def said(self) -> Said:
        """The verdict's label, or `failed`."""
        return "failed" if self.verdict is None else self.verdict.label

    @property
    def reason(self) -> str:
        """One line for people."""
        if self.verdict is not None:
            return self.verdict.reason
        return self.failure.message if self.failure is not None else ""

    def to_json(self) -> dict[str, Any]:
        """The line, as JSON values."""
        return {
            "id": self.id,
            "domain": self.domain,
            "task": self.task,
            "outcome": self.outcome,
            "evaluation": self.evaluation,
            "judge": self.judge.name,
            "params": dict(self.judge.params),
            "distribution": self.judge.distribution,
            "version": self.judge.version,
            "source": self.judge.source,
            "verdict": None if self.verdict is None else self.verdict.to_json(),
            "failure": None if self.failure is None else self.failure.to_json(),
            "at": self.at,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Judgement:
        """Read a line."""
        verdict = values["verdict"]
        identity = JudgeIdentity(
            **{k: values[k] for k in ("params", "distribution", "version", "source")},
            name=values["judge"],
        )
        return cls(
            id=values["id"],
            domain=values["domain"],
            task=values["task"],
            outcome=values["outcome"],
            judge=identity,
            verdict=None if verdict is None else Verdict.from_json(verdict),
            failure=Failure.from_json(values["failure"]),
            at=values["at"],
            evaluation=values["evaluation"],
        )


class JudgementFile:
    """A file that judgements are appended to, line by line. Safe from any thread.

    Args:
        path: the file; opened at once, so that a place that cannot be written is known before
            anything is judged, and removed by `close` if nothing came.

    Raises:
        StorageError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._made = not path.parent.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            self._file: int | None = os.open(path, flags, 0o644)
            _cut_torn_line(self._file)
        except OSError as error:
            raise StorageError(
                f"judgements cannot be written here: {error.strerror}",
                where=str(path.parent),
                next="--to FILE writes them elsewhere",
            ) from None

    def append(self, judgement: Judgement) -> None:
        """Write a line.

        Raises:
            StorageError: it could not be written.
        """
        line = json.dumps(judgement.to_json(), ensure_ascii=False, allow_nan=False)
        data = f"{line}\n".encode(errors="replace")
        with self._lock:
            if self._file is None:
                raise StorageError("is closed", where=str(self.path))
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError as error:
                raise StorageError(
                    f"cannot be written: {error.strerror}",
                    where=str(self.path),
                    next="what was judged before is kept; the same command goes on",
                ) from None

    def close(self) -> None:
        """Close, and remove what stayed empty. May be called again."""
        with self._lock:
            if self._file is None:
                return
            os.close(self._file)
            self._file = None
            if not self.path.stat().st_size:
                self.path.unlink()
                if self._made:
                    # somebody else's file may be in it by now
                    with contextlib.suppress(OSError):
                        self.path.parent.rmdir()


def new_file(run: Path, judge: str, now: float | None = None) -> Path:
    """A file for a judge's judgements that does not exist yet.

    Args:
        run: the run directory.
        judge: registered name.
        now: seconds since the epoch, None for now.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", judge).strip("-.") or "judge"
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    stem, path, n = f"{name}-{moment}", run / FOLDER / f"{name}-{moment}.jsonl", 1
    while path.exists():
        n += 1
        path = path.with_name(f"{stem}-{n}.jsonl")
    return path


def read_judgements(path: Path) -> list[Judgement]:
    """The judgements of a file; a last line cut short by a kill is left out.

    Raises:
        ConfigurationError: no such file, or a line that is none, with its number.
    """
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigurationError(
            f"cannot be read: {error.strerror}", where=str(path), next="see mintact judge run"
        ) from None
    del rest
    return [_line(path, n, line) for n, line in enumerate(lines, start=1) if line.strip()]


def read_folder(run: Path) -> list[Judgement]:
    """All judgements in a run directory.

    Raises:
        ConfigurationError: a broken line, with its file and number.
    """
    files = sorted((run / FOLDER).glob("*.jsonl"))
    return [judgement for file in files for judgement in read_judgements(file)]


RECORDED = JudgeIdentity("recorded")
"""Stands for the judges of the run itself, whatever they were."""


def recorded_judgements(trajectories: Iterable[Recorded]) -> list[Judgement]:
    """What the run's own judges said; trajectories that none has come to yet are left out."""
    found = []
    for one in trajectories:
        result: Verdict | Failure | None = one.verdict
        # an evaluation's row is written after its judge, a rollout's before
        if result is None and (one.outcome is Outcome.JUDGE_FAILURE or one.evaluation):
            result = one.failure or Failure("judge", "JudgeError", "not recorded")
        if result is not None and one.judgeable:
            found.append(Judgement.of(one, RECORDED, result, 0.0))
    return found


def by_judge(judgements: Iterable[Judgement]) -> dict[str, dict[str, Judgement]]:
    """`{identity's key: {trajectory: judgement}}`: the newest verdict, else the newest failure."""
    found: dict[str, dict[str, Judgement]] = {}
    for new in judgements:
        known = found.setdefault(new.judge.key, {})
        old = known.get(new.id)
        if old is None or (new.verdict is not None, new.at) >= (old.verdict is not None, old.at):
            known[new.id] = new
    return found


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _line(path: Path, number: int, line: bytes) -> Judgement:
    try:
        return Judgement.from_json(json.loads(line))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"line {number} is no judgement ({type(error).__name__}: {error})",
            where=str(path),
            next="remove the line, or name another file",
        ) from None


def _cut_torn_line(file: int) -> None:
    """A line that a kill cut short goes, so that the next one begins on its own."""
    size = os.fstat(file).st_size
    data = os.pread(file, size, 0)
    whole = data.rfind(b"\n") + 1
    if whole < size:
        os.ftruncate(file, whole)
