"""report.html: one self-contained page about a run, light or dark, readable on a phone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from mintact_platform import __version__
from mintact_platform.dashboard import charts, environments, figures, samples
from mintact_platform.dashboard.history import History, Rollout
from mintact_platform.dashboard.table import HEADERS, MEAN, before_after, cells
from mintact_platform.dashboard.terminal import clock_time
from mintact_platform.storage.files import write_aside
from mintact_platform.storage.ledger import check, ledger
from mintact_platform.storage.trajectories import load_record

STYLE = (
    charts.STYLE
    + samples.STYLE
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


def write_report(run_path: Path) -> Path:
    """Write the run's `report.html` and return its path.

    Raises:
        StorageError: the directory holds no run.
    """
    with History(run_path) as history:
        page = _page(history)
    path = run_path / "report.html"
    write_aside(path, page.encode())
    return path


def _page(history: History) -> str:
    name = escape(history.path.resolve().name)
    sections = (
        _header(history),
        _success(history),
        _samples(history),
        *((_scheduling(history), _training(history)) if history.steps else ()),
        _environments(history),
        _supervised(history),
        _failures(history),
        _ledger(history),
        _settings(history),
    )
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head = f"{meta}<title>{name} · MintAct</title><style>{STYLE}</style>"
    body = "\n".join(sections)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _header(history: History) -> str:
    config, done = history.config, [s for s in history.steps if s.done_at is not None]
    asked = f" of {config.trainer.steps}" if config else ""
    facts = [
        (f"{len(done)}{asked}", "trainer steps"),
        (f"v{history.version}", "weights served"),
        (clock_time(history.ended - history.began), "from first to last record"),
        (f"{len(history.rollouts):,}", "rollouts"),
    ]
    if config:
        facts.append((config.objective.preset, "objective"))
        facts.append((f"{config.batch_groups} × {config.rollout.group_size}", "groups × rollouts"))
    if rows := [row for row in before_after(history) if row.ran]:
        row = rows[-1]
        label = "mean held-out success" if row.domain == MEAN else "held-out success"
        before = f"{100 * row.first.mean:.0f} → " if row.compared else ""
        facts.insert(0, (f"{before}{100 * row.last.mean:.0f} %", label))
    cells = "".join(f"<div><dt>{escape(b)}</dt><dd>{escape(a)}</dd></div>" for a, b in facts)
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(history.began))
    title = f"<h1>{escape(history.path.resolve().name)}</h1>"
    note = f'<p class="note">began {began} · MintAct {__version__}</p>'
    return f'<header>{title}{note}<dl class="facts">{cells}</dl></header>'


def _success(history: History) -> str:
    cards = [
        _card(domain, figures.success(history, domain, colour), colour)
        for colour, domain in enumerate(history.domains)
    ]
    note = (
        "Line and band: training rollouts finished after each step, with their Wilson 95 % "
        "interval. Marks: held-out tasks. Masked rollouts (failures that are not the agent's) "
        "are left out."
    )
    rows = before_after(history)
    table = _table(HEADERS, [(row.domain == MEAN, cells(row)) for row in rows]) if rows else ""
    boxed = f'<div class="card scroll" style="margin-top:1rem">{table}</div>' if rows else ""
    return f"{_title('Success', note)}{_grid(cards)}{boxed}"


def _samples(history: History) -> str:
    chosen = samples.pick(history)
    if not chosen:
        return ""
    note = "The newest success and the newest failure of each domain, with the action drawn."
    return _title("What the agent does", note) + _grid(
        f'<section class="card">{_sample_title(history, r)}{samples.strip(history, r)}</section>'
        for r in chosen
    )


def _sample_title(history: History, rollout: Rollout) -> str:
    word = "success" if rollout.success else "failure"
    goal = _goal(history, rollout)
    where = f"{rollout.label or 'training'}, step {rollout.step}"
    reason = rollout.verdict.reason if rollout.verdict else ""
    tail = f" — {escape(reason)}" if reason else ""
    return (
        f'<h3><span class="tag {word}">{word}</span>{escape(rollout.domain)}: {escape(goal)}</h3>'
        f'<p class="note">{escape(where)}, {rollout.outcome}{tail}<br>'
        f"<small>{rollout.id}</small></p>"
    )


def _goal(history: History, rollout: Rollout) -> str:
    return str(load_record(history.path / rollout.path)["task"]["goal"])


def _scheduling(history: History) -> str:
    note = "What the trainer was fed with, how old it was, and who waited for whom."
    cards = [
        _card("Groups in each batch", figures.mix(history)),
        _card("Age of trained groups", figures.ages(history)),
        _card("Mean age of a batch", figures.staleness(history)),
        _card("Idle", figures.idle(history), legend=(("trainer", 1), ("rollouter", 0))),
        _card("Tokens a second", figures.throughput(history)),
    ]
    legend = "".join(_key(d, colour) for colour, d in enumerate(history.domains))
    return f'{_title("Scheduling", note)}<div class="legend">{legend}</div>{_grid(cards)}'


def _environments(history: History) -> str:
    rows = [(False, row) for row in environments.environment_rows(history)]
    if not rows:
        return ""
    table = _table(environments.HEADERS, rows)
    return f'{_title("Environments", environments.NOTE)}<div class="card scroll">{table}</div>'


def _training(history: History) -> str:
    main = [
        _card("Loss", figures.per_step(history, "train/loss", "loss")),
        _card("Gradient norm", figures.per_step(history, "train/grad_norm", "gradient norm")),
    ]
    names = figures.trainer_metrics(history)
    more = [_card(n.removeprefix("train/"), figures.per_step(history, n, n)) for n in names]
    summary = f"<summary>{len(more)} more metrics of the trainer</summary>"
    rest = f"<details>{summary}{_grid(more)}</details>" if more else ""
    return f"{_title('Training')}{_grid(main)}{rest}"


def _supervised(history: History) -> str:
    chart = figures.supervised(history)
    return f"{_title('Supervised fine-tuning')}{_grid([_card('Loss', chart)])}" if chart else ""


def _failures(history: History) -> str:
    rows = history.failures()
    if not rows:
        return _title("Failures", "None: no rollout was masked.")
    live = sum(rollout.live for rollout in (*history.rollouts, *history.evaluations))
    masked = sum(row.count for row in rows)
    note = f"{masked} rollouts were masked beside {live} live ones; they carry no reward."
    headers = ("outcome", "phase", "domain", "count", "first message", "first trajectory")
    body = [
        (False, (r.outcome, r.phase, r.domain, str(r.count), f"{r.kind}: {r.message}", r.first))
        for r in rows
    ]
    tails = "".join(
        f"<details><summary>log of {escape(row.first)}</summary>"
        f'<pre class="file">{escape(row.log_tail)}</pre></details>'
        for row in rows
        if row.log_tail
    )
    return (
        f'{_title("Failures", note)}<div class="card scroll">{_table(headers, body)}{tails}</div>'
    )


def _ledger(history: History) -> str:
    lines = [f"{domain}: {row}" for domain, row in ledger(history.database).items()]
    problems = check(history.database)
    text = escape("\n".join(lines)) or "no group was opened"
    wrong = f'<pre class="ledger error">{escape(chr(10).join(problems))}</pre>' if problems else ""
    note = "Every group that was begun, and what became of it."
    return (
        f'{_title("Ledger", note)}<div class="card"><pre class="ledger">{text}</pre>{wrong}</div>'
    )


def _settings(history: History) -> str:
    rows = history.database.read("SELECT distribution, version, error FROM plugins")
    plugins = "".join(
        f"<li>{escape(r['distribution'])} {escape(r['version'])} {escape(r['error'] or '')}</li>"
        for r in rows
    ) or "".join(f"<li>{escape(d)} {escape(v)}</li>" for d, v in history.directory.plugins.items())
    file = escape(history.directory.config_toml)
    return (
        f"{_title('Settings')}<details><summary>run file</summary>"
        f'<pre class="file">{file}</pre></details>'
        f"<details><summary>plugins</summary><ul>{plugins}</ul></details>"
    )


def _title(title: str, note: str = "") -> str:
    return f"<h2>{escape(title)}</h2>" + (f'<p class="note">{escape(note)}</p>' if note else "")


def _grid(cards: Iterable[str]) -> str:
    return f'<div class="grid">{"".join(cards)}</div>'


def _card(
    title: str,
    chart: str,
    colour: int | None = None,
    legend: Sequence[tuple[str, int]] = (),
) -> str:
    head = escape(title) if colour is None else _key(title, colour)
    keys = "".join(_key(name, index) for name, index in legend)
    below = f'<div class="legend">{keys}</div>' if keys else ""
    return f'<section class="card"><h3>{head}</h3>{chart}{below}</section>'


def _key(name: str, colour: int) -> str:
    index = colour % charts.COLOURS
    return f'<span><span class="key c{index}"></span>{escape(name)}</span>'


def _table(headers: Sequence[str], rows: Sequence[tuple[bool, Sequence[str]]]) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        f"<tr{' class=mean' if strong else ''}>{''.join(map(_cell, cells))}</tr>"
        for strong, cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    wide = " class=wide" if len(text) > 40 else ""
    return f"<td{wide}>{escape(text)}</td>"
