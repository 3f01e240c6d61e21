"""The rate of requests, on a clock that only sleeping moves."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.errors import JudgeError
from mintact_platform.judging.errors import RetryLater, RetryNever
from mintact_platform.judging.rate import RateLimit
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.verdict import Verdict


class Clock:
    def __init__(self):
        self.now, self.slept = 50.0, []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock():
    return Clock()


def limit(clock, per_minute=None, **options):
    return RateLimit(per_minute, clock=clock, sleep=clock.sleep, **options)


async def times(rate, clock, count):
    passed = []

    async def one():
        await rate.wait()
        passed.append(clock.now)

    await asyncio.gather(*(one() for _ in range(count)))
    return passed


async def test_requests_are_spaced_evenly(clock):
    assert await times(limit(clock, 30), clock, 4) == [50.0, 52.0, 54.0, 56.0]


async def test_a_burst_goes_at_once_after_a_quiet_while_and_then_fills_slowly(clock):
    rate = limit(clock, 60, burst=3)
    assert await times(rate, clock, 5) == [50.0, 50.0, 50.0, 51.0, 52.0]
    clock.now = 1000.0
    assert await times(rate, clock, 4) == [1000.0, 1000.0, 1000.0, 1001.0]


async def test_without_a_limit_nobody_waits_but_in_a_pause(clock):
    rate = limit(clock)
    assert await times(rate, clock, 100) == [50.0] * 100
    rate.pause(5)
    rate.pause(2)
    assert await times(rate, clock, 3) == [55.0] * 3


async def test_a_pause_also_holds_who_waits_already(clock):
    rate = limit(clock, 60)
    await rate.wait()
    waiting = asyncio.create_task(rate.wait())
    rate.pause(30)
    await waiting
    assert clock.now == 80.0


async def test_a_cancelled_wait_takes_nothing_and_blocks_nobody():
    rate = RateLimit(1)
    await rate.wait()
    rate.pause(3600)
    waiting = [asyncio.create_task(rate.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert all(task.cancelled() for task in waiting)
    assert not rate._turn.locked()


@given(st.floats(0.1, 6000), st.integers(1, 5), st.lists(st.floats(0, 10), min_size=1, max_size=20))
def test_no_window_ever_holds_more_than_allowed(per_minute, burst, pauses):
    async def run():
        clock = Clock()
        rate = limit(clock, per_minute, burst=burst)
        passed = []
        for pause in pauses:
            clock.now += pause
            await rate.wait()
            passed.append(clock.now)
        return passed

    passed = asyncio.run(run())
    interval = 60 / per_minute
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            window = passed[last] - passed[first]
            assert last - first + 1 <= burst + window / interval + 1e-6


@pytest.mark.parametrize("wrong", [{"per_minute": 0}, {"per_minute": -1}, {"burst": 0}])
def test_a_rate_that_lets_nobody_through_is_refused(wrong):
    with pytest.raises(ValueError, match="requests a minute"):
        RateLimit(**wrong)


# ---- the runner's use of it ---------------------------------------------------------------------


def scripted(*answers):
    """A judge that raises or returns these in turn, the last again and again."""
    left = list(answers)

    async def judge(task, trajectory):
        judge.calls += 1
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    judge.calls = 0
    return judge


GOOD = Verdict("success", reward=1.0)


async def judged(judge, view, clock, *, per_minute=None, count=1, **options):
    options = {"deadline": 10.0, "retries": 1, "backoff": 0.5, **options}
    rate = limit(clock, per_minute)
    async with JudgeRunner(judge, name="j", rate=rate, sleep=clock.sleep, **options) as runner:
        asked = (runner.judge(view.task, view) for _ in range(count))
        return await asyncio.gather(*asked, return_exceptions=True)


async def test_attempts_are_counted_against_the_rate(view, clock):
    judge = scripted(RuntimeError("no"), GOOD)
    (verdict,) = await judged(judge, view, clock, per_minute=6, backoff=1.0)
    assert verdict.reward == 1.0
    assert clock.slept == [1.0, 9.0]


async def test_a_wait_is_no_attempt_and_holds_every_judgement(view, clock):
    judge = scripted(RetryLater(3, "busy"), RetryLater(4, "busy"), GOOD)
    verdicts = await judged(judge, view, clock, retries=0, count=3, concurrency=1)
    assert [v.reward for v in verdicts] == [1.0] * 3
    assert clock.slept == [3.0, 4.0]


async def test_waits_are_bounded_by_the_deadlines_of_all_attempts(view, clock):
    (error,) = await judged(scripted(RetryLater(8, "busy")), view, clock, retries=1)
    assert isinstance(error, JudgeError)
    assert "after 3 attempts: busy; asked to wait 8 s, more than the 4 s that are left" in str(
        error
    )
    assert clock.slept == [8.0, 8.0]


async def test_a_wait_too_long_holds_nobody_else(view, clock):
    judge = scripted(RetryLater(9999, "quota"), GOOD)
    error, verdict = await judged(judge, view, clock, count=2, concurrency=1)
    assert "more than the 20 s" in str(error)
    assert (verdict.reward, clock.slept) == (1.0, [])


async def test_who_is_always_busy_fails_in_the_end(view, clock):
    judge = scripted(RetryLater(0, "busy"))
    (error,) = await judged(judge, view, clock, retries=1)
    assert "after 10 attempts" in str(error)
    assert judge.calls == 10


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), "soon", None])
async def test_a_senseless_wait_is_a_failed_attempt(seconds, view, clock):
    error = RetryLater(1, "busy")
    error.seconds = seconds
    (verdict,) = await judged(scripted(error, GOOD), view, clock)
    assert (verdict.reward, clock.slept) == (1.0, [0.5])


async def test_what_will_never_work_is_tried_once(view, clock):
    judge = scripted(RetryNever("HTTP 401"))
    (error,) = await judged(judge, view, clock, retries=5)
    assert "no verdict on t1 after 1 attempt: HTTP 401" in str(error)
    assert judge.calls == 1
