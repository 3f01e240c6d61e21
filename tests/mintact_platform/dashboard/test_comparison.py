"""The page of a replay, drawn from the lines of its file."""

from __future__ import annotations

import pytest

from mintact_platform.dashboard.comparison import summary, write_comparison


def side(scale=1.0, clips=True, weight=0.9):
    metrics = {
        "importance_weight": {"": weight, "web": weight},
        "importance_weight_max": {"": max(1.0, weight), "web": max(1.0, weight)},
        "importance_weight_truncated": {"": 0.25, "web": 0.25},
    }
    if clips:
        metrics |= {"clip_low": {"": 0.1, "web": 0.1}, "clip_high": {"": 0.2, "web": 0.2}}
    return {
        "loss": {"web": 0.5 * scale, "": 0.5 * scale},
        "grad_norm": {"web": scale, "": scale},
        "metrics": metrics,
    }


def line(step, other=None, cosine=0.5, followed=None):
    return {
        "step": step,
        "own": side(),
        "other": other or side(2.0),
        "cosine": {"web": cosine, "": cosine} if cosine is not None else {},
        "followed": followed,
    }


def page(tmp_path, lines, other="cispo"):
    path = tmp_path / "replay.html"
    names = {"run": "<tea>", "own": "mintact", "other": other}
    return write_comparison(path, lines, **names, checked="all of it").read_text()


def test_the_table_holds_means_and_the_smallest_cosine():
    row, of_web = summary([line(1, cosine=1.0), line(2, cosine=0.2)])
    assert (row.domain, of_web.domain) == ("", "web")
    assert row.cells()[:5] == ("all", "0.5 → 1", "1 → 2", "0.6", "0.2")
    assert of_web.cells()[5:] == ("0.3 → 0.3", "0.9 → 0.9", "0.25 → 0.25")


def test_what_a_loss_has_not_is_a_dash():
    row = summary([line(1, other=side(clips=False, weight=1.0), cosine=None)])[0]
    assert row.cells()[3:] == ("–", "–", "0.3 → –", "0.9 → 1", "0.25 → –")


@pytest.mark.parametrize(("scale", "charts"), [(2.0, 1), (100.0, 2)])
def test_losses_of_very_different_sizes_get_axes_of_their_own(tmp_path, scale, charts):
    text = page(tmp_path, [line(step, other=side(scale)) for step in (1, 2, 3)])
    assert text.count("<h3>Loss") == 2 * charts, "over all, and of the one domain"


def test_the_page_is_whole_escaped_and_says_what_it_cannot(tmp_path):
    followed = {"loss": 0.4, "grad_norm": 1.5, "metrics": side()["metrics"]}
    text = page(tmp_path, [line(1, followed=followed), line(2, followed=followed)])
    assert "&lt;tea&gt;" in text
    assert "<tea>" not in text
    assert "src=" not in text
    assert "cispo, its own steps" in text
    assert "compares updates, not results" in text


def test_one_step_and_a_loss_against_itself_can_be_drawn(tmp_path):
    text = page(tmp_path, [line(1, cosine=1.0)], other="mintact")
    assert "mintact (other)" in text
    assert "its own steps" not in text
