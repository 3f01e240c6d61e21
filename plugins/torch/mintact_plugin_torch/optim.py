"""AdamW with gradient clipping and a linear warm-up, its state addressable by parameter name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mintact_platform.errors import TrainerError

_STATE = ("step", "exp_avg", "exp_avg_sq")


def warmed_up(lr: float, step: int, warmup: int) -> float:
    """Learning rate of a 1-based step: rises linearly over the first `warmup` steps."""
    return lr * min(1.0, step / warmup) if warmup else lr


class Optimiser:
    """AdamW over all parameters; only matrices decay.

    Args:
        model: whose parameters it moves.
        betas: of Adam.
        weight_decay: of matrices.
        grad_clip: largest norm of the whole gradient.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        betas: tuple[float, float],
        weight_decay: float,
        grad_clip: float,
    ) -> None:
        self.grad_clip, self.betas = grad_clip, betas
        self.named = dict(model.named_parameters())
        matrices = [p for p in self.named.values() if p.dim() > 1]
        others = [p for p in self.named.values() if p.dim() <= 1]
        groups: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        self.adam = torch.optim.AdamW(groups, betas=betas, fused=True)

    def step(self, lr: float, betas: tuple[float, float] | None = None) -> float:
        """Clip, update, forget the gradient; returns its norm before clipping.

        Raises:
            TrainerError: a gradient that is not finite; weights stay as they were.
        """
        parameters = list(self.named.values())
        norm = float(nn.utils.clip_grad_norm_(parameters, self.grad_clip))
        if not norm < float("inf"):
            self.adam.zero_grad()
            raise TrainerError(
                f"gradient norm is {norm}",
                where="optimiser",
                next="lower trainer.lr, or look at the step's trajectories with mintact show",
            )
        for group in self.adam.param_groups:
            group["lr"], group["betas"] = lr, betas or self.betas
        self.adam.step()
        self.adam.zero_grad()
        return norm

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self.adam.zero_grad()

    def tensors(self) -> dict[str, Tensor]:
        """Its state, `<parameter>/<name>`; parameters that never had a gradient have none."""
        return {
            f"{name}/{key}": self.adam.state[parameter][key].detach().cpu()
            for name, parameter in self.named.items()
            if parameter in self.adam.state
            for key in _STATE
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over a state that `tensors` gave."""
        self.adam.state.clear()
        for key, tensor in tensors.items():
            name, _, entry = key.rpartition("/")
            parameter = self.named[name]
            self.adam.state[parameter][entry] = tensor.to(parameter.device, copy=True)
