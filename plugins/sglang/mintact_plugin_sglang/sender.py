"""Sends the weights of a model directory to one SGLang server, and ends.

Run as a file, by any interpreter that has torch and safetensors; nothing of ours is imported. The
parent's side is `transfer.py`: a specification on standard input, one line of JSON when done.

Two ways: `tensor` shares memory with the server, so both are on one host; `distributed` joins a
process group with the server's ranks and broadcasts.
"""

from __future__ import annotations

import base64
import datetime
import glob
import io
import json
import os
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.distributed
from safetensors import safe_open

NamedTensors: TypeAlias = "list[tuple[str, torch.Tensor]]"

# much of what is used here has no types
dist: Any = torch.distributed
shared: Any = torch.multiprocessing


class Refused(Exception):
    """The server did not take what it was sent."""


def main() -> None:
    """Send, report, end; whatever is left of it ends with the process."""
    spec = json.loads(sys.stdin.buffer.read())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    error = ""
    try:
        {"tensor": by_tensor, "distributed": by_group}[spec["how"]](spec)
    except Exception as failure:
        error = " ".join(f"{type(failure).__name__}: {failure}".split())[:400]
    finally:
        _forget_shared_memory()
    ready = int(os.environ["MINTACT_READY_FD"])
    os.write(ready, json.dumps({"pid": os.getpid(), "error": error}).encode() + b"\n")
    os.close(ready)
    # threads that wait for a server which failed would keep the interpreter
    os._exit(0)


def by_tensor(spec: dict[str, Any]) -> None:
    """Share the tensors' memory; a pickle for each of the server's ranks says where it lies."""
    # with descriptors the server would have to authenticate to this process, and dies of failing
    shared.set_sharing_strategy("file_system")
    for tensors in buckets(Path(spec["model_path"]), spec["bucket_bytes"]):
        post(
            spec,
            "/update_weights_from_tensor",
            {
                "serialized_named_tensors": [_pickled(tensors) for _ in range(spec["ranks"])],
                "flush_cache": spec["flush"],
                "weight_version": spec["version"],
            },
        )


def by_group(spec: dict[str, Any]) -> None:
    """Broadcast to a group of this process, rank 0, and the server's ranks."""
    size, name = 1 + spec["ranks"], f"mintact-{os.getpid()}"
    patience = datetime.timedelta(seconds=spec["deadline"])
    device = "cuda" if spec["backend"] == "nccl" else "cpu"
    store = dist.TCPStore(
        spec["address"], 0, size, is_master=True, timeout=patience, wait_for_workers=False
    )
    with ThreadPoolExecutor(2) as threads:
        joining = threads.submit(_join, store, spec["backend"], size, name, patience)
        place = {"master_address": spec["address"], "master_port": store.port}
        ranks = {"rank_offset": 1, "world_size": size}
        body = {**place, **ranks, "group_name": name, "backend": spec["backend"]}
        together(threads.submit(post, spec, "/init_weights_update_group", body), joining)
        group = joining.result()
        for tensors in buckets(Path(spec["model_path"]), spec["bucket_bytes"]):
            tensors = [(key, tensor.to(device)) for key, tensor in tensors]
            body = {
                "names": [key for key, _ in tensors],
                "dtypes": [str(tensor.dtype).removeprefix("torch.") for _, tensor in tensors],
                "shapes": [list(tensor.shape) for _, tensor in tensors],
                "group_name": name,
                "flush_cache": spec["flush"],
                "weight_version": spec["version"],
            }
            route = "/update_weights_from_distributed"
            sending = threads.submit(_broadcast, tensors, group)
            together(threads.submit(post, spec, route, body), sending)
    post(spec, "/destroy_weights_update_group", {"group_name": name})


def buckets(directory: Path, limit: int) -> Iterator[NamedTensors]:
    """The tensors of a directory's safetensors files, about `limit` bytes at a time."""
    bucket: NamedTensors = []
    held = 0
    for file in sorted(directory.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():
                tensor = tensors.get_tensor(name)
                if bucket and held + tensor.nbytes > limit:
                    yield bucket
                    bucket, held = [], 0
                bucket.append((name, tensor))
                held += tensor.nbytes
    if not bucket:
        raise Refused(f"no safetensors file in {directory}")
    yield bucket


def together(call: Future[Any], ours: Future[Any]) -> None:
    """Wait for a call and our part of it; a failure of one is not waited out by the other."""
    done, _ = wait((call, ours), return_when=FIRST_EXCEPTION)
    for future in done:
        future.result()


def post(spec: dict[str, Any], route: str, body: dict[str, Any]) -> None:
    """Call the server; raises Refused unless it says that all went well."""
    request = urllib.request.Request(
        spec["url"] + route, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    if bearer := os.environ.get("MINTACT_SGLANG_BEARER"):
        request.add_header("Authorization", f"Bearer {bearer}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=spec["deadline"]) as reply:
            content = reply.read()
    except urllib.error.HTTPError as error:
        raise Refused(f"{route}: HTTP {error.code}: {error.read()[:300]!r}") from None
    answer = json.loads(content or b"{}")
    if not answer.get("success", True):
        raise Refused(f"{route}: {answer.get('message')}")


def _pickled(tensors: NamedTensors) -> str:
    buffer = io.BytesIO()
    # anew for each rank: what is shared counts its readers
    ForkingPickler(buffer).dump(tensors)
    return base64.b64encode(buffer.getvalue()).decode()


def _join(store: Any, backend: str, size: int, name: str, patience: datetime.timedelta) -> Any:
    """The group as the server builds it: torch has no public way to make one beside the default."""
    group, _ = dist.distributed_c10d._new_process_group_helper(
        size,
        0,
        [],
        dist.Backend(backend),
        dist.PrefixStore(name, store),
        group_name=name,
        timeout=patience,
    )
    dist.distributed_c10d._world.pg_group_ranks[group] = {rank: rank for rank in range(size)}
    return group


def _broadcast(tensors: NamedTensors, group: Any) -> None:
    works = [dist.broadcast(tensor, src=0, group=group, async_op=True) for _, tensor in tensors]
    for work in works:
        if work is not None:
            work.wait()


def _forget_shared_memory() -> None:
    """Names of shared memory outlive the process that gave them."""
    for path in glob.glob(f"/dev/shm/torch_{os.getpid()}_*"):
        try:
            os.unlink(path)
        except OSError:
            continue


def _end_with_parent() -> None:
    lifeline = int(os.environ["MINTACT_LIFELINE_FD"])
    while os.read(lifeline, 1):
        pass
    _forget_shared_memory()
    os._exit(0)


if __name__ == "__main__":
    main()
