"""Every code block of the manual and of the READMEs is run, checked, or says why it is not.

`python` blocks run, in order, in one namespace a page. `toml` blocks are run files, or parts of
one: they are read, and everything they name is looked up. Of `sh` blocks every line is classified:
a verb that only reads is run, one that would train or serve has its words and overrides parsed by
its own parser, what is installed or made has to exist. The commands of the stories are run by
`test_stories`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import types
from collections import Counter
from pathlib import Path

import pytest

from mintact_platform import config
from mintact_platform.cli.main import VERBS, main, parser_of
from mintact_platform.datasets.supervised import sources
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.plan import plan
from mintact_platform.training.objective import compose

ROOT = Path(__file__).parents[2]
THIRD_PARTY = ROOT / "tests" / "third_party"
SHOWN = ("text", "json", "html")
"""Output and data: nothing to run."""
READERS = ("plugins", "objectives", "tasks", "doctor")
"""Verbs that only read what is installed."""
RUN_FILE = """
name = "page"
[domains.mobile]
environment = "micro/mobile"
tasks = "micro/mobile:train"
[domains.web]
environment = "gym/CartPole-v1"
tasks = "gym/CartPole-v1:train"
"""
ADDRESS = "http://127.0.0.1:8000"
"""Where the pages say that an environment server is; a real one takes its place."""


def test_every_block_runs_or_says_why_it_does_not(page, blocks, workshop, record_property):
    with workshop.page() as namespace:
        counts = Counter(check(block, namespace, workshop) for block in blocks)
    counts = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    record_property("note", f"docs: {page.relative_to(ROOT)}: {counts or 'no code'}")


def check(block, namespace, workshop):
    """Deal with a block; what was done, for the count."""
    if block.not_run:
        return "not run"
    if block.language in SHOWN:
        return "shown"
    try:
        if block.language == "python":
            text = workshop.served(block.text)
            exec(compile(text, block.place, "exec"), namespace.__dict__)
            return "python run"
        if block.language == "toml":
            return check_toml(tomllib.loads(block.text), workshop)
        if block.language == "sh" and "/stories/" in str(block.page):
            return "sh run by test_stories"
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                check_command(shlex.split(line, comments=True), workshop)
            return "sh checked"
    except (Exception, SystemExit) as error:
        raise AssertionError(f"{block.place}: {type(error).__name__}: {error}") from error
    raise AssertionError(f"{block.place}: {block.language or 'no language'}: nothing checks this")


def check_toml(values, workshop):
    """A pyproject's entry points, or a run file of which the rest is filled in."""
    if "project" in values:
        assert set(values["project"].get("entry-points", {"mintact": {}})) == {"mintact"}
        return "pyproject read"
    for domain in values.get("domains", {}).values():
        domain.setdefault("environment", "micro/mobile")
        domain.setdefault("tasks", "micro/mobile:train")
    values = {"name": "page", **values, "model": {"path": str(workshop.model)}}
    checked, registry = config.parse(values), Registry.discover()
    with pytest.MonkeyPatch.context() as patch:
        if name := checked.rollout.params.get("api_key_env"):
            patch.setenv(name, "a key")
        plan(checked, registry, domains=bool(checked.domains), messages=True)
    compose(registry, checked.objective.model_dump(mode="json"))
    if checked.sft.data:
        sources(checked.sft.data, registry)
    return "run file planned"


def check_command(words, workshop):
    """One line of a shell; an AssertionError when it is of no known kind."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if not words:
        return
    known = {"mintact": mintact, "pip": pip, "make": make, "python": python}
    assert words[0] in known, f"{words[0]!r} is not run; write <!-- not run: why --> before it"
    known[words[0]](words[1:], workshop)


def mintact(words, workshop):
    verb, rest = words[0], words[1:]
    if verb in READERS or verb.startswith("-"):
        assert main(words) == 0
    elif verb in VERBS:
        module = importlib.import_module(f"mintact_platform.cli.{verb}")
        parsed = parser_of(verb, module).parse_intermixed_args(rest)
        if hasattr(parsed, "overrides"):
            named = ROOT / parsed.run_file
            config.load(named if named.is_file() else workshop.run_file, parsed.overrides)
    else:
        flags = [word for word in rest if word.startswith("--")]
        verbs = [word for word in rest[:1] if not word.startswith("-")]
        command = [sys.executable, "-m", "mintact_platform.cli.main", verb, *verbs, "--help"]
        offered(command, flags, workshop)


def pip(words, workshop):
    """What is installed is a folder, or a distribution of this repository."""
    names = [word for word in words[1:] if not word.startswith("-")]
    assert words[0] == "install"
    assert names
    for name in names:
        folder = name.startswith((".", "/")) and (ROOT / name / "pyproject.toml").is_file()
        assert folder or re.split(r"[\[<>=~]", name)[0] in workshop.distributions, name


def make(words, workshop):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(words) <= set(targets), words


def python(words, workshop):
    flags = [word for word in words if word.startswith("--")]
    target = words[:2] if words[0] == "-m" else [str(ROOT / words[0])]
    offered([sys.executable, *target, "--help"], flags, workshop)


def offered(command, flags, workshop):
    """The program exists, and its help names these flags."""
    said = help_of(tuple(command), workshop.directory)
    missing = [flag for flag in flags if flag not in said]
    assert not missing, f"{missing} are no flags of it"


@functools.cache
def help_of(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout


class Workshop:
    """What blocks are tried with: a model, installed third-party plugins, a served environment."""

    def __init__(self, directory, model):
        self.directory, self.model = directory, model
        self.run_file = directory / "run.toml"
        self.run_file.write_text(RUN_FILE)
        episodes = directory / "runs" / "play" / "micro-web.jsonl"
        episodes.parent.mkdir(parents=True)
        episodes.touch()
        collected = directory / "runs" / "teacher" / "run.db"
        collected.parent.mkdir(parents=True)
        collected.touch()
        files = [*ROOT.glob("pyproject.toml"), *ROOT.glob("*/*/pyproject.toml")]
        files += THIRD_PARTY.glob("*/pyproject.toml")
        projects = [tomllib.loads(file.read_text())["project"] for file in files]
        self.distributions = {project["name"] for project in projects}
        self._server, self._url = None, ""

    @contextlib.contextmanager
    def page(self):
        """A page's namespace, as a module that its classes can be found in."""
        module = types.ModuleType("page")
        stopping, here = signal.getsignal(signal.SIGTERM), Path.cwd()
        sys.modules["page"] = module
        os.chdir(self.directory)
        try:
            yield module
        finally:
            os.chdir(here)
            del sys.modules["page"]
            signal.signal(signal.SIGTERM, stopping)

    def served(self, text):
        """The text, with the address of a server of ours where it has one."""
        return text.replace(ADDRESS, self._address()) if ADDRESS in text else text

    def close(self):
        if self._server is not None:
            self._server.terminate()
            self._server.communicate()

    def _address(self):
        if self._server is None:
            command = "mintact_platform.cli.main", "serve", "gym/CartPole-v1"
            self._server = subprocess.Popen(
                [sys.executable, "-m", *command, "--json"],
                cwd=self.directory,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._url = re.search(r'"url": "([^"]+)"', self._server.stdout.readline())[1]
        return self._url


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    from mintact_plugin_torch.warmstart.tiny import make_tiny

    directory = tmp_path_factory.mktemp("workshop")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(third_parties(tmp_path_factory.mktemp("site")))
        patch.setenv("JUDGE_KEY", "the pages name a variable, never a key")
        patch.setenv("TEACHER_KEY", "the pages name a variable, never a key")
        workshop = Workshop(directory, make_tiny(directory / "tiny"))
        yield workshop
        workshop.close()


def third_parties(site):
    """The folder where `acme-counter` and the plugins that pages only name are installed."""
    shutil.copytree(THIRD_PARTY / "acme_counter" / "acme_counter", site / "acme_counter")
    shutil.copy(Path(__file__).parent / "modules" / "acme_named.py", site)
    for name, module in (("acme-counter", "acme_counter"), ("acme-named", "acme_named")):
        info = site / f"{module}-1.2.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.0\n")
        (info / "entry_points.txt").write_text(f"[mintact]\nplugin = {module}\n")
    return str(site)
