"""An environment on the far side of a lease: a real server and worker, and that worker killed."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mintact_platform import processes
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.protocol.wire import Observation
from mintact_platform.errors import EnvironmentFailure, MintactError
from mintact_platform.testing.apart import Apart, Late
from mintact_platform.testing.playing import SECONDS, Action, Case, Played, difference

_STEPS = 5
_GONE = 20.0
_ALL = 5 * SECONDS
_WORKER = b"mintact_platform.environments.worker"
_ALONE = (
    "keep files in the working directory or under tempfile's, take ports from the system (0), and "
    "start processes as ordinary children"
)


class _Server(NamedTuple):
    """A server of its own for one check.

    Attributes:
        child: its process.
        bearer: its token.
        files: the folder in which it and its workers write.
    """

    child: processes.Child
    bearer: str
    files: Path


def check_served(case: Case, name: str, actions: Sequence[Action]) -> None:
    """Lease it over HTTP, compare it with itself here, then kill its worker and look for remains.

    Args:
        case: what is checked.
        name: registered name or `module:attribute`, importable in another process.
        actions: of a random agent.
    """
    task = case.tasks[0]
    instance = Played(case)
    try:
        expected = instance.reset(task, case.seed_of(task))
    finally:
        instance.close()
    apart = Apart(loop=True)
    try:
        apart.call(lambda: _check(case, name, actions, expected), _ALL)
    except Late as late:
        fix = "give every wait in the environment a deadline"
        raise case.error("it can be leased", str(late), fix) from None
    finally:
        apart.close()


async def _check(case: Case, name: str, actions: Sequence[Action], expected: Observation) -> None:
    # a short name: browsers put sockets below it
    with tempfile.TemporaryDirectory(prefix="mc-") as folder:
        server = await _start(Path(folder))
        try:
            lease = await _lease(case, name, server)
            await _check_episode(case, lease, actions, expected)
            await _check_kill(case, lease, server)
            again = await _lease(case, name, server)
            await _check_after(case, again, expected)
            await again.release()
        finally:
            await processes.finish(server.child.stop())
        left = [str(path.relative_to(server.files)) for path in server.files.rglob("*")]
        if left:
            raise case.error(
                "no file is left when its server ended", f"{', '.join(left[:5])}", _ALONE
            )


async def _start(folder: Path) -> _Server:
    files = folder / "t"
    files.mkdir()
    bearer = secrets.token_urlsafe(24)
    base = os.environ.get(processes.MARK, f"mintact-{os.getpid()}")
    child = await processes.spawn(
        [sys.executable, "-m", "mintact_platform.environments.server.app"],
        {"logs": str(folder / "logs"), "bearer": bearer, "capacity": 8},
        log=folder / "server.log",
        mark=f"{base}/check-{secrets.token_hex(4)}",
        deadline=SECONDS,
        environ={"TMPDIR": str(files)},
    )
    return _Server(child, bearer, files)


async def _lease(case: Case, name: str, server: _Server) -> Lease:
    try:
        return await Lease.create(
            server.child.ready["url"],
            environment=name,
            params=case.subject.params,
            key=secrets.token_hex(8),
            deadline=SECONDS,
            bearer=server.bearer,
            transport="http",
        )
    except MintactError as error:
        log = getattr(error, "log_tail", "").strip().splitlines()
        raise case.error(
            "a worker process can make it",
            "; ".join([str(error), *log[-1:]]),
            "the name must be importable in another process: install the distribution, or put "
            "the module's folder on PYTHONPATH; parameters are JSON values",
        ) from error


async def _check_episode(
    case: Case, lease: Lease, actions: Sequence[Action], expected: Observation
) -> None:
    task = case.tasks[0]
    try:
        seen = await _reset(case, lease)
        how = difference(expected, seen)
        if how:
            fix = "let the first observation depend on the task and the seed alone, not on the "
            fix += "process, the working directory, the clock or an unordered set"
            raise case.error("it shows the same in a worker as here", how, fix)
        for number, action in enumerate(actions[:_STEPS]):
            seen = await lease.step(step=number, action=action, deadline=SECONDS)
            if seen.terminated or seen.truncated:
                break
        await lease.evaluate(deadline=SECONDS)
    except EnvironmentFailure as failure:
        tail = failure.log_tail.strip().splitlines()
        raise case.error(
            f"{failure.phase} works over a lease",
            "; ".join([f"{task.id}: {failure}", *tail[-1:]]),
            "what works here and not there uses this process's files, threads or variables",
        ) from failure


async def _check_kill(case: Case, lease: Lease, server: _Server) -> None:
    """Kill the worker as the kernel would when memory ends; nothing of it may stay."""
    worker = lease.instance.rpartition("@")[2].partition(".")[0]
    mark = f"{server.child.mark}/workers/{worker}"
    os.kill(_interpreter(processes.marked(mark)), signal.SIGKILL)
    try:
        await lease.evaluate(deadline=SECONDS)
    except EnvironmentFailure:
        pass  # the lease is told that its worker died
    await lease.release()
    end = time.monotonic() + _GONE
    while left := _remains(mark, server.files, worker):
        if time.monotonic() > end:
            check = "a killed worker leaves no process and no directory"
            raise case.error(check, f"{left} after {_GONE:g} s", _ALONE)
        await asyncio.sleep(0.05)


async def _check_after(case: Case, lease: Lease, expected: Observation) -> None:
    try:
        how = difference(expected, await _reset(case, lease))
    except EnvironmentFailure as failure:
        how = str(failure)
    if how:
        raise case.error("a fresh instance works after one was killed", how, _ALONE)


async def _reset(case: Case, lease: Lease) -> Observation:
    task = case.tasks[0]
    return await lease.reset(
        episode=f"check-{lease.id}", task=task, seed=case.seed_of(task), deadline=SECONDS
    )


def _interpreter(pids: Sequence[int]) -> int:
    """The process that runs the environment: those around it hold no files of their own."""
    for pid in sorted(pids):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if _WORKER in command and len(os.listdir(f"/proc/{pid}/fd")) > 3:
                return pid
        except OSError:
            continue
    return sorted(pids)[-1]


def _remains(mark: str, files: Path, worker: str) -> str:
    pids = processes.marked(mark)
    if pids:
        return f"{len(pids)} processes"
    folders = list(files.glob(f"*/{worker}"))
    return str(folders[0].relative_to(files)) if folders else ""
