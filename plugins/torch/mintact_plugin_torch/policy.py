"""The policy: a model as engine and trainer both call it, token for token the same.

What differs between model families is in `families`. Shapes: B rows, L expanded tokens, H hidden
size, n tokens of any selection.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.utils import logging

from mintact_platform.errors import ConfigurationError
from mintact_plugin_torch.families import family_of, stock_class
from mintact_plugin_torch.features import ImageFeatures as ImageFeatures
from mintact_plugin_torch.features import Patches as Patches
from mintact_plugin_torch.head import target_logprobs

COMPANIONS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template.jinja",
)
"""Files beside the weights that a saved model directory takes over unchanged."""

CHUNK = 128
"""Tokens whose logits exist at a time."""


class Policy:
    """A language model, most of them with vision.

    Args:
        model: of one of the families.
        source: the model's directory; `save` takes its tokenizer and preprocessor files over.

    Attributes:
        model: the stock model, parts of its vision tower made faster.
        family: what this model does its own way.
        text: the model's decoder.
        image_token_id: id of the image placeholder; -1 for a model without images.
        layout: how an image becomes tokens.
    """

    def __init__(self, model: Any, source: Path | None = None) -> None:
        self.model, self.source = model, source
        self.family = family_of(model.config.model_type)(model, source)
        self.text = self.family.text
        self.image_token_id, self.layout = self.family.image_token_id, self.family.layout

    @classmethod
    def load(cls, path: str | Path, *, dtype: torch.dtype = torch.float32) -> Self:
        """Load a model directory in Hugging Face layout.

        Raises:
            ConfigurationError: when the directory holds no model of a known family.
        """
        source = Path(path)
        if not (source / "config.json").is_file():
            raise ConfigurationError(
                "no config.json in the model directory",
                where=str(path),
                next="make one with `mintact torch new-model`, or give a model of a known family",
            )
        kind = json.loads((source / "config.json").read_text()).get("model_type")
        stock = stock_class(kind, where=str(path))
        with _no_progress_bar():
            model: Any = stock.from_pretrained(
                source, dtype=dtype, attn_implementation="sdpa", local_files_only=True
            )
        return cls(model.eval(), source)

    def save(self, path: str | Path) -> None:
        """Write weights and configuration in Hugging Face layout, tokenizer files beside them."""
        target = Path(path)
        target.mkdir(parents=True, exist_ok=True)
        self.model.config.save_pretrained(target)
        save_file(self.tensors(), target / "model.safetensors", metadata={"format": "pt"})
        if self.source is None:
            return
        for name in COMPANIONS:
            if (self.source / name).is_file() and self.source.resolve() != target.resolve():
                shutil.copyfile(self.source / name, target / name)

    def tensors(self) -> dict[str, Tensor]:
        """The weights by their names in files, tied ones once; views, not copies."""
        seen: set[tuple[int, torch.Size]] = set()
        tensors = {}
        for name, tensor in self.model.state_dict().items():
            key = (tensor.data_ptr(), tensor.shape)
            if key not in seen:
                seen.add(key)
                tensors[self.family.stored_name(name)] = tensor
        return tensors

    def patches(self, image: bytes) -> Patches:
        """Decode an encoded image and cut it into patches; the caller caches the result.

        Raises:
            ConfigurationError: an image the model cannot take.
        """
        with Image.open(io.BytesIO(image)) as decoded:
            pixels = np.asarray(decoded.convert("RGB"))
        return self.cut(pixels)

    def cut(self, pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> Patches:
        """Cut a uint8 `[height, width, 3]` image into what the vision tower reads."""
        return self.family.cut(pixels)

    def encode(self, images: Sequence[Patches]) -> ImageFeatures:
        """Image tokens of images cut by `patches`; fastest when all have one size."""
        return self.family.encode(images)

    def hidden(
        self,
        ids: Tensor,
        positions: Tensor,
        is_image: Tensor,
        features: ImageFeatures | None,
        *,
        attention_mask: Tensor | None = None,
        cache: Any = None,
        **attention: Any,
    ) -> Tensor:
        """Last hidden states `[B, L, H]`, after the final norm.

        Right padding needs no mask.

        Args:
            ids: `[B, L]` expanded ids.
            positions: `[3, B, L]`, as `layout` gives them.
            is_image: bool `[B, L]`, true on tokens of images.
            features: of the images in these tokens, in row-major order; None without images.
            attention_mask: None (causal), or bool `[B, 1, L, cached + L]`.
            cache: a transformers cache that holds the tokens before these, extended in place.
            **attention: handed to the attention implementation.
        """
        embeddings = self.text.embed_tokens(ids)
        if features is not None:
            tokens = features.tokens.to(embeddings.dtype)
            embeddings = embeddings.masked_scatter(is_image[..., None], tokens)
        output = self.text(
            inputs_embeds=embeddings,
            attention_mask=attention_mask,
            cache=cache,
            use_cache=cache is not None,
            **self.family.inputs(positions, is_image, features),
            **attention,
        )
        states: Tensor = output.last_hidden_state
        return states

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits `[..., vocabulary]` of hidden states `[..., H]`."""
        logits: Tensor = self.model.lm_head(hidden)
        return logits

    def logprobs(
        self, hidden: Tensor, targets: Tensor, temperature: float | Tensor, *, chunk: int = CHUNK
    ) -> Tensor:
        """Log-probabilities of the targets after temperature, float32 `[n]`.

        The vocabulary-sized tensors of at most `chunk` tokens exist at a time, backward included.

        Args:
            hidden: `[n, H]`, states that predict the targets.
            targets: `[n]` ids.
            temperature: one number, or `[n]`.
            chunk: tokens a slice.
        """
        weight = self.model.lm_head.weight
        return target_logprobs(hidden, weight, targets, _heat(temperature, hidden), chunk)

    def entropies(
        self, hidden: Tensor, temperature: float | Tensor, *, chunk: int = CHUNK
    ) -> Tensor:
        """Entropy of π after temperature in nats, float32 `[n]`, of hidden states `[n, H]`."""
        heat = _heat(temperature, hidden)
        slices = list(zip(torch.split(hidden, chunk), torch.split(heat, chunk), strict=True))
        if len(slices) == 1 or not torch.is_grad_enabled():
            return torch.cat([self._entropies(*part) for part in slices])
        parts = [checkpoint(self._entropies, *part, use_reentrant=False) for part in slices]
        return torch.cat(parts)

    def _entropies(self, hidden: Tensor, temperature: Tensor) -> Tensor:
        logprobs = (self.logits(hidden).float() / temperature[:, None]).log_softmax(-1)
        return -(logprobs.exp() * logprobs).sum(-1)


def _heat(temperature: float | Tensor, hidden: Tensor) -> Tensor:
    """The temperature of each token, float32 `[n]`."""
    heat = torch.as_tensor(temperature, dtype=torch.float32, device=hidden.device)
    return heat.expand(len(hidden))


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    bars: Any = logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
