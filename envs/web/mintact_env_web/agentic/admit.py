"""What a written site must prove before it is used: on paper, in a browser, and against cheats.

A site is admitted when it opens without an error and without a network, starts the same way twice,
and every task's check is false at the start, true after its solver, and false after everything
else that happened: another task's ending, a wrong ending, an agent that sees nothing, the right
answer without the deed, and the right deed with something else changed on the way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mintact_env_web.agentic.checks import Final, holds, same
from mintact_env_web.agentic.environment import Served
from mintact_env_web.agentic.scan import scan
from mintact_env_web.agentic.site import WrittenSite, WrittenTask
from mintact_env_web.agentic.source import SitesSource, known
from mintact_env_web.agentic.steps import played
from mintact_env_web.agentic.tasks import task_of
from mintact_env_web.synth.validate import Ending, Finding, at_random, attempt
from mintact_platform.errors import MintactError
from mintact_platform.records.task import Task

Solver = Callable[[WrittenSite, WrittenTask], Ending]
"""How a task is solved: by its script, or by a model."""

_ELSE = {"changed by": "something else"}
_IDLE_ANSWERS = ("done", "I do not know")
_DEEP = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an examination may take.

    Attributes:
        play_s: seconds for one play of one task.
        random_steps: actions of the agent that sees nothing.
        settle_s: see `WebEnvironment`.
    """

    play_s: float = 90.0
    random_steps: int = 25
    settle_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Examination:
    """What became of a site.

    Attributes:
        site: with the state it starts from; its bad tasks left out when enough are good.
        findings: why it is refused; empty when it is admitted.
        dropped: why tasks of an admitted site were left out.
    """

    site: WrittenSite
    findings: tuple[Finding, ...] = ()
    dropped: tuple[Finding, ...] = ()

    @property
    def admitted(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.findings


@dataclass
class _Case:
    """One task under examination."""

    task: WrittenTask
    found: list[Finding] = field(default_factory=list)
    final: Final | None = None

    def say(self, what: str, reason: str) -> None:
        self.found.append(Finding(what, f"{self.task.name}: {reason}"))

    @property
    def changes(self) -> bool:
        """Whether its solution leaves the state otherwise than it was."""
        return self.final is not None and not same(self.final.before, self.final.after)


def by_script(site: WrittenSite, task: WrittenTask) -> Ending:
    """The task's own script."""
    return played(task.solve)


async def examine(
    site: WrittenSite,
    *,
    solver: Solver = by_script,
    keep: int | None = None,
    seed: int = 0,
    limits: Limits | None = None,
) -> Examination:
    """Put a site to the test, in a browser of this process.

    Args:
        site: which.
        solver: how its tasks are solved.
        keep: admit it without its bad tasks when at least so many are good; None wants all good.
        seed: of the agent that sees nothing.
        limits: see `Limits`.
    """
    if found := scan(site.files):
        return Examination(site, tuple(found))
    bounds = limits or Limits()
    sites = {site.name: site}
    environment = Served(SitesSource(known(sites)), settle_s=bounds.settle_s)
    try:
        site, found = await _begin(environment, site, bounds)
        if found:
            return Examination(site, tuple(found))
        sites[site.name] = site
        cases = [_Case(task) for task in site.tasks]
        for case in cases:
            await _play(environment, site, case, solver, bounds)
        found = await _flail(environment, site, cases, seed, bounds)
    finally:
        await environment.close()
    _compare(cases)
    return _verdict(site, cases, found, keep)


def _verdict(
    site: WrittenSite, cases: list[_Case], found: list[Finding], keep: int | None
) -> Examination:
    bad = tuple(finding for case in cases for finding in case.found)
    good = tuple(case.task for case in cases if not case.found)
    if not found and bad and keep is not None and len(good) >= max(1, keep):
        return Examination(replace(site, tasks=good), dropped=bad)
    return Examination(site, (*found, *bad))


# ---- in a browser ---------------------------------------------------------------------------


async def _begin(
    environment: Served, site: WrittenSite, limits: Limits
) -> tuple[WrittenSite, list[Finding]]:
    """The site with the state it starts from: the same at every visit, and all under one key."""
    starts: list[Mapping[str, Any]] = []
    for _ in range(2):
        try:
            async with asyncio.timeout(limits.play_s):
                await environment.reset(options={"task": _visit(site).to_json()})
                await environment.evaluate()
        except (MintactError, TimeoutError) as error:
            return site, [Finding("load", str(error) or "it does not load in time")]
        final = environment.source.final
        if environment.source.errors:
            return site, [Finding("load", error) for error in environment.source.errors]
        if final is None or not isinstance(final.after, dict):
            what = f"no JSON object lies under {site.key!r} in localStorage after loading"
            return site, [Finding("load", what)]
        if environment.source.others:
            what = f"localStorage also has {', '.join(environment.source.others[:3])}; keep one key"
            return site, [Finding("load", what)]
        starts.append(final.after)
    if not same(*starts):
        changed = [k for k in starts[0] if not same(starts[0][k], starts[1].get(k))]
        return site, [Finding("load", f"two visits start differently: {', '.join(changed[:5])}")]
    return replace(site, start=starts[0]), []


async def _play(
    environment: Served,
    site: WrittenSite,
    case: _Case,
    solver: Solver,
    limits: Limits,
) -> None:
    """Solve a task, and end it wrongly."""
    task = case.task
    for answer in (None, "", *_IDLE_ANSWERS):
        if holds(task.check, Final(site.start, site.start, answer)):
            case.say("start", f"the check holds at the start (answer {answer!r})")
            return
    plays: list[tuple[str, Ending | None, bool]] = [("solve", solver(site, task), True)]
    plays.append(("miss", played(task.miss) if task.miss else None, False))
    for what, ending, wanted in plays:
        if ending is None:
            continue
        given = task_of(site, site.name, task)
        found = await attempt(environment, given, what, ending, wanted, limit=limits.play_s)
        for finding in found:
            case.say(finding.what, finding.reason)
        if found:
            return
        if what == "solve":
            case.final = environment.source.final


async def _flail(
    environment: Served,
    site: WrittenSite,
    cases: list[_Case],
    seed: int,
    limits: Limits,
) -> list[Finding]:
    """Let an agent that sees nothing act; no task may be done after it."""
    ending = at_random(random.Random(seed), limits.random_steps)
    try:
        async with asyncio.timeout(limits.play_s):
            await environment.reset(options={"task": _visit(site).to_json()})
            answer = await ending(environment)
            await environment.evaluate()
    except (MintactError, TimeoutError) as error:
        return [Finding("random", str(error) or "the site does not answer in time")]
    final = environment.source.final
    assert final is not None
    for case in cases:
        if holds(case.task.check, final._replace(answer=answer)):
            case.say("random", "the check holds after random clicks")
    return [Finding("random", error) for error in environment.source.errors]


def _visit(site: WrittenSite) -> Task:
    """No task, just the site."""
    return Task(f"web/sites/{site.name}", "look", "web", params={"site": site.name}, seed=0)


# ---- on paper, with what the plays left -----------------------------------------------------


def _compare(cases: list[_Case]) -> None:
    """Judge every solved task's check on endings that are not its own."""
    solved = [case for case in cases if case.final is not None and not case.found]
    for case in solved:
        for reason in (*_cheats(case), *_mistaken(case, solved)):
            case.say("miss", reason)


def _cheats(case: _Case) -> Iterator[str]:
    check, final = case.task.check, case.final
    assert final is not None
    if case.changes and holds(check, Final(final.before, final.before, final.answer)):
        yield "the check ignores the state: it holds with the answer alone"
    for path in _untouched(final.before, final.after):
        if holds(check, final._replace(after=_spoiled(final.after, path))):
            yield (
                f"the check does not notice that {'.'.join(path)!r} changed too; narrow "
                '{"only_changed": [the parts that the task changes]}'
            )
            break


def _mistaken(case: _Case, others: list[_Case]) -> Iterator[str]:
    for other in others:
        final, own = other.final, case.final
        assert final is not None
        assert own is not None
        if other is case or not holds(case.task.check, final):
            continue
        if case.changes:
            yield f"the check also holds after the solution of {other.task.name!r}"
        elif final.answer is None or _folded(final.answer) != _folded(own.answer or ""):
            yield f"the check also takes the answer of {other.task.name!r}, {final.answer!r}"


def _untouched(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where the parts of a state lie that a solution left alone."""
    if not isinstance(before, dict) or not isinstance(after, dict) or len(path) == _DEEP:
        return
    for key in sorted(before.keys() & after.keys()):
        if same(before[key], after[key]):
            yield (*path, key)
        else:
            yield from _untouched(before[key], after[key], (*path, key))


def _spoiled(state: Any, path: tuple[str, ...]) -> Any:
    """A copy in which the part at a path is something else."""
    if not path:
        return _ELSE
    return {**state, path[0]: _spoiled(state[path[0]], path[1:])}


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
