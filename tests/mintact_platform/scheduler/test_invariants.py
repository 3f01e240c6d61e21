"""The invariants of the scheduler, under any order of events."""

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mintact_platform.scheduler.flow import Admitted, Credit, NoFlowControl, QuotaNormalised
from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.state import Scheduler

DOMAINS = ("web", "tools", "phone")


class AnyOrder(RuleBasedStateMachine):
    mode = "async"

    @initialize(
        quotas=st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2)),
        flow=st.sampled_from([QuotaNormalised, Credit, NoFlowControl, Admitted]),
        eviction=st.sampled_from(["surplus", "oldest"]),
        capacity=st.integers(1, 3),
        eta=st.integers(0, 2),
        every=st.integers(1, 3),
        on_stale=st.sampled_from(["evict", "train"]),
    )
    def begin(self, quotas, flow, eviction, capacity, eta, every, on_stale):
        self.quotas = dict(zip(DOMAINS, quotas, strict=True))
        self.scheduler = Scheduler(
            self.quotas,
            flow=flow(self.quotas),
            eviction=eviction,
            capacity_batches=capacity,
            max_staleness=eta,
            sync_every=every,
            on_stale=on_stale,
            fallback_after=100.0,
            mode=self.mode,
        )
        self.now, self.number = 0.0, 0
        self.open: dict[str, tuple[str, int]] = {}
        self.fate: dict[str, tuple[str, str]] = {}
        self.exhausted: frozenset[str] = frozenset()

    def count(self, domain, fate):
        return sum(value == (domain, fate) for value in self.fate.values())

    @rule(seconds=st.floats(0, 150))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(gone=st.sets(st.sampled_from(DOMAINS), max_size=1))
    def domains_come_and_go(self, gone):
        self.exhausted = frozenset(gone)

    @rule(most=st.integers(1, 8))
    def producers_poll(self, most):
        for _ in range(most):
            domain = self.scheduler.next_domain(self.now, self.exhausted)
            if domain is None:
                return
            assert domain not in self.exhausted
            self.number += 1
            id = f"{self.number:06d}"
            self.scheduler.group_started(id, domain)
            self.open[id] = (domain, self.scheduler.version)
            self.fate[id] = (domain, "open")

    @precondition(lambda self: self.open)
    @rule(data=st.data(), informative=st.booleans())
    def a_group_ends(self, data, informative):
        id = data.draw(st.sampled_from(sorted(self.open)))
        domain, version = self.open.pop(id)
        group = QueuedGroup(id, domain, version, (), self.now) if informative else None
        self.fate[id] = (domain, "queued" if informative else "filtered")
        for evicted in self.scheduler.group_finished(id, group, self.now).evicted:
            self.move(evicted, "queued", "evicted")

    def move(self, id, before, after):
        domain, fate = self.fate[id]
        assert fate == before
        self.fate[id] = (domain, after)

    @precondition(lambda self: self.scheduler.step == self.scheduler.steps_done)
    @rule()
    def the_trainer_asks(self):
        batch = self.scheduler.form_batch(self.now)
        if batch is None:
            return
        for id in batch.stale:
            self.move(id, "queued", "stale")
        for group in batch.groups:
            self.move(group.id, "queued", "batched")
            if self.scheduler.on_stale == "evict":
                age = self.scheduler.version - group.oldest_version
                assert age <= self.scheduler.max_staleness
        if batch.groups:
            mix = Counter(group.domain for group in batch.groups)
            assert {d: n for d, n in batch.realised.items() if n} == mix
            self.check_mix(batch)

    def check_mix(self, batch):
        assert len(batch.groups) == sum(self.quotas.values())
        if not batch.relaxed:
            assert batch.realised == self.quotas

    @precondition(lambda self: self.scheduler.step > self.scheduler.steps_done)
    @rule()
    def the_trainer_finishes(self):
        step = self.scheduler.step
        self.scheduler.step_done(step)
        for id, (domain, fate) in self.fate.items():
            if fate == "batched":
                self.fate[id] = (domain, "trained")

    @precondition(lambda self: self.scheduler.push_due)
    @rule()
    def weights_are_pushed(self):
        self.scheduler.pushed(self.scheduler.version + 1)

    @invariant()
    def every_group_is_accounted_for(self):
        if not hasattr(self, "scheduler"):
            return
        queued = {group.id for group in self.scheduler.queue}
        waiting = {id for id, (_, fate) in self.fate.items() if fate == "queued"}
        assert queued <= waiting
        for domain, status in self.scheduler.status(self.now).items():
            assert status["in_flight"] == self.count(domain, "open")
            assert status["filtered"] == self.count(domain, "filtered")
            assert status["evicted"] == self.count(domain, "evicted")
            trained = self.count(domain, "batched") + self.count(domain, "trained")
            assert status["batched"] == trained
            lost = status["stale"] + status["evicted"]
            assert status["accepted"] == status["queued"] + trained + lost

    @invariant()
    def the_queue_never_holds_more_than_its_capacity(self):
        if hasattr(self, "scheduler"):
            assert len(self.scheduler.queue) <= self.scheduler.queue.capacity

    @invariant()
    def trainer_and_producers_never_wait_for_each_other(self):
        if not hasattr(self, "scheduler") or self.open or self.scheduler.push_due:
            return
        if self.scheduler.step > self.scheduler.steps_done:
            return
        alive = any(q for d, q in self.quotas.items() if d not in self.exhausted)
        self.the_trainer_asks()
        if alive and self.scheduler.step == self.scheduler.steps_done:
            soon = self.now + self.scheduler.fallback_after
            if self.scheduler.next_domain(soon, self.exhausted) is None:
                self.now = soon
                self.the_trainer_asks()
                assert self.scheduler.step > self.scheduler.steps_done


class AnyOrderSynchronous(AnyOrder):
    mode = "synchronous"

    def check_mix(self, batch):
        assert batch.relaxed == (batch.realised != self.quotas)
        assert all(g.oldest_version == self.scheduler.version for g in batch.groups)


AnyOrder.TestCase.settings = AnyOrderSynchronous.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestAnyOrder = AnyOrder.TestCase
TestAnyOrderSynchronous = AnyOrderSynchronous.TestCase
