"""Workers as child processes on this host: SGLang's servers, or embedded ones in their place."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mintact_platform import processes
from mintact_platform.errors import ConfigurationError, MintactError, ModelServerError
from mintact_platform.models.protocol import WeightsRef
from mintact_plugin_sglang.launch import HOST, Arguments, hyphened, launch, options, refuse

Device = Literal["auto", "cpu", "cuda"]

OURS = ("host", "port", "model-path", "model", "weight-version", "api-key", "admin-api-key")
"""Options of SGLang's server that this plugin sets, or that hold a secret."""

CPU: Mapping[str, str | int | float | bool] = {
    "attention-backend": "torch_native",
    "sampling-backend": "pytorch",
    # a share of the memory that is free, which other processes change while it is measured; what
    # is taken is bounded by the tokens
    "mem-fraction-static": 0.5,
    "max-total-tokens": 20000,
    "context-length": 4096,
    "max-running-requests": 32,
    "disable-overlap-schedule": True,
    "sleep-on-idle": True,
    "skip-server-warmup": True,
}
"""What SGLang needs on a machine without a GPU."""

VISION: Mapping[str, str | int | float | bool] = {"enable-multimodal": True}
CPU_VISION: Mapping[str, str | int | float | bool] = {"mm-attention-backend": "sdpa"}

FRESH: Mapping[str, str] = {"SGLANG_VLM_CACHE_SIZE_MB": "0"}
"""SGLang keeps what its vision encoder made of an image over updates of the encoder's weights
(https://github.com/sgl-project/sglang/pull/36468); keys and values of images are still reused."""

# an answer to /health does not wait for a token on a CPU; compiled kernels for one do not exist
_CPU_ENVIRONMENT = {
    "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
    "SGLANG_USE_CPU_ENGINE": "0",
}


@dataclass(frozen=True)
class Worker:
    """A worker that was launched.

    Attributes:
        url: its base URL.
        child: the process to stop.
    """

    url: str
    child: processes.Child


@dataclass(frozen=True)
class SGLangServer:
    """How to launch SGLang's server.

    Attributes:
        python: interpreter of an environment that has sglang.
        device: `cpu` or `cuda`.
        dtype: of the model.
        arguments: options of `sglang.launch_server`, over ours.
        threads: torch threads of a process on a CPU.
        deterministic: sampling by seed alone.
    """

    python: str
    device: Literal["cpu", "cuda"]
    dtype: str
    arguments: Arguments
    threads: int = 1
    deterministic: bool = False

    def command(self, weights: WeightsRef, port: int, index: int) -> list[str]:
        """The command line of the worker with this index."""
        chosen: dict[str, str | int | float | bool] = {"dtype": self.dtype}
        sees = _sees(weights.path)
        if self.device == "cpu":
            chosen |= {"device": "cpu", **CPU, **(CPU_VISION if sees else {})}
        chosen |= VISION if sees else {}
        chosen |= {"enable-deterministic-inference": True} if self.deterministic else {}
        chosen |= hyphened(self.arguments)
        if self.device == "cuda":
            first = int(chosen.get("base-gpu-id", 0))
            chosen["base-gpu-id"] = first + index * int(chosen.get("tp-size", 1))
        chosen |= {"host": HOST, "port": port, "model-path": str(weights.path.resolve())}
        chosen["weight-version"] = str(weights.version)
        return [self.python, "-m", "sglang.launch_server", *options(chosen)]

    def environ(self) -> dict[str, str]:
        """Environment variables of its processes."""
        # weights and tokenizer lie in a directory: nothing is looked for elsewhere
        offline = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(self.threads)}
        return {**offline, **FRESH, **(_CPU_ENVIRONMENT if self.device == "cpu" else {})}


@dataclass(frozen=True)
class EmbeddedServer:
    """How to launch an embedded server of mintact-plugin-torch as a worker.

    Attributes:
        device: torch device.
        dtype: of the model.
        limits: `slots`, `context`, `slot_bytes`, `forward_tokens`.
        threads: torch threads.
        deterministic: one row a forward, sampling by seed alone.
    """

    device: str
    dtype: str
    limits: Mapping[str, int]
    threads: int = 1
    deterministic: bool = False

    def spec(self, weights: WeightsRef) -> dict[str, Any]:
        """Its specification."""
        return {
            "threads": self.threads,
            "dtype": self.dtype,
            "device": self.device,
            "limits": dict(self.limits),
            "model_path": str(weights.path.resolve()),
            "version": weights.version,
            "deterministic": self.deterministic,
        }


async def launch_worker(
    server: SGLangServer | EmbeddedServer,
    weights: WeightsRef,
    *,
    index: int = 0,
    log: Path,
    mark: str,
    deadline: float,
) -> Worker:
    """Launch one worker; returns when it answers.

    Args:
        server: which kind, and how.
        weights: what it serves first.
        index: among the workers of this host; it decides on the GPU.
        log: file for its output.
        mark: of its processes; no living child may share it.
        deadline: seconds until it must answer.

    Raises:
        ModelServerError: it ended or was not ready in time; its last lines are told.
    """
    try:
        if isinstance(server, EmbeddedServer):
            child = await processes.spawn(
                [sys.executable, "-m", "mintact_plugin_torch.engine.server"],
                server.spec(weights),
                log=log,
                mark=mark,
                deadline=deadline,
            )
        else:
            child = await launch(
                lambda ports: server.command(weights, ports[0], index),
                ports=1,
                probe="/health",
                log=log,
                mark=mark,
                deadline=deadline,
                environ=server.environ(),
            )
    except MintactError as error:
        what = _cause(log) or error.what
        raise ModelServerError(
            what, kind="unreachable", where=f"worker {index}", next=error.next
        ) from error
    return Worker(child.ready["url"], child)


def interpreter(python: str | None) -> str:
    """The interpreter that has sglang.

    Raises:
        ConfigurationError: none was named and ours has none, or the named one does not exist.
    """
    if python is None:
        if importlib.util.find_spec("sglang") is not None:
            return sys.executable
        raise ConfigurationError(
            "sglang is not installed beside this interpreter",
            where="rollout.params.python",
            next="name an interpreter that has it; `make sglang-venv` makes one for CPUs",
        )
    path = Path(python).expanduser()
    if not os.access(path, os.X_OK) or path.is_dir():
        raise ConfigurationError(f"no interpreter at {python!r}", where="rollout.params.python")
    # not resolved: the environment of an interpreter is found by the link's own place
    return str(path.absolute())


def chosen_device(device: Device) -> Literal["cpu", "cuda"]:
    """`auto` is `cuda` where the kernel shows an NVIDIA device."""
    if device != "auto":
        return device
    return "cuda" if any(Path("/dev").glob("nvidia[0-9]*")) else "cpu"


def check_arguments(arguments: Arguments) -> None:
    """Refuse options that this plugin sets itself. Raises ConfigurationError."""
    refuse(
        arguments, OURS, where="rollout.params.server_args", chosen="hosts, ports, weights and keys"
    )


def _cause(log: Path) -> str:
    """The last exception in a log: a server that fails says more after it than of it."""
    lines = processes.tail(log, 100).splitlines()
    named = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception): ", line)]
    return f"did not start: {named[-1][:400]}" if named else ""


def _sees(model: Path) -> bool:
    """Whether a model directory is that of a model with a vision encoder."""
    try:
        return "vision_config" in json.loads((model / "config.json").read_text())
    except (OSError, ValueError):
        return False
