"""`check_advantage`: shape, finite numbers, and masked rollouts in no statistic."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mintact_platform.errors import PluginError
from mintact_platform.testing.batches import reward_rows
from mintact_platform.testing.conformance import Subject, find
from mintact_platform.training.loss import evaluate_advantages
from mintact_platform.training.objective import LossParts, RewardBatch

_FIX = "return one number a row, [rows], or one a token, [rows, tokens]; all finite"
_MASK = (
    "leave masked rows out: batch.group_mean(x) and batch.group_sum(x) do, batch.live says which"
)


def check_advantage(
    advantage_or_name: str | Callable[..., Any], *, params: Mapping[str, Any] | None = None
) -> None:
    """Whether an advantage keeps its contract.

    Args:
        advantage_or_name: registered name, or the function.
        params: its parameters.

    Raises:
        ConformanceError: the first thing that is wrong.
    """
    subject = find("advantages", advantage_or_name, params, given=lambda target: 1)
    usual = reward_rows()
    first = _evaluated(subject, "it gives an advantage for every row", usual)
    _check_read_only(subject, first)
    live = usual.live
    loud = _evaluated(
        subject, "it takes any number in masked rows", reward_rows(masked_reward=1000.0)
    )
    if not torch.allclose(first[live], loud[live]):
        raise subject.error(
            "masked rollouts are part of no statistic",
            seen="another reward in a masked row changes the advantages of live ones",
            fix=_MASK,
        )
    for what, batch in _odd_batches(usual):
        _evaluated(subject, f"it takes {what}", batch)


def _odd_batches(usual: RewardBatch) -> list[tuple[str, RewardBatch]]:
    equal = replace(usual, rewards=usual.live.to(usual.rewards.dtype))
    return [
        ("groups whose rewards are all equal", equal),
        ("groups without a live rollout", reward_rows(live=())),
        ("rewards of 1e6", replace(usual, rewards=usual.rewards * 1e6)),
        ("a judge without turn rewards", replace(usual, turn_rewards=((),) * len(usual.rewards))),
    ]


def _check_read_only(subject: Subject, first: Tensor) -> None:
    batch = reward_rows()
    before = batch.rewards.clone()
    again = _evaluated(subject, "it can be asked twice", batch)
    if not torch.equal(batch.rewards, before):
        raise subject.error(
            "it only reads its batch",
            seen="batch.rewards changed",
            fix="use operations without a trailing underscore",
        )
    if not torch.equal(first, again):
        raise subject.error(
            "the same rewards give the same advantages",
            seen=f"{first[0].tolist()} and {again[0].tolist()} for the first row",
            fix="keep no state between calls and draw no random numbers",
        )


def _evaluated(subject: Subject, check: str, batch: RewardBatch) -> Tensor:
    parts = LossParts(
        advantage=functools.partial(subject.target, **subject.params),
        objective=lambda batch: None,
        correction=lambda proximal, rollout, mask: proximal,
        normaliser=lambda batch: 1.0,
        names={"advantage": subject.name},
    )
    try:
        return evaluate_advantages(parts, batch)
    except PluginError as error:
        if error.__cause__ is not None:
            raise subject.raised(check, error.__cause__, fix=error.next or _FIX) from error
        raise subject.error(check, seen=error.what, fix=error.next or _FIX) from error
