"""A client's side of the stream: shared by leases, cut, lost, silent, slow, or not there at all."""

import asyncio
import contextlib
import logging
import os

import httpx
import msgpack
import pytest
from websockets.asyncio.client import connect

from mintact_platform.environments.client import multiplex
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.protocol import wire
from mintact_platform.errors import ConfigurationError, EnvironmentFailure, LeaseExpired

COUNT = {"name": "count", "arguments": {}}


async def reset(lease, task, episode="e"):
    return await lease.reset(episode=episode, task=task, seed=0, deadline=60)


async def step(lease, number, action=COUNT, deadline=60):
    return await lease.step(step=number, action=action, deadline=deadline)


def gate_of(path):
    return {"name": "fifo", "arguments": {"path": str(path)}}


class Cutter:
    """Stands between a client and a server; cuts, swallows or holds what the server says."""

    def __init__(self, url):
        self.target = url.removeprefix("http://").split(":")
        self.connections, self.said = 0, 0
        self.lose = self.mute = False
        self.pairs, self.tasks = [], set()
        self.changed = asyncio.Event()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        self.cut()
        await asyncio.gather(*self.tasks)

    def cut(self):
        """Break every connection."""
        for writer in self.pairs:
            if not writer.transport.is_closing():
                writer.transport.abort()

    async def until(self, condition):
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def _serve(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        far_reader, far_writer = await asyncio.open_connection(*self.target)
        self.pairs += [writer, far_writer]
        self.connections += 1  # from now on it can be cut
        up = asyncio.create_task(self._copy(reader, far_writer))
        self.tasks.add(up)
        with contextlib.closing(writer), contextlib.closing(far_writer):
            with contextlib.suppress(ConnectionError):
                while data := await far_reader.read(1 << 20):
                    handshake = data.startswith(b"HTTP/1.1 101")
                    self.said += not handshake
                    self.changed.set()
                    if self.lose and not handshake:
                        break
                    if not self.mute or handshake:
                        writer.write(data)

    async def _copy(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                writer.write(data)


async def through(proxy, *, deadline=60, **options):
    return await Lease.create(
        proxy.url,
        environment="trial_envs:Shared",
        key=f"cut-{os.urandom(6).hex()}",
        deadline=deadline,
        transport="stream",
        **options,
    )


# ---- batches and many leases ------------------------------------------------------------------


async def test_many_leases_share_one_connection_and_keep_their_replies_apart(server, task):
    async with Cutter(server.url) as proxy, contextlib.AsyncExitStack() as stack:
        leases = await asyncio.gather(*(through(proxy) for _ in range(20)))
        for lease in leases:
            stack.push_async_callback(lease.release)

        async def play(number, lease):
            first = await reset(lease, task, f"e{number}")
            folder = first.text.partition(" in ")[2]
            for k in range(number):
                seen = await step(lease, k)
                assert seen.text == f"{k + 1} in {folder}"
            return folder

        folders = await asyncio.gather(*(play(n, lease) for n, lease in enumerate(leases)))
        assert len(set(folders)) == 20
        assert proxy.connections == 1


async def test_replies_that_are_ready_together_come_in_one_message(server, task):
    leases = await asyncio.gather(*(server.lease() for _ in range(8)))
    await asyncio.gather(*(reset(lease, task) for lease in leases))
    async with connect(server.stream, compression=None, proxy=None) as ws:
        body = {"step": 0, "action": COUNT}
        calls = [[n, "step", lease.id, "wrong", body] for n, lease in enumerate(leases)]
        await ws.send(msgpack.packb(calls))
        replies = msgpack.unpackb(await ws.recv())
        assert [(n, status) for n, status, _ in replies] == [(n, 410) for n in range(8)]
    await asyncio.gather(*(lease.release() for lease in leases))


async def test_one_hanging_instance_delays_no_other_lease(server, task, fifo):
    gate = fifo()
    slow, *others = await asyncio.gather(*(server.lease(transport="stream") for _ in range(4)))
    await asyncio.gather(*(reset(lease, task) for lease in (slow, *others)))
    hanging = asyncio.create_task(step(slow, 0, gate_of(gate)))

    async def proceed(lease):
        for number in range(50):
            await step(lease, number)

    await asyncio.gather(*map(proceed, others))
    assert not hanging.done()
    await asyncio.to_thread(gate.write_text, "go")
    assert (await hanging).text.startswith("1 in ")
    await asyncio.gather(*(lease.release() for lease in (slow, *others)))


# ---- lost replies -----------------------------------------------------------------------------


async def test_a_reply_lost_with_its_connection_is_asked_for_again_and_nothing_runs_twice(
    server, task, tmp_path
):
    journal = tmp_path / "journal"
    async with Cutter(server.url) as proxy:
        lease = await through(proxy, params={"journal": str(journal)})
        await reset(lease, task)
        for number in range(3):
            proxy.lose = True
            asking = asyncio.create_task(step(lease, number))
            said = proxy.said
            await proxy.until(lambda said=said: proxy.said > said)
            proxy.lose = False
            assert (await asking).text.startswith(f"{number + 1} in ")
        assert proxy.connections == 4
        await lease.release()
    assert journal.read_text().split() == ["reset", *["step", "count"] * 3, "close"]


async def test_a_connection_cut_in_the_middle_of_a_call_joins_it_again(
    server, task, tmp_path, fifo
):
    gate, journal = fifo(), tmp_path / "journal"
    async with Cutter(server.url) as proxy:
        lease = await through(proxy, params={"journal": str(journal)})
        await reset(lease, task)
        asking = asyncio.create_task(step(lease, 0, gate_of(gate)))
        async with asyncio.timeout(60):
            while "fifo" not in journal.read_text():
                await asyncio.sleep(0.01)
        for number in range(3):
            proxy.cut()
            await proxy.until(lambda number=number: proxy.connections > number + 1)
        await asyncio.to_thread(gate.write_text, "go")
        assert (await asking).text.startswith("1 in ")
        await lease.release()
    assert journal.read_text().count("fifo") == 1


async def test_a_silent_connection_is_given_up_long_before_the_deadline(
    server, task, tmp_path, monkeypatch
):
    monkeypatch.setattr(multiplex, "_PATIENCE", 0.5)
    journal = tmp_path / "journal"
    async with Cutter(server.url) as proxy:
        lease = await through(proxy, params={"journal": str(journal)})
        await reset(lease, task)
        proxy.mute = True
        asking = asyncio.create_task(step(lease, 0))
        await proxy.until(lambda: proxy.connections > 1)
        proxy.mute = False
        assert (await asking).text.startswith("1 in ")
        await lease.release()
    assert journal.read_text().count("step") == 1


async def test_http_and_the_stream_join_the_same_call(server, task, tmp_path, fifo):
    gate, journal = fifo(), tmp_path / "journal"
    lease = await server.lease(params={"journal": str(journal)}, transport="stream")
    await reset(lease, task)
    asking = asyncio.create_task(step(lease, 0, gate_of(gate)))
    headers = {"Mintact-Lease-Token": lease.token}
    path, body = f"{lease.server}/v1/leases/{lease.id}/step", {"step": 0, "action": gate_of(gate)}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        async with asyncio.timeout(60):
            while "fifo" not in journal.read_text():
                await asyncio.sleep(0.01)
        repeat = asyncio.create_task(http.post(path, json=body, headers=headers))
        wrong = await http.post(path, json={**body, "step": 1}, headers=headers)
        assert wrong.json()["error"]["kind"] == "busy"
        await asyncio.to_thread(gate.write_text, "go")
        assert (await repeat).json()["text"] == (await asking).text
        again = await http.post(path, json=body, headers=headers)
        assert again.json()["text"] == (await asking).text
    await lease.release()
    assert journal.read_text().count("fifo") == 1


async def test_a_cancelled_call_leaves_the_lease_to_its_owner(server, task, fifo):
    gate = fifo()
    lease = await server.lease(transport="stream")
    other = await server.lease(transport="stream")
    await reset(lease, task)
    await reset(other, task)
    asking = asyncio.create_task(step(lease, 0, gate_of(gate)))
    await step(other, 0)
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    assert not lease.healthy
    assert (await step(other, 1)).text.startswith("2 in ")
    await asyncio.to_thread(gate.write_text, "go")
    await lease.release()
    await other.release()


async def test_a_server_that_restarts_has_forgotten_its_leases(start_server, task, kept_port):
    first = await start_server(port=kept_port)
    lease = await first.lease(transport="stream")
    await reset(lease, task)
    first.child.kill()
    second = await start_server(port=kept_port)
    with pytest.raises(LeaseExpired) as caught:
        await step(lease, 0)
    assert (caught.value.phase, caught.value.kind) == ("step", "expired")
    await lease.release()
    second.child.kill()


async def test_a_server_that_died_is_unreachable(start_server, task):
    server = await start_server()
    lease = await server.lease(transport="stream")
    await reset(lease, task)
    server.child.kill()
    with pytest.raises(EnvironmentFailure) as caught:
        await step(lease, 0)
    assert caught.value.kind == "unreachable"
    await lease.release(deadline=1)


# ---- without a stream -------------------------------------------------------------------------


class NoUpgrade(Cutter):
    """Passes requests on, but answers the upgrade itself."""

    def __init__(self, url, answer):
        super().__init__(url)
        self.answer, self.upgrades = answer, 0

    async def _serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        if b"upgrade: websocket" in head.lower():
            self.upgrades += 1
            writer.write(self.answer)
            await writer.drain()
            writer.close()
            return
        replay = asyncio.StreamReader()
        replay.feed_data(head)
        self.tasks.add(asyncio.create_task(self._feed(reader, replay)))
        await super()._serve(replay, writer)

    async def _feed(self, reader, replay):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                replay.feed_data(data)
        replay.feed_eof()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nnot found",
        b"HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"",
    ],
)
async def test_a_client_without_a_stream_uses_http_and_says_so_once(server, task, caplog, answer):
    async with NoUpgrade(server.url, answer) as proxy:
        with caplog.at_level(logging.WARNING):
            leases = [
                await Lease.create(
                    proxy.url,
                    environment="trial_envs:Shared",
                    key=f"plain-{os.urandom(6).hex()}",
                    deadline=60,
                )
                for _ in range(2)
            ]
        assert caplog.text.count("no stream") == 1
        for lease in leases:
            await reset(lease, task)
            assert (await step(lease, 0)).text.startswith("1 in ")
            await lease.release()
        with pytest.raises(EnvironmentFailure, match="no stream") as caught:
            await through(proxy)
        assert caught.value.kind == "unreachable"


async def test_a_url_without_a_scheme_is_unreachable_not_a_crash():
    with pytest.raises(EnvironmentFailure) as caught:
        await Lease.create("somewhere", environment="x:y", key="k", deadline=1)
    assert caught.value.phase == "create"


# ---- the limits of a stream -------------------------------------------------------------------


async def test_what_cannot_be_sent_fails_alone(server, task):
    one, two = await asyncio.gather(*(server.lease(transport="stream") for _ in range(2)))
    await asyncio.gather(reset(one, task), reset(two, task))
    odd = {"name": "count", "arguments": {"x": object()}}
    results = await asyncio.gather(step(one, 0, odd), step(two, 0), return_exceptions=True)
    assert isinstance(results[0], wire.WireError)
    assert results[1].text.startswith("1 in ")
    huge = {"name": "count", "arguments": {"x": "x" * (wire.MAX_REQUEST + 1)}}
    with pytest.raises(ConfigurationError, match="over the cap"):
        await step(two, 1, huge)
    assert (await step(two, 1)).text.startswith("2 in ")
    await asyncio.gather(one.release(), two.release())


async def test_a_client_that_does_not_read_is_not_read_from(server, task, fifo):
    """Calls beyond the limit wait in the client's socket while others are served."""
    gate = fifo()
    lease = await server.lease(transport="stream")
    await reset(lease, task)
    hanging = asyncio.create_task(step(lease, 0, gate_of(gate)))
    async with connect(server.stream, compression=None, proxy=None, ping_interval=None) as ws:
        body = {"step": 0, "action": gate_of(gate)}
        joins = [[n, "step", lease.id, lease.token, body] for n in range(wire.MAX_OPEN_CALLS)]
        heartbeat = msgpack.packb([[-1, "heartbeat", "", "", {"leases": {}}]])
        await ws.send(heartbeat)
        assert msgpack.unpackb(await ws.recv())[0][0] == -1
        await ws.send(msgpack.packb(joins))
        other = await server.lease(transport="stream")
        await reset(other, task)
        await step(other, 0)
        await ws.send(heartbeat)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ws.recv()
        await asyncio.to_thread(gate.write_text, "go")
        numbers = []
        while -1 not in numbers:
            numbers += [n for n, _, _ in msgpack.unpackb(await ws.recv())]
        assert numbers == [*range(wire.MAX_OPEN_CALLS), -1]
    await hanging
    await lease.release()
    await other.release()


async def test_a_stream_that_ends_ends_no_lease_and_records_its_reply(server, task, tmp_path, fifo):
    gate, journal = fifo(), tmp_path / "journal"
    lease = await server.lease(params={"journal": str(journal)}, transport="http")
    await reset(lease, task)
    body = {"step": 0, "action": gate_of(gate)}
    async with connect(server.stream, compression=None, proxy=None) as ws:
        await ws.send(msgpack.packb([[1, "step", lease.id, lease.token, body]]))
        async with asyncio.timeout(60):
            while "fifo" not in journal.read_text():
                await asyncio.sleep(0.01)
    await asyncio.to_thread(gate.write_text, "go")
    assert (await step(lease, 0, gate_of(gate))).text.startswith("1 in ")
    assert (await step(lease, 1)).text.startswith("2 in ")
    await lease.release()
    assert journal.read_text().count("fifo") == 1


# ---- what the reply must say ------------------------------------------------------------------


class Answers:
    """A transport that gives one answer."""

    url = "http://nowhere"

    def __init__(self, answer):
        self.answer = answer

    async def call(self, do, body, deadline, *, lease="", token=""):
        return self.answer

    async def close(self):
        pass


@pytest.mark.parametrize("episode", ["another", None])
async def test_a_reply_of_another_episode_is_refused(task, episode):
    answer = {**wire.Observation().pack(), "episode": episode}
    created = {"lease": "l", "token": "t", "instance": "i"}
    lease = Lease(Answers(answer), "trial", created)
    with pytest.raises(EnvironmentFailure, match="episode") as caught:
        await reset(lease, task, "mine")
    assert caught.value.kind == "invalid"
    assert not lease.healthy
