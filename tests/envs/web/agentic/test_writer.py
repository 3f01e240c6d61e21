"""A scripted model writes good sites and bad ones: the good ones are admitted, the reasons told."""

import asyncio
import json
import re
from functools import partial

import pytest
from mintact_env_web.agentic.admit import Limits, examine
from mintact_env_web.agentic.client import ChatModel, Endpoint, Reply
from mintact_env_web.agentic.prompts import rendered
from mintact_env_web.agentic.site import Triple, load, read_site, save, sites_in
from mintact_env_web.agentic.verbs import record
from mintact_env_web.agentic.writer import read_answer, write_sites

from mintact_platform.errors import ModelServerError

pytestmark = [pytest.mark.runs, pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
QUICK = Limits(random_steps=3, settle_s=1.0)


def only(draft, *names):
    draft.values["tasks"] = [draft.task(name) for name in names]
    return draft


def with_check(draft, name, check):
    draft.task(name)["check"] = check
    return draft


async def gate(seats, site):
    async with seats:
        return await examine(site, limits=QUICK)


async def written(endpoint, answers, *, repairs=0, **options):
    """What became of sites by what they were asked to train; `answers` are given in turn."""
    left = {name: list(given) for name, given in answers.items()}

    def script(body):
        name = re.search("capability: (.*)", body["messages"][1]["content"])[1].strip()
        return left[name].pop(0) if len(left[name]) > 1 else left[name][0]

    server = endpoint(script)
    triples = [Triple(name, ("borrow a thing",), "library", "plain") for name in answers]

    async def no_wait(_):
        pass

    async with ChatModel(Endpoint(server.url, "coder"), sleep=no_wait) as model:
        found = await write_sites(
            model, triples, partial(gate, asyncio.Semaphore(2)), repairs=repairs, **options
        )
    return {one.triple.capability: one for one in found}, server


def reasons(one):
    return " / ".join(f"{finding.what}: {finding.reason}" for finding in one.findings)


@pytest.mark.timeout(600)
async def test_exactly_the_good_sites_are_admitted_and_the_reasons_listed(
    browser, endpoint, draft, chat, tmp_path
):
    def bad(*names):
        return only(draft(), *names)

    outside = "new Image().src = ['http:', '', 'other.test', 'x.png'].join('/');\n"
    said_only = bad("return")
    said_only.task("return")["check"] = {"answered": "brought back"}
    said_only.task("return")["solve"].append({"stop": "brought back"})
    lost = bad("return")
    lost.task("return")["solve"] = [{"click": "no such button"}]
    twins = bad("price", "return")
    twins.values["tasks"].append({**twins.task("return"), "name": "bring"})
    twins.values["tasks"][0]["miss"] = []
    two_keys = draft().edit("site.js", "\nsave();\n", "\nsave(); localStorage.extra = 1;\n")
    unlike = "\nDATA.settings.seen = performance.now() + Math.random();\nsave();\n"
    answers = {
        "blocks": [draft("blocks").blocks()],
        "inline": [only(draft("inline"), "return", "price").inline()],
        "busy": [(429, {"retry-after": "1"}, {}), bad("return").blocks()],
        "script error": [draft().edit("site.js", "\nsave();\n", "\nsave(); no.such();\n").blocks()],
        "missing file": [draft().edit("index.html", "site.css", "other.css").blocks()],
        "outside": [draft().edit("site.js", "\nsave();\n", f"\nsave(); {outside}").blocks()],
        "network": [draft().edit("site.js", "\nsave();\n", "\nsave(); fetch('/x');\n").blocks()],
        "two keys": [two_keys.blocks()],
        "no state": [draft().edit("site.js", "\nsave();\n", "\ndraw();\n").blocks()],
        "unlike": [draft().edit("site.js", "\nsave();\n", unlike).blocks()],
        "true at start": [
            with_check(bad("return"), "return", {"exists": {"after": "tools"}}).blocks()
        ],
        "ignores the state": [said_only.blocks()],
        "sloppy": [
            with_check(bad("return"), "return", {"equals": [{"after": "loans"}, []]}).blocks()
        ],
        "lax": [
            with_check(
                bad("branch"),
                "branch",
                {
                    "all": [
                        {"equals": [{"after": "settings.news"}, True]},
                        {"only_changed": "settings"},
                    ]
                },
            ).blocks()
        ],
        "unsolvable": [lost.blocks()],
        "twins": [twins.blocks()],
        "bad check": [with_check(draft(), "price", {"python": "1 == 1"}).blocks()],
        "malformed": ["Here is your site: { name: tools, tasks: [ }"],
        "oversized": [draft().edit("site.css", "body", f"/*{'x' * 500_000}*/ body").blocks()],
        "refuses": [(200, {}, chat(None, refusal="I cannot do that."))],
        "cut off": [(200, {}, chat(draft().blocks()[:300], "length"))],
        "too few": [only(draft(), "price").blocks()],
    }
    few = answers.pop("too few")
    found, _ = await written(endpoint, answers, tasks=1)
    assert {name for name, one in found.items() if one.admitted} == {"blocks", "inline", "busy"}
    expected = {
        "script error": "load: script error: ReferenceError: no is not defined",
        "missing file": "load: the site has no file '/other.css'",
        "outside": "load: request outside the site: http://other.test/x.png",
        "network": "files: site.js:41: uses the network",
        "two keys": "load: localStorage also has extra; keep one key",
        "no state": "load: no JSON object lies under 'tools' in localStorage",
        "unlike": "load: two visits start differently: settings",
        "true at start": "start: return: the check holds at the start",
        "ignores the state": "miss: return: the check ignores the state",
        "sloppy": "miss: return: the check does not notice that 'orders' changed too",
        "lax": "miss: branch: the check says True",
        "unsolvable": "solve: return: TargetMissing: no element 'no such button'",
        "twins": "miss: return: the check also holds after the solution of 'bring'",
        "bad check": "task: price check: unknown operator 'python'",
        "malformed": "answer: no JSON in the answer",
        "oversized": "files: site.css: 500",
        "refuses": "model: coder at",
        "cut off": "answer: it was cut off at the token limit",
    }
    for name, reason in expected.items():
        assert reason in reasons(found[name]), name
    few_found, _ = await written(endpoint, {"too few": few}, tasks=3)
    assert "1 tasks are fewer than 3" in reasons(few_found["too few"])

    for one in found.values():
        record(tmp_path, one)
    admitted = {folder.name.rpartition("-")[0] for folder in sites_in(tmp_path)}
    assert admitted == {"blocks", "inline", "tool-library"}
    lines = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
    assert len(lines) == len(answers) - 3
    assert all(line["reasons"] for line in lines)
    assert {load(f).start["orders"] for f in sites_in(tmp_path)} == {1}


@pytest.mark.timeout(300)
async def test_a_refused_site_is_mended_with_the_reasons_it_was_given(browser, endpoint, draft):
    broken = only(draft(), "return", "price")
    right = broken.task("return")["solve"]
    broken.task("return")["solve"] = [{"click": "Loans"}, {"click": "Bring back"}]
    first = broken.blocks()
    mended = {"tasks": [{**broken.task("return"), "solve": right}]}
    answers = {"mends": [first, f"```json site.json\n{json.dumps(mended)}\n```"], "stays": [first]}
    found, server = await written(endpoint, answers, repairs=1, tasks=1)
    assert found["mends"].admitted
    assert found["mends"].rounds == 2
    assert found["mends"].tokens == 200
    assert [task.name for task in found["mends"].site.tasks] == ["return", "price"]
    assert not found["stays"].admitted
    assert found["stays"].rounds == 2
    again = [body["messages"] for body in server.asked if len(body["messages"]) == 4]
    assert len(again) == 2
    assert "no element 'Bring back'" in again[0][3]["content"]
    assert "```js site.js" in again[0][2]["content"]


@pytest.mark.timeout(300)
async def test_good_tasks_are_kept_without_the_bad_ones_when_that_is_enough(browser, draft):
    mixed = only(draft(), "return", "price")
    mixed.task("return")["solve"] = [{"click": "Loans"}]
    site, _ = read_site(mixed.values, mixed.files)
    seen = await examine(site, keep=1, limits=QUICK)
    assert seen.admitted
    assert [task.name for task in seen.site.tasks] == ["price"]
    assert "return" in seen.dropped[0].reason


@pytest.mark.timeout(300)
async def test_a_model_may_solve_instead_of_the_script(browser, draft):
    site, _ = read_site(only(draft(), "price").values, draft().files)

    def guesses(answer):
        async def play(environment):
            return answer

        return lambda site, task: play

    assert (await examine(site, solver=guesses("It costs 2.50"), limits=QUICK)).admitted
    wrong = await examine(site, solver=guesses("It costs 3"), limits=QUICK)
    assert [finding.what for finding in wrong.findings] == ["solve"]


async def test_a_refused_key_ends_all_writing(endpoint):
    with pytest.raises(ModelServerError, match="401"):
        await written(endpoint, {"a": [(401, {}, {})], "b": [(401, {}, {})]})


async def test_an_answer_lies_over_the_site_that_it_mends(draft):
    base, _ = read_site(draft().values, draft().files)
    change = {"name": "renamed", "tasks": [{"name": "price", "drop": True}]}
    text = f"```css site.css\nbody {{}}\n```\n```json site.json\n{json.dumps(change)}\n```"
    site, found = read_answer(Reply(text), None, base)
    assert found == []
    assert site.title == "renamed"
    assert [task.name for task in site.tasks] == ["borrow", "return", "branch"]
    assert site.files["site.css"] == "body {}\n"
    assert site.files["site.js"] == base.files["site.js"]
    only_files, found = read_answer(Reply("```css site.css\np {}\n```"), None, base)
    assert found == []
    assert only_files.tasks == base.tasks
    unreadable, found = read_answer(Reply("sorry"), None, base)
    assert unreadable is None
    again, found = read_answer(Reply(rendered(base)), None, None)
    assert (again.tasks, found) == (base.tasks, [])


async def test_a_site_on_disk_is_the_site_that_was_saved(draft, tmp_path):
    site, _ = read_site(draft().values, {**draft().files, "a/b.txt": "é\r\n"}, None)
    folder = save(site, tmp_path)
    assert save(site, tmp_path) == folder
    assert load(folder) == site
    assert load(folder).host == site.host
    assert [f.name for f in tmp_path.iterdir()] == [site.name]
