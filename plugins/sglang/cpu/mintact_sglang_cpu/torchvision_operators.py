"""Lets a torchvision that was built for CUDA be imported beside a torch without it.

Its compiled part cannot be loaded then, and its Python part describes two operators that nobody
defined. Declaring them, before torchvision is imported, is enough: image processors do not call
them. A `.pth` file imports this module at every start of the interpreter, spawned ones included.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from typing import Any

OPERATORS = ("nms", "qnms")
SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class DeclareFirst(MetaPathFinder):
    """Finds nothing; declares the operators when torchvision is looked for, once."""

    library: Any = None

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Leave the search to the finders after this one."""
        if name == "torchvision":
            sys.meta_path.remove(self)
            self.declare()
        return None

    def declare(self) -> None:
        """Declare what is missing: on a torch without CUDA, for a torchvision not built for it."""
        import torch

        if torch.version.cuda is not None or "+cpu" in version("torchvision"):
            return
        library: Any = torch.library.Library
        # kept on the class: the declarations go when the library is collected
        DeclareFirst.library = library("torchvision", "FRAGMENT")
        for operator in OPERATORS:
            DeclareFirst.library.define(operator + SCHEMA)


sys.meta_path.insert(0, DeclareFirst())
