"""Making a scratch model: tokenizer, weights, alignment, in this order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch

from mintact_platform.actions.space import ActionSpace
from mintact_platform.models.chat import Qwen3VLChat
from mintact_platform.records.demonstration import Demonstration
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import check
from mintact_plugin_torch.warmstart import align, tiny
from mintact_plugin_torch.warmstart import tokenizer as vocabulary
from mintact_plugin_torch.warmstart.align import Progress

CORPUS = 800
"""Demonstrations a registered name gives to the tokenizer."""


def make(
    out: Path,
    registry: Registry,
    *,
    demonstrations: Sequence[str],
    elements: str,
    seed: int,
    align_steps: int,
    progress: Progress,
) -> None:
    """Write a complete model directory; arguments as in `command.new_model`."""
    torch.set_num_threads(1)
    streams = [_open(registry, name, seed) for name in demonstrations]
    shown = itertools.chain.from_iterable(itertools.islice(s, CORPUS) for s in streams)
    tokenizer = vocabulary.train(_texts(shown, registry))
    policy = tiny.build(tokenizer, seed)
    size = sum(tensor.numel() for tensor in policy.tensors().values())
    progress(f"new model: {tokenizer.get_vocab_size()} tokens, {size / 1e6:.2f} M parameters")
    if align_steps:
        encode = Qwen3VLChat(tokenizer).encode
        screens = align.screens(_open(registry, elements, seed))
        align.align(policy, encode, screens, steps=align_steps, progress=progress)
    tiny.write(policy, tokenizer, out)


def _open(registry: Registry, name: str, seed: int) -> Iterator[Demonstration]:
    target = registry.get("demonstrations", name)
    stream: Iterator[Demonstration] = target(
        **check(target, {"seed": seed}, where=f"demonstrations {name!r}")
    )
    return stream


def _texts(demonstrations: Iterable[Demonstration], registry: Registry) -> Iterator[str]:
    """Everything a model would read or write in these demonstrations, message by message."""
    spaces: dict[str, ActionSpace] = {}
    yield from ("user\n", "assistant\n")
    for shown in demonstrations:
        name = shown.action_space
        if name not in spaces:
            spaces[name] = registry.get("action_spaces", name)(prompt="short")
        task = Task("demonstration", shown.goal, shown.domain)
        yield f"system\n{spaces[name].system_prompt(task, shown.tools)}"
        yield shown.goal
        for turn in shown.turns:
            yield turn.text
            yield turn.response
