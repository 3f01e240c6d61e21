"""`mintact judge run`: a judge over recorded trajectories, skipping what it has judged before."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from mintact_platform.cli.choices import read_pairs, read_value
from mintact_platform.cli.tables import is_narrow, print_renderable, print_table
from mintact_platform.config import JudgePlugin
from mintact_platform.dashboard.history import find_run
from mintact_platform.dashboard.judging import brief, money, open_judging, tally_table
from mintact_platform.dashboard.terminal import clock_time
from mintact_platform.errors import ConfigurationError
from mintact_platform.evaluation.judgements import (
    JudgeIdentity,
    Judgement,
    JudgementFile,
    by_judge,
    new_file,
    read_folder,
    read_judgements,
)
from mintact_platform.evaluation.recorded import Recorded, RecordedRun, read_run, select
from mintact_platform.evaluation.rejudge import (
    ReadyJudge,
    Tally,
    ready_judge,
    reasons,
    rejudge,
    tally,
)
from mintact_platform.judging.cache import JudgementCache
from mintact_platform.registry.names import Registry

DEADLINE = 120.0
"""Seconds of a judgement where the run's own file does not say."""


class Done(NamedTuple):
    """What a judge said of the chosen trajectories.

    Attributes:
        judge: who.
        judgements: by trajectory, those of before included.
        now: how many of them were made now.
        seconds: that took.
        file: where they were written, None when nothing was left to judge.
    """

    judge: JudgeIdentity
    judgements: dict[str, Judgement]
    now: int
    seconds: float
    file: Path | None


def judge_again(arguments: argparse.Namespace) -> int:
    """Judge, then print what came of it; exit code 1 when no trajectory got a verdict."""
    if len(arguments.judge) != 1:
        given = f"{len(arguments.judge)} judges" if arguments.judge else "no judge"
        known = ", ".join(Registry.discover().names("judges"))
        raise ConfigurationError(
            f"{given} asked for", where="judge run", next=f"name one with --judge: {known}"
        )
    choice = read_judge(arguments.judge[0], arguments)
    run = open_run(arguments)
    chosen = chosen_of(run, arguments)
    if not chosen:
        raise ConfigurationError(
            "no trajectory to judge", where=str(run.path), next="see --outcomes and mintact show"
        )
    done = judge_missing(run, chosen, choice, arguments)
    if arguments.json:
        print(json.dumps(_values(run, done), indent=2))
    else:
        _show(done, command(arguments, "judge", "audit"))
    return 0 if any(j.verdict is not None for j in done.judgements.values()) else 1


def open_run(arguments: argparse.Namespace) -> RecordedRun:
    """The run that the arguments name."""
    return read_run(find_run(arguments.run, arguments.runs))


def chosen_of(run: RecordedRun, arguments: argparse.Namespace) -> list[Recorded]:
    """The trajectories that the flags choose."""
    outcomes = outcomes_of(arguments)
    return select(run, domains=arguments.domain, outcomes=outcomes, limit=arguments.limit)


def command(arguments: argparse.Namespace, *verb: str) -> str:
    """A command about the same run, as it would be typed."""
    runs = [] if arguments.runs == Path("runs") else ["--runs", str(arguments.runs)]
    return shlex.join(["mintact", *verb, *runs, arguments.run])


def outcomes_of(arguments: argparse.Namespace) -> list[str] | None:
    """What `--outcomes` lists, None without it."""
    if arguments.outcomes is None:
        return None
    return [name.strip() for name in arguments.outcomes.split(",")]


def read_judge(text: str, arguments: argparse.Namespace) -> JudgePlugin:
    """A judge as in a run file, by name or as TOML, with what the flags add.

    Raises:
        ConfigurationError: it is neither.
    """
    value = read_value(text) if text.lstrip().startswith("{") else {"name": text}
    if not isinstance(value, dict):
        raise ConfigurationError(
            f"cannot read {text!r}", where="--judge", next="write a name, or '{name=…,params={…}}'"
        )
    params = {**value.get("params", {}), **read_pairs(arguments.params, "parameters")}
    if arguments.concurrency:
        value = {**value, "concurrency": arguments.concurrency}
    try:
        return JudgePlugin.model_validate({**value, "params": params})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{place}: {first['msg'].lower()}", where="--judge") from None


def earlier(run: RecordedRun, arguments: argparse.Namespace) -> dict[str, dict[str, Judgement]]:
    """Judgements of before by judge: the run's own, and those of `--to`."""
    found = read_folder(run.path)
    if arguments.to is not None and arguments.to.exists():
        found += read_judgements(arguments.to)
    return by_judge(found)


def judge_missing(
    run: RecordedRun, chosen: Sequence[Recorded], choice: JudgePlugin, arguments: argparse.Namespace
) -> Done:
    """Ask the judge about the trajectories it has given no verdict on yet, or about all.

    Raises:
        KeyboardInterrupt: stopped; it says what was kept.
        StorageError: nothing can be written.
        JudgeError: the judge cannot be opened.
    """
    judge = _ready(run, choice, arguments)
    before = earlier(run, arguments)
    known = {} if arguments.again else before.get(judge.identity.key, {})
    kept = {r.id: known[r.id] for r in chosen if r.id in known and known[r.id].verdict is not None}
    pending = [recorded for recorded in chosen if recorded.id not in kept]
    if not pending:
        return Done(judge.identity, kept, 0, 0.0, None)
    file = JudgementFile(arguments.to or new_file(run.path, choice.name))
    start, made = time.monotonic(), list[Judgement]()

    def keep(judgement: Judgement) -> None:
        file.append(judgement)
        made.append(judgement)

    title = str(judge.identity)
    display = open_judging(title, len(pending), quiet=arguments.quiet, stream=sys.stderr)
    jobs = rejudge(
        run, pending, judge, keep=keep, watch=display.update, concurrency=choice.concurrency
    )
    try:
        # what a judge prints must not end up among the results
        with contextlib.redirect_stdout(sys.stderr):
            asyncio.run(jobs)
    except KeyboardInterrupt:
        told = f"{len(made)} of {len(pending)} judgements are kept"
        raise KeyboardInterrupt(f"{told}; the same command goes on") from None
    finally:
        display.close()
        file.close()
    kept |= {judgement.id: judgement for judgement in made}
    return Done(judge.identity, kept, len(made), time.monotonic() - start, file.path)


def _ready(run: RecordedRun, choice: JudgePlugin, arguments: argparse.Namespace) -> ReadyJudge:
    limit = run.config.deadlines.judge if run.config else DEADLINE
    # asked again means asked, not looked up; a run that cannot be written has no cache either
    usable = not arguments.again and os.access(run.path, os.W_OK)
    cache = JudgementCache(run.path / "cache" / "judgements") if usable else None
    return ready_judge(
        choice, Registry.discover(), deadline=arguments.deadline or limit, cache=cache
    )


def _show(done: Done, following: str) -> None:
    judgements = list(done.judgements.values())
    rows = tally(judgements)
    print_renderable(tally_table(rows, narrow=is_narrow()))
    if failed := reasons(judgements):
        print()
        print_table(
            ("failed", "reason", "first"),
            [(str(r.times), r.message, r.first) for r in failed],
            whole=("failed", "first"),
        )
    words = [f"{done.now} judged now in {clock_time(done.seconds)}"]
    if before := len(judgements) - done.now:
        words.append(f"{before} before")
    if rows[-1].judged:
        words.append(f"{brief(rows[-1].seconds, rows[-1].judged)} each")
    if rows[-1].cost is not None:
        words.append(f"cost {money(rows[-1].cost)}")
    print(f"\n{done.judge}: {', '.join(words)}")
    if done.file is not None:
        print(f"judgements: {done.file}")
    print(f"compare:    {following}")


def _values(run: RecordedRun, done: Done) -> dict[str, Any]:
    judgements = list(done.judgements.values())
    rows = tally(judgements)
    return {
        "run": str(run.path),
        "judge": asdict(done.judge),
        "file": None if done.file is None else str(done.file),
        "now": done.now,
        "before": len(judgements) - done.now,
        "seconds": done.seconds,
        "domains": {row.domain: _row(row) for row in rows},
        "reasons": [reason._asdict() for reason in reasons(judgements)],
    }


def _row(row: Tally) -> dict[str, Any]:
    interval = row.success._asdict() if row.successes + row.failures else None
    values = {k: v for k, v in asdict(row).items() if k != "domain"}
    return {**values, "judged": row.judged, "success": interval}
