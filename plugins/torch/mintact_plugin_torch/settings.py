"""What a run file may say of the torch plugin, read without loading torch.

Annotations are evaluated here: parameters are checked against them before anything starts.
"""

import functools
import re
import subprocess
import sys
from typing import Annotated

from pydantic import AfterValidator, Field

from mintact_platform.errors import near_match

KINDS = ("cpu", "cuda", "mps", "xpu", "hpu", "npu", "mtia", "xla")
_ASK = """
import sys, torch
try:
    torch.empty(1, device=sys.argv[1])
except Exception as error:
    sys.exit(str(error).partition("\\n")[0] or type(error).__name__)
"""
_SECONDS = 120.0


def usable(device: str) -> str:
    """The name of a device that is there; one besides the CPU is asked for in another process.

    Raises:
        ValueError: no such device, with the near match, or it cannot be used.
    """
    kind = device.partition(":")[0]
    if kind not in KINDS or not re.fullmatch(r"[a-z]+(:\d+)?", device):
        raise ValueError(f"no such device; {near_match(kind, KINDS)}")
    if kind != "cpu" and (why := _refused(device)):
        raise ValueError(f"cannot be used here: {why}")
    return device


@functools.lru_cache
def _refused(device: str) -> str:
    """Why torch cannot use a device, "" when it can."""
    command = [sys.executable, "-c", _ASK, device]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, timeout=_SECONDS, **options)  # type: ignore[call-overload]
    except subprocess.TimeoutExpired:
        return f"no answer within {_SECONDS:g} s"
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    # the first sentence: torch adds a list of all that it was built with
    return "" if done.returncode == 0 else lines[-1].partition(". ")[0]


Count = Annotated[int, Field(gt=0, le=2**31)]
Threads = Annotated[int, Field(gt=0, le=1024)]
Device = Annotated[str, AfterValidator(usable)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Beta = Annotated[float, Field(ge=0, lt=1)]


def supervised_step(*, guidance: Weight = 0.0, betas: tuple[Beta, Beta] | None = None) -> None:
    """What a supervised step takes; checked by this signature.

    Args:
        guidance: weight of the attention guidance.
        betas: of AdamW; None takes the trainer's.
    """
