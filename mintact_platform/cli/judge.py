"""`mintact judge`: judge recorded trajectories again, and find out how far a judge is right."""

from __future__ import annotations

import argparse
from pathlib import Path

from mintact_platform.errors import ConfigurationError

EXAMPLES = """\
  mintact judge run quickstart --judge state
  mintact judge run quickstart --judge acme/strict threshold=0.5 --domain web --limit 50
  mintact judge run quickstart --judge acme/strict --outcomes judge_failure
  mintact judge audit quickstart                       every judgement there is, by state checks
  mintact judge audit quickstart --judge recorded --judge acme/strict
  mintact judge labels quickstart --limit 50 > labels.csv
  mintact judge audit quickstart --judge acme/strict --labels labels.csv

run     judges recorded trajectories, also those that a failing judge masked. The run stays as it
        is; verdicts go to RUN/judgements/. What this judge has judged before is skipped.
audit   compares judges with state checks, with labels of people, or with another judge.
labels  writes a table of trajectories for people to fill in.
"""
_ONLY = {
    "again": ("run", "audit"),
    "to": ("run", "audit"),
    "concurrency": ("run", "audit"),
    "deadline": ("run", "audit"),
    "judge": ("run", "audit"),
    "params": ("run", "audit"),
    "labels": ("audit",),
    "against": ("audit",),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    add = parser.add_argument
    add("action", choices=("run", "audit", "labels"), help="what to do, see below")
    add("run", metavar="RUN", help="a run's name or directory")
    add("params", nargs="*", metavar="key=value", help="parameters of the judge, as TOML")
    add(
        "--judge",
        action="append",
        default=[],
        metavar="NAME",
        help="a judge's name or '{name=…,params={…}}'; audit takes several, also a judgements "
        "FILE or 'recorded'",
    )
    add("--domain", action="append", default=[], metavar="D", help="only this domain, repeatable")
    add("--limit", type=int, metavar="N", help="at most N trajectories, a sample of each domain")
    add(
        "--outcomes",
        metavar="A,B",
        help="only trajectories that ended so (default: what counts or only its judge masked)",
    )
    add("--again", action="store_true", help="judge also what this judge has judged before")
    add("--to", type=Path, metavar="FILE", help="write judgements here, and look for them here too")
    add("--concurrency", type=int, metavar="N", help="judgements at a time (8)")
    add("--deadline", type=float, metavar="S", help="seconds of a judgement (as the run's)")
    add("--labels", type=Path, metavar="CSV", help="audit: labels of people: trajectory,label")
    add("--against", metavar="REF", help="audit: 'state' (default), or anything --judge takes")


def run(arguments: argparse.Namespace) -> int:
    """Judge, audit or list."""
    for flag, actions in _ONLY.items():
        if getattr(arguments, flag) and arguments.action not in actions:
            shown = "key=value" if flag == "params" else f"--{flag}"
            raise ConfigurationError(
                f"{shown} belongs to {' and '.join(actions)}", where=f"judge {arguments.action}"
            )
    for flag in ("limit", "concurrency", "deadline"):
        value = getattr(arguments, flag)
        if value is not None and not value > 0:
            raise ConfigurationError(f"must be above 0, got {value}", where=f"--{flag}")
    if arguments.action == "run":
        from mintact_platform.cli.judge_run import judge_again

        return judge_again(arguments)
    from mintact_platform.cli.judge_audit import audit_judges, list_for_labels

    return audit_judges(arguments) if arguments.action == "audit" else list_for_labels(arguments)
