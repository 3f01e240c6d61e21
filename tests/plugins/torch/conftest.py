from pathlib import Path

import pytest
import torch
from mintact_plugin_torch.warmstart.tiny import make_tiny


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny, untrained model directory; read only, shared by the session's tests."""
    return make_tiny(tmp_path_factory.mktemp("model") / "tiny", seed=0)
