"""What replies cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mintact_platform.errors import ConfigurationError
from mintact_platform.records.chat import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Of a million tokens; None for not known.

    Attributes:
        tokens_in: of prompts.
        tokens_out: of replies.
        cached: of prompt tokens from the endpoint's cache; None takes `tokens_in`.

    Raises:
        ConfigurationError: a negative one.
    """

    tokens_in: float | None = None
    tokens_out: float | None = None
    cached: float | None = None

    def __post_init__(self) -> None:
        if any(price is not None and price < 0 for price in self._all):
            raise ConfigurationError("a price is negative", where="rollout.params")

    @property
    def known(self) -> bool:
        """Whether any is."""
        return any(price is not None for price in self._all)

    def of(self, usage: Usage) -> Usage:
        """The usage with its cost; without prices as it is."""
        if not self.known:
            return usage
        tokens_in = self.tokens_in or 0.0
        cached = tokens_in if self.cached is None else self.cached
        fresh = usage.prompt_tokens - usage.cached_tokens
        spent = fresh * tokens_in + usage.cached_tokens * cached
        spent += usage.completion_tokens * (self.tokens_out or 0.0)
        return replace(usage, cost=spent / _MILLION)

    @property
    def _all(self) -> tuple[float | None, ...]:
        return self.tokens_in, self.tokens_out, self.cached
