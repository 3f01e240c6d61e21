"""Running judges: whatever a judge does, its caller sees a verdict or a JudgeError."""

import asyncio
import functools
import logging
import threading

import numpy as np
import pytest

from mintact_platform.errors import JudgeError
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.verdict import Verdict
from mintact_platform.registry.parameters import bind

GOOD = Verdict("success", reward=1.0)


def runner(judge, **options):
    return JudgeRunner(
        judge, **{"name": "probe", "deadline": 60.0, "retries": 0, "backoff": 0.0, **options}
    )


async def verdict_of(judge, view, **options):
    async with runner(judge, **options) as judging:
        return await judging.judge(view.task, view)


async def in_async(task, trajectory):
    return GOOD


def in_sync(task, trajectory):
    return GOOD


class Callable:
    async def __call__(self, task, trajectory):
        return GOOD


class AsyncJudge:
    def __init__(self, *, reward=1.0):
        self.events, self.reward = [], reward

    async def open(self):
        self.events.append("open")

    async def judge(self, task, trajectory):
        return Verdict("success", reward=self.reward)

    async def close(self):
        self.events.append("close")


class SyncJudge:
    def judge(self, task, trajectory):
        return GOOD


@pytest.mark.parametrize(
    "judge",
    [
        in_async,
        in_sync,
        lambda task, trajectory: in_async(task, trajectory),
        Callable(),
        AsyncJudge,
        AsyncJudge(),
        SyncJudge,
        functools.partial(AsyncJudge, reward=1.0),
    ],
)
async def test_every_form_of_judge_gives_its_verdict(judge, view):
    verdict = await verdict_of(judge, view)
    assert (verdict.label, verdict.reward, verdict.judge) == ("success", 1.0, "probe")
    assert verdict.seconds >= 0


async def test_parameters_bound_from_a_run_file_reach_a_judge_of_either_form(view):
    async def threshold(task, trajectory, *, reward: float = 0.5):
        return Verdict("success", reward=reward)

    for target in (threshold, AsyncJudge):
        bound = bind(target, {"reward": 0.25}, where="judge")
        assert (await verdict_of(bound, view)).reward == 0.25


async def test_a_judge_is_opened_once_and_closed_also_without_being_asked_to(view):
    judge = AsyncJudge()
    judging = runner(judge)
    await asyncio.gather(*(judging.judge(view.task, view) for _ in range(4)))
    await judging.close()
    await judging.close()
    assert judge.events == ["open", "close"]


async def test_a_judge_that_cannot_open_gives_no_verdict_and_is_tried_again(view):
    class Late(AsyncJudge):
        async def open(self):
            await super().open()
            if len(self.events) == 1:
                raise OSError("no route")

    judging = runner(Late())
    with pytest.raises(JudgeError, match="open failed: OSError: no route"):
        await judging.judge(view.task, view)
    assert (await judging.judge(view.task, view)).label == "success"


async def test_a_failing_close_is_logged(view, caplog):
    class Sticky(AsyncJudge):
        async def close(self):
            raise OSError("stuck")

    with caplog.at_level(logging.WARNING):
        await verdict_of(Sticky(), view)
    assert "close failed: OSError: stuck" in caplog.text


async def test_a_failed_attempt_is_repeated_and_the_verdict_is_the_judges_own(view):
    attempts = []

    async def flaky(task, trajectory):
        attempts.append(1)
        if len(attempts) < 3:
            raise RuntimeError("busy")
        return Verdict("failure", reward=0.0)

    assert (await verdict_of(flaky, view, retries=2)).label == "failure"
    attempts.clear()
    with pytest.raises(JudgeError, match=r"no verdict on t1 after 2 attempts: RuntimeError: busy"):
        await verdict_of(flaky, view, retries=1)


async def test_abstaining_is_a_verdict_and_not_repeated(view):
    attempts = []

    def unsure(task, trajectory):
        attempts.append(1)
        return Verdict("abstain")

    assert (await verdict_of(unsure, view, retries=3)).reward is None
    assert len(attempts) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "returned NoneType"),
        (1.0, "returned float"),
        ({"label": "success"}, "returned dict"),
        (Verdict("success", reward=1.0, turn_rewards=(1.0,)), "1 turn rewards for 2 turns"),
        (Verdict("success", reward=1.0, turn_rewards=(1.0, float("nan"))), "turn reward is nan"),
        (Verdict("success", reward=1.0, components={"a": "b"}), "component 'a' is 'b'"),
        (Verdict("success", reward=1.0, components=[1]), "mapping"),
        (Verdict("success", reward=1.0, cost=float("inf")), "cost is inf"),
        (Verdict("success", reward=1.0, turn_rewards=5), "has no len"),
        (Verdict("success", reward=1.0, turn_rewards="ab"), "turn reward is 'a'"),
    ],
)
async def test_what_is_no_verdict_is_refused_never_scored(answer, said, view):
    with pytest.raises(JudgeError, match=said):
        await verdict_of(lambda task, trajectory: answer, view)


async def test_numbers_are_made_plain_so_that_they_can_be_recorded(view):
    def numpy_judge(task, trajectory):
        return Verdict("success", reward=np.float32(1), components={"a": np.int64(2)})

    verdict = await verdict_of(numpy_judge, view)
    assert type(verdict.reward) is float
    assert type(verdict.components["a"]) is float


async def test_a_reason_is_made_one_line_that_can_be_recorded(view):
    for reason, kept in {"a\nb\t c": "a b c", "\ud83d": "?", None: "", 7: "7"}.items():
        told = Verdict("success", reward=1.0, reason=reason)
        assert (await verdict_of(lambda task, trajectory, told=told: told, view)).reason == kept


def raising(error):
    async def judge(task, trajectory):
        raise error

    return judge


def raising_in_thread(error):
    def judge(task, trajectory):
        raise error

    return judge


@pytest.mark.parametrize("form", [raising, raising_in_thread])
@pytest.mark.parametrize(
    "error", [ValueError("two\nlines"), SystemExit(1), StopIteration(), asyncio.CancelledError()]
)
async def test_a_judge_that_raises_exits_or_cancels_itself_masks_one_trajectory(form, error, view):
    with pytest.raises(JudgeError) as caught:
        await verdict_of(form(error), view)
    assert "\n" not in str(caught.value)


async def never(task, trajectory):
    await asyncio.Event().wait()


async def test_a_hanging_judge_ends_at_its_deadline(view):
    with pytest.raises(JudgeError, match=r"after 2 attempts: no answer within 0\.05 s"):
        await verdict_of(never, view, deadline=0.05, retries=1)


async def test_a_judge_that_swallows_its_cancellation_does_not_hold_the_run(view, monkeypatch):
    monkeypatch.setattr("mintact_platform.judging.runner._GRACE", 0.05)
    release = asyncio.Event()

    async def stubborn(task, trajectory):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(JudgeError, match="no answer"):
        await verdict_of(stubborn, view, deadline=0.05)
    release.set()


async def test_hanging_threads_are_bounded_and_hold_nobody_else(view):
    release, running = threading.Event(), []

    def hang(task, trajectory):
        running.append(1)
        release.wait()

    judging = runner(hang, deadline=0.1, concurrency=2)
    answers = await asyncio.gather(
        *(judging.judge(view.task, view) for _ in range(5)), return_exceptions=True
    )
    assert all(isinstance(answer, JudgeError) for answer in answers)
    async with asyncio.timeout(60):
        while len(running) < 2:
            await asyncio.sleep(0.01)
    assert len(running) == 2
    release.set()


async def test_no_more_judgements_run_at_a_time_than_allowed(view):
    running, peak = 0, 0

    async def counting(task, trajectory):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        return GOOD

    async with runner(counting, concurrency=3) as judging:
        await asyncio.gather(*(judging.judge(view.task, view) for _ in range(10)))
    assert peak == 3


async def test_a_judge_cannot_change_what_is_recorded_nor_what_the_next_attempt_sees(view):
    seen = []

    def greedy(task, trajectory):
        seen.append(list(trajectory.turns[0].calls[0]["arguments"]["x"]))
        trajectory.turns[0].calls[0]["arguments"]["x"].append(9)
        task.params["k"].append(9)
        raise RuntimeError("again")

    with pytest.raises(JudgeError):
        await verdict_of(greedy, view, retries=1)
    assert seen == [[1], [1]]
    assert view.task.params == {"k": [1]}


async def test_cancelling_a_judgement_cancels_the_judge_and_frees_its_place(view):
    started, ended = asyncio.Event(), asyncio.Event()
    calls = []

    async def slow_once(task, trajectory):
        calls.append(1)
        if len(calls) > 1:
            return GOOD
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    judging = runner(slow_once, concurrency=1)
    judgement = asyncio.create_task(judging.judge(view.task, view))
    await started.wait()
    judgement.cancel()
    with pytest.raises(asyncio.CancelledError):
        await judgement
    assert ended.is_set()
    assert (await judging.judge(view.task, view)).label == "success"
    assert asyncio.all_tasks() == {asyncio.current_task()}
