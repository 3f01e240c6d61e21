"""One connection to a server: opened, listed, called and closed, every failure attributed.

The official client may be entered and left by one task only, while an environment's calls are
tasks of their own: a task of the connection's own holds the client open between them.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mcp import Client, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    Implementation,
    TextContent,
    Tool,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from mintact_platform.errors import EnvironmentFailure, first_cause
from mintact_plugin_mcp import web
from mintact_plugin_mcp.servers import Server, variables
from mintact_plugin_mcp.stdio import Child

_MAX_PAGES = 50
_CLOSE_S, _CANCEL_S = 5.0, 2.0
_REASON_S = 1.0
_BAD_ANSWERS = (
    "SSE stream failed",
    "Server returned an error response",
    "Session terminated",
    "Unexpected content type",
    "Failed to parse JSON response",
    "server answered a request with 202",
)
"""How the official client begins to say that an answer over HTTP is none, in the form in which a
server says something against a call."""


class Connection:
    """A connection that is yet to be opened.

    Args:
        name: of the server, for errors.
        server: how it is reached.
        directory: a program works in, if its server names none.
        max_bytes: of one message.

    Attributes:
        changed: the server said that its tools changed since they were last listed.
    """

    def __init__(self, name: str, server: Server, directory: Path, max_bytes: int) -> None:
        self._where = f"mcp server {name!r} ({server.place})"
        self._server, self._max_bytes = server, max_bytes
        self._child: Child | None = None
        if server.command is not None:
            command = [server.command, *server.args]
            working = Path(server.cwd) if server.cwd else directory
            self._child = Child(command, variables(server), working, max_bytes)
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._why: BaseException | None = None
        self._deaf = False
        self.changed = False

    async def open(self, seconds: float) -> None:
        """Start or reach the server, and greet it.

        Raises:
            EnvironmentFailure: it did not answer as a server should.
        """
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._hold(opened, seconds))
        try:
            async with asyncio.timeout(seconds):
                await opened
        except TimeoutError:
            message = self._broken() or f"said nothing within {seconds:g} s"
            await self._cancel()
            raise self._fail(f"cannot be used: {message}", "reset", "timeout") from None
        except Exception as error:
            message = self._broken() or f"{type(error).__name__}: {error}"
            await self._cancel()
            raise self._fail(f"cannot be used: {message}", "reset", "unreachable") from error
        except BaseException:
            await self._cancel()
            raise

    async def tools(self, phase: str, seconds: float) -> list[Tool]:
        """The tools that the server lists now.

        Raises:
            EnvironmentFailure: it lists none in time.
        """
        self.changed = False
        tools: list[Tool] = []
        try:
            async with asyncio.timeout(seconds):
                cursor: str | None = None
                for _ in range(_MAX_PAGES):
                    page = await self._opened(phase).list_tools(cursor=cursor)
                    tools += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        return tools
        except TimeoutError:
            raise self._fail(f"listed no tools in {seconds:g} s", phase, "timeout") from None
        except (MCPError, ValidationError, RuntimeError) as error:
            raise await self._refused(error, phase) from error
        raise self._fail(f"its list of tools has over {_MAX_PAGES} pages", phase, "invalid")

    async def call(
        self, tool: str, arguments: dict[str, Any], phase: str, seconds: float
    ) -> CallToolResult:
        """What a tool answers; what the server says against the call is an answer too.

        Raises:
            EnvironmentFailure: `crash`, `timeout` or `invalid`.
        """
        client = self._opened(phase)
        try:
            async with asyncio.timeout(seconds):
                return await client.call_tool(tool, arguments)
        except TimeoutError:
            message = f"no answer to {tool!r} within {seconds:g} s"
            raise self._fail(message, phase, "timeout") from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or self._is_over() or _is_no_answer(error):
                raise await self._refused(error, phase) from error
            return CallToolResult(
                content=[TextContent(type="text", text=error.message)], is_error=True
            )
        except (ValidationError, RuntimeError) as error:
            # of the official client: the answer is not what the protocol or the tool promised
            raise await self._refused(error, phase) from error

    @property
    def news_unheard(self) -> bool:
        """Whether the tools may have changed: the server said so, or has no way to say it."""
        return self.changed or self._deaf

    async def close(self) -> None:
        """End the connection, and the program with everything it started."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_CLOSE_S)
            await self._cancel()

    async def _hold(self, opened: asyncio.Future[None], seconds: float) -> None:
        """Enter the client, leave it when the connection closes; the task's only exit."""
        try:
            async with Client(
                self._transport(seconds),
                message_handler=self._heard,
                cache=None,
                client_info=Implementation(name="mintact", version=version("mintact-platform")),
            ) as client:
                self._client = client
                listening = asyncio.create_task(self._listen(client))
                try:
                    if not opened.done():
                        opened.set_result(None)
                    await self._closing.wait()
                finally:
                    listening.cancel()
                    await asyncio.wait([listening])
        except BaseException as error:
            cause = first_cause(error) if isinstance(error, BaseExceptionGroup) else error
            self._why = cause
            if not opened.done():
                opened.set_exception(_plain(cause))
            elif isinstance(cause, Exception):
                print(f"{self._where} is gone: {self._why!r}", file=sys.stderr, flush=True)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._client = None

    def _transport(self, seconds: float) -> AbstractAsyncContextManager[Any]:
        if self._child is not None:
            return self._child.connected()
        assert self._server.url is not None
        return web.connected(self._server.url, self._server.headers, self._max_bytes, seconds)

    async def _heard(self, message: Any) -> None:
        """A notification of the older protocol, which needs no asking."""
        if isinstance(message, ToolListChangedNotification):
            self.changed = True

    async def _listen(self, client: Client) -> None:
        """Ask to be told when the tools change, as the newer protocol wants to be asked."""
        try:
            async with client.listen(tools_list_changed=True) as events:
                self._deaf = not events.honored.tools_list_changed
                async for _ in events:
                    self.changed = True
            self._deaf = True
        except ListenNotSupportedError:
            return
        except (MCPError, SubscriptionLost, TimeoutError, ValidationError, RuntimeError):
            self._deaf = True

    def _opened(self, phase: str) -> Client:
        if self._client is None or self._is_over():
            raise self._gone("the connection is closed", phase)
        return self._client

    def _is_over(self) -> bool:
        return bool(self._broken()) or self._task is None or self._task.done()

    def _broken(self) -> str:
        return "" if self._child is None else self._child.broken

    async def _refused(self, error: Exception, phase: str) -> EnvironmentFailure:
        said = " ".join(str(error).split())
        closed = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
        if _is_no_answer(error) or not (closed or self._is_over()):
            return self._fail(f"answered what it may not: {said}", phase, "invalid")
        if self._child is None and self._task is not None:
            # a call hears that its connection broke before the connection's task says why
            await asyncio.wait([self._task], timeout=_REASON_S)
        return self._gone(said, phase)

    def _gone(self, otherwise: str, phase: str) -> EnvironmentFailure:
        cause = "" if self._why is None else f"{type(self._why).__name__}: {self._why}"
        large = isinstance(self._why, web.TooLarge) or (self._child and self._child.too_large)
        why = self._broken() or cause or otherwise
        return self._fail(f"is gone: {why}", phase, "invalid" if large else "crash")

    async def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CANCEL_S)

    def _fail(self, what: str, phase: str, kind: str) -> EnvironmentFailure:
        return EnvironmentFailure(what, phase=phase, kind=kind, where=self._where)


def _is_no_answer(error: Exception) -> bool:
    return isinstance(error, MCPError) and error.message.startswith(_BAD_ANSWERS)


def _plain(cause: BaseException) -> Exception:
    """An exception that a future may carry."""
    return cause if isinstance(cause, Exception) else RuntimeError(f"{type(cause).__name__}")
