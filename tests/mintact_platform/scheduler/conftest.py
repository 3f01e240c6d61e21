import pytest

from mintact_platform.scheduler.queue import QueuedGroup


@pytest.fixture
def group():
    def make(id: str, domain: str = "web", version: int = 0, at: float = 0.0) -> QueuedGroup:
        return QueuedGroup(id, domain, version, (), at)

    return make
