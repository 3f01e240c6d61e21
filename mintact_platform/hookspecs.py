"""The whole extension surface on one page. This file is the plugin manual.

A plugin is one distribution with an entry point in the group `mintact`; the module it names holds
functions marked `@mintact_platform.hookimpl`. A hook that begins with `register_` returns
`{name: target}`; a target is a callable or, better, a lazy `"module:attribute"` string, imported
when its name is first asked for. A target's keyword-only arguments are its parameters: what a run
file gives under `params` is checked against them and bound.

Every command imports the module, on a thread of its own and for at most 20 s, so it should import
little and do nothing; what it breaks or prints is undone, put aside and shown on its row. Targets
are imported in the same way, except that the limit is for the time in which no module comes.

Names: first-party ones are bare or `<family>/<name>`; yours carry your own namespace (`acme/grid`).
`acme/*` is a family: its target stands for every such name and gets the rest as keyword `id`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from mintact_platform.records.outcome import Failure
    from mintact_platform.records.trajectory import Trajectory

hookspec = pluggy.HookspecMarker("mintact")

Targets = Mapping[str, str | Callable[..., Any]]

# ---- what exists: collected once --------------------------------------------------------------


@hookspec
def register_environments() -> Targets:
    """A `gymnasium.Env` (or `AsyncEnvironment`) subclass or factory; parameters by keyword."""


@hookspec
def register_action_spaces() -> Targets:
    """An `ActionSpace`: domain, tools, system prompt, parser, coordinate grid."""


@hookspec
def register_judges() -> Targets:
    """`async (task, trajectory, *, params…) -> Verdict`, or a class with `open/judge/close`."""


@hookspec
def register_objectives() -> Targets:
    """`(batch, *, params…) -> surrogate [rows, tokens]`, or `(surrogate, {metric: tensor})`."""


@hookspec
def register_advantages() -> Targets:
    """`(batch: RewardBatch, *, params…) -> [rows]` or `[rows, tokens]`."""


@hookspec
def register_corrections() -> Targets:
    """`(proximal_logprobs, rollout_logprobs, loss_mask, *, params…) -> weight [rows, tokens]`."""


@hookspec
def register_normalisers() -> Targets:
    """`(batch, *, params…) -> S`, the number the whole update's sum is divided by."""


@hookspec
def register_presets() -> Targets:
    """A `Preset`: a named combination of advantage, objective, correction and normaliser."""


@hookspec
def register_mixtures() -> Targets:
    """Per-step quotas: `(quotas, *, params…)`, an object with `quotas(step) -> {domain: int}`.

    It may have `observe(step, statistics)` too, told at each batch what every domain gave.
    """


@hookspec
def register_flow_controls() -> Targets:
    """The pause decision for producers: object with `.may_start(domain, state) -> bool`."""


@hookspec
def register_rollout_engines() -> Targets:
    """A `RolloutEngine`: starts or attaches to model servers and moves weights to them.

    Or a `MessageEngine`, which answers in text: for teachers and evaluation.
    """


@hookspec
def register_trainers() -> Targets:
    """A `Trainer`; it runs in its own process (`training/worker.py`).

    What `sft.params` may hold is declared with `training.trainer.supervised_params`.
    """


@hookspec
def register_task_sets() -> Targets:
    """`(*, split: str, params…) -> Sequence[Task]`, a named collection of tasks."""


@hookspec
def register_demonstrations() -> Targets:
    """`(*, seed: int, params…) -> Iterator[Demonstration]`, endless supervised episodes."""


@hookspec
def register_chat_formats() -> Targets:
    """A `ChatFormat`: append-only rendering of a model family's conversations."""


@hookspec
def register_commands() -> Targets:
    """A command-line verb `mintact <name> …`: `(argv: list[str]) -> int`."""


# ---- what happens: observers -------------------------------------------------------------------
# Synchronous and cheap, never one per token; called one plugin at a time on their own thread
# after the commit. An exception is recorded on the plugin's row, three in a row disable it.


@hookspec(historic=True)
def configure(config: Any) -> None:
    """A run was configured; `config` is its checked `RunConfig`."""


@hookspec
def trajectory_finished(trajectory: Trajectory) -> None:
    """A rollout ended and was recorded."""


@hookspec
def group_finished(group: str, domain: str, admitted: bool) -> None:
    """A group was judged and admitted to the queue or not."""


@hookspec
def step_finished(step: int, metrics: Mapping[str, Mapping[str, float]]) -> None:
    """A trainer step ended."""


@hookspec
def weights_synced(version: int) -> None:
    """All model servers serve this version."""


@hookspec
def environment_failed(lease: str, failure: Failure) -> None:
    """An environment failed under a rollout."""


# ---- what is decided ---------------------------------------------------------------------------


@hookspec(firstresult=True)
def admit_group(domain: str, rewards: tuple[float, ...]) -> bool | None:
    """Whether a group may be trained on, by its live rewards; None leaves it to the next plugin.

    The core's own answer comes last: groups with uniform rewards are refused (DAPO).
    """
