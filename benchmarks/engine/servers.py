"""Model servers as child processes, and the processor time they and their children take."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from mintact_platform import processes

START_SECONDS = 600.0
_SGLANG = (
    "--device cpu --host 127.0.0.1 --dtype float32 --attention-backend torch_native "
    "--mm-attention-backend sdpa --enable-multimodal --sampling-backend pytorch "
    "--mem-fraction-static 0.05 --max-total-tokens 40000 --context-length 4096 "
    "--max-running-requests 64 --disable-overlap-schedule --skip-server-warmup"
).split()


class Server(NamedTuple):
    """A server that answers, and its first process."""

    url: str
    pid: int

    def cpu(self) -> float:
        """Seconds of processor time of the process and its descendants so far."""
        return sum(_seconds(pid) for pid in _family(self.pid))


@asynccontextmanager
async def embedded(
    model: Path, folder: Path, *, deterministic: bool = False
) -> AsyncIterator[Server]:
    """The embedded engine as a run starts it, on one thread."""
    child = await processes.spawn(
        [sys.executable, "-m", "mintact_plugin_torch.engine.server"],
        {
            "threads": 1,
            "dtype": "float32",
            "device": "cpu",
            "limits": {"slots": 64, "context": 4096},
            "model_path": str(model),
            "version": "1",
            "deterministic": deterministic,
        },
        log=folder / f"embedded-{deterministic}.log",
        mark=f"benchmark-{deterministic}",
        deadline=START_SECONDS,
    )
    try:
        yield Server(child.ready["url"], child.process.pid)
    finally:
        await child.stop()


@asynccontextmanager
async def sglang(python: Path, model: Path, folder: Path) -> AsyncIterator[Server]:
    """SGLang's own server on a CPU, in float32, on one thread."""
    port = _free_port()
    command = [str(python), "-m", "sglang.launch_server", "--model-path", str(model), *_SGLANG]
    environ = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    async with _launched([*command, "--port", str(port)], port, folder, environ) as server:
        yield server


@asynccontextmanager
async def _launched(
    command: list[str], port: int, folder: Path, environ: Mapping[str, str]
) -> AsyncIterator[Server]:
    log = (folder / "server.log").open("w")
    process = subprocess.Popen(
        command,
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environ},
        start_new_session=True,
    )
    try:
        server = Server(f"http://127.0.0.1:{port}", process.pid)
        await _answers(server.url, process, folder / "server.log")
        yield server
    finally:
        for pid in reversed(_family(process.pid)):
            _kill(pid)
        process.wait()
        log.close()


async def _answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    async with httpx.AsyncClient(timeout=30) as client:
        while time.monotonic() < until:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended: {processes.tail(log, 3)}")
            try:
                if (await client.get(f"{url}/health")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.5)
    raise RuntimeError(f"not ready within {START_SECONDS:.0f} s: {processes.tail(log, 3)}")


def _family(root: int) -> list[int]:
    """A process and its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _seconds(pid: int) -> float:
    """Of all its threads, ended ones too, to the nanosecond; 0 when the process is gone."""
    # the kernel's clock of a process, as clock_getcpuclockid(3) makes it
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _stat(pid: int) -> list[str]:
    """Fields of `/proc/PID/stat` from the state on; none when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
