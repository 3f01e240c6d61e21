"""The text model of Qwen3-VL over packed tokens, without padding and without module overhead.

It reads the policy's own weights, so weights loaded into the policy are these. Shapes: T packed
tokens, H hidden size, Q query heads, K key heads, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mintact_platform.errors import ConfigurationError
from mintact_plugin_torch.policy import Policy

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""`(layer, query [T, Q, D], key [T, K, D], value [T, K, D]) -> [T, Q × D]`."""


class _Layer(NamedTuple):
    input_norm: Tensor
    qkv: Tensor
    query_norm: Tensor
    key_norm: Tensor
    output: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class Decoder:
    """A policy's text model.

    Projections that read the same input are fused: their weights become views of one tensor.

    Args:
        policy: the policy whose weights are used.

    Raises:
        ConfigurationError: when the model has attention biases, which are not supported.
    """

    def __init__(self, policy: Policy) -> None:
        self._text: Any = policy.model.model.language_model
        self._head: Any = policy.model.lm_head
        config = self._text.config
        if config.attention_bias:
            raise ConfigurationError("attention_bias is not supported", where="embedded engine")
        self.query_heads = int(config.num_attention_heads)
        self.key_heads = int(config.num_key_value_heads)
        self.head_size = int(getattr(config, "head_dim", config.hidden_size // self.query_heads))
        self._eps = float(config.rms_norm_eps)
        self._layers = [_fuse(layer) for layer in self._text.layers]
        self._activation = self._text.layers[0].mlp.act_fn

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self._layers)

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings `[T, H]` of ids `[T]`."""
        return F.embedding(ids, self._text.embed_tokens.weight)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits `[T, vocabulary]`."""
        return F.linear(hidden, self._head.weight)

    def forward(
        self,
        states: Tensor,
        positions: Tensor,
        attend: Attend,
        image_tokens: Tensor | None = None,
        deepstack: Sequence[Tensor] = (),
    ) -> Tensor:
        """Last hidden states `[T, H]`, after the final norm.

        Args:
            states: `[T, H]` embeddings, image features in place.
            positions: int64 `[3, T]`.
            attend: attention over cached and new tokens.
            image_tokens: indices `[n]` of the image tokens.
            deepstack: `[n, H]` a layer, added to the first layers' output there.
        """
        cos, sin = self._text.rotary_emb(states, positions[:, None])
        cos, sin = cos[0, :, None], sin[0, :, None]
        for number, layer in enumerate(self._layers):
            states = states + self._attention(number, layer, states, cos, sin, attend)
            states = states + self._mlp(layer, states)
            if image_tokens is not None and number < len(deepstack):
                states = states.index_add(0, image_tokens, deepstack[number])
        return self._norm(states, self._text.norm.weight)

    def _attention(
        self, number: int, layer: _Layer, states: Tensor, cos: Tensor, sin: Tensor, attend: Attend
    ) -> Tensor:
        heads = F.linear(self._norm(states, layer.input_norm), layer.qkv)
        heads = heads.view(len(states), -1, self.head_size)
        keys_end = self.query_heads + self.key_heads
        query, key = heads[:, : self.query_heads], heads[:, self.query_heads : keys_end]
        query = _rotate(self._norm(query, layer.query_norm), cos, sin)
        key = _rotate(self._norm(key, layer.key_norm), cos, sin)
        return F.linear(attend(number, query, key, heads[:, keys_end:]), layer.output)

    def _mlp(self, layer: _Layer, states: Tensor) -> Tensor:
        gate, up = F.linear(self._norm(states, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
        return F.linear(self._activation(gate).mul_(up), layer.down)

    def _norm(self, states: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(states, weight.shape, weight, self._eps)


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin


def _fuse(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    return _Layer(
        input_norm=layer.input_layernorm.weight,
        qkv=_joined([attention.q_proj, attention.k_proj, attention.v_proj]),
        query_norm=attention.q_norm.weight,
        key_norm=attention.k_norm.weight,
        output=attention.o_proj.weight,
        mlp_norm=layer.post_attention_layernorm.weight,
        gate_up=_joined([mlp.gate_proj, mlp.up_proj]),
        down=mlp.down_proj.weight,
    )


@torch.no_grad()
def _joined(modules: Sequence[Any]) -> Tensor:
    joined = torch.cat([module.weight for module in modules])
    first = 0
    for module in modules:
        last = first + len(module.weight)
        module.weight.data = joined[first:last]
        first = last
    return joined
