"""The task sets `web/synth`: ten thousand training tasks on 2,500 sites, made when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, overload

from mintact_env_web.synth.capabilities import capabilities, templates
from mintact_env_web.synth.categories import categories
from mintact_env_web.synth.generator import tasks
from mintact_env_web.synth.site import SiteTask
from mintact_env_web.synth.source import recent
from mintact_env_web.synth.styles import styles
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.task import SPLITS, Task

SIZES = {"train": 10_000, "validation": 500, "test": 500}
PER_SITE = 4
SPAN = 1_000_000
"""Sites of split k have the seeds `k * SPAN + index`."""
TURNS = {1: 8, 2: 12, 3: 20, 4: 30}
"""Turn limit by level."""


class SynthTasks(Sequence[Task]):
    """The tasks of one split; four on each site.

    Args:
        split: `train`, `validation` or `test`.
        category: only sites about this.
        style: only sites that look like this.
        include: capabilities that every site has.
        extended: whether tasks may need the actions of `browser_use_extended`.
    """

    def __init__(
        self,
        split: str,
        *,
        category: str | None = None,
        style: str | None = None,
        include: tuple[str, ...] = (),
        extended: bool = False,
    ) -> None:
        _known(split, SPLITS, "split")
        if category is not None:
            _known(category, categories(), "category")
        if style is not None:
            _known(style, styles(), "style")
        for name in include:
            _known(name, capabilities(), "capability")
        self._split, self._allowed = split, frozenset({"drag", "upload"} if extended else ())
        self._wish: dict[str, Any] = {"category": category, "style": style, "include": include}
        self._at = lru_cache(64)(self._tasks_of)

    def __len__(self) -> int:
        return SIZES[self._split]

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._task(index % len(self))

    def _task(self, index: int) -> Task:
        seed = SPLITS.index(self._split) * SPAN + index // PER_SITE
        drawn = self._at(seed)
        one = drawn[index % PER_SITE % len(drawn)]
        wish = {key: value for key, value in self._wish.items() if value}
        return Task(
            id=f"web/synth/{self._split}/{index:05d}",
            goal=one.goal,
            domain="web",
            split=self._split,
            params={"site": seed, "template": one.template, "values": dict(one.params), **wish},
            seed=seed,
            max_turns=TURNS[templates()[one.template].level],
            template=one.template,
        )

    def _tasks_of(self, seed: int) -> list[SiteTask]:
        wish = self._wish
        site = recent(seed, wish["category"], wish["style"], wish["include"])
        return tasks(site, PER_SITE, allowed=self._allowed)


def synth(
    *,
    split: str,
    category: str | None = None,
    style: str | None = None,
    include: tuple[str, ...] = (),
    extended: bool = False,
) -> Sequence[Task]:
    """Tasks of `web/synth`; see `SynthTasks`."""
    wish: dict[str, Any] = {"category": category, "style": style, "include": tuple(include)}
    return SynthTasks(split, extended=extended, **wish)


def _known(name: str, known: Any, what: str) -> None:
    if name not in known:
        raise ConfigurationError(
            f"unknown {what} {name!r}", where="web/synth", next=near_match(name, known)
        )
