"""What replays offline, and what does not and why: only the former is worth training on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mintact_env_web.cache.environment import Cache
from mintact_env_web.cache.store import load_meta
from mintact_env_web.cache.tasks import VALIDATED, Solvable, tasks_of
from mintact_env_web.cache.visits import SETTLE_S, drive
from mintact_platform.errors import EnvironmentFailure, MintactError
from mintact_platform.records.task import Task


@dataclass(frozen=True)
class Result:
    """How a task, or a site without tasks, replayed.

    Attributes:
        site: name of its directory.
        task: id, "" for a site without tasks.
        reason: why it is not kept, "" when it is.
        recorded: requests that an equal one answered.
        nearest: requests that a similar one answered.
        stubs: requests of analytics.
        misses: requests that nothing answered.
    """

    site: str
    task: str
    reason: str
    recorded: int = 0
    nearest: int = 0
    stubs: int = 0
    misses: int = 0


async def validate(site: Path) -> list[Result]:
    """Replay every task of a site with its script, and write down which can be kept.

    A task is kept when the start page loads offline, no document is missing, its check does not
    hold at the start and holds in the end. A site without tasks is kept when it loads.

    Args:
        site: its directory.
    """
    try:
        tasks = await asyncio.to_thread(tasks_of, site)
        meta = await asyncio.to_thread(load_meta, site)
        environment = Cache(
            sites=str(site.parent), width=meta.width, height=meta.height, settle_s=SETTLE_S
        )
    except MintactError as error:
        return [Result(site.name, "", str(error))]
    try:
        if not tasks:
            results = [await _visit(environment, site.name)]
        else:
            results = [await _solve(environment, site.name, one) for one in tasks]
    finally:
        await environment.close()
    await asyncio.to_thread(_write, site, results)
    return results


def table(results: Sequence[Result]) -> str:
    """The results for people."""
    rows = [["kept", "site", "task", "recorded", "nearest", "stubs", "misses", "reason"]]
    for one in results:
        counts = (one.recorded, one.nearest, one.stubs, one.misses)
        task = one.task.rpartition("/")[2] or "-"
        verdict = "no" if one.reason else "yes"
        rows.append([verdict, one.site, task, *map(str, counts), one.reason])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        words = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        words[3:7] = [cell.rjust(width) for cell, width in zip(row[3:7], widths[3:7], strict=True)]
        lines.append("  ".join(words).rstrip())
    kept = sum(not one.reason for one in results)
    return "\n".join([*lines, f"{kept} of {len(results)} kept"])


async def _visit(environment: Cache, site: str) -> Result:
    """Load a site that has no tasks."""
    task = Task("validate", "", "web", params={"site": site}, seed=0)
    reason = ""
    try:
        await environment.reset(seed=0, options={"task": task.to_json()})
    except EnvironmentFailure as failure:
        reason = failure.what
    return _result(environment, site, "", reason)


async def _solve(environment: Cache, site: str, one: Solvable) -> Result:
    try:
        reason = await _reason(environment, one)
    except EnvironmentFailure as failure:
        reason = failure.what
    return _result(environment, site, one.task.id, reason)


async def _reason(environment: Cache, one: Solvable) -> str:
    """Why the task cannot be kept, "" when it can."""
    checked = "check" in one.task.params
    if checked:
        await drive(environment, one.task, (), ends=False)
        check = await environment.evaluate()
        if check is not None and check.success:
            return "the check holds before anything was done"
        if not one.script:
            return "no script solves it"
    await drive(environment, one.task, one.script, ends=False)
    if checked:
        check = await environment.evaluate()
        if check is None or not check.success:
            told = {} if check is None else check.details.get("holds", {})
            failed = ", ".join(name for name, holds in told.items() if not holds)
            return f"the check does not hold after the script: {failed}"
    return ""


def _result(environment: Cache, site: str, task: str, reason: str) -> Result:
    counts = environment.source.counts
    return Result(site, task, reason, counts.recorded, counts.nearest, counts.stubs, counts.misses)


def _write(site: Path, results: Sequence[Result]) -> None:
    told = {one.task or "": one.reason for one in results}
    text = json.dumps({"tasks": told}, indent=2, ensure_ascii=False)
    (site / VALIDATED).write_text(text + "\n")
