"""`mintact serve` and `mintact play` as a user starts them, in an empty directory."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from mintact_platform.cli.main import main
from mintact_platform.cli.serve import EXAMPLES

MINTACT = [sys.executable, "-m", "mintact_platform.cli.main"]


@pytest.fixture(scope="module")
def http():
    with httpx.Client(trust_env=False, timeout=60) as client:
        yield client


@contextmanager
def running(folder, *words, environ=None):
    """A verb that runs until it is interrupted, and the line of JSON it printed."""
    process = subprocess.Popen(
        [*MINTACT, *words, "--json"],
        cwd=folder,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def interrupted(process, sent=signal.SIGINT):
    process.send_signal(sent)
    _, error = process.communicate(timeout=60)
    return process.returncode, error


def started_by(mark):
    """Processes that carry a variable of this test, zombies left out."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"SERVE_TEST={mark['SERVE_TEST']}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return [line for line in found if line]


def left_by(mark):
    """What is left of them; whoever watches over a server that had to be killed ends after it."""
    until = time.monotonic() + 60
    while (left := started_by(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def documents(text):
    """JSON documents one after the other."""
    found, at = [], 0
    while at < len(text.rstrip()):
        value, at = json.JSONDecoder().raw_decode(text, at)
        found.append(value)
    return found


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_server_leases_until_it_is_interrupted_and_leaves_nothing(sent, http, tmp_path):
    mark = {"SERVE_TEST": uuid4().hex}
    with running(tmp_path, "serve", "micro/mobile", environ=mark) as (process, said):
        assert said["environments"] == ["micro/mobile"]
        assert said["pid"] == process.pid
        assert said["bearer"] is False
        body = {"key": "one", "environment": "micro/mobile"}
        lease = http.post(f"{said['url']}/v1/leases", json=body)
        assert lease.status_code == 200, lease.text
        refused = http.post(
            f"{said['url']}/v1/leases", json={"key": "2", "environment": "micro/web"}
        )
        assert refused.status_code == 400
        assert "not served here" in refused.json()["error"]["message"]
        assert len(started_by(mark)) > 1
        assert interrupted(process, sent) == (130, "mintact: interrupted\n")
    assert left_by(mark) == []


def test_a_bearer_token_is_asked_for_when_there_is_one(http, tmp_path):
    words = ("serve", "micro/mobile", "--host", "0.0.0.0", "--bearer-env", "KEY")
    with running(tmp_path, *words, environ={"KEY": "s3cret"}) as (_, said):
        url = said["url"].replace("0.0.0.0", "127.0.0.1")
        assert said["bearer"] is True
        assert "s3cret" not in json.dumps(said)
        assert http.get(f"{url}/v1/environments").status_code == 401
        told = http.get(f"{url}/v1/environments", headers={"authorization": "Bearer s3cret"})
        assert set(told.json()["environments"]) == {"micro/mobile"}


@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("jq"), reason="needs curl and jq")
def test_the_lease_cycle_of_the_help_works_as_written(tmp_path):
    cycle = EXAMPLES.split("  U=")[1].split("With a bearer")[0]
    with running(tmp_path, "serve", "micro/mobile") as (_, said):
        script = "set -e\nU=" + cycle.replace("http://127.0.0.1:8700", said["url"])
        script = re.sub(r"     what is served.*", "", script).replace("curl -s", "curl -sf")
        result = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path
        )
    assert result.returncode == 0, result.stderr
    first, clicked, ended, check, released, listed = documents(result.stdout)
    assert first["images"][0]["data"]
    assert clicked["terminated"] is False
    assert ended["terminated"] is True
    assert check["check"]["success"] is False
    assert released == {}
    assert "micro/mobile" in listed["environments"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serve"], "nothing to serve"),
        (["serve", "micro/wbe"], "no environment named 'micro/wbe'; did you mean 'micro/web'?"),
        (["serve", "micro/web", "--host", "0.0.0.0"], "needs a bearer token"),
        (["serve", "micro/web", "--bearer-env", "NOT_SET"], "'NOT_SET' is not set"),
        (["serve", "no_such_module:Env"], "cannot import 'no_such_module:Env'"),
        (["play", "micro/wbe"], "did you mean 'micro/web'?"),
        (["play", "micro/web", "--param", "colour=3"], "did you mean 'colours'?"),
        (["play", "micro/web", "--param", "colours"], "write key=value"),
        (["play", "micro/web", "--judge", "sate"], "did you mean 'state'?"),
        (["play", "micro/web", "--judge", "{name=1}"], "--judge: cannot read"),
        (["play", "micro/web", "--judge", '{name="state",params={x=1}}'], "unknown parameter 'x'"),
        (["play", "micro/web", "--action-space", "browser"], "did you mean 'browser_use'?"),
        (["play", "micro/web", "--task", "nope"], "no task 'nope'"),
        (["play", "micro/web", "--bearer-env", "NOT_SET"], "'NOT_SET' is not set"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_environment_of_another_interpreter_is_not_looked_for_here(tmp_path):
    words = ("serve", "acme/elsewhere", "--python", sys.executable)
    with running(tmp_path, *words) as (process, said):
        assert said["environments"] == ["acme/elsewhere"]
        code, error = interrupted(process)
    assert code == 130
    assert "left to the other interpreters" in error


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path):
    with running(tmp_path, "serve", "micro/mobile") as (_, said):
        port = said["url"].rpartition(":")[2]
        for verb in ("serve", "play"):
            more = ["--no-browser"] if verb == "play" else []
            result = subprocess.run(
                [*MINTACT, verb, "micro/mobile", "--port", port, *more],
                capture_output=True, text=True, timeout=60, cwd=tmp_path,
            )  # fmt: skip
            assert result.returncode == 2
            assert "Address already in use" in result.stderr
            assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("environment", ["micro/web", "micro/mobile"])
def test_play_works_in_an_empty_directory_and_leaves_no_process(environment, http, tmp_path):
    mark = {"SERVE_TEST": uuid4().hex, "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    with running(tmp_path, "play", environment, "--no-browser", environ=mark) as (process, said):
        state = {"phase": "", "revision": -1}
        while state["phase"] not in ("waiting", "failed"):
            state = http.get(f"{said['url']}state", params={"after": state["revision"]}).json()
        assert state["phase"] == "waiting", state["failure"]
        assert state["task"]["id"] == f"{environment}/train/0000"
        assert interrupted(process) == (130, "mintact: interrupted\n")
    assert left_by(mark) == []
    assert list((tmp_path / "tmp").glob("mintact-play-*")) == []


def test_play_of_a_server_that_is_not_there_says_so_on_the_page(http, tmp_path):
    words = ("play", "micro/mobile", "--no-browser", "--server", "http://127.0.0.1:9")
    with running(tmp_path, *words) as (process, said):
        state = {"phase": "", "revision": -1}
        while state["phase"] != "failed":
            state = http.get(f"{said['url']}state", params={"after": state["revision"]}).json()
        assert state["failure"]["phase"] == "create"
        assert "cannot be reached" in state["failure"]["message"]
        assert interrupted(process)[0] == 130
