import itertools

import pytest

from mintact_platform.errors import ConfigurationError
from mintact_platform.scheduler.flow import NoFlowControl
from mintact_platform.scheduler.queue import QueuedGroup
from mintact_platform.scheduler.state import Scheduler
from mintact_platform.storage.ledger import LedgerRow


@pytest.fixture
def feed():
    """Puts so many groups of a domain through a scheduler; returns their ids."""
    numbers = itertools.count()

    def put(scheduler, domain, count, *, now=0.0, version=0, informative=True):
        ids = [f"{next(numbers):06d}" for _ in range(count)]
        for id in ids:
            scheduler.group_started(id, domain)
            group = QueuedGroup(id, domain, version, (), now) if informative else None
            scheduler.group_finished(id, group, now)
        return ids

    return put


def drained(scheduler, now=0.0, **kwargs):
    """Begins groups until none may begin; how many of each domain."""
    begun = dict.fromkeys(scheduler.domains, 0)
    for number in range(1000):
        domain = scheduler.next_domain(now, **kwargs)
        if domain is None:
            return begun
        scheduler.group_started(f"{domain}-{now}-{number}", domain)
        begun[domain] += 1
    raise AssertionError("no end of groups")


def test_a_batch_holds_exactly_the_quotas_in_order_of_acceptance(feed):
    scheduler = Scheduler({"web": 2, "tools": 1})
    web = feed(scheduler, "web", 3)
    assert scheduler.form_batch(0.0) is None
    tools = feed(scheduler, "tools", 2)
    batch = scheduler.form_batch(1.0)
    assert [group.id for group in batch.groups] == [web[0], web[1], tools[0]]
    assert (batch.step, batch.realised, batch.relaxed) == (1, {"web": 2, "tools": 1}, False)
    assert scheduler.form_batch(1.0) is None


def test_groups_are_shared_out_by_quota():
    scheduler = Scheduler({"web": 4, "tools": 2, "none": 0}, max_staleness=0, sync_every=2)
    begun = [scheduler.next_domain(0.0)]
    for number in range(5):
        scheduler.group_started(str(number), begun[-1])
        begun.append(scheduler.next_domain(0.0))
    assert sorted(begun) == ["tools"] * 2 + ["web"] * 4


def test_staleness_bounds_what_is_under_way_for_each_domain_alone(feed):
    scheduler = Scheduler({"web": 2, "tools": 1}, max_staleness=1, sync_every=2)
    assert drained(scheduler) == {"web": 8, "tools": 4}


def test_a_batch_uses_up_one_step_of_the_version(feed):
    scheduler = Scheduler({"web": 2}, max_staleness=0, sync_every=1)
    feed(scheduler, "web", 2)
    assert scheduler.form_batch(0.0) is not None
    assert scheduler.next_domain(0.0) is None
    scheduler.step_done(1)
    assert scheduler.push_due
    assert scheduler.next_domain(0.0) is None
    scheduler.pushed(1)
    assert drained(scheduler) == {"web": 2}


def test_a_filtered_group_gives_its_capacity_back_at_once():
    scheduler = Scheduler({"web": 1}, max_staleness=0, sync_every=1)
    scheduler.group_started("a", "web")
    assert scheduler.next_domain(0.0) is None
    scheduler.group_finished("a", None, 1.0)
    assert scheduler.next_domain(1.0) == "web"
    assert scheduler.status(1.0)["web"]["filtered"] == 1


def test_a_fast_domain_pauses_until_the_slow_one_follows(feed):
    scheduler = Scheduler({"fast": 2, "slow": 2})
    feed(scheduler, "fast", 2)
    assert scheduler.status(0.0)["fast"]["paused"]
    assert scheduler.next_domain(0.0) == "slow"
    assert scheduler.next_domain(0.0, busy={"slow"}) is None
    assert scheduler.next_domain(0.0, exhausted={"slow"}) == "fast"
    feed(scheduler, "slow", 1)
    assert scheduler.next_domain(0.0, busy={"slow"}) == "fast"


def test_the_fallback_relaxes_quotas_and_releases_paused_producers(feed):
    scheduler = Scheduler({"fast": 2, "slow": 2}, fallback_after=100.0)
    feed(scheduler, "fast", 2)
    assert scheduler.form_batch(10.0) is None
    assert scheduler.relaxes_at == 110.0
    assert scheduler.next_domain(109.0, busy={"slow"}) is None
    assert scheduler.next_domain(110.0, busy={"slow"}) == "fast"
    feed(scheduler, "fast", 2)
    assert scheduler.form_batch(109.0) is None
    batch = scheduler.form_batch(110.0)
    assert (batch.relaxed, batch.realised) == (True, {"fast": 4, "slow": 0})


def test_the_batch_after_a_relaxed_one_is_back_to_the_quotas(feed):
    scheduler = Scheduler({"fast": 2, "slow": 2}, fallback_after=100.0)
    feed(scheduler, "fast", 4)
    scheduler.form_batch(0.0)
    assert scheduler.form_batch(100.0).relaxed
    feed(scheduler, "fast", 4)
    assert scheduler.form_batch(150.0) is None
    feed(scheduler, "slow", 2)
    batch = scheduler.form_batch(160.0)
    assert (batch.relaxed, batch.realised) == (False, {"fast": 2, "slow": 2})


def test_while_a_domain_starves_the_others_fill_its_part_without_waiting(feed):
    scheduler = Scheduler({"fast": 2, "slow": 2}, fallback_after=100.0)
    feed(scheduler, "fast", 4)
    scheduler.form_batch(0.0)
    scheduler.form_batch(100.0)
    feed(scheduler, "fast", 3)
    assert not scheduler.status(100.0)["fast"]["paused"]
    feed(scheduler, "slow", 1)
    assert scheduler.status(100.0)["fast"]["paused"]


def test_a_starving_domain_does_not_draw_all_producers(feed):
    scheduler = Scheduler({"fast": 2, "slow": 2}, fallback_after=100.0, max_staleness=9)
    feed(scheduler, "fast", 4)
    scheduler.form_batch(0.0)
    scheduler.form_batch(100.0)
    feed(scheduler, "fast", 2)
    begun = [scheduler.next_domain(100.0)]
    for number in range(7):
        scheduler.group_started(f"g{number}", begun[-1])
        begun.append(scheduler.next_domain(100.0))
    assert begun.count("fast") == begun.count("slow") == 4


def test_stale_groups_are_evicted_and_reported_even_without_a_batch(feed):
    scheduler = Scheduler({"web": 2}, max_staleness=1)
    old = feed(scheduler, "web", 1, version=0)
    scheduler.pushed(2)
    fresh = feed(scheduler, "web", 2, version=1)
    batch = scheduler.form_batch(0.0)
    assert batch.stale == tuple(old)
    assert [group.id for group in batch.groups] == fresh
    late = feed(scheduler, "web", 1, version=0)
    report = scheduler.form_batch(0.0)
    assert (report.groups, report.stale) == ((), tuple(late))
    assert scheduler.form_batch(0.0) is None
    assert scheduler.status(0.0)["web"]["stale"] == 2


def test_stale_groups_are_trained_when_asked_for(feed):
    scheduler = Scheduler({"web": 2}, max_staleness=0, on_stale="train")
    feed(scheduler, "web", 2, version=0)
    scheduler.pushed(5)
    assert len(scheduler.form_batch(0.0).groups) == 2


def test_a_full_queue_evicts_and_says_whom(feed):
    scheduler = Scheduler({"web": 1, "tools": 1}, flow=NoFlowControl({}), capacity_batches=2)
    first = feed(scheduler, "web", 4)[0]
    scheduler.group_started("x", "tools")
    changes = scheduler.group_finished("x", QueuedGroup("x", "tools", 0, (), 0.0), 0.0)
    assert changes.evicted == (first,)
    assert scheduler.status(0.0)["web"]["evicted"] == 1


def test_a_restored_scheduler_goes_on_where_it_was(feed):
    scheduler = Scheduler({"web": 2, "tools": 1}, max_staleness=0, sync_every=4)
    queued = [QueuedGroup(str(n), "web", 3, (), 0.0) for n in range(3)]
    scheduler.restore(queued, {"web": 11, "tools": 4}, 7, 3, 2)
    status = scheduler.status(0.0)
    assert (status["web"]["queued"], status["web"]["accepted"], status["web"]["batched"]) == (
        3,
        11,
        8,
    )
    assert scheduler.steps_since_push == 2
    assert drained(scheduler)["tools"] == 2
    scheduler.group_finished("tools-0.0-0", QueuedGroup("t", "tools", 3, (), 0.0), 0.0)
    batch = scheduler.form_batch(0.0)
    assert (batch.step, [g.id for g in batch.groups]) == (8, ["0", "1", "t"])


def test_a_restored_scheduler_counts_on_from_the_ledger():
    scheduler = Scheduler({"web": 2})
    row = LedgerRow(produced=20, trained=8, filtered=5, stale=2, evicted=1, dropped=3, queued=1)
    queued = [QueuedGroup("a", "web", 3, (), 0.0)]
    scheduler.restore(queued, {"web": 12}, 4, 3, 0, ledger={"web": row})
    assert scheduler.status(0.0)["web"] == {
        "in_flight": 0,
        "queued": 1,
        "accepted": 12,
        "batched": 8,
        "filtered": 8,
        "stale": 2,
        "evicted": 1,
        "paused": False,
    }


def test_a_smaller_queue_loses_nothing_unseen_on_resume():
    scheduler = Scheduler({"web": 1}, capacity_batches=1)
    queued = [QueuedGroup(str(n), "web", 0, (), 0.0) for n in range(3)]
    scheduler.restore(queued, {"web": 3}, 0, 0, 0)
    scheduler.group_started("x", "web")
    changes = scheduler.group_finished("x", QueuedGroup("x", "web", 0, (), 0.0), 0.0)
    assert changes.evicted == ("0", "1", "2")


def test_quotas_may_change_with_the_step(feed):
    class Turns:
        def quotas(self, step):
            return {"web": 2} if step % 2 else {"tools": 2}

    scheduler = Scheduler({"web": 1, "tools": 1}, mixture=Turns())
    assert set(drained(scheduler)) == {"web", "tools"}
    scheduler = Scheduler({"web": 1, "tools": 1}, mixture=Turns())
    feed(scheduler, "web", 2)
    assert scheduler.form_batch(0.0).realised == {"web": 2, "tools": 0}
    assert scheduler.next_domain(0.0) == "tools"


def test_a_mixture_that_does_not_fit_the_domains_is_an_error():
    class Foreign:
        def quotas(self, step):
            return {"phone": 2}

    with pytest.raises(ConfigurationError, match=r"schedule\.mixture"):
        Scheduler({"web": 1}, mixture=Foreign())


def test_mistakes_of_the_caller_are_noticed(feed):
    scheduler = Scheduler({"web": 1})
    scheduler.group_started("a", "web")
    with pytest.raises(ValueError, match="began twice"):
        scheduler.group_started("a", "web")
    with pytest.raises(KeyError):
        scheduler.group_finished("b", None, 0.0)
    with pytest.raises(ValueError, match="step 1 ended, after 0 of 0 begun"):
        scheduler.step_done(1)
