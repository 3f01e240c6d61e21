"""What a judge may raise to say when, or whether, asking it again makes sense."""

from __future__ import annotations

from mintact_platform.errors import JudgeError


class RetryLater(JudgeError):
    """Busy now: whoever answers wants to be asked again after a while (429, 503, `Retry-After`).

    The wait is no failed attempt; it holds every judgement of the same judge, since the others
    would be refused too.

    Args:
        seconds: to wait.
        reason: one line, without secrets.

    Example:
        >>> raise RetryLater(2.5, "HTTP 429: slow down")
        Traceback (most recent call last):
        mintact_platform.judging.errors.RetryLater: HTTP 429: slow down; asked to wait 2.5 s
    """

    def __init__(self, seconds: float, reason: str = "busy") -> None:
        self.seconds, self.reason = seconds, reason
        super().__init__(reason, next=f"asked to wait {seconds:g} s")


class RetryNever(JudgeError):
    """The next attempt would fail in the same way: a refused key, an unknown model.

    Args:
        reason: one line, without secrets.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
