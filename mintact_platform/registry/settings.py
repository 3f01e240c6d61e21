"""Types of settings whose values have a form or bounds of their own."""

from __future__ import annotations

import re
from typing import Annotated

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as _Requirement
from pydantic import AfterValidator, Field

COLDEST, HOTTEST = 1e-3, 100.0
"""Temperatures of sampling: colder, log-probabilities overflow; hotter, all tokens are alike."""


def _heat(value: float) -> float:
    if value and not COLDEST <= value <= HOTTEST:
        raise ValueError(f"input should be 0 or from {COLDEST:g} to {HOTTEST:g}, got {value!r}")
    return value


def _requirement(text: str) -> str:
    try:
        _Requirement(text)
    except InvalidRequirement:
        raise ValueError(f"required_plugins: cannot read {text!r}; write name>=version") from None
    return text


def _domain_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w .+-]*", name):
        raise ValueError(
            f"domains: {name!r} is no name for a domain: it takes letters, digits and _ . + -"
        )
    return name


Temperature = Annotated[float, Field(ge=COLDEST, le=HOTTEST)]

TemperatureOrGreedy = Annotated[float, AfterValidator(_heat)]
"""0 is greedy."""

Seconds = Annotated[float, Field(gt=0, le=1e9)]
"""Of a deadline; thirty years are never."""

DomainName = Annotated[str, AfterValidator(_domain_name)]

Requirement = Annotated[str, AfterValidator(_requirement)]
"""A distribution as pip takes it."""
