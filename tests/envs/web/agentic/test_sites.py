"""`web/sites`: admitted sites as environment and task set, and the verbs that make them."""

import asyncio
import json

import pytest
from mintact_env_web.agentic.environment import Sites
from mintact_env_web.agentic.scan import scan
from mintact_env_web.agentic.site import FILES, META, Triple, load, read_site, save, to_json
from mintact_env_web.agentic.steps import played
from mintact_env_web.agentic.tasks import sites, split_of
from mintact_env_web.agentic.verbs import record
from mintact_env_web.agentic.writer import Written
from mintact_env_web.cli import web

from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry

START = {"tools": [], "loans": []}


def admitted(draft, root, name="tool-library", **changes):
    """A site on disk as admission leaves it."""
    site, found = read_site(draft(name).values, draft(name).files)
    assert found == []
    folder = save(site, root)
    values = {**to_json(site), "start": changes.get("start", START)}
    (folder / META).write_text(json.dumps(values))
    return folder


def test_every_site_belongs_to_one_split_and_keeps_it(draft, tmp_path):
    names = {admitted(draft, tmp_path, f"site-{n}").name for n in range(40)}
    found = {}
    for split in ("train", "validation", "test"):
        for task in sites(split=split, sites=str(tmp_path)):
            assert task.split == split
            found.setdefault(task.params["site"], set()).add(split)
    assert set(found) == names
    assert all(len(splits) == 1 for splits in found.values())
    assert {split_of(name) for name in names} == {"train", "validation", "test"}


def test_tasks_say_what_an_episode_needs_and_no_check(draft, tmp_path):
    folder = next(
        f for n in range(20) if split_of((f := admitted(draft, tmp_path, f"s-{n}")).name) == "train"
    )
    tasks = [
        t for t in sites(split="train", sites=str(tmp_path)) if t.params["site"] == folder.name
    ]
    assert [task.params["task"] for task in tasks] == ["borrow", "return", "branch", "price"]
    assert tasks[0].params == {"site": folder.name, "task": "borrow"}
    assert len({task.template for task in tasks}) == 4
    assert tasks[0].max_turns == 12


def test_folders_without_usable_sites_are_named(draft, tmp_path):
    with pytest.raises(ConfigurationError, match="mintact web write"):
        sites(split="train", sites=str(tmp_path))
    with pytest.raises(ConfigurationError, match="did you mean 'train'"):
        sites(split="trian", sites=str(tmp_path))
    folder = admitted(draft, tmp_path, start=None)
    with pytest.raises(ConfigurationError, match="no admitted site"):
        sites(split=split_of(folder.name), sites=str(tmp_path))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 9}, "format must be 1"),
        ({"tasks": [{"name": "x"}]}, "'goal' must be"),
        ({"tasks": []}, "'tasks' must be"),
        ({"name": "../up"}, "'name' must be a slug"),
        ({"key": "a b"}, "'key' must be"),
    ],
)
def test_a_site_whose_data_was_tampered_with_is_refused(draft, tmp_path, change, reason):
    folder = admitted(draft, tmp_path)
    values = json.loads((folder / META).read_text())
    (folder / META).write_text(json.dumps({**values, **change}))
    with pytest.raises(ConfigurationError, match=reason):
        load(folder)


def test_files_outside_the_folder_are_not_served(draft, tmp_path):
    folder = admitted(draft, tmp_path)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / FILES / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert "link.txt" not in load(folder).files
    evil, _ = read_site(draft().values, {**draft().files, "../evil.txt": "x"})
    with pytest.raises(ConfigurationError, match="not a file of a site"):
        save(evil, tmp_path)
    assert not (tmp_path / "evil.txt").exists()


def test_a_refused_site_with_unsafe_names_is_noted_and_not_written(draft, tmp_path):
    evil, _ = read_site(draft().values, {**draft().files, "../evil.txt": "x"})
    triple = Triple("lists", (), "shop", "plain")
    record(tmp_path / "sites", Written(triple, evil, tuple(scan(evil.files))))
    assert "no file name" in (tmp_path / "sites" / "refused.jsonl").read_text()
    assert [path.name for path in tmp_path.rglob("*")] == ["sites", "refused.jsonl"]


def test_environment_tasks_and_verbs_are_registered():
    registry = Registry.discover()
    assert registry.get("environments", "web/sites") is Sites
    assert "web/sites" in registry.names("task_sets")
    assert "web" in registry.names("commands")


@pytest.mark.browser
@pytest.mark.timeout(300)
async def test_a_model_writes_a_site_that_is_then_solved_in_its_environment(
    endpoint, draft, tmp_path, capsys
):
    good = draft("good")
    good.values["tasks"] = [good.task("borrow"), good.task("price")]
    server = endpoint(lambda body: good.blocks())
    out = tmp_path / "sites"
    words = ["write", "--base-url", server.url, "--model", "coder", "--out", str(out)]
    words += ["--tasks", "2", "--repairs", "0", "--count", "1"]
    assert await asyncio.to_thread(web, words) == 0
    assert "1 of 1 sites admitted" in capsys.readouterr().out
    (folder,) = [path.parent for path in out.glob(f"*/{META}")]
    site = load(folder)
    (task,) = [
        t
        for t in sites(split=split_of(folder.name), sites=str(out))
        if t.params["task"] == "borrow"
    ]
    environment = Sites(sites=str(out))
    try:
        await environment.reset(options={"task": task.to_json()})
        assert not (await environment.evaluate()).success
        await played(site.task("borrow").solve)(environment)
        assert (await environment.evaluate()).success
        await environment.reset(options={"task": task.to_json()})
        check = await environment.evaluate()
        assert not check.success
        assert "loans.1.tool" in check.details["failing"][0]
        broken = {**task.to_json(), "params": {"site": "../x", "task": "borrow"}}
        with pytest.raises(ConfigurationError, match="no site"):
            await environment.reset(options={"task": broken})
    finally:
        await environment.close()


@pytest.mark.browser
@pytest.mark.timeout(300)
async def test_drafts_on_disk_are_admitted_or_refused(draft, tmp_path, capsys):
    small = draft("small")
    small.values["tasks"] = [small.task("price")]
    good, _ = read_site(small.values, small.files)
    small.files["site.js"] += "\nno.such();"
    bad, _ = read_site({**small.values, "name": "bad"}, small.files)
    drafts, out = tmp_path / "drafts", tmp_path / "sites"
    save(good, drafts)
    save(bad, drafts)
    (drafts / "torn").mkdir()
    (drafts / "torn" / META).write_text("{")
    assert await asyncio.to_thread(web, ["admit", str(drafts), "--out", str(out)]) == 1
    assert [path.parent.name for path in out.glob(f"*/{META}")] == [good.name]
    lines = [json.loads(line) for line in (out / "refused.jsonl").read_text().splitlines()]
    assert {line["site"] for line in lines} == {bad.name, "torn"}
    assert "ReferenceError" in json.dumps(lines)
    said = capsys.readouterr()
    assert f"admitted {good.name}" in said.out
    assert "refused torn" in said.err
