"""Whole runs: real environment servers, model server, trainer process, run directory."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from safetensors.numpy import load_file

from mintact_platform import config as configuration
from mintact_platform.cli.main import main
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.plan import plan
from mintact_platform.scheduler.seat import TrainerSeat
from mintact_platform.storage.directory import RunDirectory

MODULES = Path(__file__).parent / "modules"
TINY = ("mintact_plugin_torch.warmstart.tiny", "--out", "tiny")

SPACES = {
    "mobile": "stand_ins:AnyMobile",
    "desktop": "stand_ins:AnyDesktop",
    "web": "stand_ins:AnyBrowser",
    "tools": "stand_ins:AnyTools",
}


SFT = """
name = "sft"
model = { path = "tiny" }
[sft]
steps = 50
batch = 8
lr = 3e-3
[[sft.data]]
name = "micro/episodes"
params = { domains = ["mobile"], demonstrator = "exact" }
[sft.action_spaces]
mobile_use = { prompt = "short" }
"""


@pytest.fixture(scope="session")
def untrained(once):
    """A tiny model that knows nothing, for what ends before it would be asked."""
    return once("untrained", lambda folder: python_in(folder, *TINY)) / "tiny"


@pytest.fixture(scope="session")
def model(once, untrained):
    """A tiny model that has learnt to end its turns and little else."""

    def learn(folder):
        (folder / "tiny").symlink_to(untrained)
        (folder / "sft.toml").write_text(SFT)
        python_in(folder, "mintact_platform.cli.main", "sft", "sft.toml", "--quiet")

    return once("model", learn) / "runs" / "sft" / "model"


def python_in(folder, module, *words):
    command = [sys.executable, "-m", module, *words]
    subprocess.run(command, check=True, env=environment(), cwd=folder, timeout=170)


def environment(**more):
    path = os.pathsep.join(filter(None, (str(MODULES), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **more}


@dataclass
class Mintact:
    """The command line in a directory of its own, with a small run file."""

    directory: Path
    model: Path
    started: list = field(default_factory=list)

    def run_file(self, *domains, **overrides):
        """Write `run.toml`: quick settings, then dotted overrides with `__` for the dot."""
        values = {
            "name": "run",
            "model": {"path": str(self.model)},
            "rollout": {
                "active": 16,
                "group_size": 4,
                "max_new_tokens": 48,
                "max_context": 600,
                "tools_in": "message",
            },
            # a slow machine must not look like a starved domain; who tests the fallback sets it
            "schedule": {"fallback_after": 600},
            "sync": {"every": 1},
            "trainer": {"steps": 3, "lr": 1e-4, "micro_batch_tokens": 16384},
            "objective": {"length_cap": 64},
            "domains": {},
        }
        for name in domains or ("mobile",):
            values["domains"][name] = {
                "environment": f"micro/{name}",
                "tasks": f"micro/{name}:train",
                "action_space": {"name": SPACES[name], "params": {"prompt": "short"}},
                "judge": "stand_ins:coin",
                "instances": 4,
                "quota": 1,
                "max_turns": 3,
            }
        for key, value in overrides.items():
            *parents, last = key.split("__")
            place = values
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = value
        path = self.directory / "run.toml"
        path.write_text("\n".join(toml(values)))
        return path

    def start(self, *words, **environ):
        """Start a command; the caller kills it or waits."""
        command = [sys.executable, "-m", "mintact_platform.cli.main", *map(str, words)]
        process = subprocess.Popen(
            command,
            cwd=self.directory,
            env=environment(**environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def __call__(self, *words, code=0, timeout=150, **environ):
        """Run a command to its end; returns what it printed."""
        process = self.start(*words, **environ)
        output, _ = process.communicate(timeout=timeout)
        assert process.returncode == code, output[-4000:]
        return output

    def here(self, *words):
        """Run a command in this process; its exit code."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.directory)
            patch.syspath_prepend(MODULES)
            return main([str(word) for word in words])

    def python(self, code):
        """What a program prints that is run where the commands are."""
        options = {"cwd": self.directory, "env": environment(), "timeout": 150}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, **options)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    @property
    def run(self):
        return self.directory / "runs" / "run"

    def rows(self, sql, *params):
        """Rows of the run's database."""
        connection = sqlite3.connect(f"file:{self.run / 'run.db'}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(sql, params)]
        finally:
            connection.close()

    def until(self, condition, process, seconds=250):
        """Wait for a condition on the run while the process lives."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if process.poll() is not None:
                raise AssertionError(f"ended early:\n{process.stdout.read()[-4000:]}")
            try:
                if (self.run / "run.db").exists() and condition():
                    return
            except sqlite3.Error:
                pass
            time.sleep(0.02)
        raise AssertionError("the moment never came")

    def survivors(self):
        """Processes that belong to this directory's runs."""
        found = []
        marks = tuple(f"mintact-{ours.pid}-" for ours in self.started)
        # all of a process is read at once: one that ends meanwhile is left out
        for process in psutil.process_iter(["cmdline", "environ", "status"]):
            info = process.info
            mark = (info["environ"] or {}).get("MINTACT_MARK", "")
            if mark.startswith(marks) and info["status"] != psutil.STATUS_ZOMBIE:
                found.append((process.pid, " ".join(info["cmdline"] or [])))
        return found

    def gone(self, seconds=60):
        """Whether every child disappears in time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.survivors():
            time.sleep(0.1)
        return self.survivors() == []


def toml(values, prefix=""):
    for key, value in values.items():
        if not isinstance(value, dict):
            yield f"{key} = {json.dumps(value)}"
    for key, value in values.items():
        if isinstance(value, dict):
            yield f"[{prefix}{key}]"
            yield from toml(value, f"{prefix}{key}.")


@pytest.fixture
def mintact(tmp_path, model):
    """The command line in a fresh directory; kills what a failed test left."""
    command = Mintact(tmp_path, model)
    yield command
    for process in command.started:
        if process.poll() is None:
            process.kill()
        process.stdout.close()
        process.wait()


@pytest.fixture
def ledger_of():
    """Parse `mintact check`'s lines into `{domain: {fate: count}}`."""

    def parse(text):
        ledger = {}
        for domain, line in re.findall(r"^(\w+): (produced .* ✓)$", text, re.M):
            ledger[domain] = {fate: int(n) for fate, n in re.findall(r"(\w+) (\d+)", line)}
        return ledger

    return parse


@pytest.fixture
def same_as_recomputed(mintact, monkeypatch):
    """Whether the weights pushed last equal start + recorded steps, taken by a fresh trainer."""

    async def recomputed(path, copy):
        checked = plan(configuration.load(path), Registry.discover())
        directory = RunDirectory.open(copy, writable=True)
        seat = TrainerSeat(checked, directory, 99, say=lambda line: None)
        try:
            return await seat.start()
        finally:
            await seat.close()
            directory.close()

    def compare(path, steps):
        modules = os.pathsep.join(filter(None, (str(MODULES), os.environ.get("PYTHONPATH", ""))))
        monkeypatch.setenv("PYTHONPATH", modules)
        monkeypatch.syspath_prepend(str(MODULES))
        monkeypatch.chdir(mintact.directory)
        copy = mintact.directory / "copy"
        shutil.copytree(mintact.run, copy)
        for made in ("checkpoints", "weights"):
            shutil.rmtree(copy / made)
        recovered = asyncio.run(recomputed(path, copy))
        assert (recovered.step, recovered.replayed) == (steps, steps)
        [last] = mintact.rows("select max(version) v, max(step) s from pushes where ok = 1")
        assert last["s"] == steps
        ours, theirs = (
            load_file(run / "weights" / str(last["v"]) / "model.safetensors")
            for run in (mintact.run, copy)
        )
        return ours.keys() == theirs.keys() and all((ours[n] == theirs[n]).all() for n in ours)

    return compare
