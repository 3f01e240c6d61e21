"""How trainer and engine are made: whoever plans a run reads their parameters without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mintact_plugin_torch.engine.embedded import EmbeddedEngine
from mintact_plugin_torch.settings import Count, Device, Threads

if TYPE_CHECKING:
    from mintact_plugin_torch.trainer import TorchTrainer


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


class Embedded(EmbeddedEngine):
    """The embedded engine as a run file describes it; see `EmbeddedEngine`.

    Args:
        slots: requests that run at once, and conversations kept for their next turn.
        context: tokens of prompt and output.
        threads: torch threads of the server.
        dtype: precision of the model; anything but the trainer's makes an engine gap.
        device: torch device.
        slot_megabytes: upper bound of all slots' keys and values.
        forward_tokens: tokens of one forward.
    """

    def __init__(
        self,
        *,
        slots: Count = 64,
        context: Count = 4096,
        threads: Threads = 1,
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        device: Device = "cpu",
        slot_megabytes: Count = 4096,
        forward_tokens: Count = 2048,
    ) -> None:
        super().__init__(
            slots=slots,
            context=context,
            threads=threads,
            dtype=dtype,
            device=device,
            slot_megabytes=slot_megabytes,
            forward_tokens=forward_tokens,
        )
        self.context = context
