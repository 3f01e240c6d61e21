"""Every interleaving of a small run: from wherever it is, the trainer can get its next batch."""

from __future__ import annotations

import copy
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest

from mintact_platform.scheduler.flow import Credit, QuotaNormalised
from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.state import Scheduler

MOST = 60_000


@dataclass
class Moment:
    """A scheduler and the groups in flight around it."""

    scheduler: Scheduler
    producers: dict[str, int]
    gives: frozenset[str]
    now: float = 0.0
    number: int = 0
    open: list[tuple[str, str, int]] = field(default_factory=list)

    def key(self):
        """All that decides what can happen next; counters are taken relative to each other."""
        s, eta = self.scheduler, self.scheduler.max_staleness

        def age(version):
            return min(s.version - version, eta + 1)

        waiting = None if s.relaxes_at is None else self.now >= s.relaxes_at
        rounds = () if s.mode == "async" else (
            tuple(s._round._targets.items()), tuple(sorted(s._round.started.items())),
            tuple(sorted(s._round._given_up)),
        )  # fmt: skip
        return (
            tuple((g.domain, age(g.oldest_version)) for g in s.queue),
            tuple(sorted((d, age(v)) for _, d, v in self.open)),
            s.step - s.steps_done, s.steps_since_push, waiting, tuple(sorted(s._starved)),
            tuple(bool(c.accepted_since_batch) for c in s._counts.values()), len(s._stale), rounds,
        )  # fmt: skip

    def next_domain(self):
        flying = Counter(domain for _, domain, _ in self.open)
        busy = {domain for domain, most in self.producers.items() if flying[domain] >= most}
        return self.scheduler.next_domain(self.now, busy=busy)

    def events(self):
        """What may happen now."""
        s = self.scheduler
        domain = self.next_domain()
        if domain is not None:
            yield "start", domain
        for domain, age in {(d, s.version - v) for _, d, v in self.open}:
            if domain in self.gives:
                yield "informative", (domain, age)
            yield "filtered", (domain, age)
        if s.step > s.steps_done:
            yield "trained", None
        elif s.push_due:
            yield "pushed", None
        else:
            yield "ask", None
        if s.relaxes_at is not None and self.now < s.relaxes_at:
            yield "time", None

    def after(self, event, what):
        """A copy in which the event has happened, and whether a batch was formed."""
        new = copy.deepcopy(self)
        s = new.scheduler
        if event == "start":
            new.number += 1
            new.open.append((str(new.number), what, s.version))
            s.group_started(str(new.number), what)
        elif event in ("informative", "filtered"):
            domain, age = what
            entry = next(e for e in new.open if e[1] == domain and s.version - e[2] == age)
            new.open.remove(entry)
            group = QueuedGroup(entry[0], domain, entry[2], (), new.now)
            s.group_finished(entry[0], group if event == "informative" else None, new.now, 0.5)
        elif event == "ask":
            batch = s.form_batch(new.now)
            return new, bool(batch and batch.groups)
        elif event == "trained":
            s.step_done(s.step)
        elif event == "pushed":
            s.pushed(s.version + 1)
        elif event == "time":
            new.now = s.relaxes_at
        return new, False


def explore(start):
    """All reachable states: how many, those where nothing moves, those that reach no batch."""
    first = start.key()
    todo, edges, batches = deque([start]), {first: set()}, set()
    while todo:
        moment = todo.popleft()
        key = moment.key()
        for event, what in moment.events():
            new, batch = moment.after(event, what)
            following = new.key()
            if batch:
                batches.add(key)
            if following not in edges:
                edges[following] = set()
                todo.append(new)
                assert len(edges) < MOST
            edges[key].add(following)
    still = [key for key, targets in edges.items() if not targets - {key}]
    reversed_edges = {key: [] for key in edges}
    for key, targets in edges.items():
        for target in targets:
            reversed_edges[target].append(key)
    good, todo = set(batches), deque(batches)
    while todo:
        for before in reversed_edges[todo.popleft()]:
            if before not in good:
                good.add(before)
                todo.append(before)
    return len(edges), still, [key for key in edges if key not in good]


def moment(*, quotas=(1, 1), producers=(1, 1), gives="ab", flow=QuotaNormalised, **settings):
    domains = dict(zip("ab", quotas, strict=True))
    scheduler = Scheduler(
        domains,
        flow=flow(domains),
        fallback_after=10.0,
        **{"capacity_batches": 2, "max_staleness": 1, "sync_every": 1, **settings},
    )
    return Moment(scheduler, dict(zip("ab", producers, strict=True)), frozenset(gives))


@pytest.mark.parametrize("gives", ["ab", "a", "b"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"flow": Credit, "max_staleness": 0},
        {"max_staleness": 0, "sync_every": 2},
        {"quotas": (2, 1), "producers": (2, 1), "capacity_batches": 1, "max_staleness": 0},
        {"on_stale": "train", "max_staleness": 0},
        {"eviction": "oldest", "capacity_batches": 1},
    ],
    ids=str,
)
def test_from_every_state_the_trainer_can_get_a_batch(settings, gives):
    states, still, lost = explore(moment(gives=gives, **settings))
    print(f"{states} states, {settings}, informative: {gives}")
    assert states > 50
    assert not still
    assert not lost


def test_without_releases_there_are_states_that_no_batch_comes_after():
    assert not explore(moment(gives="ab", releases=False))[2]
    lost = explore(moment(gives="a", releases=False, quotas=(2, 2)))[2]
    assert lost
    assert not explore(moment(gives="a", quotas=(2, 2)))[2]


def test_in_turns_every_state_leads_to_a_batch_too():
    states, still, lost = explore(moment(mode="synchronous", max_staleness=0))
    assert states > 50
    assert not still
    assert not lost
