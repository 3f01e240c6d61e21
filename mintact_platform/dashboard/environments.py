"""How a run's environments did: waits, boots, resets, steps, recoveries, losses; per domain."""

from __future__ import annotations

from mintact_platform.dashboard.history import History

HEADERS = ("domain", "wait", "boot", "reset", "step", "recovery", "lost", "reset ahead")
NOTE = "Median / 95th percentile of the last few hundred, as of the last step."
_MEASURED = ("acquire", "boot", "reset", "step", "recovery")


def environment_rows(history: History) -> list[tuple[str, ...]]:
    """A row a domain under `HEADERS`; empty where nothing was recorded."""
    rows = []
    for domain in history.domains:
        cells = [_quantiles(history, what, domain) for what in _MEASURED]
        lost, ahead = (_last(history, name, domain) for name in ("lost", "ahead"))
        if any(cells) or lost is not None:
            counts = f"{lost or 0:.0f}", f"{100 * (ahead or 0):.0f} %"
            rows.append((domain, *(cell or "–" for cell in cells), *counts))
    return rows


def _quantiles(history: History, what: str, domain: str) -> str:
    values = [_last(history, f"{what}_{share}", domain) for share in ("p50", "p95")]
    return " / ".join(_seconds(value) for value in values if value is not None)


def _last(history: History, name: str, domain: str) -> float | None:
    samples = history.metric(f"environment/{name}", domain)
    return samples[-1].value if samples else None


def _seconds(value: float) -> str:
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
