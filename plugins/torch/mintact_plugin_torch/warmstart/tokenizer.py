"""A small byte-level BPE tokenizer for tiny models, with Qwen's special tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

PAD, IMAGE, VIDEO = "<|endoftext|>", "<|image_pad|>", "<|video_pad|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
SPECIAL = (PAD, TURN_START, TURN_END, VISION_START, VISION_END, IMAGE, VIDEO)

TAGS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
FRAGMENTS = (
    '{"name": "',
    '", "arguments": {"',
    'action": "',
    '", "coordinate": [',
    "]}}",
    '"}}',
    '", "text": "',
    '", "status": "',
    '", "response": "',
    '": "',
    '{"tools": ["',
    '"]}',
    "mobile_use",
    "computer_use",
    "browser_use",
    "search_tool",
)
"""Pieces of rendered calls; one token each, or a tiny model spends its capacity on JSON."""

ENTRIES = 512


def train(
    corpus: Iterable[str], entries: int = ENTRIES, special: Sequence[str] = SPECIAL
) -> Tokenizer:
    """Train on texts as the model will see them; tags and fragments are cut out first.

    Digits stand alone, so that a coordinate's tokens do not depend on its neighbours.

    Args:
        corpus: texts without special tokens.
        entries: upper bound of the vocabulary, everything included.
        special: the model family's special tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    fixed = (*TAGS, *FRAGMENTS)
    trainer = trainers.BpeTrainer(
        vocab_size=entries - len(fixed),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in special],
        show_progress=False,
    )
    longest_first = sorted((*special, *fixed), key=len, reverse=True)
    cut = re.compile("|".join(re.escape(text) for text in longest_first))
    tokenizer.train_from_iterator((part for text in corpus for part in cut.split(text)), trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in fixed])
    return tokenizer


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Id of each special token."""
    vocabulary: dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    return {text: vocabulary[text] for text in SPECIAL}


def write(tokenizer: Tokenizer, directory: Path, *, end: str = TURN_END, pad: str = PAD) -> None:
    """Write `tokenizer.json` and the `tokenizer_config.json` that Hugging Face loaders ask for."""
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": end,
        "pad_token": pad,
        "model_max_length": 4096,
        "clean_up_tokenization_spaces": False,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
