"""What sites are about; one module a family, each with a tuple `CATEGORIES`."""

from __future__ import annotations

from functools import cache

from mintact_env_web.synth.categories import places, services, shops
from mintact_env_web.synth.site import Category


@cache
def categories() -> dict[str, Category]:
    """All categories by name."""
    return {
        category.name: category
        for module in (shops, services, places)
        for category in module.CATEGORIES
    }
