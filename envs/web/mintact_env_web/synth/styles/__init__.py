"""How sites look; one module a family, each with a tuple `STYLES`."""

from __future__ import annotations

from functools import cache

from mintact_env_web.synth.site import Style
from mintact_env_web.synth.styles import bright, dark, plain


@cache
def styles() -> dict[str, Style]:
    """All styles by name."""
    return {style.name: style for module in (plain, bright, dark) for style in module.STYLES}
