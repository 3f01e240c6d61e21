"""What SGLang lacks on a CPU: a rotary embedding that it takes from vLLM.

SGLang calls `provide_kernels` in each of its processes, by the entry point group
`sglang.srt.plugins`. On a machine with a GPU, or with vLLM, it does nothing.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType


def provide_kernels() -> None:
    """Put `vllm._custom_ops` with its one needed function in place, on CPUs without vLLM."""
    import torch

    if torch.cuda.is_available() or "vllm" in sys.modules or importlib.util.find_spec("vllm"):
        return
    from mintact_sglang_cpu.rotary import rotary_embedding

    package, operators = ModuleType("vllm"), ModuleType("vllm._custom_ops")
    package.__path__ = []
    operators.rotary_embedding = rotary_embedding  # type: ignore[attr-defined]
    package._custom_ops = operators  # type: ignore[attr-defined]
    sys.modules["vllm"], sys.modules["vllm._custom_ops"] = package, operators
