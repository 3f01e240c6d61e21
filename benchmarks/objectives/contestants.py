"""What is timed: each contestant makes its inputs and returns the step to repeat."""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

import torch
from mintact_plugin_torch.head import target_logprobs
from mintact_plugin_torch.policy import CHUNK

from mintact_platform.registry.names import Registry
from mintact_platform.training.loss import evaluate_loss
from mintact_platform.training.objective import LossBatch, compose

VOCABULARY, TOKENS = 151_669, 2048
Step = Callable[[], None]


def batch(rows: int, tokens: int) -> LossBatch:
    generator = torch.Generator().manual_seed(0)

    def draw(shift: torch.Tensor | float = 0.0, scale: float = 1.0) -> torch.Tensor:
        return shift - scale * torch.rand(rows, tokens, generator=generator)

    ell = draw()
    prox = draw(ell, 0.3)
    lengths = torch.randint(tokens // 2, tokens + 1, (rows, 1), generator=generator)
    return LossBatch(
        logprobs=ell.requires_grad_(),
        proximal_logprobs=prox.detach(),
        rollout_logprobs=draw(prox.detach(), 0.3),
        advantages=torch.randn(rows, 1, generator=generator).expand(rows, tokens).contiguous(),
        loss_mask=torch.arange(tokens) < lengths,
        group=torch.arange(rows) // 8,
        trajectory=torch.arange(rows),
        domain=torch.zeros(rows, dtype=torch.long),
    )


def platform(rows: int, tokens: int) -> Step:
    """Through the core: checks, mask, correction, metrics."""
    data, parts = batch(rows, tokens), compose(Registry.discover(), {"preset": "mintact"})
    S = float(rows * tokens)

    def step() -> None:
        data.logprobs.grad = None
        evaluate_loss(parts, data, S).value.backward()

    return step


def plugin(rows: int, tokens: int) -> Step:
    """The plugin functions alone: mask and S by hand, no checks and no metrics."""
    data, parts = batch(rows, tokens), compose(Registry.discover(), {"preset": "mintact"})

    def step() -> None:
        data.logprobs.grad = None
        surrogate, _ = parts.objective(data)
        weight = parts.correction(data.proximal_logprobs, data.rollout_logprobs, data.loss_mask)
        (surrogate * weight * data.loss_mask).sum().div(rows * tokens).backward()

    return step


def eager(rows: int, tokens: int) -> Step:
    """The formula in plain torch, as a framework writes it."""
    data = batch(rows, tokens)
    mask = data.loss_mask.float()

    def step() -> None:
        data.logprobs.grad = None
        A = data.advantages
        ratio = torch.exp(torch.clamp(data.logprobs - data.proximal_logprobs, -20, 20))
        unclipped, clipped = -A * ratio, -A * torch.clamp(ratio, 0.8, 1.28)
        high = torch.maximum(unclipped, clipped)
        loss = torch.where(A < 0, torch.minimum(high, -3.0 * A), high)
        weight = torch.exp(data.proximal_logprobs - data.rollout_logprobs).clamp(max=2.0).detach()
        ((loss * weight * mask).sum() / (rows * tokens)).backward()

    return step


def head(hidden: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(TOKENS, hidden, generator=generator).requires_grad_()
    weight = (torch.randn(VOCABULARY, hidden, generator=generator) / hidden**0.5).requires_grad_()
    targets = torch.randint(VOCABULARY, (TOKENS,), generator=generator)
    return states, weight, targets, torch.full((TOKENS,), 0.9)


def chunked(hidden: int) -> Step:
    """The trainer's step: a slice of tokens at a time."""
    states, weight, targets, heat = head(hidden)

    def step() -> None:
        states.grad = weight.grad = None
        target_logprobs(states, weight, targets, heat, CHUNK).mean().backward()

    return step


def unchunked(hidden: int) -> Step:
    """All logits at once."""
    states, weight, targets, heat = head(hidden)

    def step() -> None:
        states.grad = weight.grad = None
        logits = torch.nn.functional.linear(states, weight) / heat[:, None]
        logits.log_softmax(-1).gather(-1, targets[:, None]).mean().backward()

    return step


LOSSES = {"platform": platform, "plugin functions": plugin, "plain eager": eager}
HEADS = {"chunked": chunked, "unchunked": unchunked}


def memory() -> tuple[int, int]:
    """Resident bytes now and at their highest."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now = int(fields["VmRSS"].split()[0]) * 1024
    return now, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """One contestant in its own process: the first step shows its memory, all show their time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=[*LOSSES, *HEADS])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.name in LOSSES:
        # autograd's first call loads what stays: that is no step's memory
        LOSSES[options.name](2, 8)()
        step = LOSSES[options.name](options.rows, options.tokens)
    else:
        step = HEADS[options.name](options.hidden)
    before = memory()
    seconds = []
    for _ in range(options.steps):
        start = time.process_time(), time.perf_counter()
        step()
        seconds.append((time.process_time() - start[0], time.perf_counter() - start[1]))
        if len(seconds) == 1:
            peak = memory()[1] - before[0]
    print(json.dumps({"seconds": seconds, "peak": peak}))


if __name__ == "__main__":
    main()
