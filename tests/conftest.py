"""What tests want people to read, and which files begin.

`record_property("note", …)` is printed when all is over.
"""

from __future__ import annotations

FIRST = (
    "scheduler/test_kill.py",
    "scheduler/test_bad_input.py",
    "scheduler/simulation/test_soak.py",
    "docs/test_code_blocks.py",
    "play/test_page.py",
)
"""Files that take longest: one of them begun last would leave the other worker idle."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not str(item.path).endswith(FIRST))


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.getreports("passed")
    notes = [value for report in reports for key, value in report.user_properties if key == "note"]
    for note in sorted(notes):
        terminalreporter.write_line(note)
