"""`mintact objectives`: the listing, one entry in full, and what it reads them from."""

from __future__ import annotations

import json
from pathlib import Path

from mintact_platform.cli.main import main
from mintact_platform.training.describe import describe
from mintact_platform.training.objective import Preset, objective


def test_the_listing_fits_100_columns_and_shows_formula_defaults_source_and_habits(capsys):
    assert main(["objectives"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "l = max(−Âr, −Â clip(r, 1−ε_low, 1+ε_high))",
        "clip_low: float = 0.2",
        "arXiv 2507.18071",
        "micro_batch_invariant = no",
        "no correction may be added",
        "needs reference_logprobs",
        "presets: objective.preset = NAME",
    ):
        assert part in text


def test_every_part_of_ours_says_what_it_is_and_where_it_is_from(capsys):
    assert main(["objectives", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    ours = [row for row in rows if row["distribution"].startswith("mintact-")]
    assert len(ours) > 60
    assert not [row["name"] for row in ours if not (row["is"] and row["formula"])]
    assert not [
        r["name"] for r in ours if r["kind"] not in ("preset", "correction") and not r["source"]
    ]


def test_habits_are_listed_as_declared(capsys):
    assert main(["objectives", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    habits = {row["name"]: row["habits"] for row in rows if row["kind"] == "objective"}
    assert {n for n, h in habits.items() if not h["micro_batch_invariant"]} == {
        "clip_cov",
        "kl_cov",
    }
    own = {name for name, habit in habits.items() if habit["own_correction"]}
    assert own == {"topr", "dppo_tv", "decoupled_ppo"}


def test_one_name_is_shown_in_full_in_each_of_its_kinds(capsys):
    assert main(["objectives", "mintact"]) == 0
    text = capsys.readouterr().out
    for part in ("preset mintact", "objective mintact", "advantage mintact", "Trap: beyond ±κ"):
        assert part in text


def test_an_unknown_name_is_answered_with_a_near_one(capsys):
    assert main(["objectives", "gspoo"]) in (1, 2)
    assert "nothing is named 'gspoo'; did you mean 'gspo'" in capsys.readouterr().err


def test_a_description_is_read_from_docstring_signature_and_declaration():
    @objective(needs={"entropy"}, micro_batch_invariant=False)
    def loss(batch, *, weight: float = 0.5, mode="x", must):
        """A loss.

            l = −Âℓ
            Â = R

        Source: nobody,
        yet. Trap: none.
        Trap: two.

        Args:
            batch: it.
        """

    said = describe(loss)
    assert (said.summary, said.formula) == ("A loss.", "l = −Âℓ\nÂ = R")
    assert (said.source, said.trap) == ("nobody, yet. Trap: none.", "two.")
    assert [(p.name, p.type, p.default) for p in said.parameters] == [
        ("weight", "float", "0.5"),
        ("mode", "", "'x'"),
        ("must", "", ""),
    ]
    assert not said.habits.micro_batch_invariant


def test_what_says_nothing_is_shown_empty():
    assert describe(lambda batch: -batch.logprobs).formula == ""

    def documented(batch):
        """Only arguments.

        Args:
            batch: not a formula.
        """

    assert describe(documented).formula == ""
    assert describe(Preset("a", "b", "c", terms={"k": {}})).formula == "Σ (c × b(a) + k) / fixed"


def test_the_page_names_every_part_of_ours(capsys):
    assert main(["objectives", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    page = (Path(__file__).parents[3] / "docs" / "objectives.md").read_text()
    ours = [row for row in rows if row["distribution"].startswith("mintact-")]
    assert not [row["name"] for row in ours if f"| `{row['name']}`" not in page]
    assert not [row["name"] for row in ours if row["source"] not in page]
