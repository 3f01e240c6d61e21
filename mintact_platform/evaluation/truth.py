"""What judges are compared with: state checks, labels that people gave, or another judge."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import cast, get_args

from mintact_platform.errors import ConfigurationError, StorageError, near_match
from mintact_platform.evaluation.audit import Compared, Truth
from mintact_platform.evaluation.judgements import Judgement
from mintact_platform.evaluation.recorded import Recorded
from mintact_platform.storage.trajectories import load_record

COLUMNS = ("trajectory", "label")


def state_truth(recorded: Iterable[Recorded]) -> dict[str, Truth]:
    """What the environments' state checks say; trajectories without one are left out."""
    found: dict[str, Truth] = {}
    for one in recorded:
        try:
            check = load_record(one.path)["state_check"]
        except (StorageError, KeyError):
            continue
        if check is not None:
            found[one.id] = "success" if check["success"] else "failure"
    return found


def judged_truth(judgements: Iterable[Judgement]) -> dict[str, Truth]:
    """What a judge said, where it decided."""
    return {one.id: cast(Truth, one.said) for one in judgements if one.said in get_args(Truth)}


def compare(judgements: Iterable[Judgement], truth: Mapping[str, Truth]) -> list[Compared]:
    """The judgements of trajectories whose truth is known, beside it."""
    return [
        Compared(
            one.id,
            one.domain,
            truth[one.id],
            one.said,
            one.verdict.seconds if one.verdict else 0.0,
            one.verdict.cost if one.verdict else None,
        )
        for one in judgements
        if one.id in truth
    ]


def read_labels(path: Path, known: Collection[str]) -> dict[str, Truth]:
    """`{trajectory: label}` of a CSV file with the columns `trajectory` and `label`.

    Other columns are left alone, and so are rows whose label is still empty.

    Args:
        path: the file, UTF-8.
        known: ids of the run's trajectories.

    Raises:
        ConfigurationError: no such file, a missing column, an unknown trajectory or label, or a
            trajectory labelled twice; with the line.
    """
    labels: dict[str, Truth] = {}
    lines: dict[str, int] = {}
    for number, row in _rows(path):
        id, label = (str(row.get(column) or "").strip() for column in COLUMNS)
        where = f"{path}:{number}"
        if not id and not label:
            continue
        id = id if id in known else id.upper()
        if id not in known:
            raise ConfigurationError(
                f"no trajectory {id!r} in the run", where=where, next=_near_id(id, known)
            )
        if id in lines:
            raise ConfigurationError(
                f"trajectory {id} is labelled in line {lines[id]} already", where=where
            )
        lines[id] = number
        if label:
            labels[id] = _label(label, where)
    if not labels:
        raise ConfigurationError("holds no label", where=str(path), next="write success or failure")
    return labels


def _rows(path: Path) -> list[tuple[int, dict[str, str | None]]]:
    """The rows under the header, each with the line it ends in."""
    try:
        # a spreadsheet's byte order mark is no part of the first column's name
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = [str(name).strip().lower() for name in reader.fieldnames or ()]
            reader.fieldnames = header
            for column in COLUMNS:
                if header.count(column) != 1:
                    raise ConfigurationError(
                        f"needs one column {column!r}, has {', '.join(header) or 'none'}",
                        where=str(path),
                        next="begin with the line: trajectory,label",
                    )
            return [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"is no CSV file in UTF-8: {error}", where=str(path), next="export it as CSV UTF-8"
        ) from None


def _label(text: str, where: str) -> Truth:
    label = text.lower()
    if label not in get_args(Truth):
        raise ConfigurationError(
            f"unknown label {text!r}", where=where, next=near_match(label, get_args(Truth))
        )
    return cast(Truth, label)


def _near_id(id: str, known: Collection[str]) -> str:
    if not known:
        return "it has none"
    begun = [one for one in known if id and one.startswith(id)]
    close = begun[:1] if len(begun) == 1 else difflib.get_close_matches(id, known, n=1, cutoff=0.8)
    return f"did you mean {close[0]!r}?" if close else "mintact judge labels RUN lists them"
