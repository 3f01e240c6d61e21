"""The report of a recorded run: complete, self-contained, escaped, true to the tables."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from mintact_platform.dashboard.figures import write_curve
from mintact_platform.dashboard.history import History, Rate, find_run, rate
from mintact_platform.dashboard.report import write_report
from mintact_platform.dashboard.samples import pick
from mintact_platform.dashboard.table import UNKNOWN, Row, before_after, cells, markdown
from mintact_platform.errors import ConfigurationError
from mintact_platform.evaluation.statistics import wilson
from mintact_platform.records.outcome import Outcome
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory

VOID = {"meta", "img", "br"}


@pytest.fixture(scope="module")
def page(fake_run) -> str:
    return write_report(fake_run).read_text()


class Balance(HTMLParser):
    """Fails on a tag that is closed wrongly; SVG elements may close themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_has_every_section(page):
    parser = Balance()
    parser.feed(page)
    assert not parser.open
    assert {"svg", "img", "table", "polyline", "polygon", "details"} <= parser.seen
    for title in ("Success", "What the agent does", "Scheduling", "Training", "Failures", "Ledger"):
        assert f"<h2>{title}</h2>" in page


def test_the_page_asks_for_nothing_outside_itself(page):
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)""", page)
    assert not re.search(r"url\(|@import|<script|<link", page)


def test_what_the_model_and_the_tasks_say_is_escaped(page):
    assert "&lt;b&gt;map&lt;/b&gt;" in page
    assert "<b>map" not in page
    assert "open red &amp; turn on green &lt;" in page
    assert "&lt;think&gt;" in page


def test_actions_are_drawn_on_the_screenshots(page):
    assert 'cx="80" cy="48"' in page  # the click, in pixels of the screenshot
    assert 'x1="64" y1="100"' in page  # the swipe's start
    assert 'x1="480" y1="400"' in page  # a drag begins where the pointer was left
    assert 'viewBox="0 0 1280 800"' in page  # large screenshots are shrunk, their marks are not
    assert "search_tool(query=&quot;share&quot;)" in page


def test_failures_say_cause_count_and_log(page, fake_run):
    assert "crash: worker ended with signal 9" in page
    assert "Killed &lt;9&gt;" in page
    with History(fake_run) as history:
        masked = [r for r in (*history.rollouts, *history.evaluations) if not r.outcome.counts]
        assert sum(row.count for row in history.failures()) == len(masked) > 0


def test_the_ledger_stands_in_the_page_with_its_check_mark(page):
    assert len(re.findall(r"produced \d+ = trained \d+ .* ✓", page)) == 4


def test_a_run_that_has_just_begun_has_a_page_too(empty_run):
    page = write_report(empty_run).read_text()
    assert "nothing recorded yet" in page
    assert "no group was opened" in page


def test_the_curve_is_a_file_of_its_own(fake_run):
    root = ET.fromstring(write_curve(fake_run).read_text())
    text = "".join(root.itertext())
    assert "quickstart: success by trainer step" in text
    assert "mean, held out" in text


def test_each_domain_shows_its_newest_success_and_failure(fake_run):
    with History(fake_run) as history:
        chosen = pick(history)
        assert {(r.domain, r.success) for r in chosen} == {
            (d, s) for d in history.domains for s in (True, False)
        }
        assert all(r.label == "after" for r in chosen if r.success)


def test_the_table_counts_what_the_evaluations_table_holds(fake_run):
    with History(fake_run) as history:
        rows = before_after(history)
        after = [r for r in history.evaluations if r.label == "after" and r.domain == "web"]
    assert [row.domain for row in rows] == ["mobile", "desktop", "web", "tools", "mean"]
    web = rows[2]
    assert web.after == (sum(r.success for r in after), 59, 1)
    assert web.first.low <= web.first.mean <= web.first.high
    assert rows[-1].change.mean == pytest.approx(rows[-1].last.mean - rows[-1].first.mean)
    assert cells(web)[1] == "60 / 59 (1 masked)"
    assert markdown(rows).count("\n") == 6


def test_masked_and_cancelled_rollouts_never_count_as_failures(fake_run):
    with History(fake_run) as history:
        failures = [r for r in history.rollouts if r.outcome is Outcome.ENVIRONMENT_FAILURE]
        assert rate(failures) == (0, 0, len(failures))


def test_ages_and_fates_add_up_to_the_groups(fake_run):
    with History(fake_run) as history:
        trained = sum(len(step.groups) for step in history.steps)
        assert sum(sum(c.values()) for c in history.ages().values()) == trained
        fates = history.fates()
        assert sum(c["trained"] for c in fates.values()) == trained
        assert fates["mobile"]["open"] == 1


def test_a_run_is_found_by_name_and_by_path(fake_run):
    assert find_run("quickstart", fake_run.parent) == fake_run
    assert find_run(str(fake_run), fake_run) == fake_run
    with pytest.raises(ConfigurationError, match="did you mean 'quickstart'"):
        find_run("quikstart", fake_run.parent)


@pytest.mark.skipif(shutil.which("chromium-headless-shell") is None, reason="no browser")
def test_a_browser_draws_the_page(page, fake_run, tmp_path):
    target = tmp_path / "page.png"
    command = ["chromium-headless-shell", "--headless", "--no-sandbox", "--hide-scrollbars",
               f"--screenshot={target}", "--window-size=390,900", f"--user-data-dir={tmp_path}/u",
               (fake_run / "report.html").as_uri()]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert target.stat().st_size > 10_000


def test_one_evaluation_alone_has_no_before_and_an_absent_domain_is_not_run():
    nothing, some = Rate(0, 0), Rate(3, 4)
    assert cells(Row("web", nothing, nothing, UNKNOWN, UNKNOWN, UNKNOWN))[2] == "not run"
    row = cells(Row("web", nothing, some, UNKNOWN, wilson(3, 4), UNKNOWN))
    assert row == ("web", "4", "–", "75 % [30, 95]", "–", "–")


def test_a_supervised_run_shows_its_loss(empty_run):
    directory = RunDirectory.open(empty_run, writable=True)
    directory.database.submit(
        *(ledger.metric("sft/loss", "", 3 / n, n) for n in (1, 2, 3))
    ).result()
    directory.close()
    page = write_report(empty_run).read_text()
    assert "Supervised fine-tuning" in page
    assert "supervised loss at 3: 1<" in page
