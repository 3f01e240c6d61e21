"""A server written with the official package: `shop.py stdio`, or `shop.py http` with its URL."""

import asyncio
import os
import socket
import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import EmbeddedResource, TextResourceContents

server = MCPServer("shop")
cart: dict[str, int] = {}
spoilt: list[bool] = []

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000002000000010802000000"
    "7b40e8dd0000000f49444154789c63606060f8ffff3f0005fe02fe0def46b80000000049454e44ae426082"
)


@server.tool()
def put(item: str, count: int = 1) -> str:
    """Put something into the cart."""
    if count < 1:
        raise ToolError("count must be at least 1")
    cart[item] = cart.get(item, 0) + count
    return f"{cart[item]} {item}"


@server.tool()
def contents() -> dict[str, int]:
    """What the cart holds."""
    return cart


@server.tool(structured_output=False)
def picture() -> list:
    """A picture and a note."""
    resource = TextResourceContents(uri="note://1", text="two pixels")
    return ["here:", Image(data=PNG, format="png"), EmbeddedResource(resource=resource)]


@server.tool()
def quiet() -> None:
    """Nothing."""


@server.tool()
async def unlock(context: Context) -> str:
    """Open the back room."""

    def haggle(price: int) -> str:
        """Ask for a better price."""
        return f"{price - 1}"

    server.add_tool(haggle)
    server.remove_tool("quiet")
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "open"


@server.tool()
def about() -> dict[str, object]:
    """Where this runs."""
    return {"variables": sorted(os.environ), "pid": os.getpid(), "directory": os.getcwd()}


@server.tool()
def huge(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool()
async def hang() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return ""


@server.tool()
def die() -> str:
    """Ends the server."""
    os._exit(3)


@server.tool()
def spoil() -> str:
    """From now on only the gateway answers."""
    spoilt.append(True)
    return "spoilt"


@server.tool()
def stock(items: dict[str, int]) -> str:
    """Fill the cart before an episode."""
    cart.update(items)
    return "stocked"


@server.tool()
def verify(want: dict[str, int]) -> dict[str, object]:
    """Whether the cart holds just that."""
    right = sum(cart.get(item) == count for item, count in want.items())
    return {"success": cart == want, "score": right / len(want), "cart": cart}


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        import uvicorn

        listener = socket.create_server(("127.0.0.1", 0))
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        app = server.streamable_http_app()

        async def behind_gateway(scope, receive, send):
            if spoilt and scope["type"] == "http":
                await send({"type": "http.response.start", "status": 502, "headers": []})
                await send({"type": "http.response.body", "body": b"bad gateway"})
            else:
                await app(scope, receive, send)

        config = uvicorn.Config(behind_gateway, log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])
