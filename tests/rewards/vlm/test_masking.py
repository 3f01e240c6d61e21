"""A judge that cannot answer, in a run: masked, recorded, judged again later, no secret."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from mintact_reward_vlm.vlm import Vlm

from mintact_platform.judging.cache import JudgementCache
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.trajectory import Turn
from mintact_platform.rollouts.rollouter import DomainTools, Rollouter
from mintact_platform.scheduler.produce import verdict_of
from mintact_platform.storage import ledger, trajectories
from mintact_platform.storage.directory import RunDirectory

GOOD = '{"nonce": "NONCE", "verdict": "success", "reason": "seen"}'
MEMBERS = 4


@pytest.fixture
def directory(tmp_path):
    made = RunDirectory.create(tmp_path / "run", config_toml="", plugins={}, metadata={})
    yield made
    made.close()


def rollouter(directory, endpoint, *, timeout=60.0, **options):
    judge = functools.partial(
        Vlm, url=endpoint.url, model="m", api_key_env="JUDGE_KEY", timeout=timeout, images=2
    )
    runner = JudgeRunner(judge, name="vlm", deadline=60.0, backoff=0.01, **options)
    unused: Any = SimpleNamespace(generate=None)
    domains = {"web": DomainTools(unused, runner, unused)}
    return Rollouter(
        domains, unused, unused, chat=unused, vision=unused, images=directory.images, active=1
    )


async def group_of(directory, make_view, screenshot):
    """A recorded group of rollouts, as a producer writes it before it asks the judge."""
    digest = await asyncio.to_thread(directory.images.put, screenshot("cart"), "png")
    turn = Turn(0, "the cart", (digest,), "Done.")
    first = make_view([turn], image_extensions={digest: "png"}).trajectory
    await directory.database.write(ledger.open_group("g", first.task, "web", 0.0))
    members = [replace(first, id=f"t{k}", group="g", member=k) for k in range(MEMBERS)]
    for member in members:
        path = await asyncio.to_thread(directory.trajectories.save, member)
        await directory.database.write(ledger.add_trajectory(member, path))
    return members


async def judge_all(player, directory, members):
    judged = await asyncio.gather(*(player.judge("web", member) for member in members))
    for one in judged:
        await directory.database.write(verdict_of(one))
    await player.domains["web"].judge.close()
    return judged


BROKEN = {
    "silent": lambda e, k: e.hanging(after_headers=True),
    "refusing the key": lambda e, k: e.sending(401, f"bad key {k}".encode()),
    "busy": lambda e, k: e.sending(429, k.encode(), retry_after="9999"),
    "failing": lambda e, k: e.sending(500, k.encode()),
    "no JSON": lambda e, k: e.sending(200, b"<p>"),
    "lying": lambda e, k: e.completing('{"verdict": "success", "reason": "r"}'),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_rollouts_are_masked_kept_and_judged_again_later(
    case, endpoint, key, directory, make_view, screenshot, caplog
):
    members = await group_of(directory, make_view, screenshot)
    endpoint.does(BROKEN[case](endpoint, key))
    player = rollouter(directory, endpoint, timeout=1.0 if case == "silent" else 60.0)
    with caplog.at_level(logging.DEBUG):
        judged = await judge_all(player, directory, members)
    assert [one.outcome for one in judged] == [Outcome.JUDGE_FAILURE] * MEMBERS
    assert not any(one.live or one.verdict for one in judged)
    rows = directory.database.read("select * from trajectories order by member")
    assert [row["reward"] for row in rows] == [None] * MEMBERS
    assert {json.loads(row["failure_json"])["phase"] for row in rows} == {"judge"}

    endpoint.says(GOOD)
    again = [trajectories.load(directory.trajectories.path(row["id"])) for row in rows]
    assert [one.task.goal for one in again] == ["buy a red cap"] * MEMBERS
    judged = await judge_all(rollouter(directory, endpoint), directory, again)
    assert [one.reward for one in judged] == [1.0] * MEMBERS
    assert key not in caplog.text
    recorded = [path.read_bytes() for path in directory.path.rglob("*") if path.is_file()]
    assert not [content for content in recorded if key.encode() in content]


async def test_what_was_judged_is_not_paid_for_again_and_what_failed_is_asked_again(
    endpoint, key, directory, make_view, screenshot
):
    (member, *_) = await group_of(directory, make_view, screenshot)
    cache = JudgementCache(directory.judgements_cache)
    for answers, count in ((endpoint.sending(500), 2), (endpoint.completing(GOOD), 3)):
        endpoint.does(answers)
        await judge_all(rollouter(directory, endpoint, cache=cache), directory, [member])
        assert len(endpoint.requests) == count
    (kept,) = await judge_all(rollouter(directory, endpoint, cache=cache), directory, [member])
    assert (kept.verdict.label, kept.verdict.judge, len(endpoint.requests)) == ("success", "vlm", 3)


async def test_an_environment_failure_by_the_judge_masks_without_a_reward(
    endpoint, key, directory, make_view, screenshot
):
    (member, *_) = await group_of(directory, make_view, screenshot)
    endpoint.says(GOOD.replace("success", "environment_failure"))
    (judged,) = await judge_all(rollouter(directory, endpoint), directory, [member])
    assert judged.outcome is Outcome.ENVIRONMENT_FAILURE
    assert (judged.live, judged.failure.message) == (False, "seen")
