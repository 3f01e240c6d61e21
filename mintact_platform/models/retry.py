"""When an endpoint wants to be asked again."""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Callable


def retry_after(header: str | None, *, now: Callable[[], float] = time.time) -> float | None:
    """Seconds that a `Retry-After` asks for, as a number or a date; None when it says nothing."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - now()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
