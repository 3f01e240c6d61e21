# ruff: noqa: E501 (pages and tables are written in one piece)
import json
import shutil

import pytest
from mintact_env_web.cache.checks import judge
from mintact_env_web.cache.exchange import Request
from mintact_env_web.cache.store import Site, save
from mintact_env_web.cache.tasks import cache, tasks_of
from mintact_env_web.cache.validate import table, validate

from mintact_platform.cli.main import main
from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import ConfigurationError, EnvironmentFailure

STOP = {"action": "stop", "response": "Order 4711 it is"}


@pytest.fixture
def sites(shop, folder):
    """A copy of the recording, for tests that write beside it."""
    shutil.copytree(shop.folder, folder)
    return folder


def write_tasks(directory, *lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / "tasks.jsonl").write_text(text)


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_only_what_replays_offline_is_kept(browser, sites, script, written):
    order = {"id": "order", "goal": "Order tea.", "script": [*script, STOP],
             "check": {"request": {"method": "POST", "url": "/order$", "body": {"q": "tea"}},
                       "url": "/thanks$", "answer": "4711", "text": "thank you"}}  # fmt: skip
    gone = [script[0], {"action": "press", "key": "F5"}]
    write_tasks(
        sites / "shop",
        order,
        order | {"id": "wrong", "script": [script[0], STOP]},
        order | {"id": "at start", "check": {"url": "/$"}},
        {"id": "recorded script", "goal": "Look.", "check": {"url": "/thanks$"}},
        {"id": "unsolved", "goal": "Look.", "check": {"url": "/x$"}, "script": []},
        {"id": "no check", "goal": "Look.", "script": gone},
    )
    results = {one.task.rpartition("/")[2]: one for one in await validate(sites / "shop")}
    assert {name: one.reason for name, one in results.items()} == {
        "order": "",
        "wrong": "the check does not hold after the script: url, text, request",
        "at start": "the check holds before anything was done",
        "recorded script": "",
        "unsolved": "no script solves it",
        "no check": "",
    }
    assert results["order"].recorded > 30
    written.on("/", "<a href='/gone' style='position:fixed;left:0;top:0'>x</a>")
    written.save()
    click = {"action": "click", "coordinate": [3, 8]}
    write_tasks(sites / "written", {"id": "leave", "goal": "Go.", "script": [click]})
    (missing,) = await validate(sites / "written")
    assert missing.reason == "the recording has no document for GET http://site.test/gone"
    lines = table([*results.values(), missing]).splitlines()
    assert lines[0].split() == [
        "kept",
        "site",
        "task",
        "recorded",
        "nearest",
        "stubs",
        "misses",
        "reason",
    ]
    assert lines[1].startswith("yes   shop     order")
    assert lines[-2].endswith("GET http://site.test/gone")
    assert lines[-1] == "3 of 7 kept"
    usable = cache(split="train", sites=str(sites))
    assert [task.goal for task in usable] == ["Order tea.", "Look.", "Look."]
    assert usable[0].params["site"] == "shop"
    assert len(cache(split="train", sites=str(sites), validated=False)) == 7
    assert cache(split="test", sites=str(sites)) == []


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_lease_replays_and_a_missing_document_is_the_environments_failure(
    sites, script, written, task, tmp_path
):
    written.on("/", "<a href='/gone' style='position:fixed;left:0;top:0'>x</a>")
    written.save()
    spec = PoolSpec(
        "web/cache", {"sites": str(sites), "settle_s": 30.0}, instances=1, image_format="jpeg"
    )
    manager = EnvironmentManager(
        {"web": spec}, deadlines=Deadlines(), log_directory=tmp_path, incarnation=1
    )
    await manager.start()
    try:
        async with manager.acquire("web") as lease:
            await lease.reset(episode="e0", task=task("written"), seed=0, deadline=60)
            click = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [3, 8]}}
            with pytest.raises(EnvironmentFailure, match="no document for GET") as caught:
                await lease.step(step=0, action=click, deadline=30)
            assert (caught.value.phase, caught.value.kind) == ("step", "invalid")
        async with manager.acquire("web") as lease:
            bought = task(check={"url": "/thanks$"})
            begun = await lease.reset(episode="e1", task=bought, seed=0, deadline=60)
            assert begun.info["replay"]["misses"] == 0
            for number, call in enumerate([*script, STOP]):
                action = {"name": "browser_use", "arguments": call}
                seen = await lease.step(step=number, action=action, deadline=30)
            assert seen.terminated
            assert (await lease.evaluate(deadline=30)).success
    finally:
        await manager.close()


@pytest.mark.parametrize(("line", "said"), [
    ({"id": "a"}, "'goal' must be text"),
    ({"id": "a", "goal": "g", "chek": {}}, "unknown key 'chek'; did you mean 'check'?"),
    ({"id": "a", "goal": "g", "check": {}}, "a check must be an object, got {}"),
    ({"id": "a", "goal": "g", "check": {"awnser": "x"}}, "unknown key 'awnser' in a check; did you mean 'answer'?"),
    ({"id": "a", "goal": "g", "check": {"url": "("}}, "'url' must be a regular expression, got '('"),
    ({"id": "a", "goal": "g", "check": {"request": {"verb": 1}}}, "unknown key 'verb' in a check; known: body, method, url"),
])  # fmt: skip
def test_a_wrong_task_says_where_and_what(folder, line, said):
    folder.mkdir()
    write_tasks(folder, {"id": "fine", "goal": "g"}, line)
    with pytest.raises(ConfigurationError) as caught:
        tasks_of(folder)
    assert str(caught.value) == f"{folder / 'tasks.jsonl'}:2: {said}"


def test_sites_are_held_out_as_a_whole_and_stay_there(folder):
    for number in range(60):
        save(Site("http://a.test/", 1), folder / f"s{number}")
        write_tasks(folder / f"s{number}", *({"id": f"{n}", "goal": "g"} for n in range(2)))
    write_tasks(folder / "s0", {"id": "own", "goal": "g", "split": "test"})

    def split(name, share=0.25):
        found = cache(split=name, sites=str(folder), validated=False, held_out=share)
        return {task.params["site"] for task in found}

    train, validation, test = split("train"), split("validation"), split("test")
    assert len(train) + len(validation) + len(test) == len(train | validation | test)
    assert all(5 <= len(part) <= 25 for part in (validation, test))
    assert "s0" in test
    assert split("validation", 0.1) <= validation
    assert len(split("train", 0.0)) == 59


def test_a_set_without_tasks_says_what_to_do(folder):
    with pytest.raises(ConfigurationError, match="record one with `mintact web record`"):
        cache(split="train", sites=str(folder))
    save(Site("http://a.test/", 1), folder / "s")
    write_tasks(folder / "s", {"id": "a", "goal": "g"})
    with pytest.raises(ConfigurationError, match="run `mintact web validate"):
        cache(split="train", sites=str(folder))


@pytest.mark.parametrize(("wanted", "answer", "holds"), [
    ({"answer": "4.80"}, "It costs €4.80.", True),
    ({"answer": ["Ann", "bob"]}, "bob  and\nANN", True),
    ({"answer": ["Ann", "bob"]}, "ann", False),
    ({"answer": "x"}, None, False),
    ({"url": r"/orders/\d+$"}, None, True),
    ({"url": r"^/orders"}, None, False),
    ({"text": "thank you"}, None, True),
    ({"request": {"method": "post", "body": {"item": "tea", "n": 2}}}, None, True),
    ({"request": {"method": "GET", "body": {"item": "tea"}}}, None, False),
    ({"request": {"body": {"item": "mug"}}}, None, False),
    ({"url": "orders", "answer": "x"}, "y", False),
])  # fmt: skip
def test_checks_read_answers_addresses_texts_and_requests(wanted, answer, holds):
    sent = {"content-type": "application/json"}
    requests = [Request("POST", "http://a.test/cart", sent, b'{"item":"tea","n":2,"z":1}')]
    found = judge(
        wanted, answer=answer, url="http://a.test/orders/12", requests=requests, text="Thank  You!"
    )
    assert (found.success, found.score) == (holds, float(holds))


# ---- the command line ---------------------------------------------------------------------------


@pytest.mark.runs
@pytest.mark.browser
def test_a_site_is_recorded_validated_and_exported_from_the_command_line(
    site, folder, script, capsys
):
    calls = folder.parent / "calls.jsonl"
    calls.write_text("".join(json.dumps(call) + "\n" for call in script))
    directory = folder / "shop"
    words = ["web", "record", site.url, "--to", str(directory), "--script", str(calls)]
    assert main([*words, "--settle", "30", "--private", f"localhost:{site.port}"]) == 0
    out = capsys.readouterr().out
    assert "2 visits from http://127.0.0.1" in out
    assert "changes by itself: mood of GET 127.0.0.1" in out
    assert "next: write" in out
    site.close()
    write_tasks(directory, {"id": "order", "goal": "Order.", "check": {"url": "/thanks$"}})
    assert main(["web", "validate", str(folder)]) == 0
    assert "1 of 1 kept" in capsys.readouterr().out
    assert main(["web", "har", "export", str(directory), "--to", str(folder / "s.har")]) == 0
    assert main(["web", "har", "import", str(folder / "s.har"), "--to", str(folder / "again")]) == 0
    capsys.readouterr()
    shutil.copy(directory / "tasks.jsonl", folder / "again")
    shutil.copy(directory / "script.jsonl", folder / "again")
    shutil.copy(directory / "site.toml", folder / "again")
    assert main(["web", "validate", str(folder / "again"), "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["reason"], result["misses"]) == ("", 0)


def test_help_teaches(capsys):
    assert main(["web"]) == 0
    assert "record a site so that it replays" in capsys.readouterr().out
    for verb, word in (("record", "[rules]"), ("validate", "tasks.jsonl"), ("har", "export")):
        with pytest.raises(SystemExit):
            main(["web", verb, "--help"])
        assert word in capsys.readouterr().out


def test_wrong_words_are_refused(capsys, tmp_path):
    assert main(["web", "recrod"]) == 2
    assert "did you mean 'record'?" in capsys.readouterr().err
    assert main(["web", "validate", str(tmp_path)]) == 2
    assert "no recorded sites" in capsys.readouterr().err
    assert main(["web", "record", "shop.test"]) == 2
    assert "begin it with https://" in capsys.readouterr().err
    assert main(["web", "har", "import", str(tmp_path / "x.har"), "--to", str(tmp_path / "s")]) == 2
