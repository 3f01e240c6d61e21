"""Sites and tasks are functions of seeds, and there are enough of them."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mintact_env_web.synth.capabilities import capabilities, templates
from mintact_env_web.synth.categories import categories
from mintact_env_web.synth.generator import build, draw, tasks
from mintact_env_web.synth.site import answered
from mintact_env_web.synth.source import judge
from mintact_env_web.synth.styles import styles
from mintact_env_web.synth.tasks import SIZES, SynthTasks

SEEDS = st.integers(0, 2**40)


@given(seed=SEEDS)
@settings(max_examples=25, deadline=None)
def test_the_same_seed_gives_the_same_bytes(seed):
    assert build(seed).files == build(seed).files


def test_the_three_axes_are_as_wide_as_promised():
    assert len(capabilities()) >= 40
    assert len(categories()) >= 25
    assert len(styles()) >= 20
    assert len(templates()) >= 200
    assert all(len(c.templates) >= 5 for c in capabilities().values())


@pytest.mark.parametrize("name", capabilities())
def test_a_capability_draws_tasks_on_every_category(name):
    own = capabilities()[name].templates
    assert [t.name.partition("/")[0] for t in own] == [name] * len(own)
    for seed, category in enumerate(categories()):
        site = build(seed, category=category, include=(name,))
        drawn = [draw(site, t.name, random.Random(seed)) for t in own]
        assert sum(task is not None for task in drawn) >= len(own) - 1, category
        for task in filter(None, drawn):
            assert "{" not in task.goal
            assert json.loads(json.dumps(task.params)) == task.params


@pytest.mark.parametrize("name", templates())
def test_a_check_is_false_at_the_start_and_draws_repeat(name):
    for seed in range(8):
        site = build(seed, include=(name.partition("/")[0],))
        task = draw(site, name, random.Random(seed))
        assert task == draw(site, name, random.Random(seed))
        if task is None:
            continue
        params = {"template": name, "values": task.params}
        state = {c: site.content[c]["state"] for c in site.capabilities}
        assert not judge(site, params, state, None).success
        assert not judge(site, params, {}, "").success


@given(seed=SEEDS)
@settings(max_examples=25, deadline=None)
def test_the_tasks_of_a_site_have_different_templates(seed):
    site = build(seed)
    found = tasks(site, 4)
    assert len({task.template for task in found}) == len(found) == 4


def test_splits_have_their_sizes_share_no_site_and_keep_their_tasks():
    sites = {}
    for split, size in SIZES.items():
        tasks_of = SynthTasks(split)
        assert len(tasks_of) == size
        picked = [tasks_of[i] for i in range(0, size, size // 50)]
        assert [t.id for t in picked] == [
            SynthTasks(split)[i].id for i in range(0, size, size // 50)
        ]
        sites[split] = {t.params["site"] for t in picked}
    assert not sites["train"] & sites["validation"]
    assert not sites["train"] & sites["test"]
    assert not sites["validation"] & sites["test"]


def test_another_capability_changed_by_the_way_spoils_a_task():
    site = build(3, include=("cart", "signup"))
    task = draw(site, "cart/add_one", random.Random(1))
    start = site.content["cart"]["state"]["lines"]
    after = {"cart": {"lines": [*start, {"id": task.params["id"], "count": 1}]}}
    params = {"template": task.template, "values": task.params}
    assert judge(site, params, after, None).success
    after["signup"] = {**site.content["signup"]["state"], "accounts": [{"name": "x"}]}
    verdict = judge(site, params, after, None)
    assert not verdict.success
    assert verdict.details["also_changed"] == ["signup"]


@pytest.mark.parametrize(
    ("answer", "wanted", "held"),
    [
        ("The total is $1,240.", "1240", True),
        ("112", "12", False),
        ("12.50", "12", False),
        ("It is 12.", "12", True),
        ("oak  DESK", "Oak desk", True),
        (None, "x", False),
        ("", "x", False),
    ],
)
def test_an_answer_holds_a_number_only_where_it_stands_alone(answer, wanted, held):
    assert answered(answer, wanted) is held


def test_files_name_nothing_outside_the_site():
    for seed in range(40):
        site = build(seed)
        for name, body in site.files.items():
            found = re.findall(rb"https?://[^\s\"')]+", body)
            assert {url for url in found if b"www.w3.org" not in url} == set(), name
