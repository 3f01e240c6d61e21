"""Importing what a name stands for, from several threads at once."""

import sys
import threading

from mintact_platform.registry.source import Source


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
