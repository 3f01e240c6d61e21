"""A tiny, randomly initialised Qwen3-VL that learns to ground on a CPU.

Run `python -m mintact_plugin_torch.warmstart.tiny --out DIR` for a model directory in seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from mintact_plugin_torch.families import FAMILIES
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart import tokenizer as vocabulary

PATCH, MERGE, SIDE = 16, 2, 8
"""Pixels a patch, patches a token's side, patches of the position table's side."""
POSITION_SCALE = 10.0

SAMPLE = (
    "system\n",
    "user\n",
    "assistant\n",
    "Phone. mobile_use: click, type, swipe, terminate.",
    "Desktop. computer_use: left_click, right_click, terminate.",
    "Browser. browser_use: click, type, stop.",
    "Tools. search_tool, terminate.",
    "open red and turn on green",
    "right click blue then choose yellow",
    "type map into purple and submit",
    "share the color of the circle",
    '<think>open red</think><tool_call>{"name": "mobile_use", "arguments": {"action": "click", '
    '"coordinate": [500, 120]}}</tool_call>',
    '<think>done</think><tool_call>{"name": "terminate", "arguments": {"status": "success"}}'
    "</tool_call>",
) * 4
"""Enough text for a tokenizer where nothing is to be learnt."""


def configuration(tokenizer: Tokenizer) -> Qwen3VLConfig:
    """The tiny model's configuration: 0.68 M parameters, one token a 32-pixel cell.

    rope_theta is 1e6: with 1000 the positions of a 16-token image do not separate.
    """
    ids = vocabulary.special_ids(tokenizer)
    return Qwen3VLConfig(
        architectures=["Qwen3VLForConditionalGeneration"],
        dtype="float32",
        text_config={
            "vocab_size": tokenizer.get_vocab_size(),
            "hidden_size": 96,
            "intermediate_size": 256,
            "num_hidden_layers": 3,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "head_dim": 32,
            "max_position_embeddings": 4096,
            "initializer_range": 0.06,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e6,
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
            "pad_token_id": ids[vocabulary.PAD],
            "bos_token_id": ids[vocabulary.PAD],
            "eos_token_id": ids[vocabulary.TURN_END],
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 1,
            "out_hidden_size": 96,
            "num_position_embeddings": SIDE * SIDE,
            "deepstack_visual_indexes": [0],
            "initializer_range": 0.06,
        },
        image_token_id=ids[vocabulary.IMAGE],
        video_token_id=ids[vocabulary.VIDEO],
        vision_start_token_id=ids[vocabulary.VISION_START],
        vision_end_token_id=ids[vocabulary.VISION_END],
        tie_word_embeddings=True,
    )


def build(tokenizer: Tokenizer, seed: int) -> Policy:
    """A freshly initialised tiny policy; the caller's random state is left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = configuration(tokenizer)
        config._attn_implementation = "sdpa"
        model: Any = Qwen3VLForConditionalGeneration(config)
        # at its default size the position table is lost under the patches, and locating an element
        # never leaves chance
        with torch.no_grad():
            model.model.visual.pos_embed.weight.mul_(POSITION_SCALE)
    return Policy(model.eval())


def write(policy: Policy, tokenizer: Tokenizer, directory: Path) -> None:
    """Write a complete model directory: weights, tokenizer, preprocessor."""
    directory.mkdir(parents=True, exist_ok=True)
    policy.save(directory)
    policy.model.generation_config.save_pretrained(directory)
    vocabulary.write(tokenizer, directory)
    preprocessor = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": PATCH,
        "temporal_patch_size": 1,
        "merge_size": MERGE,
        "size": {"shortest_edge": (PATCH * MERGE) ** 2, "longest_edge": 1 << 20},
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    (directory / "preprocessor_config.json").write_text(json.dumps(preprocessor, indent=2) + "\n")


def make_tiny(path: str | Path, seed: int = 0, corpus: Iterable[str] = SAMPLE) -> Path:
    """Make a tiny model directory whose weights have learnt nothing.

    Args:
        path: the directory, created if missing.
        seed: of the initial weights.
        corpus: texts the tokenizer is trained on.
    """
    tokenizer = vocabulary.train(corpus)
    write(build(tokenizer, seed), tokenizer, Path(path))
    return Path(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of `python -m mintact_plugin_torch.warmstart.tiny`."""
    parser = argparse.ArgumentParser(description="make a tiny, untrained model directory")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", choices=sorted(FAMILIES), default="qwen3_vl")
    options = parser.parse_args(argv)
    if options.family == "qwen3_vl":
        print(make_tiny(options.out, options.seed))
    else:
        from mintact_plugin_torch.warmstart.tiny_families import make_tiny_family

        print(make_tiny_family(options.out, options.family, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
