"""The invariants of the scheduler and its ledger, under any order of events and kills.

Everything is recorded with the real ledger's operations, in a database in memory, and a killed run
is resumed from it as a real one is.
"""

import sqlite3
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mintact_platform.scheduler import resume, seen
from mintact_platform.scheduler.adaptive import AdaptiveMixture
from mintact_platform.scheduler.flow import Admitted, Credit, NoFlowControl, QuotaNormalised
from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.quota import FixedMixture
from mintact_platform.scheduler.state import Scheduler
from mintact_platform.storage import ledger
from mintact_platform.storage.schema import TABLES

DOMAINS = ("web", "tools", "phone")


class InMemory:
    """What `Database` offers, without a file and a thread."""

    def __init__(self):
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        self.connection.row_factory = sqlite3.Row
        self.connection.executescript(TABLES)

    def write(self, *operations):
        self.connection.execute("BEGIN")
        for operation in operations:
            operation(self.connection)
        self.connection.execute("COMMIT")

    def read(self, sql, params=()):
        return self.connection.execute(sql, params).fetchall()

    def snapshot(self):
        return nullcontext()


def rollout(group, reward):
    """One judged rollout of a group, as far as resuming looks at it."""
    values = (f"r{group}", group, 0, 0, "completed", reward, 1, 1, 0, 0, "")
    return lambda connection: connection.execute(
        "INSERT INTO trajectories (id, group_id, member, attempt, outcome, reward, turns, tokens,"
        " first_version, last_version, path) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )


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
        mixture=st.sampled_from([FixedMixture, AdaptiveMixture]),
    )
    def begin(self, quotas, flow, eviction, capacity, eta, every, on_stale, mixture):
        self.quotas = dict(zip(DOMAINS, quotas, strict=True))
        self.build = lambda: Scheduler(
            self.quotas,
            mixture=mixture(self.quotas),
            flow=flow(self.quotas),
            eviction=eviction,
            capacity_batches=capacity,
            max_staleness=eta,
            sync_every=every,
            on_stale=on_stale,
            fallback_after=100.0,
            mode=self.mode,
        )
        self.scheduler, self.database = self.build(), InMemory()
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
            self.database.write(ledger.open_group(id, "task", domain, self.now))
            self.open[id] = (domain, self.scheduler.version)
            self.fate[id] = (domain, "open")

    @precondition(lambda self: self.open)
    @rule(
        data=st.data(),
        fate=st.sampled_from(["queued", "queued", "filtered", "dropped"]),
        reward=st.sampled_from([0.0, 0.25, 1.0]),
    )
    def a_group_ends(self, data, fate, reward):
        id = data.draw(st.sampled_from(sorted(self.open)))
        domain, version = self.open.pop(id)
        group = QueuedGroup(id, domain, version, (), self.now) if fate == "queued" else None
        self.fate[id] = (domain, fate)
        close = ledger.close_group(id, fate, "", version, self.now)
        judged = reward if fate != "dropped" else None
        self.database.write(*[rollout(id, reward)][: judged is not None], close)
        for evicted in self.scheduler.group_finished(id, group, self.now, judged).evicted:
            self.move(evicted, "queued", "evicted")

    def move(self, id, before, after):
        domain, fate = self.fate[id]
        assert fate == before
        self.fate[id] = (domain, after)
        if after in ("evicted", "stale"):
            self.database.write(ledger.set_fate([id], after))

    @precondition(lambda self: self.scheduler.step == self.scheduler.steps_done)
    @rule()
    def the_trainer_asks(self):
        quotas = dict(self.scheduler.quotas)
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
            self.check_mix(batch, quotas)
            ids = [group.id for group in batch.groups]
            self.database.write(
                ledger.begin_step(batch.step, ids, self.scheduler.version, mix, 0, "x"),
                *seen.record(batch, self.now),
            )

    def check_mix(self, batch, quotas):
        assert len(batch.groups) == sum(self.quotas.values())
        if not batch.relaxed:
            assert batch.realised == quotas

    @precondition(lambda self: self.scheduler.step > self.scheduler.steps_done)
    @rule()
    def the_trainer_finishes(self):
        step = self.scheduler.step
        self.scheduler.step_done(step)
        self.train(step)

    def train(self, step):
        self.database.write(ledger.finish_step(step, {}, self.now))
        for id, (domain, fate) in self.fate.items():
            if fate == "batched":
                self.fate[id] = (domain, "trained")

    @precondition(lambda self: self.scheduler.push_due)
    @rule()
    def weights_are_pushed(self):
        version, step = self.scheduler.version + 1, self.scheduler.steps_done
        self.database.write(ledger.push(version, step, 1.0, True))
        self.scheduler.pushed(version)

    @rule()
    def everything_is_killed_and_resumed(self):
        before, database = self.scheduler, self.database
        directory = SimpleNamespace(database=database)
        if before.step > before.steps_done:
            self.train(before.step)  # a step that was recorded is taken before anything else
        step = before.step
        last_push = max((r["step"] for r in database.read("SELECT step FROM pushes")), default=0)
        statistics = seen.recorded(database)
        self.scheduler = self.build()
        self.scheduler.restore(
            resume.queued_groups(directory, self.now),
            resume.accepted_counts(directory),
            step,
            resume.pushed_version(directory),
            step - last_push,
            ledger=ledger.ledger(database),
            statistics=statistics,
            since_batch=seen.since_batch(database, statistics),
        )
        for id, (domain, _) in self.open.items():
            self.scheduler.group_started(id, domain)
        assert self.scheduler.quotas == before.quotas
        assert self.scheduler.version == before.version
        assert self.scheduler.steps_since_push == before.steps_since_push
        old, new = before.status(self.now), self.scheduler.status(self.now)
        for domain in DOMAINS:
            for what in ("in_flight", "accepted", "batched", "filtered", "evicted"):
                assert new[domain][what] == old[domain][what], what
            # what was found stale and not yet reported waits in the queue again
            assert _left(new[domain]) == _left(old[domain])
        for domain, counts in before._counts.items():
            assert self.scheduler._counts[domain].statistics() == counts.statistics()

    @invariant()
    def the_ledger_says_the_same(self):
        if not hasattr(self, "scheduler"):
            return
        assert ledger.check(self.database) == []
        for domain, row in ledger.ledger(self.database).items():
            assert row.balanced
            for fate in ledger.FATES:
                assert getattr(row, fate) == self.count(domain, fate), fate

    @invariant()
    def every_group_is_accounted_for(self):
        if not hasattr(self, "scheduler"):
            return
        queued = {group.id for group in self.scheduler.queue}
        waiting = {id for id, (_, fate) in self.fate.items() if fate == "queued"}
        assert queued <= waiting
        for domain, status in self.scheduler.status(self.now).items():
            assert status["in_flight"] == self.count(domain, "open")
            gone = self.count(domain, "filtered") + self.count(domain, "dropped")
            assert status["filtered"] == gone
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


def _left(status):
    return status["queued"] + status["stale"]


class AnyOrderSynchronous(AnyOrder):
    mode = "synchronous"

    def check_mix(self, batch, quotas):
        assert batch.relaxed == (batch.realised != quotas)
        assert all(g.oldest_version == self.scheduler.version for g in batch.groups)


AnyOrder.TestCase.settings = AnyOrderSynchronous.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestAnyOrder = AnyOrder.TestCase
TestAnyOrderSynchronous = AnyOrderSynchronous.TestCase
