"""How new weights get to a worker other than from disk: a sender in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mintact_platform import processes
from mintact_platform.errors import MintactError, ModelServerError
from mintact_platform.models.protocol import WeightsRef

Transfer = Literal["disk", "tensor", "distributed"]
"""A worker reads the files itself, gets memory shared on one host, or joins a process group."""

ROUTES: Mapping[str, tuple[str, ...]] = {
    "disk": ("/update_weights_from_disk",),
    "tensor": ("/update_weights_from_tensor",),
    "distributed": (
        "/init_weights_update_group",
        "/update_weights_from_distributed",
        "/destroy_weights_update_group",
    ),
}
"""What a server must have for each."""


@dataclass
class Sender:
    """Sends weights to one worker by `tensor` or `distributed`, in a short-lived process.

    Attributes:
        how: the way.
        python: interpreter with torch and safetensors, best the server's own.
        ranks: of each worker, its tensor-parallel size, by URL.
        log: file for the senders' output.
        mark: above the marks of their processes.
        address: of this host, for process groups; the server's ranks connect to it.
        backend: of process groups.
        bearer: API key of the servers.
        deadline: seconds a transfer may take.
        bucket_bytes: how much is sent at a time.
    """

    how: Literal["tensor", "distributed"]
    python: str
    ranks: Mapping[str, int]
    log: Path
    mark: str
    address: str
    backend: Literal["gloo", "nccl"]
    bearer: str | None
    deadline: float
    bucket_bytes: int
    _count: itertools.count[int] = field(default_factory=itertools.count)

    async def __call__(self, url: str, weights: WeightsRef, flush: bool) -> None:
        """Send these weights; raises ModelServerError when the worker has not taken them all."""
        spec = {
            "how": self.how,
            "url": url,
            "model_path": str(weights.path.resolve()),
            "version": str(weights.version),
            "flush": flush,
            "ranks": self.ranks.get(url, 1),
            "address": self.address,
            "backend": self.backend,
            "deadline": self.deadline,
            "bucket_bytes": self.bucket_bytes,
        }
        where = f"weights {weights.version} by {self.how} to {url}"
        try:
            child = await processes.spawn(
                [self.python, str(Path(__file__).with_name("sender.py"))],
                spec,
                log=self.log,
                mark=f"{self.mark}/{next(self._count)}",
                deadline=self.deadline,
                environ={"MINTACT_SGLANG_BEARER": self.bearer or ""},
            )
        except MintactError as error:
            raise ModelServerError(error.what, where=where, next=error.next) from error
        error_text = str(child.ready.get("error", ""))
        # its end is not waited for: the manager of shared memory stays, and is killed with it
        await processes.finish(asyncio.to_thread(child.kill))
        if error_text:
            raise ModelServerError(error_text, kind="http", where=where, next=f"see {self.log}")
