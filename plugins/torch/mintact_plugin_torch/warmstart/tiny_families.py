"""Tiny, randomly initialised models of every family, for tests: nothing here has learnt anything.

`python -m mintact_plugin_torch.warmstart.tiny --family smolvlm --out DIR` makes one in seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer

from mintact_platform.models.tiles import BORDER, IMAGE, WHOLE
from mintact_plugin_torch.families import stock_class
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart import tiny
from mintact_plugin_torch.warmstart import tokenizer as vocabulary

END = "<end_of_utterance>"
TILED = (
    "<|endoftext|>",
    "<|im_start|>",
    END,
    IMAGE,
    BORDER,
    WHOLE,
    *(f"<row_{row}_col_{column}>" for row in range(1, 4) for column in range(1, 4)),
)
"""Special tokens of SmolVLM, up to three rows and columns of tiles."""

SIDE, LONGEST = 32, 64
"""Pixels of a tile, and of an image's longest edge."""

Made = tuple[Any, dict[str, Any]]
"""Configuration and preprocessor file, empty without images."""


def make_tiny_family(path: str | Path, model_type: str, seed: int = 0) -> Path:
    """Make a tiny, untrained model directory of a family.

    Args:
        path: the directory, created if missing.
        model_type: as `config.json` names the family.
        seed: of the initial weights.

    Raises:
        ConfigurationError: a `model_type` that no family serves.
    """
    target, stock = Path(path), stock_class(model_type, where="tiny model")
    if model_type == "qwen3_vl":
        return tiny.make_tiny(target, seed)
    tiled = model_type in ("smolvlm", "idefics3")
    tokenizer = vocabulary.train(tiny.SAMPLE, special=TILED if tiled else vocabulary.SPECIAL)
    config, preprocessor = _MADE[model_type](tokenizer)
    config.architectures, config.dtype = [stock.__name__], torch.float32
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = stock(config)
        _stir(model)
    target.mkdir(parents=True, exist_ok=True)
    if tiled:
        vocabulary.write(tokenizer, target, end=END, pad=TILED[0])
    else:
        vocabulary.write(tokenizer, target)
    if preprocessor:
        text = json.dumps(preprocessor, indent=2) + "\n"
        (target / "preprocessor_config.json").write_text(text)
    config.save_pretrained(target)
    model.generation_config.save_pretrained(target)
    Policy(model.eval(), target).save(target)
    return target


@torch.no_grad()
def _stir(model: Any) -> None:
    """Random biases and norms: at their initial zeros and ones a wrong use would show nowhere."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name or "ln_q" in name:
            parameter.add_(0.1 * torch.randn_like(parameter))


def _decoder(tokenizer: Tokenizer, end: str, pad: str, **changes: Any) -> dict[str, Any]:
    return {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "initializer_range": 0.06,
        "rms_norm_eps": 1e-6,
        "pad_token_id": tokenizer.token_to_id(pad),
        "bos_token_id": tokenizer.token_to_id(pad),
        "eos_token_id": tokenizer.token_to_id(end),
        **changes,
    }


def _qwen3(tokenizer: Tokenizer) -> Made:
    text = _decoder(
        tokenizer,
        vocabulary.TURN_END,
        vocabulary.PAD,
        head_dim=32,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )
    return transformers.Qwen3Config(**text), {}


def _qwen2_5_vl(tokenizer: Tokenizer) -> Made:
    """Vision attention within windows of 2×2 tokens in the first layer, over all in the second."""
    ids = vocabulary.special_ids(tokenizer)
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
    config = transformers.Qwen2_5_VLConfig(
        text_config=_decoder(tokenizer, vocabulary.TURN_END, vocabulary.PAD, rope_parameters=rope),
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 56,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
            "initializer_range": 0.06,
        },
        image_token_id=ids[vocabulary.IMAGE],
        video_token_id=ids[vocabulary.VIDEO],
        vision_start_token_id=ids[vocabulary.VISION_START],
        vision_end_token_id=ids[vocabulary.VISION_END],
        tie_word_embeddings=True,
    )
    preprocessor = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "size": {"shortest_edge": 28 * 28, "longest_edge": 1 << 20},
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    return config, preprocessor


def _tiled(kind: str) -> Callable[[Tokenizer], Made]:
    def make(tokenizer: Tokenizer) -> Made:
        rope = {"rope_type": "default", "rope_theta": 1e5}
        config = getattr(transformers, f"{kind}Config")(
            text_config={
                "model_type": "llama",
                **_decoder(tokenizer, END, TILED[0], rope_parameters=rope),
            },
            vision_config={
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "image_size": SIDE,
                "patch_size": 8,
                "initializer_range": 0.06,
            },
            image_token_id=tokenizer.token_to_id(IMAGE),
            scale_factor=2,
        )
        preprocessor = {
            "image_processor_type": f"{kind}ImageProcessor",
            "size": {"longest_edge": LONGEST},
            "max_image_size": {"longest_edge": SIDE},
            "do_resize": True,
            "do_image_splitting": True,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
        }
        return config, preprocessor

    return make


_MADE = {
    "qwen3": _qwen3,
    "qwen2_5_vl": _qwen2_5_vl,
    "smolvlm": _tiled("SmolVLM"),
    "idefics3": _tiled("Idefics3"),
}
