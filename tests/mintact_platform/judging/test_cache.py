"""Cached judgements: the same is not asked twice, anything else is."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
from concurrent.futures import ThreadPoolExecutor

import pytest

import mintact_platform
from mintact_platform.config import JudgePlugin
from mintact_platform.judging.cache import JudgementCache, identity_of, judgement_key
from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.verdict import StateCheck, Verdict

GOOD = Verdict("success", reward=1.0, components={"a": 1.0}, reason="seen", cost=0.5)


class Counting:
    """Counts how often it is asked."""

    cacheable = True
    asked = 0

    def __init__(self, *, verdict=GOOD, level=0):
        self.verdict = verdict

    def judge(self, task, trajectory):
        type(self).asked += 1
        return self.verdict


@pytest.fixture
def counting():
    Counting.asked = 0
    return Counting


@pytest.fixture
def cache(tmp_path):
    return JudgementCache(tmp_path / "cache" / "judgements")


async def asked(judge, view, cache):
    async with JudgeRunner(judge, name="probe", deadline=60.0, cache=cache) as runner:
        return await runner.judge(view.task, view)


def changed(view, **fields):
    return JudgeView(dataclasses.replace(view.trajectory, **fields), view.image_loader)


async def test_a_verdict_is_kept_and_told_again_without_asking(counting, view, cache):
    first = await asked(counting, view, cache)
    again = await asked(counting, view, cache)
    assert counting.asked == 1
    assert (first.cost, again.cost) == (0.5, 0.0)
    same = ("label", "reward", "components", "reason", "judge")
    assert all(getattr(first, name) == getattr(again, name) for name in same)


async def test_the_rollouts_own_ids_and_times_make_no_difference(counting, view, cache):
    slower = tuple(dataclasses.replace(t, generate_seconds=9.0) for t in view.turns)
    other = changed(view, id="t2", group="g2", member=3, attempt=1, seconds=7.0, turns=slower)
    await asked(counting, view, cache)
    await asked(counting, other, cache)
    assert counting.asked == 1


def variants(view):
    trajectory, (first, second) = view.trajectory, view.turns
    return {
        "the goal": {"task": dataclasses.replace(trajectory.task, goal="else")},
        "the task's id": {"task": dataclasses.replace(trajectory.task, id="2")},
        "a task parameter": {"task": dataclasses.replace(trajectory.task, params={"k": [2]})},
        "a response": {"turns": (first, dataclasses.replace(second, response="no"))},
        "an image": {"turns": (first, dataclasses.replace(second, images=("aa", "cc")))},
        "the order of images": {"turns": (first, dataclasses.replace(second, images=("bb", "aa")))},
        "a call": {"turns": (dataclasses.replace(first, calls=()), second)},
        "a step reward": {"turns": (first, dataclasses.replace(second, reward=0.5))},
        "a turn less": {"turns": (first,)},
        "the state check": {"state_check": StateCheck(False, 1.0, {"seen": [1]})},
        "no state check": {"state_check": None},
        "the outcome": {"outcome": Outcome.MAX_TURNS},
    }


@pytest.mark.parametrize("change", range(12))
async def test_whatever_a_verdict_may_depend_on_is_asked_anew(change, counting, view, cache):
    every = list(variants(view).values())
    assert len(every) == 12
    await asked(counting, view, cache)
    await asked(counting, changed(view, **every[change]), cache)
    assert counting.asked == 2


def test_the_key_names_the_judge_its_code_its_version_and_its_parameters(view):
    def key(name="j", target=Counting, **params):
        return judgement_key(identity_of(name, functools.partial(target, **params)), view)

    keys = {key(), key("k"), key(level=1), key(level=2), key(target=JudgementCache)}
    assert len(keys) == 5
    assert key(level=1) == key(level=1)
    nested = [key(level=JudgePlugin(name="a", params={"x": x})) for x in (1, 1, 2)]
    assert nested[0] == nested[1] != nested[2]
    identity = identity_of("j", JudgeRunner)
    assert identity["version"] == [f"mintact-platform {mintact_platform.__version__}"]
    assert identity["source"]


def test_a_judge_that_was_edited_is_another_one_and_so_is_one_whose_neighbour_was(
    tmp_path, monkeypatch
):
    folder = tmp_path / "acme_edited"
    folder.mkdir()
    for name in ("__init__", "judges", "words"):
        (folder / f"{name}.py").write_text("def judge(task, trajectory): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    judge = importlib.import_module("acme_edited.judges").judge
    sources = [identity_of("j", judge)["source"]]
    for name in ("judges", "words"):
        (folder / f"{name}.py").write_text("# edited\n")
        sources.append(identity_of("j", judge)["source"])
    assert len(set(sources)) == 3


async def test_a_composites_parts_belong_to_its_key(view, cache, counting):
    class Composite(counting):
        parts = "one"

        @property
        def identity(self):
            return self.parts

    await asked(Composite, view, cache)
    await asked(Composite, view, cache)
    assert Composite.asked == 1
    Composite.parts = "two"
    await asked(Composite, view, cache)
    assert Composite.asked == 2


async def test_only_a_judge_that_says_so_is_cached(view, cache):
    calls = []

    async def plain(task, trajectory):
        calls.append(1)
        return GOOD

    for _ in range(2):
        await asked(plain, view, cache)
    assert len(calls) == 2
    named = mintact_platform.judge(cacheable=True, remote=True)(plain)
    for _ in range(2):
        await asked(functools.partial(named), view, cache)
    assert len(calls) == 3
    assert JudgeRunner(named, name="n", deadline=1).remote


async def test_abstentions_and_failures_are_not_kept(view, cache, counting):
    unsure = functools.partial(counting, verdict=Verdict("abstain"))
    for _ in range(2):
        await asked(unsure, view, cache)
    assert counting.asked == 2
    broken = functools.partial(counting, verdict="success")
    for _ in range(2):
        with pytest.raises(mintact_platform.errors.JudgeError):
            await asked(broken, view, cache)
    assert counting.asked == 6
    assert not list(cache.directory.rglob("*.json"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"key": "other", "verdict": {"label": "success", "reward": 1.0}}',
        b'{"key": "KEY", "verdict": {"label": "great", "reward": 1.0}}',
        b'{"key": "KEY", "verdict": {"label": "success", "reward": "much"}}',
        b'{"key": "KEY", "verdict": {"label": "success", "reward": 1.0, "turn_rewards": [1]}}',
        b'{"key": "KEY", "verdict": {"label": "success", "reward": 1.0, "surprise": 1}}',
    ],
)
async def test_a_damaged_file_is_no_verdict_and_is_written_anew(content, counting, view, cache):
    await asked(counting, view, cache)
    (path,) = cache.directory.rglob("*.json")
    path.write_bytes(content.replace(b"KEY", path.stem.encode()))
    assert (await asked(counting, view, cache)).reward == 1.0
    assert counting.asked == 2
    assert cache.get(path.stem).reward == 1.0


async def test_a_disk_that_cannot_be_written_costs_the_cache_not_the_verdict(
    counting, view, tmp_path, caplog
):
    (tmp_path / "cache").write_text("a file where the folder should be")
    cache = JudgementCache(tmp_path / "cache")
    for _ in range(2):
        assert (await asked(counting, view, cache)).reward == 1.0
    assert counting.asked == 2
    assert "a judgement is not cached" in caplog.text


def test_many_writers_leave_one_whole_file(cache):
    key = "ab" * 20

    def write(k):
        cache.put(key, Verdict("success", reward=float(k), reason="x" * 5000))
        return cache.get(key)

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(write, range(64)))
    assert all(verdict is not None and len(verdict.reason) == 5000 for verdict in seen)
    assert [path.name for path in cache.directory.rglob("*") if path.is_file()] == [f"{key}.json"]


async def test_judgements_at_once_each_get_the_verdict(counting, view, cache):
    async with JudgeRunner(counting, name="p", deadline=60.0, cache=cache) as runner:
        verdicts = await asyncio.gather(*(runner.judge(view.task, view) for _ in range(6)))
        assert {verdict.reward for verdict in verdicts} == {1.0}
        before = counting.asked
        await runner.judge(view.task, view)
        assert counting.asked == before


async def test_what_has_no_stable_text_is_judged_and_not_kept(counting, view, cache):
    circle = {}
    circle["self"] = circle
    odd = changed(view, task=dataclasses.replace(view.task, params={1: "a", "b": 2}))
    judge = functools.partial(counting, level=circle)
    for one in (odd, odd):
        await asked(counting, one, cache)
    assert judgement_key(identity_of("j", judge), view) is None
    assert counting.asked == 2
