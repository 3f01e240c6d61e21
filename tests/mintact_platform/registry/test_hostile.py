"""Plugins that misbehave while they are imported: each is a row, and the others work.

| what the plugin does | what `mintact plugins` shows on its row |
|---|---|
| raises, has a syntax error, imports what is missing | the error, in one line |
| calls `sys.exit`, `os._exit`, raises `KeyboardInterrupt` | that it did |
| never ends (a loop, a lock, a `register_…` that waits) | `import did not end within 20 s` |
| crashes in native code | that process is gone; from the next one on: `ends the process …` |
| prints, reads standard input | nothing: it goes to standard error, the input is empty |
| closes a standard stream, replaces `json.dumps` | that it did; both are put back |
| forks | nothing: the copy ends |
| misspells a hook, forgets `@hookimpl`, takes a wrong argument | the hook, and the near match |
| registers something that is no table of names | the registration and the reason |
| needs another core or another plugin | what it needs and what is installed |
"""

from __future__ import annotations

import json
import os

import pytest

GOOD = """
from mintact_platform import hookimpl

@hookimpl
def register_judges():
    return {"acme/good": "acme_good:judge"}

async def judge(task, trajectory): ...
"""
HOOK = """
from mintact_platform import hookimpl

@hookimpl
def register_judges():
"""
CASES = {
    "a missing module": ("import no_such_module", "ModuleNotFoundError: No module named"),
    "a syntax error": ("def broken(:", "SyntaxError: invalid syntax"),
    "an endless recursion": ("def f(): f()\nf()", "RecursionError"),
    "an exit": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "a hard exit": ("import os; os._exit(3)", "calls os._exit(3)"),
    "an interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "an endless loop": ("while True: pass", "import did not end within 1.5 s"),
    "a lock": ("import threading as t\nl = t.Lock()\nl.acquire()\nl.acquire()", "did not end"),
    "a wait that takes no hint": (
        "import time\nwhile True:\n try: time.sleep(9)\n except BaseException: pass",
        "did not end within 1.5 s (MINTACT_PLUGIN_SECONDS); leave it out with MINTACT_DISABLE_",
    ),
    "closing standard input": ("import os; os.close(0)", "closes standard input"),
    "another json": ("import json\njson.dumps = lambda *_, **__: '[]'", "replaces json.dumps"),
    "a misspelt hook": (
        HOOK.replace("judges", "judgse") + "    return {}",
        "unknown hook 'register_judgse'; did you mean 'register_judges'?",
    ),
    "an unmarked hook": ("def register_judges(): return {}", "not marked as a hook; write @mint"),
    "no hook": ("x = 1", "implements no hook"),
    "a wrong argument": (
        HOOK.replace("register_judges()", "step_finished(stepp)") + "    pass",
        "stepp",
    ),
    "a registration that waits": (
        HOOK + "    import time; time.sleep(99)",
        "registration did not end within 1.5 s",
    ),
    "a registration of a list": (HOOK + "    return ['x']", "register_judges: TypeError: must"),
    "a registration of nothing": (HOOK + "    return {'x': None}", "nothing stands behind 'x'"),
    "a registration of a number": (HOOK + "    return {3: 'a:b'}", "a name is a string"),
    "a registration that exits": (HOOK + "    raise SystemExit(4)", "SystemExit: 4"),
    "an error of many lines": ("raise ValueError('one\\n\\x1b[31mtwo')", "ValueError: one"),
    "an error without words": (
        "class Mute(Exception):\n def __str__(self): raise self\nraise Mute",
        "Mute: an error without a text",
    ),
}


@pytest.fixture(scope="module")
def rows(shared_site):
    """What is listed where all of these are installed together."""
    for number, (code, _) in enumerate(CASES.values()):
        shared_site.install(f"acme-bad-{number}", code)
    shared_site.install("acme-good", GOOD)
    return shared_site.rows(MINTACT_PLUGIN_SECONDS="1.5")


@pytest.mark.parametrize("case", CASES)
def test_it_is_a_row(rows, case):
    row = rows[f"acme-bad-{list(CASES).index(case)}"]
    assert CASES[case][1] in row["error"]
    assert row["error"].isprintable()
    assert row["state"] == "failed" or row["hooks"]


def test_the_others_work_beside_them(rows):
    assert rows["acme-good"]["provides"] == ["judges:acme/good"]
    working = [row for name, row in rows.items() if not name.startswith("acme-bad")]
    assert {(row["error"], row["state"]) for row in working} == {(None, "loaded")}


def test_what_it_prints_or_asks_for_is_kept_from_the_results(site):
    site.install("acme-good", GOOD + "print('hello')\nimport sys; sys.stdout.close()\n")
    site.install("acme-asks", "input('licence key? ')")
    rows = site.rows()
    assert rows["acme-asks"]["error"].startswith("EOFError")
    assert rows["acme-good"]["error"] is None
    listed = site.command("plugins")
    assert "hello" in listed.stderr
    assert "hello" not in listed.stdout


def test_a_copy_that_it_forks_ends_at_once(site):
    site.install("acme-good", GOOD + "import os; os.fork()\n")
    rows = site.command("plugins", "--json")
    assert len(json.loads(rows.stdout)) > 1  # two lists would be no JSON
    assert site.rows()["acme-good"]["error"] is None


def test_a_module_that_a_name_stands_for_is_watched_too(site):
    site.install("acme-good", GOOD.replace("acme_good:judge", "acme_later:judge"))
    (site.folder / "acme_later.py").write_text("import json\njson.dumps = print\njudge = 1\n")
    answer = site.ask("judges", "acme/good")
    assert answer == (
        "PluginError: judge 'acme/good' of acme-good: 'acme_later:judge' replaces json.dumps, "
        "which everyone shares"
    )
    (site.folder / "acme_later.py").write_text("import os\nprint('hi')\nos._exit(0)\n")
    assert "'acme_later:judge' calls os._exit(0)" in site.ask("judges", "acme/good")


def test_a_crash_of_native_code_is_a_row_from_the_next_process_on(site):
    site.install("acme-crash", "import ctypes; ctypes.string_at(0)")
    site.install("acme-good", GOOD)
    first = site.command("plugins", "--json")
    assert first.returncode == -11
    for _ in range(2):
        rows = site.rows()
        assert rows["acme-crash"]["error"] == "ends the process that imports it (by SIGSEGV)"
        assert rows["acme-good"]["error"] is None
    (site.folder / "acme_crash.py").write_text(GOOD.replace("good", "crash"))
    assert site.rows()["acme-crash"]["error"] is None
    assert os.listdir(site.cache / "mintact" / "importing") == []


def test_a_home_that_cannot_be_written_is_no_obstacle(site):
    site.install("acme-good", GOOD)
    assert site.rows(XDG_CACHE_HOME="/proc/nowhere")["acme-good"]["error"] is None


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ("mintact-platform>=9", "needs mintact-platform>=9, but 0.1.0 is installed; pip install"),
        ("mintact_platform (<0.1)", "needs mintact_platform<0.1, but 0.1.0"),
        ("mintact-reward-state>=7", "needs mintact-reward-state>=7, but 0.1.0"),
        ("mintact-platform>=9; python_version < '3'", None),
        ("no-such-library>=1", None),
    ],
)
def test_what_it_needs_is_compared_before_it_is_imported(site, requires, expected):
    good = GOOD.replace("good", "picky")
    site.install("acme-picky", good if expected is None else "raise OSError", requires=requires)
    error = site.rows()["acme-picky"]["error"]
    assert error is None if expected is None else error.startswith(expected)


def test_an_import_of_a_library_that_takes_too_long_is_not_cut_in_two(site):
    (site.folder / "common.py").write_text(
        "import time\nfor _ in range(300): time.sleep(0.01)\nwhole = True\n"
    )
    site.install("acme-slow", "import common")
    result = site.python(
        """
        from mintact_platform.registry.names import Registry
        rows = {row.distribution: row for row in Registry.discover().rows}
        print(rows["acme-slow"].error)
        import common
        print(common.whole)
        """,
        MINTACT_PLUGIN_SECONDS="1.5",
    )
    assert result.stdout.startswith("import did not end within 1.5 s"), result.stderr
    assert result.stdout.endswith("True\n")


def test_a_number_of_seconds_that_is_none_is_refused(site):
    result = site.command("plugins", MINTACT_PLUGIN_SECONDS="soon")
    assert result.returncode == 2
    assert result.stderr == "mintact: MINTACT_PLUGIN_SECONDS: 'soon' is no number of seconds\n"


def test_a_process_waits_for_an_import_that_hangs_only_once(site):
    site.install("acme-bad", "import time; time.sleep(99)")
    result = site.python(
        """
        from mintact_platform.registry.names import Registry
        for _ in range(3):
            (row,) = [r for r in Registry.discover().rows if r.distribution == "acme-bad"]
            print(row.error)
        """,
        MINTACT_PLUGIN_SECONDS="1.5",
    )
    first, *later = result.stdout.splitlines()
    assert first.startswith("import did not end within 1.5 s")
    assert [line.partition(";")[0] for line in later] == 2 * [
        "its import began earlier and did not end"
    ]
