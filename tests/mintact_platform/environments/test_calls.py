import asyncio
import contextlib
import os
import sys
from types import SimpleNamespace

import httpx
import pytest

from mintact_platform.environments.client import connection
from mintact_platform.environments.client.lease import Lease
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, LeaseExpired

COUNT = {"name": "count", "arguments": {}}
HANG = {"name": "hang", "arguments": {}}


@pytest.fixture(params=["stream", "http"])
def transport(request):
    return request.param


async def reset(lease, task, episode="e"):
    return await lease.reset(episode=episode, task=task, seed=0, deadline=60)


async def step(lease, number, action=COUNT, deadline=60):
    return await lease.step(step=number, action=action, deadline=deadline)


class Proxy:
    """Stands between a client and a server, and loses chosen replies by closing the connection."""

    def __init__(self, url):
        self.target = url.removeprefix("http://").split(":")
        self.lose, self.seen, self.mute = set(), 0, set()
        self.connections, self.swallowed = 0, asyncio.Event()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        self.tasks, self.writers = set(), set()
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.writers:
            writer.close()
        await asyncio.gather(*self.tasks)

    async def _serve(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection(*self.target)
        self.writers |= {writer, far_writer}
        up = asyncio.create_task(self._copy(reader, far_writer))
        self.tasks.add(up)
        with contextlib.closing(writer), contextlib.closing(far_writer):
            while data := await far_reader.read(1 << 20):
                if data.startswith(b"HTTP/1.1"):
                    self.seen += 1
                if self.seen in self.mute:
                    self.swallowed.set()
                    await up  # keep the connection open
                if self.seen in self.lose:
                    break
                writer.write(data)

    async def _copy(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                writer.write(data)


@pytest.fixture
def limits(monkeypatch):
    """How long each attempt over HTTP may take, and the timer that says so."""
    limits = []

    def timeout(seconds):
        limits.append((seconds, asyncio.timeout(seconds)))
        return limits[-1][1]

    monkeypatch.setattr(
        connection, "asyncio", SimpleNamespace(**{**vars(asyncio), "timeout": timeout})
    )
    return limits


async def begun(journal, line):
    """Wait until an environment noted that it does something."""
    async with asyncio.timeout(60):
        while line not in journal.read_text():
            await asyncio.sleep(0.02)


async def test_an_episode_from_reset_to_evaluation(lease_of, task):
    lease = await lease_of(image_format="jpeg")
    first = await reset(lease, task)
    assert first.info["goal"] == task.goal
    assert (first.images[0].format, first.images[0].width) == ("jpeg", 8)
    for number in range(3):
        observation = await step(lease, number)
    assert observation.text.startswith("3 in ")
    check = await lease.evaluate(deadline=60)
    assert check is not None
    assert (check.success, check.details) == (True, {"count": 3})
    assert lease.healthy
    assert (await reset(lease, task, "f")).text.startswith("0 in ")


async def test_instances_have_their_own_directory_even_in_one_worker(lease_of, task):
    leases = [await lease_of() for _ in range(2)]
    seen = [await reset(lease, task) for lease in leases]
    assert seen[0].info["pid"] == seen[1].info["pid"]
    folders = [observation.text.partition(" in ")[2] for observation in seen]
    assert folders[0] != folders[1]
    await step(leases[0], 0, {"name": "write", "arguments": {}})
    assert [os.listdir(folder) for folder in folders] == [["litter.txt"], []]
    await leases[0].release()
    await leases[1].release()
    assert not any(map(os.path.exists, folders))


@pytest.mark.parametrize("name", ["Awaited", "awaited_factory", "factory_of_awaited"])
async def test_an_awaited_environment_is_driven_on_the_loop(lease_of, task, name):
    lease = await lease_of(f"trial_envs:{name}", params={"start": 5})
    assert (await reset(lease, task)).tools == ({"name": "a"},)
    assert (await step(lease, 0)).text == "6"
    check = await lease.evaluate(deadline=60)
    assert check is not None
    assert check.success


@pytest.mark.parametrize(("name", "on_main"), [("Inline", True), ("Light", False)])
async def test_light_environments_share_a_worker_inline_or_on_threads(
    lease_of, task, name, on_main
):
    leases = [await lease_of(f"trial_envs:{name}") for _ in range(2)]
    seen = [await reset(lease, task) for lease in leases]
    assert seen[0].info["pid"] == seen[1].info["pid"]
    for lease in leases:
        assert (await step(lease, 0, {"name": "thread", "arguments": {}})).info["child"] is on_main
    with pytest.raises(EnvironmentFailure, match="fell off"):
        await step(leases[0], 1, {"name": "raise", "arguments": {}})
    assert (await step(leases[1], 1)).text.startswith("2 in ")
    check = await leases[1].evaluate(deadline=60)
    assert check is not None
    assert check.success


@pytest.mark.parametrize("name", ["Inline", "Light"])
async def test_an_environment_that_exits_fails_its_call_and_not_its_siblings(lease_of, task, name):
    one, two = [await lease_of(f"trial_envs:{name}") for _ in range(2)]
    await reset(one, task)
    await reset(two, task)
    with pytest.raises(EnvironmentFailure, match="enough") as caught:
        await step(one, 0, {"name": "exit", "arguments": {}})
    assert caught.value.kind == "SystemExit"
    assert (await step(two, 0)).text.startswith("1 in ")


async def test_an_ordinary_gymnasium_environment_works_too(lease_of, task):
    lease = await lease_of("trial_envs:Text")
    assert (await reset(lease, task)).text == "[0, 1, 2]"
    observation = await step(lease, 0)
    assert (observation.reward, observation.terminated) == (1.0, True)
    assert observation.info["array"] == [0, 1]
    assert await lease.evaluate(deadline=60) is None


async def test_a_lost_reply_is_asked_for_again_and_nothing_runs_twice(server, task, tmp_path):
    journal = tmp_path / "journal"
    async with Proxy(server.url) as proxy:
        proxy.lose = {1, 3, 5, 7}
        lease = await Lease.create(
            proxy.url,
            environment="trial_envs:Shared",
            params={"journal": str(journal)},
            key=f"lossy-{os.urandom(6).hex()}",
            deadline=60,
            transport="http",
        )
        await reset(lease, task)
        assert (await step(lease, 0)).text.startswith("1 in ")
        assert (await step(lease, 1)).text.startswith("2 in ")
        assert proxy.seen == 8
        await lease.release()
    assert journal.read_text().split("\n") == ["reset", "step count", "step count", "close", ""]


async def test_a_reply_that_never_comes_is_asked_for_on_another_connection(
    server, task, tmp_path, limits
):
    journal = tmp_path / "journal"
    async with Proxy(server.url) as proxy:
        lease = await Lease.create(
            proxy.url,
            environment="trial_envs:Shared",
            params={"journal": str(journal)},
            key=f"mute-{os.urandom(6).hex()}",
            deadline=60,
            transport="http",
        )
        await reset(lease, task)
        proxy.mute = {proxy.seen + 1}
        limits.clear()
        asked = asyncio.create_task(step(lease, 0, deadline=120))
        await proxy.swallowed.wait()
        seconds, limit = limits[0]
        assert seconds <= 60, "half of the deadline is there for other connections"
        limit.reschedule(0)
        assert (await asked).text.startswith("1 in ")
        assert proxy.connections == 2
        await lease.release()
    assert journal.read_text().count("step") == 1


async def test_calls_reuse_one_connection(server, task):
    async with Proxy(server.url) as proxy:
        lease = await Lease.create(
            proxy.url,
            environment="trial_envs:Shared",
            key=f"reuse-{os.urandom(6).hex()}",
            deadline=60,
            transport="http",
        )
        await reset(lease, task)
        for number in range(5):
            await step(lease, number)
        assert proxy.connections == 1
        with pytest.raises(EnvironmentFailure, match="fell off"):
            await step(lease, 5, {"name": "raise", "arguments": {}})
        await reset(lease, task, "f")
        assert proxy.connections == 2, "a connection is not used again after a 5xx"
        await lease.release()


async def test_repeats_in_flight_join_the_call_that_runs(lease_of, task, tmp_path, fifo):
    gate, journal = fifo(), tmp_path / "journal"
    lease = await lease_of(params={"journal": str(journal)})
    await reset(lease, task)
    action = {"name": "fifo", "arguments": {"path": str(gate)}}
    body = {"step": 0, "action": action}
    headers = {"Mintact-Lease-Token": lease.token}
    path = f"{lease.server}/v1/leases/{lease.id}/step"
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http, asyncio.TaskGroup() as group:
        repeats = [group.create_task(http.post(path, json=body, headers=headers)) for _ in range(3)]
        wrong = await http.post(path, json={**body, "step": 1}, headers=headers)
        while wrong.json()["error"]["kind"] != "busy":
            wrong = await http.post(path, json={**body, "step": 1}, headers=headers)
        assert wrong.status_code == 409
        await asyncio.to_thread(gate.write_text, "go")
    assert len({repeat.result().content for repeat in repeats}) == 1
    assert journal.read_text() == "reset\nstep fifo\n"


async def test_a_wrong_step_number_is_refused_and_the_right_one_still_runs(lease_of, task):
    lease = await lease_of()
    await reset(lease, task)
    with pytest.raises(EnvironmentFailure, match="expected step 0, got 7") as caught:
        await step(lease, 7)
    assert caught.value.kind == "conflict"
    assert (await step(lease, 0)).text.startswith("1 in ")


async def test_what_the_environment_raises_is_typed_and_a_reset_helps(lease_of, task):
    lease = await lease_of()
    await reset(lease, task)
    with pytest.raises(EnvironmentFailure) as caught:
        await step(lease, 0, {"name": "raise", "arguments": {}})
    assert (caught.value.phase, caught.value.kind) == ("step", "ValueError")
    assert caught.value.what == "the widget fell off"
    assert "Traceback" in caught.value.log_tail
    assert not lease.healthy
    await reset(lease, task, "f")


async def test_a_stop_iteration_of_the_environment_is_no_hang(lease_of, task):
    lease = await lease_of()
    await reset(lease, task)
    with pytest.raises(EnvironmentFailure, match="raised StopIteration"):
        await step(lease, 0, {"name": "stop", "arguments": {}})


@pytest.mark.parametrize(
    "which",
    ["none", "nan", "float picture", "number text", "flag", "info", "four", "surrogate", "huge"],
)
async def test_garbage_is_an_invalid_observation(lease_of, task, which):
    lease = await lease_of()
    await reset(lease, task)
    with pytest.raises(EnvironmentFailure) as caught:
        await step(lease, 0, {"name": "garbage", "arguments": {"which": which}})
    assert (caught.value.phase, caught.value.kind) == ("step", "invalid")


async def test_output_of_an_environment_breaks_no_frame(lease_of, task):
    lease = await lease_of()
    await reset(lease, task)
    assert (await step(lease, 0, {"name": "print", "arguments": {}})).text.startswith("1 in ")


async def test_a_constructor_that_fails_is_a_failed_creation(server, transport):
    with pytest.raises(EnvironmentFailure, match="no display") as caught:
        await server.lease(params={"fail": True}, transport=transport)
    assert (caught.value.phase, caught.value.kind) == ("create", "RuntimeError")


async def test_a_dead_worker_ends_the_lease_with_its_last_words(lease_of, server, task):
    lease = await lease_of("trial_envs:Counter")
    await reset(lease, task)
    with pytest.raises(LeaseExpired) as caught:
        await step(lease, 0, {"name": "crash", "arguments": {}})
    assert (caught.value.phase, caught.value.kind) == ("step", "crash")
    assert "about to crash" in caught.value.log_tail
    with pytest.raises(LeaseExpired):
        await reset(lease, task, "f")
    replacement = await lease_of("trial_envs:Counter")
    assert (await reset(replacement, task)).text.startswith("0 in ")


@pytest.mark.parametrize("name", ["hang", "spin"])
async def test_others_step_while_an_instance_hangs(lease_of, task, tmp_path, name):
    journal = tmp_path / "journal"
    hung = await lease_of("trial_envs:Counter", params={"journal": str(journal)})
    other = await lease_of()
    await reset(hung, task)
    await reset(other, task)
    hanging = asyncio.create_task(step(hung, 0, {"name": name, "arguments": {}}, deadline=600))
    await begun(journal, f"step {name}")
    for number in range(5):
        await step(other, number)
    assert not hanging.done()
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)


@pytest.mark.parametrize("name", ["hang", "spin"])
async def test_a_hung_instance_is_killed_at_its_deadline(lease_of, server, task, name):
    hung = await lease_of("trial_envs:Counter")
    await reset(hung, task)
    with pytest.raises(EnvironmentFailure) as caught:
        await step(hung, 0, {"name": name, "arguments": {}}, deadline=1)
    assert caught.value.kind == "timeout"
    await hung.release(deadline=60)
    assert server.processes_of(hung) == []


async def test_a_hung_instance_does_not_block_its_siblings_until_it_is_killed(
    lease_of, server, task, fifo
):
    gate = fifo()
    hung, sibling = await lease_of("trial_envs:Siblings"), await lease_of("trial_envs:Siblings")
    pids = [(await reset(lease, task)).info["pid"] for lease in (hung, sibling)]
    assert pids[0] == pids[1]
    waits = {"name": "fifo", "arguments": {"path": str(gate)}}
    hanging = asyncio.create_task(step(hung, 0, waits))
    with await asyncio.to_thread(gate.open, "w"):
        for number in range(3):
            await step(sibling, number)
    await hanging
    with pytest.raises(EnvironmentFailure) as caught:
        await step(hung, 1, HANG, deadline=1)
    assert caught.value.kind == "timeout"
    # a busy server is told of the call after its client, and kills after it too
    async with asyncio.timeout(60):
        while server.processes_of(hung):
            await asyncio.sleep(0.02)
    with pytest.raises(LeaseExpired) as sibling_failure:
        await step(sibling, 3)
    assert sibling_failure.value.kind == "crash"


async def test_a_released_sibling_leaves_the_worker_to_the_others(lease_of, task):
    one, two = await lease_of(), await lease_of()
    await reset(one, task)
    await reset(two, task)
    await one.release()
    assert (await step(two, 0)).text.startswith("1 in ")


async def test_a_boot_counts_inside_the_create_deadline(server, fifo, transport):
    params = {"boot": str(fifo())}
    with pytest.raises(EnvironmentFailure) as caught:
        await server.lease("trial_envs:Counter", params=params, deadline=2, transport=transport)
    assert (caught.value.phase, caught.value.kind) == ("create", "timeout")


async def browsing(server, task, transport):
    """A lease with a process of its own, and as short a life as leaves time to start that."""
    for ttl in (1.0, 5.0, 25.0):
        lease = await server.lease("trial_envs:Counter", ttl=ttl, transport=transport)
        try:
            await reset(lease, task)
            before = server.processes_of(lease)
            await step(lease, 0, {"name": "browser", "arguments": {}})
            after = server.processes_of(lease)
            await step(lease, 1)
        except LeaseExpired:
            await lease.release()
            continue
        assert len(after) == len(before) + 1
        return lease
    pytest.fail("no lease lives long enough for three calls")


async def test_a_lease_whose_client_went_silent_is_reaped_with_its_processes(
    server, task, transport
):
    lease = await browsing(server, task, transport)
    async with asyncio.timeout(60):
        while server.processes_of(lease):
            await asyncio.sleep(0.1)
    with pytest.raises(LeaseExpired) as caught:
        await step(lease, 2)
    assert caught.value.kind == "expired"
    await lease.release()


async def test_a_worker_may_run_in_another_interpreter(start_server, task, tmp_path):
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    server = await start_server(pythons=[str(other)])
    leases = await asyncio.gather(
        *(server.lease("trial_envs:Shared", python=str(other)) for _ in range(4))
    )
    pids = {(await reset(lease, task)).info["pid"] for lease in leases}
    assert len(pids) == 1, "the first worker says how many instances it hosts"
    with pytest.raises(ConfigurationError, match="unexpected keyword argument 'sice'"):
        await server.lease("trial_envs:Shared", python=str(other), params={"sice": 1})
    with pytest.raises(ConfigurationError, match="chromium-of-dreams"):
        await server.lease("trial_envs:Needy", python=str(other))
    for lease in leases:
        await lease.release()
    server.child.kill()


async def test_a_server_that_is_not_there_is_unreachable(transport):
    url, environment = "http://127.0.0.1:9", "trial_envs:Counter"
    with pytest.raises(EnvironmentFailure) as caught:
        await Lease.create(url, environment=environment, key="k", deadline=60, transport=transport)
    assert (caught.value.phase, caught.value.kind) == ("create", "unreachable")


async def test_a_server_of_something_else_is_no_environment_server():
    async def other(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\n<html>404")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0) as site:
        url = f"http://127.0.0.1:{site.sockets[0].getsockname()[1]}"
        with pytest.raises(EnvironmentFailure, match="HTTP 404") as caught:
            await Lease.create(url, environment="x:y", key="k", deadline=60)
    assert caught.value.kind == "invalid"
