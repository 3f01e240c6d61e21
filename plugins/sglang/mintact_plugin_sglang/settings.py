"""Parameters of the engine, and which of them fit together.

Annotations are evaluated here: the signature of the engine, which inherits these fields in another
module, is read with their types.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.models.protocol import EngineSpec
from mintact_plugin_sglang import router as routers
from mintact_plugin_sglang import servers
from mintact_plugin_sglang.addresses import api_key, base_url, is_loopback
from mintact_plugin_sglang.servers import EmbeddedServer, SGLangServer
from mintact_plugin_sglang.transfer import Transfer

_WHERE = "rollout.params"
_LIMITS: Mapping[str, int] = {
    "slots": 64,
    "context": 4096,
    "slot_megabytes": 4096,
    "forward_tokens": 2048,
}


@dataclass(kw_only=True)
class Settings:
    """What a run file says under `[rollout.params]`.

    Attributes:
        mode: `launch` starts workers and router on this host; `attach` uses running ones.
        workers: how many to launch.
        router: whether a router stands in front; without one there is one worker.
        router_url: of a running router; its list names the workers where `worker_urls` does not.
        worker_urls: of running workers; for several without a `router_url`, a router is launched.
        api_key_env: environment variable with the API key of running servers.
        python: interpreter of the environment that has sglang; this one by default.
        device: of launched workers; `auto` is `cuda` where there is an NVIDIA device.
        dtype: precision of launched workers; anything but the trainer's makes an engine gap.
        transfer: how new weights reach a worker.
        server_args: options of `sglang.launch_server`; of embedded workers, their limits.
        router_args: options of `sglang_router.launch_router`.
        worker: `embedded` launches servers of mintact-plugin-torch in SGLang's place.
        threads: torch threads of a launched worker's processes.
        transfer_address: of this host, for `distributed`: workers connect to it.
        transfer_backend: of `distributed`; `nccl` needs a GPU that no worker uses.
        transfer_megabytes: sent at a time by `tensor` and `distributed`.
        health_seconds: between two looks at a worker's health; the third bad one in a row counts.
    """

    mode: Literal["launch", "attach"] = "launch"
    workers: int = 1
    router: bool = True
    router_url: str = ""
    worker_urls: Sequence[str] = ()
    api_key_env: str | None = None
    python: str | None = None
    device: servers.Device = "auto"
    dtype: str = "auto"
    transfer: Transfer = "disk"
    server_args: Mapping[str, str | int | float | bool] | None = None
    router_args: Mapping[str, str | int | float | bool] | None = None
    worker: Literal["sglang", "embedded"] = "sglang"
    threads: int = 1
    transfer_address: str = "127.0.0.1"
    transfer_backend: Literal["gloo", "nccl"] = "gloo"
    transfer_megabytes: int = 512
    health_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "transfer_megabytes", "health_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError("must be more than 0", where=f"{_WHERE}.{name}")
        routers.check_arguments(self.router_args or {})
        self.router_url = self._address(self.router_url, "router_url") if self.router_url else ""
        self.worker_urls = tuple(self._address(url, "worker_urls") for url in self.worker_urls)
        self._check_launch() if self.mode == "launch" else self._check_attach()
        if not self.router and max(self.workers, len(self.worker_urls)) > 1:
            raise ConfigurationError(
                "several workers need a router", where=f"{_WHERE}.router", next="leave it out"
            )
        self.bearer = api_key(self.api_key_env)

    def server(self, spec: EngineSpec) -> SGLangServer | EmbeddedServer:
        """How workers are launched."""
        device = servers.chosen_device(self.device)
        if self.worker == "embedded":
            limits = {**_LIMITS, **{k: int(v) for k, v in (self.server_args or {}).items()}}
            limits["slot_bytes"] = limits.pop("slot_megabytes") * 2**20
            dtype = "float32" if self.dtype == "auto" else self.dtype
            return EmbeddedServer(device, dtype, limits, self.threads, spec.deterministic)
        if spec.deterministic and device == "cpu":
            raise ConfigurationError(
                "SGLang samples by seed alone on GPUs only",
                where="rollout.deterministic",
                next='set it to false, or rollout.engine to "embedded"',
            )
        return SGLangServer(
            servers.interpreter(self.python),
            device,
            self.dtype,
            self.server_args or {},
            self.threads,
            spec.deterministic,
        )

    def check_reach(self, worker_urls: Sequence[str]) -> None:
        """Refuse a transfer that cannot reach these workers, or must not be sent to them.

        Raises:
            ConfigurationError: naming the first worker.
        """
        far = next((url for url in worker_urls if not is_loopback(url)), None)
        if far is None or self.transfer == "disk":
            return
        if self.transfer == "tensor":
            raise ConfigurationError(
                f"weights go to {far} as pickles and shared memory, on this host only",
                where=f"{_WHERE}.transfer",
                next='use "distributed", or "disk" where both see the same files',
            )
        if is_loopback(f"http://{self.transfer_address}"):
            raise ConfigurationError(
                f"{far} cannot connect to {self.transfer_address}",
                where=f"{_WHERE}.transfer_address",
                next="give the address of this host that the workers see",
            )

    def _check_launch(self) -> None:
        for name in ("router_url", "worker_urls", "api_key_env"):
            if getattr(self, name):
                raise ConfigurationError(
                    "is for running servers",
                    where=f"{_WHERE}.{name}",
                    next='set mode = "attach", or leave it out',
                )
        if self.worker == "sglang":
            servers.check_arguments(self.server_args or {})
            return
        for name in self.server_args or {}:
            if name not in _LIMITS:
                raise ConfigurationError(
                    f"an embedded worker has no {name!r}",
                    where=f"{_WHERE}.server_args",
                    next=near_match(name, _LIMITS),
                )
        if self.transfer != "disk":
            raise ConfigurationError(
                f"an embedded worker takes no weights by {self.transfer!r}",
                where=f"{_WHERE}.transfer",
                next='use "disk"',
            )

    def _check_attach(self) -> None:
        if not self.router_url and not self.worker_urls:
            raise ConfigurationError(
                "no server to attach to",
                where=_WHERE,
                next='give router_url or worker_urls, or set mode = "launch"',
            )
        for name in ("server_args", *(("router_args",) if self.router_url else ())):
            if getattr(self, name):
                raise ConfigurationError(
                    "is for servers that are launched",
                    where=f"{_WHERE}.{name}",
                    next="leave it out",
                )
        self.check_reach(self.worker_urls)

    def _address(self, url: str, name: str) -> str:
        return base_url(url, where=f"{_WHERE}.{name}")
