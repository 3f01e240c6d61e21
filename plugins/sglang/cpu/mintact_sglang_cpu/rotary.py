"""Rotary position embedding, in place, with the signature of vLLM's kernel."""

from __future__ import annotations

import torch


def rotary_embedding(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor | None,
    head_size: int,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,
) -> None:
    """Rotate queries and keys by their positions.

    Args:
        positions: `[tokens]`.
        query: `[tokens, heads * head_size]`, changed in place.
        key: `[tokens, key_heads * head_size]`, changed in place, or None.
        head_size: of one head; its first `cos_sin_cache.shape[-1]` entries are rotated.
        cos_sin_cache: `[positions, rotated]`, cosines before sines.
        is_neox: pairs are (i, i + half); otherwise (2i, 2i + 1).
    """
    positions = positions.flatten()
    rotated = cos_sin_cache.shape[-1]
    cosines, sines = cos_sin_cache.index_select(0, positions).float().unsqueeze(1).chunk(2, dim=-1)
    for tensor in (query, key):
        if tensor is None:
            continue
        heads = tensor.view(len(positions), -1, head_size)[..., :rotated]
        if is_neox:
            first, second = heads.float().chunk(2, dim=-1)
        else:
            first, second = heads[..., ::2].float(), heads[..., 1::2].float()
        pair = (first * cosines - second * sines, second * cosines + first * sines)
        turned = torch.cat(pair, dim=-1) if is_neox else torch.stack(pair, dim=-1).flatten(-2)
        heads.copy_(turned)
