"""The task sets: 4000 train, 400 validation and 400 test tasks a domain, made when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, overload

from mintact_env_micro.desktop import DesktopState
from mintact_env_micro.mobile import MobileState
from mintact_env_micro.scene import Layout
from mintact_env_micro.tools import ToolsState
from mintact_env_micro.web import WebState
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.task import SPLITS, Task

MicroState = MobileState | DesktopState | WebState | ToolsState
DOMAINS: dict[str, type[MicroState]] = {
    "mobile": MobileState,
    "desktop": DesktopState,
    "web": WebState,
    "tools": ToolsState,
}
SIZES = {"train": 4000, "validation": 400, "test": 400}
SPAN = 1_000_000
"""Seeds of split k are `k * SPAN + index`; demonstrations start far above (`DEMONSTRATIONS`)."""
DEMONSTRATIONS = 1 << 40


class Setting(NamedTuple):
    """What decides an episode."""

    seed: int
    layout: Layout


class MicroTasks(Sequence[Task]):
    """The tasks of one domain and split.

    Args:
        domain: one of `DOMAINS`.
        split: `train`, `validation` or `test`.
        params: fields of `Layout` that matter in the domain; every task carries them.
    """

    def __init__(self, domain: str, split: str, params: Mapping[str, int]) -> None:
        if split not in SPLITS:
            raise ConfigurationError(
                f"unknown split {split!r}", where=f"micro/{domain}", next=near_match(split, SPLITS)
            )
        self._domain, self._split, self._params = domain, split, dict(params)
        self._layout = Layout(**{"icons": 2, **params})

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
        kind = DOMAINS[self._domain]
        seed = SPLITS.index(self._split) * SPAN + index
        return Task(
            id=f"micro/{self._domain}/{self._split}/{index:04d}",
            goal=kind.start(seed, self._layout).goal,
            domain=self._domain,
            split=self._split,
            params=self._params,
            seed=seed,
            max_turns=kind.max_turns,
            template=kind.template,
        )


def setting(seed: int | None, options: Mapping[str, Any] | None, layout: Layout) -> Setting:
    """The episode that `reset(seed=…, options={"task": …})` asks for; the task's word goes first.

    Args:
        seed: of the reset; None starts episode 0.
        options: as gymnasium hands them on.
        layout: the environment's own.
    """
    task: Mapping[str, Any] = (options or {}).get("task") or {}
    own = {f.name for f in fields(Layout)}
    given = {key: value for key, value in task.get("params", {}).items() if key in own}
    chosen = task.get("seed")
    if chosen is None:
        chosen = seed or 0
    return Setting(int(chosen), replace(layout, **given))


def mobile(*, split: str, icons: int = 4, colours: int = 6, jitter: int = 3) -> Sequence[Task]:
    """Tasks of `micro/mobile`."""
    return MicroTasks("mobile", split, {"icons": icons, "colours": colours, "jitter": jitter})


def desktop(*, split: str, icons: int = 4, colours: int = 6, jitter: int = 3) -> Sequence[Task]:
    """Tasks of `micro/desktop`."""
    return MicroTasks("desktop", split, {"icons": icons, "colours": colours, "jitter": jitter})


def web(*, split: str, colours: int = 6) -> Sequence[Task]:
    """Tasks of `micro/web`."""
    return MicroTasks("web", split, {"colours": colours})


def tools(*, split: str, colours: int = 6) -> Sequence[Task]:
    """Tasks of `micro/tools`."""
    return MicroTasks("tools", split, {"colours": colours})
