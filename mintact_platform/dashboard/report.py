"""report.html: one self-contained page about a run, light or dark, readable on a phone."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path

from mintact_platform import __version__
from mintact_platform.dashboard import environments, figures, page, samples
from mintact_platform.dashboard.history import History, Rollout
from mintact_platform.dashboard.page import card, document, grid, key, table, title
from mintact_platform.dashboard.table import HEADERS, MEAN, before_after, cells
from mintact_platform.dashboard.terminal import clock_time
from mintact_platform.storage.files import write_aside
from mintact_platform.storage.ledger import check, ledger
from mintact_platform.storage.trajectories import load_record

STYLE = page.STYLE + samples.STYLE


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
    return document(history.path.resolve().name, STYLE, sections)


def _header(history: History) -> str:
    config = history.config
    facts = [
        (history.progress()[1], "trainer steps"),
        (f"v{history.version}", "weights served"),
        (clock_time(history.ended - history.began), "from first to last record"),
        (f"{len(history.rollouts):,}", "rollouts"),
    ]
    if config and not history.supervised:
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
        card(domain, figures.success(history, domain, colour), colour)
        for colour, domain in enumerate(history.domains)
    ]
    note = (
        "Line and band: training rollouts finished after each step, with their Wilson 95 % "
        "interval. Marks: held-out tasks. Masked rollouts (failures that are not the agent's) "
        "are left out."
    )
    rows = before_after(history)
    shown = table(HEADERS, [(row.domain == MEAN, cells(row)) for row in rows]) if rows else ""
    boxed = f'<div class="card scroll" style="margin-top:1rem">{shown}</div>' if rows else ""
    return f"{title('Success', note)}{grid(cards)}{boxed}"


def _samples(history: History) -> str:
    chosen = samples.pick(history)
    if not chosen:
        return ""
    note = "The newest success and the newest failure of each domain, with the action drawn."
    return title("What the agent does", note) + grid(
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
        card("Groups in each batch", figures.mix(history)),
        card("Age of trained groups", figures.ages(history)),
        card("Mean age of a batch", figures.staleness(history)),
        card("Idle", figures.idle(history), legend=(("trainer", 1), ("rollouter", 0))),
        card("Tokens a second", figures.throughput(history)),
    ]
    legend = "".join(key(d, colour) for colour, d in enumerate(history.domains))
    return f'{title("Scheduling", note)}<div class="legend">{legend}</div>{grid(cards)}'


def _environments(history: History) -> str:
    rows = [(False, row) for row in environments.environment_rows(history)]
    if not rows:
        return ""
    shown = table(environments.HEADERS, rows)
    return f'{title("Environments", environments.NOTE)}<div class="card scroll">{shown}</div>'


def _training(history: History) -> str:
    main = [
        card("Loss", figures.per_step(history, "train/loss", "loss")),
        card("Gradient norm", figures.per_step(history, "train/grad_norm", "gradient norm")),
    ]
    names = figures.trainer_metrics(history)
    more = [card(n.removeprefix("train/"), figures.per_step(history, n, n)) for n in names]
    summary = f"<summary>{len(more)} more metrics of the trainer</summary>"
    rest = f"<details>{summary}{grid(more)}</details>" if more else ""
    return f"{title('Training')}{grid(main)}{rest}"


def _supervised(history: History) -> str:
    chart = figures.supervised(history)
    return f"{title('Supervised fine-tuning')}{grid([card('Loss', chart)])}" if chart else ""


def _failures(history: History) -> str:
    rows = history.failures()
    if not rows:
        return title("Failures", "None: no rollout was masked.")
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
    return f'{title("Failures", note)}<div class="card scroll">{table(headers, body)}{tails}</div>'


def _ledger(history: History) -> str:
    lines = [f"{domain}: {row}" for domain, row in ledger(history.database).items()]
    problems = check(history.database)
    text = escape("\n".join(lines)) or "no group was opened"
    wrong = f'<pre class="ledger error">{escape(chr(10).join(problems))}</pre>' if problems else ""
    note = "Every group that was begun, and what became of it."
    return f'{title("Ledger", note)}<div class="card"><pre class="ledger">{text}</pre>{wrong}</div>'


def _settings(history: History) -> str:
    rows = history.database.read("SELECT distribution, version, error FROM plugins")
    plugins = "".join(
        f"<li>{escape(r['distribution'])} {escape(r['version'])} {escape(r['error'] or '')}</li>"
        for r in rows
    ) or "".join(f"<li>{escape(d)} {escape(v)}</li>" for d, v in history.directory.plugins.items())
    file = escape(history.directory.config_toml)
    return (
        f"{title('Settings')}<details><summary>run file</summary>"
        f'<pre class="file">{file}</pre></details>'
        f"<details><summary>plugins</summary><ul>{plugins}</ul></details>"
    )
