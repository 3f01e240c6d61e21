"""`mintact judge audit`: judges against state checks, labels of people, or another judge."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from mintact_platform.cli.judge_run import (
    chosen_of,
    command,
    earlier,
    judge_missing,
    open_run,
    outcomes_of,
    read_judge,
)
from mintact_platform.cli.tables import is_narrow, open_console
from mintact_platform.dashboard.audit import Audit, Source, show, values
from mintact_platform.errors import ConfigurationError
from mintact_platform.evaluation.audit import Truth, audit
from mintact_platform.evaluation.judgements import (
    RECORDED,
    Judgement,
    by_judge,
    read_judgements,
    recorded_judgements,
)
from mintact_platform.evaluation.recorded import Recorded, RecordedRun, evenly, select
from mintact_platform.evaluation.truth import compare, judged_truth, read_labels, state_truth
from mintact_platform.storage.trajectories import load_record

STATE = "state"


def audit_judges(arguments: argparse.Namespace) -> int:
    """Compare and print; exit code 0 whatever the judges are worth."""
    result = compared(open_run(arguments), arguments)
    if arguments.json:
        print(json.dumps(values(result), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        show(result, open_console(), narrow=is_narrow())
    return 0


def list_for_labels(arguments: argparse.Namespace) -> int:
    """Write a table for people to fill in: `trajectory,label` and what helps to decide."""
    run = open_run(arguments)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["trajectory", "label", "domain", "task", "goal"])
    for one in chosen_of(run, arguments):
        goal = load_record(one.path)["task"]["goal"]
        writer.writerow([one.id, "", one.domain, one.task, goal])
    return 0


def compared(run: RecordedRun, arguments: argparse.Namespace) -> Audit:
    """Find the reference and the judges, ask those that have judgements to give, and compare."""
    outcomes = outcomes_of(arguments)
    chosen = select(run, domains=arguments.domain, outcomes=outcomes)
    reference, truth = _reference(run, chosen, arguments)
    known = [one for one in chosen if one.id in truth]
    if not known:
        raise ConfigurationError(
            f"none of {len(chosen)} trajectories has a verdict of {reference} to compare with",
            where=str(run.path),
            next="give labels with --labels CSV, or another judge with --against NAME",
        )
    left_out = len(chosen) - len(known)
    if arguments.limit is not None:
        known = evenly(known, arguments.limit)
    truth = {one.id: truth[one.id] for one in known}
    judges = []
    for source in _sources(run, known, arguments):
        found = compare(source.judgements.values(), truth)
        judges.append((source, found, audit(found)))
    return Audit(run, command(arguments, "show"), reference, truth, left_out, tuple(judges))


# ---- what is compared with what -----------------------------------------------------------------


def _reference(
    run: RecordedRun, chosen: Sequence[Recorded], arguments: argparse.Namespace
) -> tuple[str, dict[str, Truth]]:
    if arguments.labels is not None:
        if arguments.against is not None:
            raise ConfigurationError("--labels and --against are both a reference; give one")
        known = {one.id for one in run.trajectories}
        return "label", read_labels(arguments.labels, known)
    if arguments.against in (None, STATE):
        return "state check", state_truth(chosen)
    sources = _named(arguments.against, run, chosen, arguments)
    if len(sources) != 1:
        titles = "; ".join(source.title for source in sources)
        raise ConfigurationError(
            f"{arguments.against!r} stands for {len(sources)} judges ({titles})",
            where="--against",
            next="give its parameters, '{name=…,params={…}}', or a judgements file",
        )
    return sources[0].title, judged_truth(sources[0].judgements.values())


def _sources(
    run: RecordedRun, known: Sequence[Recorded], arguments: argparse.Namespace
) -> list[Source]:
    """The judges asked for; without any, the run's own and all that have judged since."""
    if len(arguments.judge) > 1 and arguments.params:
        raise ConfigurationError(
            "parameters of which judge?",
            where=" ".join(arguments.params),
            next="write '{name=…,params={…}}' for each --judge",
        )
    if arguments.judge:
        asked = [s for text in arguments.judge for s in _named(text, run, known, arguments)]
        return _told_apart(asked)
    judged = [_recorded(run), *_grouped(earlier(run, arguments))]
    found = [source for source in judged if source.judgements.keys() & {r.id for r in known}]
    if not found:
        raise ConfigurationError(
            "no trajectory was judged", where=str(run.path), next="name a judge with --judge"
        )
    return _told_apart(found)


def _named(
    text: str, run: RecordedRun, known: Sequence[Recorded], arguments: argparse.Namespace
) -> list[Source]:
    """What `--judge TEXT` stands for: a file, the run's own verdicts, or a judge.

    A bare name stands for all judgements of that judge, whatever its parameters; where there are
    none, and where parameters are given, it is asked now.
    """
    if text.endswith(".jsonl"):
        own = run.path / "judgements" / text
        path = own if not Path(text).exists() and own.exists() else Path(text)
        return _grouped(by_judge(read_judgements(path)))
    if text == RECORDED.name:
        return [_recorded(run)]
    choice = read_judge(text, arguments)
    if not choice.params and not arguments.again:
        judged = _grouped(earlier(run, arguments), name=choice.name)
        if judged:
            return judged
    done = judge_missing(run, known, choice, arguments)
    return [Source(str(done.judge), done.judge.key, done.judgements)]


def _recorded(run: RecordedRun) -> Source:
    judgements = {one.id: one for one in recorded_judgements(run.trajectories)}
    names = {one.verdict.judge for one in judgements.values() if one.verdict}
    shown = ", ".join(sorted(names - {""}))
    return Source(f"{RECORDED} ({shown})" if shown else str(RECORDED), RECORDED.key, judgements)


def _grouped(judged: Mapping[str, Mapping[str, Judgement]], name: str = "") -> list[Source]:
    """A source a judge, of all or of one name."""
    judges = {key: next(iter(found.values())).judge for key, found in judged.items()}
    return [
        Source(str(judge), key, judged[key])
        for key, judge in judges.items()
        if not name or judge.name == name
    ]


def _told_apart(sources: Iterable[Source]) -> list[Source]:
    """One source a key; those called the same, of two versions say, get a mark."""
    single = list({source.key: source for source in sources}.values())
    titles = Counter(source.title for source in single)
    return [
        replace(s, title=f"{s.title} #{_mark(s.key)}") if titles[s.title] > 1 else s for s in single
    ]


def _mark(key: str) -> str:
    return blake2b(key.encode(), digest_size=3).hexdigest()
