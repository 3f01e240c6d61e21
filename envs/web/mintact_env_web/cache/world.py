"""The world of a replayed page: the clock of the recording and randomness that repeats."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from mintact_env_web.cache.store import Site


def stage_script(site: Site) -> str:
    """What runs before a page's own scripts."""
    return stage(site.recorded_ms, site.seed)


def stage(start_ms: int, seed: int) -> str:
    """A script that begins a page's clock at a moment and its randomness at a seed.

    Args:
        start_ms: epoch milliseconds.
        seed: of random numbers.
    """
    text = _template()
    for name, value in {"$START": start_ms, "$SEED": seed}.items():
        text = text.replace(f'"{name}"', str(value))
    return f"(() => {{\n{text}\n}})();"


@cache
def _template() -> str:
    return (files(__package__ or "mintact_env_web.cache") / "stage.js").read_text()
