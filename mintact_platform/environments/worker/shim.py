"""First code of a worker's process: closes it in, then becomes the worker.

Under `namespace` the process the server started becomes the *outer* one and only waits; its child
is the *init* of a new process namespace, which only reaps; the worker is the init's child. When
the init dies the kernel kills whatever is left in the namespace, all at once, and only then tells
the outer one. Under `bubblewrap` its own process is the outer one and this one the init. Without
namespaces the outer process adopts every orphan of the worker, so that none can leave its tree.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from mintact_platform import trees

VARIABLE = "MINTACT_CONTAIN"
"""Environment variable that holds `{"isolation", "directory", "limits", "cores"}` as JSON."""
_NEWNS, _NEWUSER, _NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_SLAVE = 2, 4, 8, 1 << 14, 1 << 19
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CAPABILITY_VERSION = 0x20080522
_SHARED_MEMORY = "/dev/shm"


def main() -> None:
    """Close this process in and run the worker in it; with `probe` only try."""
    spec = json.loads(os.environ.pop(VARIABLE, "{}"))
    limits: dict[str, float] = spec.get("limits", {})
    if spec.get("isolation") == "namespace":
        _enter_namespace(spec.get("directory"), limits.get("disk_mb"))
    elif spec.get("isolation") == "bubblewrap":
        _leave_init_behind()
    elif spec.get("isolation") == "none":
        _enter_tree()
    if sys.argv[1:] == ["probe"]:
        os._exit(0)
    for name in os.listdir("/proc/self/fd"):
        _close_on_exec(int(name))
    if spec.get("cores"):
        os.sched_setaffinity(0, spec["cores"])
    apply(limits)

    from mintact_platform.environments.worker.main import main as work

    work()


def apply(limits: Mapping[str, float]) -> None:
    """Lower this process's own limits; those on memory, disk and processes are the server's."""
    _lower(resource.RLIMIT_CORE, 0)
    if "open_files" in limits:
        _lower(resource.RLIMIT_NOFILE, int(limits["open_files"]))
    if "file_mb" in limits:
        _lower(resource.RLIMIT_FSIZE, int(limits["file_mb"] * 2**20))
    if "cpus" in limits:
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[: max(1, math.ceil(limits["cpus"]))])


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard == resource.RLIM_INFINITY or value < hard:
        resource.setrlimit(kind, (value, value))


def _enter_namespace(directory: str | None, disk_mb: float | None) -> None:
    """Go on as a process of a new namespace; the two around it never return."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0 or _libc().unshare(_NEWNS | _NEWPID) != 0:
        _check(_libc().unshare(_NEWUSER | _NEWNS | _NEWPID), "unshare")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    init = os.fork()
    if init:
        _let_go()
        _end_as(_reap(init))
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _mount_own(directory, disk_mb)
    _leave_init_behind()
    if uid != 0:
        _drop_capabilities()


def _leave_init_behind() -> None:
    """Go on as a child of this process, which is the init of its namespace and only reaps."""
    worker = os.fork()
    if worker:
        _let_go()
        _end_as(_reap(worker))


def _mount_own(directory: str | None, disk_mb: float | None) -> None:
    """What the namespace does not share: its processes, shared memory, and a bounded directory."""
    _mount("none", "/", None, _MS_REC | _MS_SLAVE)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    if os.path.isdir(_SHARED_MEMORY):
        _mount("tmpfs", _SHARED_MEMORY, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")
    if directory and disk_mb:
        os.makedirs(directory, exist_ok=True)
        options = f"size={int(disk_mb * 2**20)},mode=700"
        _mount("tmpfs", directory, "tmpfs", _MS_NOSUID | _MS_NODEV, options)


def _enter_tree() -> None:
    """Go on as a child; this process adopts and ends whatever the worker leaves behind."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, _end_descendants)
    worker = os.fork()
    if worker:
        _let_go()
        status = _reap(worker)
        trees.kill_below(os.getpid())
        _end_as(status)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_descendants(*_: Any) -> NoReturn:
    trees.kill_below(os.getpid())
    os._exit(0)


def _let_go() -> None:
    """Keep nothing of the worker's: its sockets and pipes must close when it closes them."""
    os.closerange(3, 1 << 20)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)


def _reap(worker: int) -> int:
    """Reap every child until this one ended; its status."""
    while True:
        pid, status = os.wait()
        if pid == worker:
            return status


def _end_as(status: int) -> NoReturn:
    """End with the worker's exit code; a negative one would say that this process was killed."""
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _close_on_exec(descriptor: int) -> None:
    if descriptor > 2:
        try:
            os.set_inheritable(descriptor, False)
        except OSError:
            pass  # the listing's own descriptor


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _prctl(option: int, value: int) -> None:
    _check(_libc().prctl(option, value, 0, 0, 0), "prctl")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    kind_bytes = None if kind is None else kind.encode()
    arguments = (source.encode(), target.encode(), kind_bytes, flags, options.encode() or None)
    _check(_libc().mount(*arguments), f"mount {target}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _drop_capabilities() -> None:
    """A new user namespace gives its first process all capabilities; the worker needs none."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check(_libc().capset(header, (ctypes.c_uint32 * 6)()), "capset")


if __name__ == "__main__":
    main()
