"""Importing what a name stands for: from several threads at once, and whatever it does."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mintact_platform.errors import PluginError
from mintact_platform.registry.source import Source


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a module that can be imported; forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def write(name, text) -> Path:
        names.append(name)
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        return path

    yield write
    for name in names:
        sys.modules.pop(name, None)


def _loaded(target, path, before="pass"):
    """What a process of its own prints that loads a target."""
    code = (
        "from mintact_platform.registry import guard, source\n"
        f"{before}\n"
        f"print(source.Source({target!r}).load())\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert told.stderr == ""
    return told.stdout


def test_a_worker_imports_in_place_for_as_long_as_its_parent_lets_it(
    written, tmp_path, monkeypatch
):
    written(
        "slow_and_handling",
        "import signal, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "time.sleep(0.5)\n"
        "whole = 'whole'\n",
    )
    monkeypatch.setenv("MINTACT_PLUGIN_SECONDS", "0.1")
    loaded = _loaded("slow_and_handling:whole", tmp_path, "guard.import_in_place()")
    assert loaded == "whole\n"


def test_two_threads_never_meet_inside_one_package(tmp_path, monkeypatch):
    package = tmp_path / "pair_of_threads"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import sys\nsys.modules['test gate'].wait(1.0)\nwhole = 'whole'\n"
    )
    (package / "part.py").write_text("import pair_of_threads\nseen = pair_of_threads.whole\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    gate = threading.Event()
    monkeypatch.setitem(sys.modules, "test gate", gate)
    found = {}

    def load(target):
        found[target] = Source(target).load()

    targets = ("pair_of_threads:whole", "pair_of_threads.part:seen")
    threads = [threading.Thread(target=load, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(targets, "whole")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise KeyboardInterrupt", "(KeyboardInterrupt)"),
        ("raise SystemExit(3)", "(SystemExit: 3)"),
        ("class Odd(BaseException): pass\nraise Odd('one\\ntwo')", "(Odd: one)"),
        ("raise GeneratorExit", "(GeneratorExit)"),
    ],
)
def test_whatever_a_target_raises_is_one_line_of_the_plugin(written, code, why):
    written("raises_oddly", code)
    with pytest.raises(PluginError) as caught:
        Source("raises_oddly:judge", where="judge 'x' of acme").load()
    assert str(caught.value) == f"judge 'x' of acme: cannot import 'raises_oddly:judge' {why}"


def test_a_target_whose_import_hangs_is_left_behind(written, monkeypatch):
    written("hangs_for_ever", "import time\nwhile True: time.sleep(0.01)")
    monkeypatch.setenv("MINTACT_PLUGIN_SECONDS", "0.3")
    with pytest.raises(PluginError, match=r"did not end within 0\.3 s \(MINTACT_PLUGIN_SECONDS\)"):
        Source("hangs_for_ever:judge").load()


BRINGS = """
import sys, time
end, number = time.monotonic() + 3.3, 0
while time.monotonic() < end:
    number += 1
    sys.modules[f"brought.{number}"] = sys
    time.sleep(0.01)
for one in range(number):
    del sys.modules[f"brought.{one + 1}"]
judge = "judge"
"""


def test_an_import_that_brings_module_after_module_may_take_longer(written, monkeypatch):
    written("brings_many", BRINGS)
    monkeypatch.setenv("MINTACT_PLUGIN_SECONDS", "3")
    assert Source("brings_many:judge").load() == "judge"


def test_an_import_may_ask_for_another_name(written):
    written("asked_for", "judge = 'judge'")
    written(
        "asks",
        "from mintact_platform.registry.source import Source\n"
        "judge = Source('asked_for:judge').load()",
    )
    assert Source("asks:judge").load() == "judge"


@pytest.mark.parametrize(
    "code",
    [
        "import signal\nsignal.signal(signal.SIGUSR2, signal.getsignal(signal.SIGUSR2))",
        "import asyncio\nasyncio.get_event_loop_policy().get_event_loop().close()",
    ],
)
def test_what_only_the_main_thread_may_do_is_done_there(written, tmp_path, code):
    # other tests have had event loops in this process
    written("wants_main", f"{code}\nthing = 7\n")
    assert _loaded("wants_main:thing", tmp_path) == "7\n"
