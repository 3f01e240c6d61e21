"""Zeroed memory for keys and values, in large pages where the system has them.

A decode step reads all of it once, far more than a core's caches hold: with pages of 4 KB up to a
third of that time goes into finding them.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

_LARGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)
"""Known on Linux only; elsewhere memory is the allocator's."""


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros that take no memory before they are written, on a CPU."""
    size = math.prod(shape) * dtype.itemsize
    if device.type != "cpu" or _LARGE_PAGES is None or not size:
        return torch.zeros(tuple(shape), dtype=dtype, device=device)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        pages.madvise(_LARGE_PAGES)
    except OSError:
        pass  # a kernel without them
    return torch.frombuffer(pages, dtype=dtype).view(tuple(shape))
