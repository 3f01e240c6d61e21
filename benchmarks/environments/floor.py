"""What batching alone reaches on this machine: an echo without leases, tokens or deadlines.

One WebSocket, binary frames that are lists of calls or replies, and worker processes behind
socket pairs whose reply bytes travel on unopened. `floor.py serve` prints its URL, `floor.py drive
URL PID` answers cells, `floor.py work FD` is a worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import driving
import msgpack
import websockets
from picture import screenshot

WORKERS = 2
BATCH = 64
LENGTH = struct.Struct("<I")
Send = Callable[[list[Any]], None]


class Frames:
    """Cuts a stream of bytes into frames with their length before them."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._buffer += data
        frames, position = [], 0
        while len(self._buffer) - position >= LENGTH.size:
            end = position + LENGTH.size + LENGTH.unpack_from(self._buffer, position)[0]
            if len(self._buffer) < end:
                break
            frames.append(bytes(self._buffer[position + LENGTH.size : end]))
            position = end
        del self._buffer[:position]
        return frames


class Batches:
    """Collects what is sent while the loop is busy into frames of up to `BATCH` items."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._items, self._filled = socket, list[Any](), asyncio.Event()

    def add(self, item: Any) -> None:
        self._items.append(item)
        self._filled.set()

    async def run(self) -> None:
        while True:
            await self._filled.wait()
            items, self._items = self._items[:BATCH], self._items[BATCH:]
            if not self._items:
                self._filled.clear()
            await self._socket.send(msgpack.packb(items))


class Worker(asyncio.Protocol):
    """The server's side of a worker."""

    def __init__(self) -> None:
        self._frames, self._numbers = Frames(), itertools.count()
        self._open: dict[int, Callable[[bytes], None]] = {}

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._open.pop(LENGTH.unpack_from(frame)[0])(frame[LENGTH.size :])

    def call(self, payload: Any, answer: Callable[[bytes], None]) -> None:
        number = next(self._numbers) & 0xFFFFFFFF
        self._open[number] = answer
        data = msgpack.packb(payload)
        self._transport.write(LENGTH.pack(len(data) + 4) + LENGTH.pack(number) + data)


def work(descriptor: int) -> None:
    """A worker: echo in a loop, answer what one read brought with one write."""
    channel, frames = socket.socket(fileno=descriptor), Frames()
    while data := channel.recv(1 << 18):
        replies = []
        for frame in frames.feed(data):
            number, image = msgpack.unpackb(frame[4:])
            picture = screenshot() if image else None
            body = msgpack.packb({"text": str(number), "screenshot": picture, "reward": 0.0})
            replies += [LENGTH.pack(len(body) + 4), frame[:4], body]
        channel.sendall(b"".join(replies))


async def serve() -> None:
    workers = [await start_worker() for _ in range(WORKERS)]

    async def stream(client: Any) -> None:
        replies = Batches(client)
        writer = asyncio.create_task(replies.run())
        with contextlib.suppress(websockets.ConnectionClosed):
            async for frame in client:
                for call, session, *payload in msgpack.unpackb(frame):
                    worker = workers[session % WORKERS]
                    worker.call(payload, lambda body, call=call: replies.add([call, body]))
        writer.cancel()

    options: Any = {"compression": None, "max_size": None}
    async with websockets.serve(stream, "127.0.0.1", 0, **options) as server:
        print(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await asyncio.Event().wait()


async def start_worker() -> Worker:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, __file__, "work", str(theirs.fileno())]
        subprocess.Popen(command, pass_fds=[theirs.fileno()])
    return (await asyncio.get_running_loop().create_unix_connection(Worker, sock=ours))[1]


async def drive(url: str, server: int) -> None:
    options: Any = {"compression": None, "max_size": None, "proxy": None}
    sessions = itertools.count()
    async with websockets.connect(url, **options) as stream:
        client = Client(stream)
        tasks = [asyncio.create_task(work) for work in (client.calls.run(), client.read())]

        async def open_session() -> driving.Step:
            return client.session(next(sessions))

        await driving.serve(open_session, server)
        for task in tasks:
            task.cancel()


class Client:
    """All sessions over one WebSocket."""

    def __init__(self, stream: Any) -> None:
        self.calls, self._stream = Batches(stream), stream
        self._numbers, self._open = itertools.count(), dict[int, asyncio.Future[bytes]]()

    async def read(self) -> None:
        async for frame in self._stream:
            for call, body in msgpack.unpackb(frame):
                self._open.pop(call).set_result(body)

    def session(self, session: int) -> driving.Step:
        async def step(number: int, image: bool) -> None:
            call = next(self._numbers)
            self._open[call] = asyncio.get_running_loop().create_future()
            self.calls.add([call, session, number, image])
            seen = msgpack.unpackb(await self._open[call])
            assert seen["text"] == str(number)
            assert not image or len(seen["screenshot"]) > 80_000

        return step


if __name__ == "__main__":
    driving.end_with_parent()
    role, *arguments = sys.argv[1:]
    if role == "work":
        work(int(arguments[0]))
    elif role == "serve":
        asyncio.run(serve())
    else:
        asyncio.run(drive(arguments[0], int(arguments[1])))
