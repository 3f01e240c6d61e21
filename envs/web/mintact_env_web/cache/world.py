"""The world of a replayed page: the clock of the recording and randomness that repeats."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from mintact_env_web.cache.sockets import HEARD
from mintact_env_web.cache.store import Site


def stage_script(site: Site) -> str:
    """What runs before a page's own scripts."""
    text = _template()
    values = {"$START": site.recorded_ms, "$SEED": site.seed, "$HEARD": HEARD}
    for name, value in values.items():
        text = text.replace(f'"{name}"', json.dumps(value))
    return f"(() => {{\n{text}\n}})();"


@cache
def _template() -> str:
    return (files(__package__ or "mintact_env_web.cache") / "stage.js").read_text()
