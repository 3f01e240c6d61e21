"""The policy: a Qwen3-VL model as engine and trainer both call it, token for token the same.

Shapes: B rows, L expanded tokens, H hidden size, n tokens of any selection.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import Qwen3VLForConditionalGeneration
from transformers.models.qwen3_vl.modeling_qwen3_vl import (
    Qwen3VLVisionAttention,
    Qwen3VLVisionPatchEmbed,
    apply_rotary_pos_emb_vision,
)
from transformers.utils import logging

from mintact_platform.errors import ConfigurationError
from mintact_plugin_torch.head import target_logprobs
from mintact_plugin_torch.layout import Layout

COMPANIONS = (
    "tokenizer.json",
    "tokenizer_config.json",
    "preprocessor_config.json",
    "generation_config.json",
    "chat_template.jinja",
)
"""Files beside the weights that a saved model directory takes over unchanged."""

CHUNK = 128
"""Tokens whose logits exist at a time."""

Grid = tuple[int, int, int]
"""Time, rows and columns of patches."""


class Patches(NamedTuple):
    """An image cut into patches, in the order the vision tower wants them.

    Attributes:
        pixels: uint8 `[patches, channels × time × patch × patch]`.
        grid: time, rows and columns of patches.
    """

    pixels: Tensor
    grid: Grid


class ImageFeatures(NamedTuple):
    """Image tokens of one or more images, one after the other.

    Attributes:
        tokens: `[n, H]`, what stands at the image tokens.
        deepstack: one `[n, H]` a layer, added to the first text layers' output there.
    """

    tokens: Tensor
    deepstack: tuple[Tensor, ...]

    @classmethod
    def join(cls, parts: Sequence[ImageFeatures]) -> ImageFeatures:
        """The features of several calls as one, in order."""
        layers = zip(*(part.deepstack for part in parts), strict=True)
        return cls(
            torch.cat([part.tokens for part in parts]), tuple(torch.cat(layer) for layer in layers)
        )

    def split(self, counts: Sequence[int]) -> list[ImageFeatures]:
        """One entry an image, `counts` being their numbers of tokens."""
        layers = [torch.split(layer, list(counts)) for layer in self.deepstack]
        return [
            ImageFeatures(tokens, tuple(layer[i] for layer in layers))
            for i, tokens in enumerate(torch.split(self.tokens, list(counts)))
        ]


class BatchedVisionAttention(Qwen3VLVisionAttention):
    """The stock vision attention, in one batched call when all images have one size."""

    def forward(
        self,
        hidden_states: Tensor,
        cu_seqlens: Tensor,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        max_seqlen: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Attend within each image; `hidden_states` is `[patches, width]` over all images."""
        lengths = cu_seqlens.diff()
        length, patches = int(lengths[0]), hidden_states.shape[0]
        if position_embeddings is None or int(lengths.min()) != int(lengths.max()):
            attended: Tensor = super().forward(
                hidden_states, cu_seqlens, position_embeddings, max_seqlen, **kwargs
            )
            return attended
        qkv = self.qkv(hidden_states).view(patches, 3, self.num_heads, -1)
        query, key, value = qkv.unbind(1)
        query, key = apply_rotary_pos_emb_vision(query, key, *position_embeddings)
        query, key, value = (
            states.view(patches // length, length, self.num_heads, -1).transpose(1, 2)
            for states in (query, key, value)
        )
        output = F.scaled_dot_product_attention(query, key, value, scale=self.scaling)
        projected: Tensor = self.proj(output.transpose(1, 2).reshape(patches, -1))
        return projected


class FlatPatchEmbed(Qwen3VLVisionPatchEmbed):
    """The stock patch embedding as the matrix product it is.

    Its convolution never overlaps; on a CPU the product takes an eighth of the time.
    """

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Embed flattened patches `[patches, channels × time × patch × patch]`."""
        weight = self.proj.weight
        flat: Tensor = F.linear(
            hidden_states.to(weight.dtype), weight.view(weight.shape[0], -1), self.proj.bias
        )
        return flat


class Policy:
    """A vision-language policy.

    Args:
        model: the model; its vision attention and patch embedding are made the fast ones.
        source: directory whose tokenizer and preprocessor files `save` takes over.

    Attributes:
        model: `Qwen3VLForConditionalGeneration`.
        image_token_id: id of the image placeholder.
        layout: how an image becomes tokens.
    """

    def __init__(self, model: Any, source: Path | None = None) -> None:
        self.model, self.source = model, source
        vision = model.config.vision_config
        self.image_token_id = int(model.config.image_token_id)
        self.layout = Layout(int(vision.patch_size), int(vision.spatial_merge_size))
        self._time = int(vision.temporal_patch_size)
        model.model.visual.patch_embed.__class__ = FlatPatchEmbed
        for block in model.model.visual.blocks:
            block.attn.__class__ = BatchedVisionAttention
        mean, std = _normalisation(source)
        self._shift, self._scale = _per_pixel(mean, std, self._time * int(vision.patch_size) ** 2)

    @classmethod
    def load(cls, path: str | Path, *, dtype: torch.dtype = torch.float32) -> Self:
        """Load a model directory in Hugging Face layout.

        Raises:
            ConfigurationError: when the directory holds no such model.
        """
        source = Path(path)
        if not (source / "config.json").is_file():
            raise ConfigurationError(
                "no config.json in the model directory",
                where=str(path),
                next="make one with `mintact torch new-model`, or give a Qwen3-VL model",
            )
        kind = json.loads((source / "config.json").read_text()).get("model_type")
        if kind != "qwen3_vl":
            raise ConfigurationError(f"model_type {kind!r} is not 'qwen3_vl'", where=str(path))
        with _no_progress_bar():
            model: Any = Qwen3VLForConditionalGeneration.from_pretrained(
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
        """The weights by their Hugging Face names, tied ones once; views, not copies."""
        seen: set[tuple[int, torch.Size]] = set()
        tensors = {}
        for name, tensor in self.model.state_dict().items():
            key = (tensor.data_ptr(), tensor.shape)
            if key not in seen:
                seen.add(key)
                tensors[name] = tensor
        return tensors

    def patches(self, image: bytes) -> Patches:
        """Decode an encoded image and cut it into patches; the caller caches the result.

        Raises:
            ConfigurationError: when the sides do not divide into image tokens.
        """
        with Image.open(io.BytesIO(image)) as decoded:
            pixels = np.asarray(decoded.convert("RGB"))
        return self.cut(pixels)

    def cut(self, pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> Patches:
        """Cut a uint8 `[height, width, 3]` image into patches, merge groups kept together."""
        height, width = pixels.shape[:2]
        rows, columns = self.layout.grid(width, height)
        patch, merge = self.layout.patch, self.layout.merge
        cells = pixels.reshape(rows, merge, patch, columns, merge, patch, 3)
        cells = cells.transpose(0, 3, 1, 4, 6, 2, 5)[..., None, :, :]
        cells = np.broadcast_to(cells, (*cells.shape[:5], self._time, patch, patch))
        flat = np.ascontiguousarray(cells).reshape(rows * columns * merge * merge, -1)
        return Patches(torch.from_numpy(flat), (1, rows * merge, columns * merge))

    def encode(self, images: Sequence[tuple[Tensor, Grid]]) -> ImageFeatures:
        """Image tokens of images cut by `patches`; fastest when all have one size."""
        weight = self.model.model.visual.patch_embed.proj.weight
        pixels = torch.cat([pixels for pixels, _ in images]).to(weight.device)
        values = (pixels.float() * self._scale.to(weight.device)).sub_(
            self._shift.to(weight.device)
        )
        grids = torch.tensor([grid for _, grid in images], device=weight.device)
        output = self.model.model.visual(values.to(weight.dtype), grid_thw=grids)
        return ImageFeatures(output.pooler_output, tuple(output.deepstack_features))

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

        Right padding needs no mask. `positions` has three rows: with a fourth, transformers would
        read packed sequences out of the M-RoPE gaps and mask across images.

        Args:
            ids: `[B, L]` expanded ids.
            positions: `[3, B, L]` M-RoPE positions.
            is_image: bool `[B, L]`, true on image tokens.
            features: of the images in these tokens, in row-major order; None without images.
            attention_mask: None (causal), or bool `[B, 1, L, cached + L]`.
            cache: a transformers cache that holds the tokens before these, extended in place.
            **attention: handed to the attention implementation.
        """
        text = self.model.model.language_model
        embeddings = text.embed_tokens(ids)
        if features is not None:
            tokens = features.tokens.to(embeddings.dtype)
            embeddings = embeddings.masked_scatter(is_image[..., None], tokens)
        output = text(
            inputs_embeds=embeddings,
            attention_mask=attention_mask,
            position_ids=positions,
            cache=cache,
            use_cache=cache is not None,
            visual_pos_masks=None if features is None else is_image,
            deepstack_visual_embeds=None if features is None else list(features.deepstack),
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


def _normalisation(source: Path | None) -> tuple[list[float], list[float]]:
    file = None if source is None else source / "preprocessor_config.json"
    values = json.loads(file.read_text()) if file is not None and file.is_file() else {}
    return values.get("image_mean", [0.5] * 3), values.get("image_std", [0.5] * 3)


def _per_pixel(mean: list[float], std: list[float], repeat: int) -> tuple[Tensor, Tensor]:
    """Shift and scale of a flattened patch: `value * scale - shift` normalises a byte."""
    shift = torch.tensor([m / s for m, s in zip(mean, std, strict=True)])
    scale = torch.tensor([1 / (255 * s) for s in std])
    return shift.repeat_interleave(repeat), scale.repeat_interleave(repeat)
