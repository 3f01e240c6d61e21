import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mintact_platform import trees
from mintact_platform.environments.protocol import wire
from mintact_platform.environments.server import containment, usage
from mintact_platform.environments.server.containment import Containment, choose, read_limits
from mintact_platform.environments.server.remains import Logs, remove
from mintact_platform.errors import ConfigurationError


@pytest.fixture
def sleepers():
    """Processes that sleep for a number of seconds nobody else uses, and that number."""
    seconds = random.SystemRandom().randrange(10**6, 10**7)

    def find():
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes() == b"sleep\0%d\0" % seconds:
                    found.append(int(entry.name))
        return found

    yield seconds, find
    for pid in find():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def appeared(find):
    async with asyncio.timeout(60):
        while len(find()) != 1:
            await asyncio.sleep(0.01)


async def test_a_worker_sees_only_itself_where_namespaces_work(serve, lease, isolation):
    tenant = await lease(await serve(isolation))
    assert (await tenant.reset()).error is None
    seen = wire.unpack((await tenant.step("look")).body)["info"]["seen"]
    own = {"namespace": 2, "bubblewrap": 2}
    assert seen == own.get(isolation, seen)
    await tenant.release()
    assert tenant.processes() == []


@pytest.mark.parametrize("how", ["release", "hang", "crash after daemon"])
async def test_a_daemon_without_mark_session_or_parent_dies_with_its_worker(
    serve, lease, isolation, sleepers, how
):
    seconds, find = sleepers
    tenant = await lease(await serve(isolation))
    await tenant.reset()
    if how == "crash after daemon":
        reply = await tenant.step(how, amount=seconds)
        assert reply.error.kind == "crash"
    else:
        await tenant.step("daemon", amount=seconds)
        await appeared(find)
    if how == "hang":
        reply = await tenant.step("hang", deadline=0.2)
        assert reply.error.kind == "timeout"
    await tenant.release()
    assert find() == []
    assert tenant.processes() == []


def test_the_process_that_closes_a_worker_in_ends_after_everything_inside(
    isolation, sleepers, wild_path, tmp_path
):
    seconds, find = sleepers
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"sys.path.append({str(wild_path)!r})\n"
        "import wild_envs\n"
        "from mintact_platform.environments.worker import main, shim\n"
        f"main.main = lambda: ([wild_envs.daemonise({seconds}) for _ in range(60)], os._exit(3))\n"
        "shim.main()\n"
    )
    python.chmod(0o700)
    closed_in = Containment(isolation)
    for _ in range(3):
        command = closed_in.command(str(python), tmp_path, {})
        environ = {**os.environ, **closed_in.environ(tmp_path, {})}
        # with a timeout it would be asked in intervals, and the rest had time to end
        assert subprocess.run(command, env=environ).returncode == 3
        assert find() == []


async def test_no_daemon_survives_the_death_of_the_server(
    start_server, trial_path, task, sleepers, wild_path, isolation
):
    if isolation == "bubblewrap":
        pytest.skip("a server prefers the namespace it can have itself")
    seconds, find = sleepers
    (trial_path / "wild_envs.py").write_text((wild_path / "wild_envs.py").read_text())
    mode = "none" if isolation == "none" else "namespace"
    server = await start_server(containment=mode)
    lease = await server.lease("wild_envs:Wild")
    await lease.reset(episode="e", task=task, seed=0, deadline=60)
    action = {"name": "daemon", "arguments": {"amount": seconds}}
    await lease.step(step=0, action=action, deadline=60)
    await appeared(find)
    os.kill(server.child.process.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while find() or trees.marked(server.mark):
            await asyncio.sleep(0.05)
    await lease.release(deadline=1)


async def test_a_supervisor_killed_by_its_environment_takes_the_rest_along(serve, lease):
    tenant = await lease(await serve("none"))
    await tenant.reset()
    reply = await tenant.step("kill parent after daemon", amount=60)
    assert reply.error.kind == "crash"
    await tenant.release()
    assert tenant.processes() == []


async def test_a_worker_that_closes_its_socket_is_dead(serve, lease, isolation):
    tenant = await lease(await serve(isolation))
    await tenant.reset()
    reply = await tenant.step("shut")
    assert (reply.status, reply.error.kind) == (410, "crash")
    await tenant.release()
    assert tenant.processes() == []


async def test_shared_memory_is_the_workers_own(serve, lease):
    if not containment.works("namespace"):
        pytest.skip("no namespaces on this machine")
    tenant = await lease(await serve("namespace"))
    assert wire.unpack((await tenant.reset()).body)["info"]["shm"] == []


async def test_too_much_memory_is_a_typed_failure_with_numbers(serve, lease, isolation):
    tenant = await lease(await serve(isolation), "Hungry")
    await tenant.reset()
    reply = await tenant.step("hog", amount=300)
    assert (reply.status, reply.error.kind) == (410, "memory")
    assert reply.error.message.endswith("MB of memory in use, 200 MB are allowed")


async def test_the_operators_limit_is_an_upper_bound(serve, lease):
    service = await serve("none", limits={"memory_mb": 150})
    tenant = await lease(service, "Hungry")
    await tenant.reset()
    reply = await tenant.step("hog", amount=170)
    assert reply.error.message.endswith("150 MB are allowed")


async def test_a_full_disk_is_real_where_the_directory_is_a_file_system(serve, lease, isolation):
    tenant = await lease(await serve(isolation), "Wide")
    await tenant.reset()
    assert (await tenant.step("fill", amount=3)).error is None
    reply = await tenant.step("fill", amount=20, linger=30)
    if isolation == "none":
        assert (reply.status, reply.error.kind) == (410, "disk")
        assert reply.error.message.endswith("MB of disk in use, 8 MB are allowed")
    else:
        assert (reply.status, reply.error.kind) == (500, "OSError")
        assert "No space left on device" in reply.error.message


async def test_too_many_processes_are_a_typed_failure(serve, lease, isolation):
    tenant = await lease(await serve(isolation), "Crowd")
    await tenant.reset()
    # no more than one too many: they are counted while they are being started
    reply = await tenant.step("fork", amount=5)
    assert (reply.status, reply.error.kind) == (410, "processes")
    assert reply.error.message == "6 processes, 5 are allowed"


async def test_files_and_cores_are_limited_by_the_kernel(serve, lease, isolation):
    tenant = await lease(await serve(isolation), "Handy")
    await tenant.reset()
    info = wire.unpack((await tenant.step("look")).body)["info"]
    assert (info["limits"], info["cores"]) == ([100, 0], 1)
    assert "Too many open files" in (await tenant.step("open", amount=200)).error.message
    await tenant.reset("f")
    tenant.steps = iter(range(9))
    assert "File too large" in (await tenant.step("file", amount=9)).error.message


async def test_limits_also_hold_in_another_interpreter(serve, lease, tmp_path):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    service = await serve("none")
    service.catalogue._pythons = (str(other),)
    tenant = await lease(service, "Hungry", python=str(other))
    await tenant.reset()
    assert (await tenant.step("hog", amount=300)).error.kind == "memory"


async def test_an_unknown_limit_is_refused_with_the_near_match(serve, refused):
    status, error = await refused(await serve(), "Wrong")
    assert status == 400
    assert "unknown limit 'memory'; did you mean 'memory_mb'?" in error.message


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "8", True, None])
def test_a_limit_is_a_positive_number(value):
    with pytest.raises(ConfigurationError, match="limit 'cpus' must be a positive number"):
        read_limits({"cpus": value}, "here")


def test_workers_are_spread_over_the_cores():
    close, cores = Containment(), os.sched_getaffinity(0)
    used = {core for _ in cores for core in close._next_cores(1) or ()}
    assert used == cores
    assert close._next_cores(10**6) == sorted(cores)
    assert close._next_cores(None) is None


def test_a_mode_that_cannot_be_had_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(containment, "works", lambda wanted: wanted == "none")
    assert choose("auto") == "none"
    with pytest.raises(ConfigurationError, match="apt-get install bubblewrap"):
        choose("namespace")
    monkeypatch.setenv(containment.VARIABLE, "namepace")
    with pytest.raises(ConfigurationError, match="did you mean 'namespace'"):
        choose(None)


async def test_a_flood_of_output_keeps_its_beginning_and_its_end(serve, lease, monkeypatch):
    flooded, trim = threading.Event(), usage.trim
    monkeypatch.setattr(usage, "trim", lambda log: trim(log) if flooded.is_set() else None)
    tenant = await lease(await serve())
    await tenant.reset()
    assert (await tenant.step("flood", amount=20_000)).error is None
    whole = tenant.log.read_bytes()
    flooded.set()
    async with asyncio.timeout(60):
        while tenant.log.stat().st_size > usage.LOG_CAP:
            await asyncio.sleep(0.1)
    beginning, _, end = tenant.log.read_bytes().partition(b" bytes cut ...\n")
    assert beginning.startswith(whole[: 1 << 20])
    assert end == whole[-4 << 20 :]
    assert end.endswith(b"the last words\n")


def test_what_is_written_while_a_log_is_cut_comes_after_the_rest(tmp_path, monkeypatch):
    log, read, late = tmp_path / "log", os.pread, [b"late\n", b"later\n"]
    log.write_bytes(b"".join(b"%07d\n" % number for number in range(1000)))

    def pread(*args):
        with log.open("ab") as writer:
            writer.write(late.pop(0) if late else b"")
        return read(*args)

    monkeypatch.setattr(usage.os, "pread", pread)
    usage.trim(log, cap=4000)
    lines = [b"%07d" % number for number in range(1000)]
    kept = [*lines[:125], b"", b"... 5000 bytes cut ...", *lines[750:], b"late", b"later", b""]
    assert log.read_bytes().split(b"\n") == kept


async def test_a_log_is_deleted_unless_its_worker_failed(serve, lease):
    service = await serve()
    well, ill = await lease(service), await lease(service)
    for tenant in (well, ill):
        await tenant.reset()
    await ill.step("crash after daemon", amount=0)
    await well.release()
    await ill.release()
    assert not well.log.exists()
    assert ill.log.exists()


async def test_only_the_last_logs_of_failed_workers_are_kept(tmp_path):
    logs = Logs(tmp_path, keep=2)
    for number in range(5):
        log = logs.path(f"w{number}")
        log.write_text("x")
        logs.ended(log, failed=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w3.log", "w4.log"]


REMOVE = """
import os, sys
from pathlib import Path
from mintact_platform.environments.server.remains import remove
folder = Path(sys.argv[1])
if os.getuid() == 0:
    os.chown(folder, 65534, 65534)
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
inner = folder / "made" / "deep"
inner.mkdir(parents=True)
(inner / "file").write_text("x")
inner.chmod(0)
inner.parent.chmod(0o500)
assert remove(folder / "made")
"""


def test_a_directory_made_unwritable_is_deleted_all_the_same():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        command = [sys.executable, "-c", REMOVE, folder]
        run = subprocess.run(command, cwd="/", capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert os.listdir(folder) == []


def test_deleting_a_directory_changes_nothing_around_it(tmp_path):
    around, outside = tmp_path / "around", tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    around.mkdir()
    around.chmod(0o750)
    outside.chmod(0o755)
    link = around / "link"
    link.symlink_to(outside)
    (around / "made").mkdir()
    (around / "made" / "link").symlink_to(outside)
    for name in ("made", "link", "absent"):
        assert remove(around / name)
    assert os.listdir(around) == []
    assert (outside / "kept").is_dir()
    assert (around.stat().st_mode & 0o7777, outside.stat().st_mode & 0o7777) == (0o750, 0o755)


def test_what_cannot_be_deleted_is_said(tmp_path, caplog):
    file = tmp_path / "made" / "file"
    file.parent.mkdir()
    file.write_text("x")
    make_immutable = ["chattr", "+i", str(file)]
    if not shutil.which("chattr") or subprocess.run(make_immutable, capture_output=True).returncode:
        pytest.skip("no immutable files here")
    try:
        assert not remove(file.parent)
    finally:
        subprocess.run(["chattr", "-i", str(file)], check=True)
    assert "remove it by hand" in caplog.text
    assert remove(file.parent)


async def test_boots_kills_and_cancellations_leave_no_descriptor_thread_or_entry(
    serve, lease, isolation
):
    # as large on every machine: with the 32 threads that end workers it stays below the bound
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))
    service = await serve(isolation)

    async def life(number):
        if number % 4 == 3:
            key = os.urandom(6).hex()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05 * (number % 5)):
                    await lease(service, key=key)
            await service.cancel(key)
            return
        tenant = await lease(service, "Shared" if number % 4 == 1 else "Wild")
        await tenant.reset()
        if number % 4 == 2:
            await tenant.step("crash after daemon", amount=1)
        await tenant.release()

    await life(0)
    # servers of other tests may live, and start and end what they like
    others = set(trees.below(os.getpid()))
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(4):
        await asyncio.gather(*(life(number) for number in range(8)))

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    async with asyncio.timeout(60):
        while len(service.workers) or service._tasks:
            await asyncio.sleep(0.05)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            # what other tests left in this process opens some for a moment
            while descriptors() > before:
                await asyncio.sleep(0.05)
    assert descriptors() <= before
    assert trees.below(os.getpid(), foreign=lambda pid: pid in others) == []
    assert threading.active_count() <= threads + 40
    assert (len(service.table), service._placed, service._booting) == (0, {}, {})
    assert service.workers._first == {}
