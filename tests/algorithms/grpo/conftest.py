"""Batches that every objective is tried on, and losses composed as a run file composes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mintact_platform.registry.names import Registry
from mintact_platform.training.objective import LossBatch, LossParts, compose

D = torch.float64


@functools.cache
def registry() -> Registry:
    return Registry.discover()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `objective_name` runs for every objective of ours, and so on."""
    for kind in ("objective", "advantage", "correction", "normaliser", "preset"):
        if f"{kind}_name" in metafunc.fixturenames:
            metafunc.parametrize(f"{kind}_name", own(f"{kind}s"))


def own(kind: str) -> list[str]:
    names = registry().names(kind)
    return [n for n in names if registry().provider(kind, n) == "mintact-algorithm-grpo"]


def compose_loss(
    name: str = "mintact", params: Any = None, correction: str = "none", **section: Any
) -> LossParts:
    chosen = {"name": name, "params": params or {}}
    return compose(registry(), {"objective": chosen, "correction": {"name": correction}, **section})


def corrected(name: str) -> LossParts:
    """The objective under the truncated weight, where it does not correct by itself."""
    parts = compose_loss(name)
    return parts if parts.habits.correction == "own" else compose_loss(name, correction="truncate")


def make(
    ell: Any, prox: Any, roll: Any, A: Any, mask: Any, rewards: Any = None, **fields: Any
) -> LossBatch:
    """A batch of float64 rows; every extra input is there, with a gradient where it has one."""
    mask = torch.as_tensor(mask, dtype=torch.bool)
    ell, prox, roll, A = (torch.as_tensor(x, dtype=D) for x in (ell, prox, roll, A))
    rows = len(mask)
    extras = {
        "entropy": (0.5 + ell.detach().abs() / 3).requires_grad_(),
        "reference_logprobs": (prox + roll) / 2 - 0.1,
    }
    values = {
        "logprobs": ell.clone().requires_grad_(),
        "proximal_logprobs": prox,
        "rollout_logprobs": roll,
        "advantages": (A if A.dim() == 2 else A[:, None]).expand(mask.shape),
        "loss_mask": mask,
        "group": torch.arange(rows) // 4,
        "trajectory": torch.arange(rows),
        "domain": torch.arange(rows) % 2,
        "domains": ("web", "tools"),
        "rewards": torch.as_tensor([1.0, 0.0] * rows if rewards is None else rewards)[:rows],
        "extras": extras,
    }
    return LossBatch(**{**values, **fields})


def draw(seed: int, rows: int = 8, width: int = 5, spread: float = 0.4) -> LossBatch:
    """A random batch with holes and at least one row without any token."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=D)

    ell = -3 * torch.rand(rows, width, generator=generator, dtype=D)
    prox = (ell + spread * normal(rows, width)).clamp(max=0)
    roll = (prox + spread * normal(rows, width)).clamp(max=0)
    mask = torch.rand(rows, width, generator=generator) < 0.7
    mask[seed % rows] = False
    rewards = (torch.rand(rows, generator=generator) < 0.5).double()
    return make(ell, prox, roll, normal(rows), mask, rewards)


@pytest.fixture(scope="session")
def losses() -> Callable[..., LossParts]:
    return compose_loss


@pytest.fixture(scope="session")
def corrected_loss() -> Callable[[str], LossParts]:
    return corrected


@pytest.fixture(scope="session")
def batch_of() -> Callable[..., LossBatch]:
    return make


@pytest.fixture(scope="session")
def random_batch() -> Callable[..., LossBatch]:
    return draw


@pytest.fixture(scope="session")
def names_of() -> Callable[[str], list[str]]:
    return own
