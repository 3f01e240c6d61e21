"""An objective of ours as verl calls a policy loss.

verl's tensors are `[rows, tokens]` with holes where a tool or a user spoke; ℓ_prox is its
`old_log_prob`. Mask, weights and normaliser are verl's: we bring the surrogate only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mintact_platform.errors import ConfigurationError, MintactError, PluginError
from mintact_platform.registry.parameters import bind
from mintact_platform.training.objective import LossBatch

Aggregate = Callable[..., Tensor]
"""verl's `agg_loss`."""

_UNKNOWN = {
    "group": "which rows form a group",
    "trajectory": "which rows form a trajectory",
    "rollout_logprobs": "the rollout policy's log-probabilities",
}


class VerlBatch(LossBatch):
    """The fields that verl hands to a policy loss; asking for another one says so."""

    @classmethod
    def of(
        cls, logprobs: Tensor, proximal_logprobs: Tensor, advantages: Tensor, mask: Tensor
    ) -> VerlBatch:
        """A batch whose tensors are 0 outside of the mask, and in float32 at least."""
        filled = [
            tensor.to(torch.promote_types(tensor.dtype, torch.float32)).masked_fill(~mask, 0.0)
            for tensor in (logprobs, proximal_logprobs.detach(), advantages.detach())
        ]
        rows = torch.zeros(len(mask), dtype=torch.long, device=mask.device)
        nothing = filled[1].new_empty(0)
        batch = cls(filled[0], filled[1], nothing, filled[2], mask, rows, rows, rows)
        for name in _UNKNOWN:
            object.__delattr__(batch, name)
        return batch

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _UNKNOWN:
                raise ConfigurationError(
                    f"verl does not tell a policy loss {_UNKNOWN[name]} ({name!r})",
                    next="use an objective that does without, or train with mintact",
                )
            return super().__getattr__(name)


class PolicyLoss:
    """A registered objective under verl's signature of policy losses.

    Its parameters are those of `policy_loss.mintact` in the actor's section; see
    `config.PolicyLossConfig`.

    Args:
        name: as we register it.
        objective: the function.
        aggregate: verl's `agg_loss`, which applies `loss_agg_mode`.
    """

    def __init__(self, name: str, objective: Callable[..., Any], aggregate: Aggregate) -> None:
        self.__name__ = name
        self._where = f"objective {name!r} in verl"
        self._objective, self._aggregate = objective, aggregate
        self._bound: dict[str, Callable[..., Any]] = {}

    def __call__(
        self,
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, float]]:
        """The scalar to minimise, with a gradient, and metrics of this micro-batch.

        Args:
            old_log_prob: ℓ_prox `[rows, tokens]`.
            log_prob: ℓ, with a gradient.
            advantages: Â.
            response_mask: true on the model's own tokens.
            loss_agg_mode: how verl reduces tokens to one number.
            config: the actor's section; `global_batch_info` counts the whole update.
            rollout_is_weights: w of verl's rollout correction.

        Raises:
            ConfigurationError: a parameter that the objective does not take, or a field that verl
                does not give.
            PluginError: a wrong shape, or a value that is not finite.
        """
        mask = response_mask.bool()
        batch = VerlBatch.of(log_prob, old_log_prob, advantages, mask)
        surrogate, reported = self._evaluate(batch, settings(config, "policy_loss"))
        if rollout_is_weights is not None:
            weights = rollout_is_weights.detach().masked_fill(~mask, 0.0)
            surrogate = surrogate * weights
        loss = self._aggregate(
            loss_mat=surrogate.masked_fill(~mask, 0.0),
            loss_mask=response_mask,
            loss_agg_mode=loss_agg_mode,
            **dict(getattr(config, "global_batch_info", None) or {}),
        )
        tokens = {f"actor/{name}": tensor for name, tensor in reported.items()}
        tokens["actor/ppo_kl"] = batch.proximal_logprobs - batch.logprobs
        return loss, {name: self._metric(name, value, mask) for name, value in tokens.items()}

    def _evaluate(
        self, batch: LossBatch, params: Mapping[str, Any]
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        key = json.dumps(params, sort_keys=True, default=repr)
        if key not in self._bound:
            self._bound[key] = bind(self._objective, params, where=self._where)
        try:
            result = self._bound[key](batch)
        except MintactError as error:
            raise type(error)(error.what, where=self._where, next=error.next) from error
        except Exception as error:
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            raise PluginError(line, where=self._where) from error
        surrogate, reported = result if isinstance(result, tuple) else (result, {})
        mask = batch.loss_mask
        self._check_shape("surrogate", surrogate, mask)
        bad = int((~surrogate.detach()[mask].isfinite()).sum())
        if bad:
            raise PluginError(
                f"surrogate is not finite at {bad} of {int(mask.sum())} tokens", where=self._where
            )
        return surrogate, reported

    def _metric(self, name: str, value: Tensor, mask: Tensor) -> float:
        """The mean over the tokens; 0 without any, as in verl's own losses."""
        self._check_shape(f"metric {name!r}", value, mask)
        chosen = value.detach()[mask].double()
        return float(chosen.mean()) if len(chosen) else 0.0

    def _check_shape(self, what: str, value: Any, mask: Tensor) -> None:
        if not isinstance(value, Tensor) or value.shape != mask.shape:
            got = list(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
            raise PluginError(
                f"{what} is {got} for a batch of {list(mask.shape)}",
                where=self._where,
                next="return one value a token: [rows, tokens]",
            )


def settings(config: Any, section: str | None) -> dict[str, Any]:
    """Our parameters in a section of verl's configuration, {} where there are none.

    Args:
        config: a dataclass or an OmegaConf mapping; both have `get`.
        section: below it, None for itself.
    """
    for name in filter(None, (section, "mintact")):
        config = None if config is None else config.get(name, None)
    return dict(config or {})


def refusing(error: MintactError) -> Callable[..., Any]:
    """Stands in verl's registry for what cannot be represented, and says why when it is used."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise type(error)(error.what, where=error.where, next=error.next)

    return refused
