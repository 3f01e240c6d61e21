"""Qwen2.5-VL: patches of 14 pixels, sectioned M-RoPE, vision attention within windows."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
    Qwen2_5_VisionPatchEmbed,
    Qwen2_5_VLVisionAttention,
    apply_rotary_pos_emb_vision,
)

from mintact_plugin_torch.families.patches import PatchFamily, attend_batched, embed_flat


class Qwen25VL(PatchFamily):
    """The model; its vision attention and patch embedding are made the fast ones.

    Positions follow the same rule as Qwen3-VL's for images: one time position an image.
    """

    chat = "qwen2.5-vl"
    renamed = MappingProxyType({"model.language_model.": "model.", "model.visual.": "visual."})
    mean = (0.48145466, 0.4578275, 0.40821073)
    std = (0.26862954, 0.26130258, 0.27577711)

    def __init__(self, model: Any, source: Path | None) -> None:
        super().__init__(model, source)
        model.model.visual.patch_embed.__class__ = FlatPatchEmbed
        for block in model.model.visual.blocks:
            block.attn.__class__ = BatchedVisionAttention


class BatchedVisionAttention(Qwen2_5_VLVisionAttention):
    """The stock vision attention, in one batched call when all windows have one size."""

    def forward(
        self,
        hidden_states: Tensor,
        cu_seqlens: Tensor,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        max_seqlen: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Attend within each window or image; `hidden_states` is `[patches, width]` over all."""
        attended = attend_batched(
            self, hidden_states, cu_seqlens.diff(), position_embeddings, apply_rotary_pos_emb_vision
        )
        if attended is not None:
            return attended
        stock: Tensor = super().forward(
            hidden_states, cu_seqlens, position_embeddings, max_seqlen, **kwargs
        )
        return stock


class FlatPatchEmbed(Qwen2_5_VisionPatchEmbed):
    """The stock patch embedding as a matrix product."""

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Embed flattened patches `[patches, channels × time × patch × patch]`."""
        return embed_flat(self.proj, hidden_states)
