"""The scheduler's state: which domain may begin a group, and when a batch is formed.

A pure state machine. Times are passed in, nothing waits and nothing is written; the run's loop
carries out what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from mintact_platform.errors import ConfigurationError
from mintact_platform.scheduler import admission
from mintact_platform.scheduler.decisions import Batch as Batch
from mintact_platform.scheduler.decisions import Changes as Changes
from mintact_platform.scheduler.decisions import DomainStatus as DomainStatus
from mintact_platform.scheduler.flow import FlowControl, FlowState, QuotaNormalised
from mintact_platform.scheduler.queue import Eviction, GroupQueue, QueuedGroup
from mintact_platform.scheduler.quota import (
    DomainStatistics,
    FixedMixture,
    Mixture,
    ObservingMixture,
)
from mintact_platform.scheduler.synchronous import Round
from mintact_platform.storage.ledger import LedgerRow

Mode = Literal["async", "synchronous"]
Fill = Literal["quotas", "fifo"]


@dataclass(slots=True)
class _Counts:
    filtered: int = 0
    stale: int = 0
    evicted: int = 0
    judged_since_batch: int = 0
    accepted_since_batch: int = 0
    reward_since_batch: float = 0.0

    def statistics(self) -> DomainStatistics:
        judged, informative = self.judged_since_batch, self.accepted_since_batch
        return DomainStatistics(judged, informative, self.reward_since_batch)

    def begin_batch(self, seen: DomainStatistics) -> None:
        self.judged_since_batch, self.accepted_since_batch = seen.judged, seen.informative
        self.reward_since_batch = seen.reward


class Scheduler:
    """Queue, quotas, flow control, staleness and fallback of one run.

    Args:
        domains: quota q_d by domain, in groups; their order breaks ties.
        mixture: quotas by step; the same for all by default.
        flow: pause decision; `QuotaNormalised` by default.
        capacity_batches: batches the queue holds.
        eviction: who goes when it is full.
        fallback_after: seconds the trainer waits before the quotas are relaxed.
        max_staleness: η, in weight versions.
        on_stale: whether groups older than η are evicted when a batch is formed, or trained.
        sync_every: K, trainer steps between pushes.
        mode: `synchronous` begins only what the next batch needs and only with current weights.
        fill: `fifo` takes groups in order of acceptance whatever their domain; for comparison.
        releases: whether the fallback lets paused producers go on; off only to show that a run
            can stand still without.

    Attributes:
        quotas: q_d of the next batch.
        queue: groups waiting.
        step: last step a batch was formed for.
        steps_done: last step the trainer finished.
        version: weights that are served.
    """

    def __init__(
        self,
        domains: Mapping[str, int],
        *,
        mixture: Mixture | None = None,
        flow: FlowControl | None = None,
        capacity_batches: int = 2,
        eviction: Eviction = "surplus",
        fallback_after: float = 120.0,
        max_staleness: int = 2,
        on_stale: admission.OnStale = "evict",
        sync_every: int = 4,
        mode: Mode = "async",
        fill: Fill = "quotas",
        releases: bool = True,
    ) -> None:
        self.domains = tuple(domains)
        self.mixture = FixedMixture(domains) if mixture is None else mixture
        self.flow = QuotaNormalised(domains) if flow is None else flow
        self.capacity_batches, self.fallback_after = capacity_batches, fallback_after
        self.max_staleness, self.on_stale = max_staleness, on_stale
        self.sync_every, self.mode = sync_every, mode
        self.fill, self.releases = fill, releases
        self.queue = GroupQueue(capacity_batches * sum(domains.values()), eviction)
        self.step = self.steps_done = self.version = 0
        self._pushed_step = 0
        self._counts = {domain: _Counts() for domain in domains}
        self._accepted, self._batched, self._in_flight = (
            dict.fromkeys(self.domains, 0) for _ in range(3)
        )
        self._open: dict[str, str] = {}
        self._stale: list[str] = []
        self._waiting_since: float | None = None
        self._exhausted: Set[str] = frozenset()
        self._starved: set[str] = set()
        self.quotas = self._next_quotas()
        self._round = Round(self.quotas)

    # ---- producers ----

    def next_domain(
        self,
        now: float,
        exhausted: Set[str] = frozenset(),
        busy: Set[str] = frozenset(),
    ) -> str | None:
        """The domain that should begin a group now, None when none may.

        Among those that may, the one with the least under way for its quota.

        Args:
            now: seconds.
            exhausted: domains without tasks left or quarantined; nobody waits for them.
            busy: domains that cannot begin one right now but are alive.
        """
        self._exhausted = exhausted
        if self._between_rounds():
            self._round.settle(self._queued(), exhausted)
        free = [d for d in self.domains if d not in exhausted and d not in busy]
        startable = self._startable(free, now) if free else []
        if len(startable) < 2:
            return next(iter(startable), None)
        return min(startable, key=lambda domain: self._load(domain, now), default=None)

    def group_started(self, id: str, domain: str) -> None:
        """A group began."""
        if id in self._open:
            raise ValueError(f"group {id!r} began twice")
        self._open[id] = domain
        self._in_flight[domain] += 1
        self._round.started[domain] += 1

    def group_finished(
        self, id: str, group: QueuedGroup | None, now: float, reward: float | None = None
    ) -> Changes:
        """A group ended; its capacity is given back at once.

        Args:
            id: of a group that began.
            group: what enters the queue; None when filtered, dropped or cancelled.
            now: seconds.
            reward: mean over its live rollouts; None when it was dropped or cancelled.
        """
        domain = self._open.pop(id)
        counts = self._counts[domain]
        self._in_flight[domain] -= 1
        if group is not None or reward is not None:
            counts.judged_since_batch += 1
            counts.reward_since_batch += reward or 0.0
        if group is None:
            counts.filtered += 1
            return Changes()
        self._accepted[domain] += 1
        counts.accepted_since_batch += 1
        self._starved.discard(group.domain)
        evicted = self.queue.put(group, self.quotas)
        for lost in evicted:
            self._counts[lost.domain].evicted += 1
        return Changes(evicted=tuple(lost.id for lost in evicted))

    # ---- trainer ----

    def form_batch(self, now: float) -> Batch | None:
        """The next batch, None while there is none; ask when the trainer is free.

        It holds exactly q_d groups of each domain. Once the trainer has waited `fallback_after`
        seconds, any B groups will do. Groups found stale are reported even without a batch.
        """
        self._collect_stale()
        batch = self._form_round() if self.mode == "synchronous" else self._form(now)
        if batch is None and self._stale:
            return Batch(self.step, (), {}, False, self._take_stale())
        return batch

    def step_done(self, step: int) -> None:
        """The trainer finished a step."""
        if step != self.steps_done + 1 or step > self.step:
            raise ValueError(f"step {step} ended, after {self.steps_done} of {self.step} begun")
        self.steps_done = step

    def pushed(self, version: int) -> None:
        """All model servers serve the weights of the last finished step, as `version`."""
        self.version, self._pushed_step = version, self.steps_done
        self._collect_stale()

    @property
    def steps_since_push(self) -> int:
        """s, batches formed since the weights that are served."""
        return self.step - self._pushed_step

    @property
    def push_due(self) -> bool:
        """Whether K steps are done since the weights that are served."""
        return self.steps_done - self._pushed_step >= self.sync_every

    @property
    def relaxes_at(self) -> float | None:
        """When the quotas will be relaxed, if no full batch comes; None while nobody waits."""
        return None if self._waiting_since is None else self._waiting_since + self.fallback_after

    # ---- the whole ----

    def status(self, now: float) -> dict[str, DomainStatus]:
        """Counts by domain."""
        startable = self._startable(self.domains, now)
        return {
            domain: DomainStatus(
                in_flight=self._in_flight[domain],
                queued=self.queue.count(domain),
                accepted=self._accepted[domain],
                batched=self._batched[domain],
                filtered=counts.filtered,
                stale=counts.stale,
                evicted=counts.evicted,
                paused=domain not in startable,
            )
            for domain, counts in self._counts.items()
        }

    def restore(
        self,
        queued: Iterable[QueuedGroup],
        accepted: Mapping[str, int],
        step: int,
        version: int,
        steps_since_push: int,
        *,
        ledger: Mapping[str, LedgerRow] | None = None,
        statistics: Sequence[Mapping[str, DomainStatistics]] = (),
        since_batch: Mapping[str, DomainStatistics] | None = None,
    ) -> None:
        """Continue a run: call on a fresh scheduler, then `group_started` for groups still open.

        Args:
            queued: groups in the queue, in order of acceptance; none is evicted here.
            accepted: groups ever accepted by domain, the queued ones included.
            step: last step recorded and trained.
            version: weights that are served.
            steps_since_push: trainer steps since they were pushed.
            ledger: for the other counts of `status`, which else begin anew.
            statistics: what each batch was formed with, in order, for a mixture that observes.
            since_batch: what was judged after the last of them.
        """
        if isinstance(self.mixture, ObservingMixture):
            for number, seen in enumerate(statistics, 1):
                self.mixture.observe(number, seen)
        self.step = self.steps_done = step
        self.version, self._pushed_step = version, step - steps_since_push
        self.quotas = self._next_quotas()
        for group in queued:
            self.queue.append(group)
        for domain, counts in self._counts.items():
            self._accepted[domain] = accepted.get(domain, 0)
            self._batched[domain] = max(0, self._accepted[domain] - self.queue.count(domain))
            if ledger is not None and (row := ledger.get(domain)) is not None:
                self._batched[domain] = row.trained + row.batched
                counts.filtered = row.filtered + row.dropped + row.cancelled
                counts.stale, counts.evicted = row.stale, row.evicted
            if since_batch is not None:
                counts.begin_batch(since_batch.get(domain, DomainStatistics()))
        self._round.restart(self.quotas, self._queued())

    # ---- how it decides ----

    def _next_quotas(self) -> dict[str, int]:
        """q_d of the next batch."""
        quotas = self.mixture.quotas(self.step + 1)
        if set(quotas) - set(self.domains) or sum(quotas.values()) <= 0:
            raise ConfigurationError(
                f"quotas {dict(quotas)!r} for step {self.step + 1} do not fit the domains",
                where="schedule.mixture",
            )
        return {domain: quotas.get(domain, 0) for domain in self.domains}

    def _queued(self) -> dict[str, int]:
        return {domain: self.queue.count(domain) for domain in self.domains}

    def _relaxed(self, now: float) -> bool:
        at = self.relaxes_at
        return at is not None and now >= at

    def _startable(self, among: Iterable[str], now: float) -> list[str]:
        if self.mode == "synchronous":
            return self._startable_in_round(among)
        relaxed = self.releases and self._relaxed(now)
        absent = self._starved | self._exhausted
        targets = self._targets(relaxed, absent)
        admitted = [d for d in among if targets[d] > 0 and self._admits(d, targets[d])]
        if relaxed or not admitted:
            return admitted
        state = self._flow_state(targets, absent)
        return [domain for domain in admitted if self.flow.may_start(domain, state)]

    def _admits(self, domain: str, quota: float) -> bool:
        return admission.may_start(
            in_flight=self._in_flight[domain],
            queued=self.queue.count(domain),
            quota=quota,
            max_staleness=self.max_staleness,
            sync_every=self.sync_every,
            steps_since_push=self.steps_since_push,
        )

    def _targets(self, relaxed: bool, absent: Set[str]) -> Mapping[str, float]:
        """What producers work towards: all of B when relaxed, else the quotas.

        Domains that give nothing are stood in for: the others' quotas grow to fill B.
        """
        quotas = self.quotas
        if relaxed:
            total = sum(quotas.values())
            return {domain: float(total if quota else 0) for domain, quota in quotas.items()}
        giving = sum(q for d, q in quotas.items() if d not in absent) if absent else 0
        if not giving:
            return quotas
        scale = sum(quotas.values()) / giving
        return {d: q if d in absent else q * scale for d, q in quotas.items()}

    def _flow_state(self, targets: Mapping[str, float], absent: Set[str]) -> FlowState:
        return FlowState(
            quotas=targets,
            accepted=self._accepted,
            batched=self._batched,
            queued=self._queued(),
            in_flight=self._in_flight,
            live={d for d in self.domains if targets[d] > 0 and d not in absent},
            capacity_batches=self.capacity_batches,
        )

    def _load(self, domain: str, now: float) -> float:
        """Groups under way over the quota.

        While a domain gives nothing, only those in flight count: else it would draw all producers.
        """
        under_way = self._in_flight[domain]
        if not (self._starved or self._relaxed(now)):
            under_way += self.queue.count(domain)
        return under_way / max(1, self.quotas[domain])

    def _form(self, now: float) -> Batch | None:
        quotas = self.quotas
        total = sum(quotas.values())
        if self.fill == "fifo":
            return self._form_fifo(total, now)
        if all(self.queue.count(domain) >= quota for domain, quota in quotas.items()):
            self._starved.clear()
            return self._batch(self.queue.take(quotas, total), relaxed=False)
        if self._waiting_since is None:
            self._waiting_since = now
        if not self._relaxed(now) or len(self.queue) < total:
            return None
        groups = self.queue.take(quotas, total)
        groups += self.queue.take(dict.fromkeys(self.domains, total), total - len(groups))
        groups.sort(key=lambda group: group.accepted_at)
        self._starved = {
            domain
            for domain, quota in quotas.items()
            if self.releases and quota and not self._counts[domain].accepted_since_batch
        }
        return self._batch(groups, relaxed=True)

    def _form_fifo(self, total: int, now: float) -> Batch | None:
        if len(self.queue) < total:
            if self._waiting_since is None:
                self._waiting_since = now
            return None
        groups = self.queue.take(dict.fromkeys(self.domains, total), total)
        return self._batch(groups, relaxed=False)

    def _collect_stale(self) -> None:
        if self.on_stale == "train":
            return
        removed = self.queue.remove(
            lambda group: admission.is_stale(
                oldest_version=group.oldest_version,
                version=self.version,
                max_staleness=self.max_staleness,
            )
        )
        for group in removed:
            self._counts[group.domain].stale += 1
            self._stale.append(group.id)

    def _take_stale(self) -> tuple[str, ...]:
        stale, self._stale = tuple(self._stale), []
        return stale

    def _batch(self, groups: list[QueuedGroup], *, relaxed: bool) -> Batch:
        self.step += 1
        statistics = {domain: counts.statistics() for domain, counts in self._counts.items()}
        if isinstance(self.mixture, ObservingMixture):
            self.mixture.observe(self.step, statistics)
        self.quotas = self._next_quotas()
        self._waiting_since = None
        realised = dict.fromkeys(self.domains, 0)
        for group in groups:
            realised[group.domain] += 1
            self._batched[group.domain] += 1
        for counts in self._counts.values():
            counts.begin_batch(DomainStatistics())
        stale = self._take_stale()
        return Batch(self.step, tuple(groups), realised, relaxed, stale, statistics)

    # ---- synchronous mode ----

    def _between_rounds(self) -> bool:
        """Whether nothing is under way: no group, no step, no push."""
        idle = not self._open and self.step == self.steps_done and not self.push_due
        return self.mode == "synchronous" and idle

    def _startable_in_round(self, among: Iterable[str]) -> list[str]:
        if self.step > self.steps_done or self.push_due:
            return []
        return [
            domain
            for domain in among
            if self._round.needs(domain, self._in_flight[domain], self.queue.count(domain))
        ]

    def _form_round(self) -> Batch | None:
        if not self._between_rounds():
            return None
        targets = self._round.settle(self._queued(), self._exhausted)
        if targets is None:
            return None
        order = {domain: index for index, domain in enumerate(self.domains)}
        groups = self.queue.take(targets, sum(targets.values()))
        groups.sort(key=lambda group: (order[group.domain], group.id))
        relaxed = targets != self.quotas
        batch = self._batch(groups, relaxed=relaxed)
        self._round.restart(self.quotas, self._queued())
        return batch
