"""Qwen3-VL: patches of 16 pixels, interleaved M-RoPE, vision features in several layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers.models.qwen3_vl.modeling_qwen3_vl import (
    Qwen3VLVisionAttention,
    Qwen3VLVisionPatchEmbed,
    apply_rotary_pos_emb_vision,
)

from mintact_plugin_torch.families.patches import PatchFamily, attend_batched, embed_flat
from mintact_plugin_torch.features import ImageFeatures


class Qwen3VL(PatchFamily):
    """The model; its vision attention and patch embedding are made the fast ones."""

    chat = "qwen3-vl"

    def __init__(self, model: Any, source: Path | None) -> None:
        super().__init__(model, source)
        model.model.visual.patch_embed.__class__ = FlatPatchEmbed
        for block in model.model.visual.blocks:
            block.attn.__class__ = BatchedVisionAttention

    def inputs(
        self, positions: Tensor, is_image: Tensor, features: ImageFeatures | None
    ) -> dict[str, Any]:
        """Positions, and the features that the first layers add."""
        return {
            **super().inputs(positions, is_image, features),
            "visual_pos_masks": None if features is None else is_image,
            "deepstack_visual_embeds": None if features is None else list(features.deepstack),
        }

    def _deepstack(self, output: Any) -> Sequence[Tensor]:
        features: Sequence[Tensor] = output.deepstack_features
        return features


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
        attended = attend_batched(
            self, hidden_states, cu_seqlens.diff(), position_embeddings, apply_rotary_pos_emb_vision
        )
        if attended is not None:
            return attended
        stock: Tensor = super().forward(
            hidden_states, cu_seqlens, position_embeddings, max_seqlen, **kwargs
        )
        return stock


class FlatPatchEmbed(Qwen3VLVisionPatchEmbed):
    """The stock patch embedding as a matrix product."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Embed flattened patches `[patches, channels × time × patch × patch]`."""
        return embed_flat(self.proj, hidden_states)
