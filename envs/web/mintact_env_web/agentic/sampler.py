"""What the next site is to be: a capability, a category and a style, drawn apart. Pure.

Drawn together from one list, sites collapse to one look; apart, they span the product.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mintact_env_web.agentic.site import Triple
from mintact_env_web.synth.capabilities import capabilities
from mintact_env_web.synth.categories import categories
from mintact_env_web.synth.styles import styles

SKILLS = 5
"""Fine capabilities of a group that one site is asked to train."""


@dataclass(frozen=True, slots=True)
class Group:
    """Capabilities that one site can train together.

    Attributes:
        name: of the group.
        skills: fine capabilities.
        seen: rollouts that needed it.
        judged: those of them with a verdict.
        failed: those of them that failed.
    """

    name: str
    skills: tuple[str, ...]
    seen: int = 1
    judged: int = 0
    failed: int = 0

    @property
    def weight(self) -> float:
        """How often to draw it, against other groups.

        √seen keeps what is everywhere from crowding out the rest; the rate of failures, begun at
        one in two so that a few rollouts do not decide, draws what the policy cannot do yet.
        """
        return float(self.seen**0.5 * (0.1 + (self.failed + 1) / (self.judged + 2)))


class Sampler:
    """Draws triples; the same index gives the same triple.

    Args:
        groups: of capabilities; those with a greater weight come oftener.
        categories: what sites are about.
        styles: how sites look.
        seed: of all draws.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        categories: Sequence[str],
        styles: Sequence[str],
        *,
        seed: int = 0,
    ) -> None:
        self._groups = sorted(groups, key=lambda group: group.name)
        self._categories, self._styles = sorted(categories), sorted(styles)
        self._seed = seed

    def triple(self, index: int) -> Triple:
        """The triple of an index."""
        rng = random.Random(f"triple {self._seed} {index}")
        group = rng.choices(self._groups, [group.weight for group in self._groups])[0]
        skills = rng.sample(sorted(group.skills), min(SKILLS, len(group.skills)))
        return Triple(
            group.name, tuple(skills), rng.choice(self._categories), rng.choice(self._styles)
        )


def procedural_groups() -> list[Group]:
    """The groups of the procedural generator, for when nothing has been mined yet."""
    skills: dict[str, list[str]] = {}
    for capability in capabilities().values():
        for template in capability.templates:
            what = template.name.partition("/")[2].replace("_", " ")
            skills.setdefault(capability.group, []).append(f"{capability.label.lower()}: {what}")
    return [Group(name, tuple(sorted(found))) for name, found in sorted(skills.items())]


def procedural_categories() -> list[str]:
    """The procedural generator's categories, each with its things."""
    return [
        f"{name.replace('_', ' ')} ({c.item[1]}: {', '.join(c.kinds[:4])})"
        for name, c in categories().items()
    ]


def procedural_styles() -> list[str]:
    """The procedural generator's styles, each with its main colours and its layout."""
    return [_style(name, s.variables, s.layout) for name, s in styles().items()]


def _style(name: str, variables: Mapping[str, str], layout: Mapping[str, str]) -> str:
    looks = [
        f"{key} {variables[key]}" for key in ("bg", "ink", "accent", "radius") if key in variables
    ]
    looks += [f"{key} {value}" for key, value in layout.items()]
    return f"{name.replace('_', ' ')} ({', '.join(looks)})"
