"""What rollouts needed is read from screenshots, merged into groups, and drawn from."""

import asyncio
import base64
import json
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mintact_env_web.agentic import sampler
from mintact_env_web.agentic.client import ChatModel, Endpoint
from mintact_env_web.agentic.groups import (
    Observed,
    batches,
    fold,
    read_groups,
    read_names,
    tally,
)
from mintact_env_web.agentic.mining import (
    merge,
    mine,
    read_groups_file,
    read_observed,
    to_toml,
)
from mintact_env_web.agentic.rollouts import RecordedRun
from mintact_env_web.agentic.sampler import Group, Sampler
from mintact_env_web.cli import web

from mintact_platform.errors import ConfigurationError, ModelServerError
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Segment, Trajectory, Turn
from mintact_platform.records.verdict import Verdict
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ledger import add_trajectory, open_group, set_verdict

FINE = {
    "filter": ["Filter products by price.", "filter the products by price", "Filter by rating"],
    "sort": ["Sort a table by a column"],
    "calendar": ["Pick a date in a calendar popup", "choose a date range"],
}
MERGED = {
    "filter products by price": "filter and sort lists",
    "filter by rating": "filter and sort lists",
    "sort table by column": "filter and sort lists",
    "pick date in calendar popup": "pick dates",
    "choose date range": "pick dates",
}


def asked_names(body):
    return re.findall("^- (.*)$", body["messages"][1]["content"], re.MULTILINE)


def seeing(body):
    """A model that reads what a screenshot shows from its bytes, and merges by a table."""
    question = body["messages"][1]["content"]
    if isinstance(question, str):
        groups = {}
        for name in asked_names(body):
            groups.setdefault(MERGED.get(name, name).title(), []).append(name)
        return json.dumps({"groups": {**groups, "Invented": ["never asked"]}})
    shown = [base64.b64decode(p["image_url"]["url"].partition(",")[2]) for p in question[1:]]
    found = [name for image in shown for name in FINE.get(image[8:].decode(), [])]
    return f"I see: {json.dumps({'capabilities': found})}"


def segment():
    return Segment(
        np.array([1], np.int32), np.array([True]), np.zeros(1, np.float32), np.zeros(1, np.int32)
    )


async def recorded(path, rollouts):
    """A run directory with rollouts: `(what each screenshot shows, label)`."""
    run = RunDirectory.create(path, config_toml="", plugins={}, metadata={})
    for number, (shown, label) in enumerate(rollouts):
        group = f"g{number}"
        await run.database.write(open_group(group, f"t{number}", "web", float(number)))
        digests = [run.images.put(b"\x89PNG\r\n\x1a\n" + what.encode(), "png") for what in shown]
        call = {
            "name": "browser_use",
            "arguments": {"action": "click", "coordinate": [3, 4]},
        }
        turns = tuple(
            Turn(i, "", (digest,), "…", (call,), (call,)) for i, digest in enumerate(digests)
        )
        one = Trajectory(
            f"r{number}",
            group,
            0,
            0,
            Task(f"t{number}", "do it", "web"),
            Outcome.COMPLETED if label else Outcome.ENVIRONMENT_FAILURE,
            turns=turns,
            segments=(segment(),),
            image_extensions=dict.fromkeys(digests, "png"),
        )
        await run.database.write(add_trajectory(one, run.trajectories.save(one)))
        if label:
            verdict = Verdict(label, float(label == "success"))
            await run.database.write(set_verdict(one.id, verdict, verdict.reward))
    run.close()
    return path


async def mined(server, run, directory):
    async with ChatModel(Endpoint(server.url, "vlm", tries=1)) as model:
        with RecordedRun(run) as rollouts:
            return await mine(model, rollouts, directory)


ROLLOUTS = [
    (["filter", "sort"], "success"),
    (["calendar"], "failure"),
    (["filter", "other", "filter"], "failure"),
    (["calendar", "sort"] * 5, "failure"),
    (["filter"], None),
]


async def test_capabilities_of_rollouts_merge_into_the_expected_groups(endpoint, tmp_path):
    run = await recorded(tmp_path / "run", ROLLOUTS)
    server = endpoint(seeing)
    groups = await mined(server, run, tmp_path / "mined")
    assert [(g.name, g.seen, g.judged, g.failed) for g in groups] == [
        ("filter and sort lists", 3, 3, 2),
        ("pick dates", 2, 2, 2),
    ]
    assert groups[0].skills == (
        "filter by rating",
        "filter products by price",
        "sort table by column",
    )
    assert groups[1].skills == ("choose date range", "pick date in calendar popup")
    assert read_groups_file(tmp_path / "mined" / "capabilities.toml") == groups
    text = server.asked[0]["messages"][1]["content"][0]["text"]
    assert "The agent was asked: do it" in text
    assert "After screenshot 1: click" in text


async def test_mining_goes_on_where_it_stopped_and_asks_nothing_twice(endpoint, tmp_path):
    run = await recorded(tmp_path / "run", ROLLOUTS)
    left = [2]

    def failing(body):
        left[0] -= 1
        return seeing(body) if left[0] >= 0 else (400, {}, {"error": "enough"})

    with pytest.raises(ModelServerError, match="enough"):
        await mined(endpoint(failing), run, tmp_path / "mined")
    path = tmp_path / "mined" / "observed.jsonl"
    kept = read_observed(path)
    path.write_text(path.read_text() + '{"rollout": "r9", "suc')  # killed while writing
    server = endpoint(seeing)
    groups = await mined(server, run, tmp_path / "mined")
    asked = [body for body in server.asked if not isinstance(body["messages"][1]["content"], str)]
    assert (
        len(kept) + len({o.rollout for o in read_observed(path)} - {o.rollout for o in kept}) == 4
    )
    assert len(asked) <= 5
    assert [g.seen for g in groups] == [3, 2]
    again = endpoint(seeing)
    assert await mined(again, run, tmp_path / "mined") == groups
    assert all(isinstance(body["messages"][1]["content"], str) for body in again.asked)


async def test_the_order_of_rollouts_and_the_size_of_batches_do_not_matter(endpoint):
    server = endpoint(seeing)
    names = list(MERGED)
    async with ChatModel(Endpoint(server.url, "llm")) as model:
        expected = await merge(model, names)
        for size in (1, 2, 3, 80):
            for seed in range(3):
                random.Random(seed).shuffle(names)
                assert await merge(model, names, size=size) == expected
        assert await merge(model, []) == {}
    assert expected == MERGED


async def test_groups_of_batches_are_merged_among_each_other(endpoint):
    def by_verb(body):
        groups = {}
        for name in asked_names(body):
            groups.setdefault(name.split()[0], []).append(name)
        return json.dumps(groups)

    names = [f"{verb} thing {n}" for verb in ("sort", "pick", "type") for n in range(40)]
    async with ChatModel(Endpoint(endpoint(by_verb).url, "llm")) as model:
        found = await merge(model, names, size=7)
    assert found == {name: name.split()[0] for name in names}


async def test_an_answer_without_json_is_asked_for_once_more_and_then_left_out(endpoint):
    stubborn = endpoint(lambda body: "no")
    async with ChatModel(Endpoint(stubborn.url, "llm")) as model:
        assert await merge(model, ["a b", "c d"]) == {"a b": "a b", "c d": "c d"}
    assert len(stubborn.asked) == 2


def test_names_are_made_alike():
    assert fold(" Pick a  DATE, in the calendar.") == "pick date in calendar"
    assert len(fold("x" * 500)) <= 90
    answer = {"capabilities": ["Sort lists", {"name": "sort  lists"}, {"capability": "Log in"}, 3]}
    assert read_names(answer) == ["sort lists", "log in"]
    assert read_names("text") == read_names(None) == read_names({"a": 1}) == []


@given(st.lists(st.text("abc ", min_size=1, max_size=4), max_size=40), st.integers(1, 9))
@settings(max_examples=80, deadline=None)
def test_batches_hold_every_name_once_in_order(names, size):
    found = batches(names, size)
    assert [name for batch in found for name in batch] == sorted(set(names))
    assert all(1 <= len(batch) <= size for batch in found)
    assert max(map(len, found), default=0) - min(map(len, found), default=0) <= 1


json_values = st.recursive(
    st.none() | st.integers() | st.sampled_from(["one", "two", "three", "groups", "name"]),
    lambda v: (
        st.lists(v, max_size=4)
        | st.dictionaries(st.sampled_from(["groups", "name", "one", "g"]), v, max_size=3)
    ),
    max_leaves=12,
)


@given(json_values)
@settings(max_examples=150, deadline=None)
def test_every_name_asked_about_gets_exactly_one_group_whatever_is_answered(answer):
    found = read_groups(answer, ["one", "two"])
    assert set(found) == {"one", "two"}
    assert all(isinstance(group, str) and group for group in found.values())


def test_both_forms_of_an_answer_are_read():
    names = ["x b", "c d", "e f"]
    listed = [
        {"name": "Group", "capabilities": ["The X b.", "c d"]},
        {"name": "Y", "members": ["x b"]},
    ]
    assert read_groups(listed, names) == {"x b": "group", "c d": "group", "e f": "e f"}
    assert read_groups({"groups": {"Group": ["The X b.", "c d"]}}, names) == read_groups(
        listed, names
    )


def test_a_rollout_counts_once_for_a_group():
    seen = [
        Observed("r1", False, ("a", "b")),
        Observed("r1", False, ("a", "b")),
        Observed("r2", None, ("b", "unknown")),
    ]
    assert tally(seen, {"a": "g", "b": "g", "z": "never"}) == [Group("g", ("a", "b"), 2, 1, 1)]


def test_what_fails_is_drawn_oftener_and_draws_repeat():
    groups = [
        Group("mastered", ("m",), 100, 100, 0),
        Group("failing", ("f",), 100, 100, 100),
        Group("rare", ("r",), 1, 1, 1),
    ]
    draws = Sampler(groups, ["shop", "clinic"], ["plain", "dark"], seed=3)
    triples = [draws.triple(index) for index in range(600)]
    counts = {g.name: sum(t.capability == g.name for t in triples) for g in groups}
    assert counts["failing"] > 4 * counts["mastered"]
    assert counts["failing"] > 4 * counts["rare"]
    assert min(counts.values()) > 0
    assert triples == [
        Sampler(groups[::-1], ["clinic", "shop"], ["dark", "plain"], seed=3).triple(i)
        for i in range(600)
    ]
    assert len({(t.category, t.style) for t in triples}) == 4


def test_the_procedural_lists_serve_when_nothing_is_mined():
    draws = Sampler(
        sampler.procedural_groups(), sampler.procedural_categories(), sampler.procedural_styles()
    )
    triples = [draws.triple(index) for index in range(50)]
    assert len({(t.capability, t.category, t.style) for t in triples}) >= 45
    assert all(t.skills for t in triples)


def test_a_file_of_groups_is_readable_and_its_mistakes_are_named(tmp_path):
    path = tmp_path / "capabilities.toml"
    groups = [Group('with "quotes" \\ é', ("a\nb", "c"), 3, 2, 1)]
    path.write_text(to_toml(groups, 7))
    assert read_groups_file(path) == groups
    path.write_text('[[group]]\nname = "mine"\ncapabilities = ["x"]\n')
    assert read_groups_file(path) == [Group("mine", ("x",), 1, 0, 0)]
    for text, reason in (
        ("", "'group' is missing"),
        ("group = []", "no groups"),
        ('[[group]]\nname = "a"', "'capabilities' is missing"),
        ('[[group]]\nname = "a"\ncapabilities = []\nseen = "x"', "'seen' must be a whole number"),
        ("[[", "Invalid"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=reason):
            read_groups_file(path)


async def test_the_verb_mines_a_run(endpoint, tmp_path, capsys):
    run = await recorded(tmp_path / "run", ROLLOUTS)
    words = ["--base-url", endpoint(seeing).url, "--model", "vlm", "--out", str(tmp_path / "m")]
    assert await asyncio.to_thread(web, ["mine", str(run), *words]) == 0
    assert "filter and sort lists" in capsys.readouterr().out
