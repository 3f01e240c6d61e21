"""What names a model to an episode."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelContext:
    model: str
    client: object
    sampling: object = None
