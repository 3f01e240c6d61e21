"""Environments and a model server that only sleep, behind the transports that real ones have.

`python sleeping.py serve IDS` answers `/generate` with the same ids after a while, and prints its
URL. An environment server finds `sleeping:Sleeping`, a run file `sleeping:Attached`, by
`PYTHONPATH=benchmarks/scheduler`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

TURNS = 30
GENERATION_SECONDS = (0.1, 0.5)
TOOL: dict[str, Any] = {
    "name": "look",
    "description": "Look again.",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
}


class Sleeping:
    """Thirty turns of some seconds each; the first episode starts somewhere in its middle."""

    metadata: ClassVar[dict[str, Any]] = {
        "mintact": {
            "domain": "tools",
            "action_space": "tool_use",
            "instances_per_worker": 64,
        }
    }

    def __init__(self, *, seconds: float = 5.0) -> None:
        self._seconds = seconds
        self._draw = random.Random()
        self._left = self._draw.randint(1, TURNS)
        self._fresh = False

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if self._fresh:
            self._left = TURNS
        self._fresh = True
        return {"text": "Inbox: 3 new messages."}, {"tools": [TOOL]}

    async def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        await asyncio.sleep(self._seconds * self._draw.uniform(0.5, 1.5))
        self._left -= 1
        over = self._left <= 0
        reward = float(over and self._draw.random() < 0.5)
        text = f"{self._left} messages are left. The oldest is from Tuesday, about the invoice."
        return {"text": text}, reward, over, False, {}

    async def close(self) -> None:
        pass


class Attached:
    """The client of the model server below.

    Args:
        url: where it listens.

    Attributes:
        answered: generations of all engines of the process.
    """

    answered: ClassVar[int] = 0

    def __init__(self, *, url: str) -> None:
        self._url = url
        self._servers: Any = None

    async def start(self, spec: Any) -> None:
        from mintact_platform.models.client import ModelServers

        self._servers = ModelServers(
            self._url,
            [self._url],
            generate_deadline=spec.generate_deadline,
            weights=spec.weights,
            concurrency=2 * spec.active,
        )

    async def generate(self, request: Any) -> Any:
        generation = await self._servers.generate(request)
        Attached.answered += 1
        return generation

    async def update(self, weights: Any) -> None:
        raise NotImplementedError

    async def healthy(self) -> bool:
        return True

    async def close(self) -> None:
        await self._servers.aclose()


async def serve(ids: list[int]) -> None:
    """Answer every generation with these ids; ends with its standard input."""
    draw = random.Random(0)
    meta = {
        "finish_reason": {"type": "stop", "matched": ids[-1]},
        "completion_tokens": len(ids),
        "cached_tokens": 0,
        "weight_version": "0",
        "output_token_logprobs": [[-0.25, token, None] for token in ids],
    }

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                asked = json.loads(await reader.readexactly(int(fields[b"content-length"])))
                body = b"{}"
                if head.startswith(b"POST /generate"):
                    await asyncio.sleep(draw.uniform(*GENERATION_SECONDS))
                    told = {**meta, "id": asked["rid"], "prompt_tokens": len(asked["input_ids"])}
                    body = json.dumps({"text": "", "output_ids": ids, "meta_info": told}).encode()
                length = len(body)
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%b" % (length, body)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[2])))
