"""Model families: what each does its own way, chosen by `model_type` of `config.json`."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import transformers

from mintact_platform.errors import ConfigurationError
from mintact_plugin_torch.families.base import Family


class _Entry(NamedTuple):
    module: str
    name: str
    stock: str


FAMILIES = {
    "idefics3": _Entry("smolvlm", "SmolVLM", "Idefics3ForConditionalGeneration"),
    "qwen2_5_vl": _Entry("qwen2_5_vl", "Qwen25VL", "Qwen2_5_VLForConditionalGeneration"),
    "qwen3": _Entry("qwen3", "Qwen3", "Qwen3ForCausalLM"),
    "qwen3_vl": _Entry("qwen3_vl", "Qwen3VL", "Qwen3VLForConditionalGeneration"),
    "smolvlm": _Entry("smolvlm", "SmolVLM", "SmolVLMForConditionalGeneration"),
}
"""What serves each `model_type`; its module is imported when a model needs it."""


def family_of(model_type: Any, where: str = "config.json") -> type[Family]:
    """The family of a `model_type`.

    Raises:
        ConfigurationError: one that no family serves, naming those there are.
    """
    entry = _entry(model_type, where)
    family: type[Family] = getattr(import_module(f"{__name__}.{entry.module}"), entry.name)
    return family


def stock_class(model_type: Any, where: str = "config.json") -> Any:
    """The class in transformers of a `model_type`.

    Raises:
        ConfigurationError: as `family_of`.
    """
    return getattr(transformers, _entry(model_type, where).stock)


def _entry(model_type: Any, where: str) -> _Entry:
    entry = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if entry is None:
        raise ConfigurationError(
            f"model_type {model_type!r} is of no family served here ({', '.join(FAMILIES)})",
            where=where,
            next="give a model of one of them",
        )
    return entry
