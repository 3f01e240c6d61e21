"""Saved episodes become supervised rows: the very tokens that a rollout would have recorded."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from mintact_env_micro.scene import Layout
from mintact_env_micro.tasks import DOMAINS

from mintact_platform.config import Deadlines
from mintact_platform.datasets import saved
from mintact_platform.datasets.supervised import Renderer, batch, sources
from mintact_platform.environments.client.lease import Lease
from mintact_platform.errors import ConfigurationError
from mintact_platform.models.protocol import Generation
from mintact_platform.models.vision import VisionSize
from mintact_platform.registry.names import Registry
from mintact_platform.rollouts.episode import Episode, EpisodeKey, EpisodeSettings, EpisodeTools
from mintact_platform.storage.images import ImageStore

VISION = VisionSize(16, 2, 1 << 20)
LIMITS = EpisodeSettings(1.0, 64, 10**6, 30, 3, "system", Deadlines(), 0)


def tool(name, **arguments):
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<think>–</think><tool_call>{call}</tool_call>"


def screen(name, action, **arguments):
    return tool(name, action=action, **arguments)


EPISODES = {
    "screens": (
        ["micro/mobile"],
        [
            screen("mobile_use", "click", coordinate=[500, 300]),
            screen("mobile_use", "click", coordinate=[20, 900]),
            screen("mobile_use", "terminate", status="success"),
        ],
    ),
    "text and several images": (
        ["stand_ins_of_play:Wall", "--param", "more=true", "--goal", "paint it\nblack «ü»"],
        [
            screen("computer_use", "left_click", coordinate=[999, 999]),
            # two calls in one turn: only the last observation is seen
            screen("computer_use", "left_click") + screen("computer_use", "right_click"),
            screen("computer_use", "terminate", status="success"),
        ],
    ),
    "tools that change": (
        ["micro/tools", "--param", "announce=both"],
        [
            tool("answer", text="wait"),
            tool("search_tool", query=DOMAINS["tools"].start(0, Layout()).topic),
            tool("terminate", status="success"),
        ],
    ),
}


async def rollout(task, environment, params, space, responses, chat, server, folder):
    """What a model's rollout would have recorded, had it answered so."""
    answers = iter(responses)

    async def generate(request):
        ids = np.asarray([*chat.encode(next(answers)), chat.end_id], np.int32)
        zeros = np.zeros(len(ids), np.float32)
        images = [episode._shown[k] for k in range(len(request.images))]
        prompt = len(request.ids) + sum(VISION.tokens(i.width, i.height) - 1 for i in images)
        return Generation(ids, zeros, zeros.astype(np.int32), "stop", prompt)

    tools = EpisodeTools(generate, chat, VISION, ImageStore(folder), space)
    episode = Episode(task, EpisodeKey("twin"), LIMITS, tools)
    lease = await Lease.create(
        server, environment=environment, params=params, key=str(folder), deadline=60
    )
    try:
        outcome = await episode.run(lease)
    finally:
        await lease.release()
    assert outcome.counts, episode.failure
    return episode.trajectory(outcome, 1.0).segments


@pytest.mark.parametrize("kind", EPISODES)
@pytest.mark.parametrize("slip", [False, True])
async def test_a_saved_episode_gives_the_rows_of_a_rollout(
    kind, slip, open_session, wait, chat, server, tmp_path
):
    words, responses = EPISODES[kind]
    session = await open_session(*words, "--save", str(tmp_path / "demos.jsonl"))
    for index, response in enumerate(responses):
        if slip and index == 1:
            session.respond("I do not know what to do")
            await wait(session, "waiting")
        session.respond(response)
        await wait(session, "waiting", "ended", "failed")
    assert session.phase == "ended", session.round.failure
    path = await session.save()

    registry = Registry.discover()
    entry = {"name": "episodes", "params": {"path": str(path), "verdict": "any"}}
    (found,) = batch(sources([entry], registry), step=1, size=1, seed=0)
    rows = Renderer(chat, VISION, lambda name: session.space).rows(found)

    pool = session.settings.pool
    segments = await rollout(
        session.round.task, pool.environment, pool.params, session.space, responses, chat, server,
        tmp_path / "twin",
    )  # fmt: skip
    supervised = [segment for segment in segments if segment.mask.any()]
    assert len(rows) == len(supervised) == (2 if kind == "tools that change" else 1)
    for row, segment in zip(rows, supervised, strict=True):
        assert chat.decode(row.ids.tolist()) == chat.decode(segment.ids.tolist())
        assert (row.ids == segment.ids).all()
        assert (row.mask == segment.mask).all()
        places = [(i.position, i.width, i.height) for i in segment.images]
        assert [(i.position, i.width, i.height) for i in row.images] == places


def row(**changes):
    turn = {"observation": "hi", "images": [], "tools": [], "response": "a", "error": ""}
    return {
        "format": 1,
        "id": "x",
        "task": {"goal": "g", "domain": "tools"},
        "action_space": "tool_use",
        "state_check": None,
        "verdict": {"label": "success"},
        "turns": [turn],
        "extra": {},
        **changes,
    }


def write(path, *rows):
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def test_only_successes_are_used_unless_all_are_asked_for(tmp_path):
    good, bad = row(id="good"), row(id="bad", verdict={"label": "failure"})
    checked = row(id="checked", verdict=None, state_check={"success": True})
    unknown = row(id="unknown", verdict=None)
    file = write(tmp_path / "a.jsonl", good, bad, checked, unknown)
    drawn = itertools.islice(saved.episodes(seed=1, path=file), 8)
    assert [d.extra["id"] for d in drawn].count("good") == 4
    everything = itertools.islice(saved.episodes(seed=1, path=file, verdict="any"), 4)
    assert {d.extra["id"] for d in everything} == {"good", "bad", "checked", "unknown"}


def test_a_folder_holds_all_its_files_and_the_seed_decides_the_order(tmp_path):
    for name in "abc":
        write(tmp_path / f"{name}.jsonl", *(row(id=f"{name}{k}") for k in range(4)))

    def order(seed):
        stream = saved.episodes(seed=seed, path=tmp_path)
        return [demonstration.extra["id"] for demonstration in itertools.islice(stream, 12)]

    assert len(set(order(0))) == 12
    assert order(0) == order(0) != order(1)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "none of 0 episodes"),
        (json.dumps(row(verdict={"label": "failure"})), "none of 1 episodes may be used"),
        (json.dumps(row(turns=[])), "none of 1 episodes"),
        ("{", "line 1 is no saved episode"),
        (json.dumps(row(format=7)), "format 7"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(lines, message, tmp_path):
    file = tmp_path / "demos.jsonl"
    file.write_text(lines)
    with pytest.raises(ConfigurationError, match=message):
        next(saved.episodes(seed=0, path=file))


def test_a_file_that_is_not_there_is_found_out_before_a_run_is_created(tmp_path):
    for path in (tmp_path, tmp_path / "nope.jsonl"):
        entry = {"name": "episodes", "params": {"path": str(path)}}
        with pytest.raises(ConfigurationError, match=r"'path': .*no saved episodes there; save"):
            sources([entry], Registry.discover())


async def test_a_line_that_a_crash_cut_short_does_not_swallow_the_next(
    open_session, wait, tmp_path
):
    file = tmp_path / "demos.jsonl"
    file.write_text(json.dumps(row()))
    session = await open_session("micro/mobile", "--save", str(file))
    session.respond(screen("mobile_use", "terminate", status="failure"))
    await wait(session, "ended")
    await session.save()
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 2
