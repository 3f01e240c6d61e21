import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.state import Scheduler
from mintact_platform.scheduler.synchronous import ATTEMPTS

QUOTAS = {"web": 2, "tools": 1}


def batches(informative, *, order, slots, steps, quotas=QUOTAS):
    """Plays a run whose n-th group of a domain is informative or not, ended in any order."""
    scheduler = Scheduler(quotas, mode="synchronous", sync_every=2)
    numbers = {domain: itertools.count() for domain in quotas}
    open_groups: list[tuple[str, str, int]] = []
    formed, ids = [], itertools.count()
    while len(formed) < steps:
        while len(open_groups) < slots and (domain := scheduler.next_domain(0.0)) is not None:
            group = (f"{next(ids):05d}", domain, next(numbers[domain]))
            scheduler.group_started(group[0], domain)
            open_groups.append(group)
        if open_groups:
            id, domain, number = open_groups.pop(order.randrange(len(open_groups)))
            useful = informative(domain, number)
            queued = QueuedGroup(id, domain, scheduler.version, (number,), 0.0) if useful else None
            scheduler.group_finished(id, queued, 0.0)
        batch = scheduler.form_batch(0.0)
        if batch is not None:
            formed.append([(group.domain, group.rows[0]) for group in batch.groups])
            scheduler.step_done(batch.step)
            if scheduler.push_due:
                scheduler.pushed(scheduler.version + 1)
    return formed


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9))
def test_a_run_repeats_whatever_order_its_groups_end_in(world, seed, slots, others):
    def informative(domain: str, number: int) -> bool:
        rate = 0.05 if domain == "tools" and world % 3 == 0 else 0.6
        return random.Random(f"{world} {domain} {number}").random() < rate

    one = batches(informative, order=random.Random(seed), slots=slots, steps=4)
    other = batches(informative, order=random.Random(seed + 1), slots=others, steps=4)
    assert one == other


def test_only_what_the_batch_needs_is_begun_and_only_with_current_weights():
    scheduler = Scheduler(QUOTAS, mode="synchronous", sync_every=1)
    begun = []
    while (domain := scheduler.next_domain(0.0)) is not None:
        begun.append(domain)
        scheduler.group_started(str(len(begun)), domain)
    assert sorted(begun) == ["tools", "web", "web"]
    for number, domain in enumerate(begun, start=1):
        scheduler.group_finished(str(number), QueuedGroup(str(number), domain, 0, (), 0.0), 0.0)
    assert scheduler.form_batch(0.0).realised == QUOTAS
    assert scheduler.next_domain(0.0) is None
    scheduler.step_done(1)
    assert scheduler.next_domain(0.0) is None
    scheduler.pushed(1)
    assert scheduler.next_domain(0.0) == "web"


def test_others_stand_in_for_a_domain_that_gives_nothing():
    formed = batches(
        lambda domain, number: domain == "web", order=random.Random(0), slots=4, steps=2
    )
    assert formed == [
        [("web", 0), ("web", 1), ("web", 2)],
        [("web", 3), ("web", 4), ("web", 5)],
    ]


def test_a_batch_is_smaller_when_nobody_can_stand_in():
    useful = {("web", 3), ("tools", 0)}
    formed = batches(
        lambda domain, number: (domain, number) in useful, order=random.Random(0), slots=4, steps=1
    )
    assert sorted(formed[0]) == [("tools", 0), ("web", 3)]


def test_it_goes_on_trying_when_nothing_at_all_is_informative():
    late = 3 * ATTEMPTS * 2
    formed = batches(
        lambda domain, number: number >= late, order=random.Random(0), slots=4, steps=1
    )
    assert len(formed[0]) >= 1
