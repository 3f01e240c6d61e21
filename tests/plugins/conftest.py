"""What float32 may do to a log-probability."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def near() -> Callable[..., None]:
    """Asserts that float32 log-probabilities lie where rounding may leave them."""

    def check(got: Any, exact: Any, *, temperature: float = 1.0, gap: float = 2e-6) -> None:
        """Compare with float64.

        Args:
            got: `[n]`, in float32.
            exact: `[n]`, in float64: a reference in float32 would round as much itself.
            temperature: logits are divided by it, and what rounding did to them.
            gap: allowed at temperature 1, beyond two steps of float32.
        """
        got, exact = np.asarray(got, np.float32), np.asarray(exact)
        assert exact.dtype == np.float64
        assert got.shape == exact.shape
        excess = np.abs(got - exact) - 2 * np.spacing(np.abs(got))
        assert np.max(excess, initial=0) <= gap * max(1, 1 / temperature)

    return check
