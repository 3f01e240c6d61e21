"""The text model of a policy over packed tokens, without padding and without module overhead.

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
"""`(layer, query [n, Q, D], key [T, K, D], value [T, K, D]) -> [n, Q × D]`; n is T but in the last
layer, which is asked for the kept tokens only."""


_MANY_TOKENS = 256
"""From here on one copy of all heads costs more than two kernels."""


class _Linear(NamedTuple):
    """A projection.

    Attributes:
        weight: `[inputs, outputs]`: few rows are multiplied faster so than by the stock layout.
        bias: `[outputs]`.
    """

    weight: Tensor
    bias: Tensor | None

    def of(self, inputs: Tensor) -> Tensor:
        """The projection of the inputs."""
        if self.bias is None:
            return torch.mm(inputs, self.weight)
        return torch.addmm(self.bias, inputs, self.weight)

    def add_to(self, states: Tensor, inputs: Tensor) -> None:
        """Add the projection of the inputs to the states."""
        states.addmm_(inputs, self.weight)
        if self.bias is not None:
            states += self.bias


class _Layer(NamedTuple):
    input_norm: Tensor
    qkv: _Linear
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: _Linear
    mlp_norm: Tensor
    gate_up: _Linear
    down: _Linear


class Decoder:
    """A policy's text model.

    Projections that read the same input are fused: their weights become views of one tensor, which
    holds them the other way round.

    Args:
        policy: the policy whose weights are used.

    Raises:
        ConfigurationError: when layers attend within a sliding window, or positions are scaled by
            the length of what is computed together: neither is supported.
    """

    def __init__(self, policy: Policy) -> None:
        self._text: Any = policy.text
        self._head: Any = policy.model.lm_head
        self._rotary = policy.family.rotary
        config = self._text.config
        _check(config)
        self.query_heads = int(config.num_attention_heads)
        self.key_heads = int(config.num_key_value_heads)
        self.head_size = int(
            getattr(config, "head_dim", None) or config.hidden_size // self.query_heads
        )
        self._eps = float(config.rms_norm_eps)
        self._layers = [_fuse(layer) for layer in self._text.layers]
        self._activation = self._text.layers[0].mlp.act_fn
        half = self.head_size // 2
        weight = self._text.embed_tokens.weight
        # rotating is x × cos + swapped halves of x × sin, the first half of the sines negated
        self._signs = torch.ones(self.head_size, dtype=weight.dtype, device=weight.device)
        self._signs[:half] = -1
        # one kernel elsewhere, and float32 inside; on a CPU a dozen small ones: we have fewer
        ours = weight.device.type == "cpu" and weight.dtype == torch.float32
        self._epsilon = torch.tensor(self._eps) if ours else None
        self._table: tuple[Tensor, Tensor] | None = None

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
        kept: Tensor | None = None,
    ) -> Tensor:
        """Last hidden states `[T, H]`, or `[n, H]` of the kept tokens, after the final norm.

        Args:
            states: `[T, H]` embeddings, image features in place; overwritten.
            positions: int64 `[3, T]`, as the policy's layout gives them, or `[T]` where the three
                are equal, as they are for text.
            attend: attention over cached and new tokens.
            image_tokens: indices `[m]` of the image tokens.
            deepstack: `[m, H]` a layer, added to the first layers' output there.
            kept: indices `[n]` of the tokens whose hidden states are wanted, None for all. Of the
                others the last layer computes no more than keys and values.
        """
        cos, sin = self._turns(states, positions)
        last = len(self._layers) - 1
        for number, layer in enumerate(self._layers):
            query, key, value = self._heads(layer, states, cos, sin)
            added = None
            if image_tokens is not None and number < len(deepstack):
                added = torch.zeros_like(states).index_add_(0, image_tokens, deepstack[number])
            if number == last and kept is not None:
                query, states = query[kept], states[kept]
                added = None if added is None else added[kept]
            layer.output.add_to(states, attend(number, query, key, value))
            layer.down.add_to(states, self._mlp(layer, states))
            if added is not None:
                states += added
        return self._norm(states, self._text.norm.weight)

    def _turns(self, states: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines `[T, 1, D]`."""
        if positions.dim() == 1:
            cos, sin = self._text_table(states, int(positions.max()))
            return F.embedding(positions, cos)[:, None], F.embedding(positions, sin)[:, None]
        cos, sin = self._rotary(states, positions)
        return cos[:, None], (sin * self._signs)[:, None]

    def _text_table(self, states: Tensor, last: int) -> tuple[Tensor, Tensor]:
        """Rows of text positions, at least up to `last`; they depend on no weight."""
        if self._table is None or last >= len(self._table[0]):
            steps = torch.arange(2 * last + 1024, device=states.device).expand(3, -1)
            cos, sin = self._rotary(states, steps)
            self._table = cos, sin * self._signs
        return self._table

    def _heads(
        self, layer: _Layer, states: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Query `[T, Q, D]`, key and value `[T, K, D]`, the first two rotated."""
        heads = layer.qkv.of(self._norm(states, layer.input_norm))
        heads = heads.view(len(states), -1, self.head_size)
        keys_end = self.query_heads + self.key_heads
        turned, value = heads[:, :keys_end], heads[:, keys_end:]
        if layer.query_norm is not None and layer.key_norm is not None:
            turned = self._norm_heads(turned, layer.query_norm, layer.key_norm)
        turned = _rotate(turned, cos, sin)
        return turned[:, : self.query_heads], turned[:, self.query_heads :], value

    def _mlp(self, layer: _Layer, states: Tensor) -> Tensor:
        gate, up = layer.gate_up.of(self._norm(states, layer.mlp_norm)).chunk(2, dim=-1)
        hidden: Tensor = self._activation(gate).mul_(up)
        return hidden

    def _norm(self, states: Tensor, weight: Tensor) -> Tensor:
        if self._epsilon is None:
            return F.rms_norm(states, weight.shape, weight, self._eps)
        return (states * _inverse_rms(states, self._epsilon)).mul_(weight)

    def _norm_heads(self, heads: Tensor, query_norm: Tensor, key_norm: Tensor) -> Tensor:
        """Query and key heads `[T, Q + K, D]`, each kind under its own weight."""
        if self._epsilon is None:
            query, key = heads[:, : self.query_heads], heads[:, self.query_heads :]
            return torch.cat([self._norm(query, query_norm), self._norm(key, key_norm)], dim=1)
        normed = heads * _inverse_rms(heads, self._epsilon)
        normed[:, : self.query_heads].mul_(query_norm)
        normed[:, self.query_heads :].mul_(key_norm)
        return normed


def _check(config: Any) -> None:
    windows = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if windows:
        raise ConfigurationError(
            f"layers of type {', '.join(sorted(windows))} are not supported",
            where="embedded engine",
            next="take another engine",
        )
    scaling = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if scaling in ("dynamic", "longrope"):
        raise ConfigurationError(
            f"positions of type {scaling!r} are not supported",
            where="embedded engine",
            next="take another engine",
        )


def _inverse_rms(states: Tensor, epsilon: Tensor) -> Tensor:
    """One over the root of the mean square of the last dimension, `[..., 1]`."""
    length = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
    return torch.addcmul(epsilon, length, length, value=1 / states.shape[-1]).rsqrt_()


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = heads.shape[-1] // 2
    if len(heads) < _MANY_TOKENS:
        return torch.addcmul(heads * cos, heads.roll(half, -1), sin)
    rotated = heads * cos
    rotated[..., :half].addcmul_(heads[..., half:], sin[..., :half])
    rotated[..., half:].addcmul_(heads[..., :half], sin[..., half:])
    return rotated


def _fuse(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    query_norm, key_norm = (getattr(attention, f"{name}_norm", None) for name in "qk")
    return _Layer(
        input_norm=layer.input_layernorm.weight,
        qkv=_joined([attention.q_proj, attention.k_proj, attention.v_proj]),
        query_norm=None if query_norm is None else query_norm.weight,
        key_norm=None if key_norm is None else key_norm.weight,
        output=_joined([attention.o_proj]),
        mlp_norm=layer.post_attention_layernorm.weight,
        gate_up=_joined([mlp.gate_proj, mlp.up_proj]),
        down=_joined([mlp.down_proj]),
    )


@torch.no_grad()
def _joined(modules: Sequence[Any]) -> _Linear:
    """The modules' weights and biases, each made views of one tensor."""
    outputs = [len(module.weight) for module in modules]
    weight = torch.cat([module.weight.detach().t() for module in modules], dim=1)
    for module, part in zip(modules, torch.split(weight, outputs, dim=1), strict=True):
        module.weight.data = part.t()
    biases = [module.bias for module in modules if module.bias is not None]
    if not biases:
        return _Linear(weight, None)
    if len(biases) != len(modules):
        raise ConfigurationError("projections with and without bias", where="embedded engine")
    bias = torch.cat([bias.detach() for bias in biases])
    for module, part in zip(modules, torch.split(bias, outputs), strict=True):
        module.bias.data = part
    return _Linear(weight, bias)
