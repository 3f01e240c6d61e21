"""How the trainer is made: whoever plans a run reads its parameters without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mintact_platform.training.trainer import supervised_params
from mintact_plugin_torch.settings import Device, Threads, supervised_step

if TYPE_CHECKING:
    from mintact_plugin_torch.trainer import TorchTrainer


@supervised_params(supervised_step)
def torch_trainer(*, device: Device = "cpu", threads: Threads = 1) -> TorchTrainer:
    """A trainer on plain torch.

    Args:
        device: where the model lives.
        threads: of torch; one is the fastest for small models on a busy machine, and repeats
            bit for bit.
    """
    # torch and transformers take seconds and 800 MB, and only the trainer's process needs them
    from mintact_plugin_torch.trainer import TorchTrainer

    return TorchTrainer(device=device, threads=threads)
