"""The parts that our pages are made of: style sheet, cards, tables, keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mintact_platform.dashboard import charts

STYLE = (
    charts.STYLE
    + """
:root { color-scheme: light dark; --page:#f7f8fa; --card:#fff; --bad:#c0262d; --good:#13876a; }
@media (prefers-color-scheme: dark) { :root { --page:#12161c; --card:#1a2029; --bad:#ff8a8a;
  --good:#4cc9a4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 70rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.7rem; } h2 { margin: 2.5rem 0 .25rem; font-size: 1.2rem; }
h3 { margin: .25rem 0; font-size: .95rem; font-weight: 600; }
p.note { margin: 0 0 .75rem; color: var(--faint); font-size: .9rem; max-width: 46rem; }
small { font-size: .75rem; }
.facts { display: flex; flex-wrap: wrap; gap: .75rem 2rem; margin: 1rem 0 0; }
.facts div { display: flex; flex-direction: column; }
.facts dt { order: 2; color: var(--faint); font-size: .8rem; }
.facts dd { margin: 0; font-size: 1.25rem; font-weight: 600; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(27rem, 100%), 1fr));
  gap: 1rem; }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px;
  padding: .75rem .9rem; min-width: 0; }
.card svg.chart { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--faint); font-weight: 500; font-size: .85rem; }
th, td { padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
td:not(:first-child) { white-space: nowrap; } td.wide { white-space: normal; min-width: 14rem; }
tr.mean td { font-weight: 650; } tr:last-child td { border-bottom: 0; }
.key { display: inline-block; width: .75em; height: .75em; border-radius: 3px;
  background: var(--c); margin-right: .4em; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; font-size: .9rem; }
pre.ledger { font-size: .82rem; white-space: pre-wrap; } pre.file { overflow-x: auto; }
.tag { font-size: .75rem; font-weight: 600; padding: .1rem .5rem; border-radius: 99px;
  border: 1px solid currentcolor; margin-right: .5rem; }
.success { color: var(--good); } .failure { color: var(--bad); }
details summary { cursor: pointer; color: var(--faint); margin: .5rem 0; }
"""
)


def document(title_text: str, style: str, sections: Iterable[str]) -> str:
    """A whole page that needs no other file."""
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head = f"{meta}<title>{escape(title_text)} · MintAct</title><style>{style}</style>"
    body = "\n".join(sections)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def title(title: str, note: str = "") -> str:
    """A heading with a note under it."""
    return f"<h2>{escape(title)}</h2>" + (f'<p class="note">{escape(note)}</p>' if note else "")


def grid(cards: Iterable[str]) -> str:
    """Cards beside each other, as many as fit."""
    return f'<div class="grid">{"".join(cards)}</div>'


def card(
    title: str,
    chart: str,
    colour: int | None = None,
    legend: Sequence[tuple[str, int]] = (),
) -> str:
    """A chart with its title and, where given, a legend."""
    head = escape(title) if colour is None else key(title, colour)
    keys = "".join(key(name, index) for name, index in legend)
    below = f'<div class="legend">{keys}</div>' if keys else ""
    return f'<section class="card"><h3>{head}</h3>{chart}{below}</section>'


def key(name: str, colour: int) -> str:
    """A colour's square with its name."""
    index = colour % charts.COLOURS
    return f'<span><span class="key c{index}"></span>{escape(name)}</span>'


def table(headers: Sequence[str], rows: Sequence[tuple[bool, Sequence[str]]]) -> str:
    """Rows under headers; a row is whether it stands out, and its cells."""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        f"<tr{' class=mean' if strong else ''}>{''.join(map(_cell, cells))}</tr>"
        for strong, cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    wide = " class=wide" if len(text) > 40 else ""
    return f"<td{wide}>{escape(text)}</td>"
