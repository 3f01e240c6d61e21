"""What a part of the loss says of itself: summary, formula, parameters, source, habits.

All of it is read from the function: its signature, its declaration, and its docstring, whose first
line is the summary, whose first indented block is the formula, and which may have a paragraph
that begins with `Source:` and one that begins with `Trap:`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mintact_platform.training.objective import Habits, Preset, habits_of


@dataclass(frozen=True)
class Parameter:
    """A keyword-only argument.

    Attributes:
        name: of the argument.
        type: its annotation as written, "" without one.
        default: as Python writes it, "" when it must be given.
    """

    name: str
    type: str
    default: str


@dataclass(frozen=True)
class Description:
    """A part, as a listing shows it."""

    summary: str = ""
    formula: str = ""
    source: str = ""
    trap: str = ""
    text: str = ""
    parameters: tuple[Parameter, ...] = ()
    habits: Habits = field(default_factory=Habits)


def describe(target: Callable[..., Any] | Preset) -> Description:
    """Read a part's documentation; what it does not say stays empty."""
    if isinstance(target, Preset):
        return Description(summary=target.about, formula=_composition(target), text=target.about)
    text = inspect.getdoc(target) or ""
    return Description(
        summary=text.partition("\n")[0],
        formula=_formula(text),
        source=_paragraph(text, "Source:"),
        trap=_paragraph(text, "Trap:"),
        text=text,
        parameters=tuple(
            Parameter(p.name, _type(p.annotation), "" if p.default is p.empty else repr(p.default))
            for p in inspect.signature(target).parameters.values()
            if p.kind is p.KEYWORD_ONLY
        ),
        habits=habits_of(target),
    )


def _composition(preset: Preset) -> str:
    weight = "" if preset.correction == "none" else f"{preset.correction} × "
    terms = "".join(f" + {name}" for name in preset.terms)
    return f"Σ ({weight}{preset.objective}({preset.advantage}){terms}) / {preset.normaliser}"


def _formula(text: str) -> str:
    """The first indented block, without its indentation."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("    "):
            lines.append(line.strip())
        elif lines:
            break
        elif line.endswith(":") and " " not in line:
            # a section of arguments comes before any formula
            break
    return "\n".join(lines)


def _paragraph(text: str, head: str) -> str:
    """What follows the head up to a blank line or the next head, on one line."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(head):
            lines.append(line.removeprefix(head).strip())
        elif lines and (not line.strip() or line.startswith(("Source:", "Trap:"))):
            break
        elif lines:
            lines.append(line.strip())
    return " ".join(lines)


def _type(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
