"""An advantage of ours as verl calls an advantage estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.parameters import bind
from mintact_platform.training.loss import evaluate_advantages
from mintact_platform.training.objective import LossParts, RewardBatch
from mintact_plugin_verl.losses import settings


class Estimator:
    """A registered advantage under verl's signature of advantage estimators.

    A row whose response is masked everywhere is a failed rollout: it gets no advantage, and no
    baseline counts it. Parameters are those of `algorithm.mintact`.

    Args:
        name: as we register it.
        advantage: the function.
    """

    def __init__(self, name: str, advantage: Callable[..., Tensor]) -> None:
        self.__name__ = name
        self._name, self._advantage = name, advantage

    def __call__(
        self,
        token_level_rewards: Tensor,
        response_mask: Tensor,
        config: Any = None,
        index: Sequence[Any] | None = None,
        **more: Any,
    ) -> tuple[Tensor, Tensor]:
        """Â twice, `[rows, tokens]`: verl wants advantages and returns, which are the same here.

        Args:
            token_level_rewards: `[rows, tokens]`; their sum is R.
            response_mask: true on the model's own tokens.
            config: the algorithm's section.
            index: `[rows]`, equal for rows of one group (verl's `uid`).
            more: what verl gives other estimators.

        Raises:
            ConfigurationError: verl gave no groups, or a parameter is wrong.
            PluginError: a wrong shape, or a value that is not finite.
        """
        where = f"advantage {self._name!r} in verl"
        if index is None:
            raise ConfigurationError(
                "verl named no groups", where=where, next="the batch needs 'uid'"
            )
        mask = response_mask.bool()
        bound = bind(self._advantage, settings(config, None), where=where)
        with torch.no_grad():
            batch = _rewards(token_level_rewards, mask, index)
            values = evaluate_advantages(_only(self._name, bound), batch)
            spread = _spread(values, mask).to(token_level_rewards.dtype)
        return spread, spread


def _rewards(token_rewards: Tensor, mask: Tensor, index: Sequence[Any]) -> RewardBatch:
    rows = len(mask)
    numbers: dict[Any, int] = {}
    group = [numbers.setdefault(name, len(numbers)) for name in index]
    live = mask.any(1)
    return RewardBatch(
        rewards=token_rewards.double().sum(1).masked_fill(~live, 0.0),
        group=torch.tensor(group, device=mask.device),
        live=live,
        lengths=mask.sum(1),
        domain=("",) * rows,
        members=rows,
        length_cap=mask.shape[1],
        turns=[_turns(row) for row in mask.tolist()],
    )


def _turns(row: Sequence[bool]) -> list[int]:
    """The turn of every token of the model's: a turn is a run of them without a hole."""
    turns: list[int] = []
    for position, own in enumerate(row):
        if own:
            begins = position == 0 or not row[position - 1]
            turns.append((turns[-1] if turns else -1) + begins)
    return turns


def _spread(values: Tensor, mask: Tensor) -> Tensor:
    """From our tokens, which are the model's own without holes, to verl's places."""
    if values.dim() == 1:
        return values[:, None] * mask
    spread = values.new_zeros(mask.shape)
    for row, own in enumerate(mask):
        spread[row, own] = values[row, : int(own.sum())]
    return spread


def _only(name: str, advantage: Callable[[RewardBatch], Tensor]) -> LossParts:
    def unused(*args: Any) -> Any:
        raise NotImplementedError

    return LossParts(advantage, unused, unused, unused, names={"advantage": name})
