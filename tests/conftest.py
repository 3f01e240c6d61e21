"""What tests want people to read: `record_property("note", …)` is printed when all is over."""

from __future__ import annotations


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.getreports("passed")
    notes = [value for report in reports for key, value in report.user_properties if key == "note"]
    for note in sorted(notes):
        terminalreporter.write_line(note)
