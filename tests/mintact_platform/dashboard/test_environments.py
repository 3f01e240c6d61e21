from mintact_platform.dashboard.environments import HEADERS, environment_rows
from mintact_platform.dashboard.history import History
from mintact_platform.dashboard.report import write_report


def test_each_domain_shows_its_newest_figures(fake_run):
    with History(fake_run) as history:
        rows = environment_rows(history)
        assert [row[0] for row in rows] == list(history.domains)
    named = dict(zip(HEADERS, rows[0], strict=True))
    assert (named["step"], named["boot"]) == ("20 ms / 1.5 s", "–")
    assert int(named["lost"]) > 1
    assert "<h2>Environments</h2>" in write_report(fake_run).read_text()


def test_a_run_without_figures_shows_none(empty_run):
    with History(empty_run) as history:
        assert environment_rows(history) == []
