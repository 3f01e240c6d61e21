"""What a server does when the machine has no more to give: it says so, and recovers."""

import asyncio
import contextlib
import os
import resource
import secrets
import signal
import subprocess

import httpx
import psutil
import pytest

from mintact_platform.environments.client.lease import Lease
from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.task import Task

COUNT = {"name": "count", "arguments": {}}
TASK = Task("t", "survive", "web")


async def lease_from(server, kind="Light", **options):
    return await Lease.create(
        server.url,
        environment=f"soak_envs:{kind}",
        key=f"scarce-{secrets.token_hex(6)}",
        deadline=options.pop("deadline", 60.0),
        **options,
    )


async def lives(server, kind="Isolated"):
    """A whole life of a lease."""
    lease = await lease_from(server, kind)
    try:
        await lease.reset(episode="e", task=TASK, seed=0, deadline=60)
        await lease.step(step=0, action=COUNT, deadline=60)
    finally:
        await lease.release()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


async def test_a_full_disk_is_a_typed_failure_and_release_makes_room(watched_server, small_disk):
    server = await watched_server(environ={"TMPDIR": str(small_disk)})
    greedy = await lease_from(server, "Isolated")
    await greedy.reset(episode="e", task=TASK, seed=0, deadline=60)
    fill = {"name": "fill", "arguments": {"mb": 100}}
    with pytest.raises(EnvironmentFailure) as caught:
        await greedy.step(step=0, action=fill, deadline=60)
    assert (caught.value.kind, caught.value.phase) == ("OSError", "step")
    assert "No space left" in str(caught.value)
    others = await asyncio.gather(lives(server), lives(server), return_exceptions=True)
    for failure in filter(None, others):
        assert isinstance(failure, EnvironmentFailure), failure
        assert failure.kind != "internal", failure
    await greedy.release()
    async with asyncio.timeout(60):
        while server.workers():
            await asyncio.sleep(0.05)
    await lives(server, "Light")
    server.child.kill()


async def test_a_server_without_descriptors_refuses_leases_and_recovers(watched_server):
    server = await watched_server()
    await lives(server)
    pid = server.child.process.pid
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = psutil.Process(pid).num_fds()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 12, usual[1]))
    created = await asyncio.gather(
        *(lease_from(server, "Isolated", deadline=20.0) for _ in range(8)), return_exceptions=True
    )
    leases = [one for one in created if isinstance(one, Lease)]
    failures = [one for one in created if not isinstance(one, Lease)]
    assert failures
    for failure in failures:
        assert isinstance(failure, EnvironmentFailure), failure
        assert failure.kind != "internal", failure
    await asyncio.gather(*(lease.release() for lease in leases))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
    await server.settled()
    await lives(server, "Light")
    await server.settled()
    server.child.kill()


async def test_a_reply_that_is_none_is_invalid_for_every_client(watched_server):
    server = await watched_server()
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
        for media in ("application/json", "application/msgpack"):
            body = {"key": media, "environment": "soak_envs:Isolated"}
            made = (await http.post("/v1/leases", json=body)).json()
            headers = {"Mintact-Lease-Token": made["token"], "Accept": media}
            path = f"/v1/leases/{made['lease']}"
            task = TASK.to_json()
            await http.post(f"{path}/reset", json={"episode": "e", "task": task}, headers=headers)
            step = {
                "step": 0,
                "action": {"name": "write_channel", "arguments": {"what": "foreign"}},
            }
            reply = await http.post(f"{path}/step", json=step, headers=headers)
            if media.endswith("json"):
                assert (reply.status_code, reply.json()["error"]["kind"]) == (500, "invalid")
            else:
                # passed through unopened: the client finds out
                assert reply.content.startswith(b"\xc1")
            for pid in server.workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await http.delete(path, headers=headers)
    await server.settled()
    server.child.kill()
