"""Judging recorded trajectories again: the run stays as it is, each judgement is kept as it comes.

A judge that raises, hangs or returns garbage costs the trajectories it failed on a typed row; the
rest goes on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from mintact_platform.config import JudgePlugin
from mintact_platform.errors import ConfigurationError, JudgeError, StorageError, first_cause
from mintact_platform.evaluation.audit import ALL, total_cost
from mintact_platform.evaluation.judgements import JudgeIdentity, Judgement
from mintact_platform.evaluation.recorded import Recorded, RecordedRun
from mintact_platform.evaluation.statistics import Interval, wilson
from mintact_platform.judging.cache import JudgementCache
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.named import check_judge, judge_named
from mintact_platform.judging.rate import RateLimit
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.outcome import Failure
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.records.verdict import Verdict
from mintact_platform.registry.names import Registry
from mintact_platform.storage.trajectories import load


class ReadyJudge(NamedTuple):
    """A judge that can be run.

    Attributes:
        identity: who it is; written on every judgement.
        runner: not opened yet.
    """

    identity: JudgeIdentity
    runner: JudgeRunner


def ready_judge(
    choice: JudgePlugin,
    registry: Registry,
    *,
    deadline: float,
    cache: JudgementCache | None = None,
) -> ReadyJudge:
    """A judge with its parameters and limits. Reads its source, so blocks.

    Args:
        choice: as in a run file.
        registry: installed plugins.
        deadline: seconds of one attempt.
        cache: verdicts known already, used where the choice asks for it.

    Raises:
        PluginError: a name nobody registers, with the near match, or a judge that cannot be made.
        ConfigurationError: a wrong parameter, or one that cannot be written down.
    """
    target = judge_named(choice.name, choice.params, registry=registry)
    where = f"judge {choice.name!r}"
    try:
        params = json.loads(json.dumps(choice.params, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"parameters must be JSON values: {error}", where=where) from None
    runner = JudgeRunner(
        target,
        name=choice.name,
        deadline=deadline,
        retries=choice.retries,
        concurrency=choice.concurrency,
        cache=cache if choice.cache else None,
        rate=RateLimit(choice.requests_per_minute),
    )
    check_judge(runner)
    if choice.cache and not runner.cacheable:
        raise ConfigurationError(
            "it does not declare its verdicts cacheable", where=where, next="leave cache out"
        )
    code = [runner.identity["source"], runner.identity["parts"]]
    source = blake2b(json.dumps(code, sort_keys=True, default=repr).encode(), digest_size=6)
    distribution = registry.provider("judges", choice.name)
    version = registry.versions().get(distribution, "")
    identity = JudgeIdentity(choice.name, params, distribution, version, source.hexdigest())
    return ReadyJudge(identity, runner)


async def rejudge(
    run: RecordedRun,
    chosen: Sequence[Recorded],
    judge: ReadyJudge,
    *,
    keep: Callable[[Judgement], None],
    concurrency: int = 8,
    watch: Callable[[Judgement], None] = lambda judgement: None,
    clock: Callable[[], float] = time.time,
) -> list[Judgement]:
    """Judge recorded trajectories; cancelling loses none that was judged.

    Args:
        run: where they were recorded.
        chosen: what to judge, in this order.
        judge: opened here, and closed in the end.
        keep: writes a judgement down; called in a thread.
        concurrency: trajectories in memory, and so judged, at a time.
        watch: told of each judgement that was kept.
        clock: seconds since the epoch.

    Raises:
        JudgeError: the judge cannot be opened; nothing was judged.
        StorageError: a judgement could not be kept.
    """
    done: list[Judgement] = []
    waiting = iter(chosen)

    async def work() -> None:
        for recorded in waiting:
            result = await _result(run, recorded, judge.runner)
            judgement = Judgement.of(recorded, judge.identity, result, clock())
            await _finished(partial(keep, judgement))
            done.append(judgement)
            watch(judgement)

    await _open(judge.runner)
    async with judge.runner:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(chosen))):
                    group.create_task(work())
        except BaseExceptionGroup as failed:
            raise first_cause(failed) from failed
    return done


@dataclass(frozen=True, slots=True)
class Tally:
    """What a judge said of a domain's trajectories.

    Attributes:
        domain: name, or `all`.
        successes: verdicts of success.
        failures: verdicts of failure.
        abstained: times it would not say.
        environment_failures: times it blamed the environment.
        failed: times it gave no verdict.
        seconds: of all verdicts.
        cost: of all verdicts, None when none has one.
    """

    domain: str
    successes: int = 0
    failures: int = 0
    abstained: int = 0
    environment_failures: int = 0
    failed: int = 0
    seconds: float = 0.0
    cost: float | None = None

    @property
    def judged(self) -> int:
        """Trajectories with a verdict, whatever it is."""
        return self.successes + self.failures + self.abstained + self.environment_failures

    @property
    def success(self) -> Interval:
        """Share of successes among successes and failures, Wilson 95 %."""
        return wilson(self.successes, self.successes + self.failures)


def tally(judgements: Iterable[Judgement]) -> list[Tally]:
    """A row a domain, in order of their names, and one over all where there are several."""
    by_domain: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        by_domain.setdefault(judgement.domain, []).append(judgement)
    rows = [_tally(domain, by_domain[domain]) for domain in sorted(by_domain)]
    if len(rows) > 1:
        rows.append(_tally(ALL, [j for found in by_domain.values() for j in found]))
    return rows


class Reason(NamedTuple):
    """Why there is no verdict, how often, and the first trajectory it happened to."""

    message: str
    times: int
    first: str


def reasons(judgements: Iterable[Judgement]) -> list[Reason]:
    """Causes of failed judgements, the most frequent first."""
    failed = sorted((j for j in judgements if j.verdict is None), key=lambda j: j.id)
    counts = Counter(judgement.reason for judgement in failed)
    first: dict[str, str] = {}
    for judgement in failed:
        first.setdefault(judgement.reason, judgement.id)
    return [Reason(message, n, first[message]) for message, n in counts.most_common()]


def _tally(domain: str, judgements: Sequence[Judgement]) -> Tally:
    said = Counter(judgement.said for judgement in judgements)
    verdicts = [j.verdict for j in judgements if j.verdict is not None]
    return Tally(
        domain=domain,
        successes=said["success"],
        failures=said["failure"],
        abstained=said["abstain"],
        environment_failures=said["environment_failure"],
        failed=said["failed"],
        seconds=sum(verdict.seconds for verdict in verdicts),
        cost=total_cost(verdict.cost for verdict in verdicts),
    )


async def _open(runner: JudgeRunner) -> None:
    try:
        await runner.open()
    except JudgeError as error:
        raise JudgeError(error.what, where=error.where, next="nothing was judged") from error


async def _result(run: RecordedRun, recorded: Recorded, runner: JudgeRunner) -> Verdict | Failure:
    try:
        trajectory = await asyncio.to_thread(_load, recorded)
        return await runner.judge(trajectory.task, JudgeView(trajectory, run.images.get))
    except StorageError as error:
        return Failure("judge", "StorageError", error.what)
    except JudgeError as error:
        return Failure("judge", "JudgeError", _cause(error.what, recorded.id))


def _load(recorded: Recorded) -> Trajectory:
    try:
        return load(recorded.path)
    except (KeyError, TypeError, ValueError, ConfigurationError) as error:
        raise StorageError(
            f"not a trajectory of this platform ({error})", where=str(recorded.path)
        ) from None


def _cause(message: str, id: str) -> str:
    """The runner's message without the trajectory's id, so that equal causes are equal."""
    head, separator, cause = message.partition(": ")
    return (cause if separator and id in head else message).replace(id, "it")


async def _finished(function: Callable[[], None]) -> None:
    """Call in a thread, to the end even when cancelled."""
    call = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        await asyncio.shield(call)
    except asyncio.CancelledError:
        await call
        raise
