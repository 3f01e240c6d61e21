"""A lease over HTTPS, as a server behind a proxy that ends TLS gives it."""

from __future__ import annotations

import asyncio
import ssl

import pytest
import trustme

from mintact_platform.environments.client import connection
from mintact_platform.environments.client.lease import Lease
from mintact_platform.errors import EnvironmentFailure

COUNT = {"name": "count", "arguments": {}}


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except (OSError, ssl.SSLError):
        pass
    finally:
        writer.close()


@pytest.fixture
async def ending_tls(server, tmp_path, monkeypatch):
    """The address of a proxy before the server, whose authority is trusted here."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    connection.tls.cache_clear()
    port, relays = int(server.url.rpartition(":")[2]), set()

    async def relay(reader, writer):
        relays.add(asyncio.current_task())
        try:
            back, there = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(copy(reader, there), copy(back, writer))
        finally:
            # a farewell would wait for a client that has gone
            writer.transport.abort()

    proxy = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    yield f"https://localhost:{proxy.sockets[0].getsockname()[1]}"
    proxy.close()
    for task in relays:
        task.cancel()
    await asyncio.gather(*relays, return_exceptions=True)
    connection.tls.cache_clear()


async def test_a_lease_lives_over_https(ending_tls, task):
    lease = await Lease.create(
        ending_tls, environment="trial_envs:Counter", key="tls", deadline=60, transport="http",
        params={"size": 400},
    )  # fmt: skip
    await lease.reset(episode="e", task=task, seed=0, deadline=60)
    for step in range(3):
        seen = await lease.step(step=step, action=COUNT, deadline=60)
        assert seen.text.startswith(f"{step + 1} in")
        assert (seen.images[0].width, seen.images[0].height) == (400, 400)
    await lease.release()


async def test_a_scheme_may_be_written_in_capitals(ending_tls):
    loud = ending_tls.replace("https", "HTTPS")
    lease = await Lease.create(
        loud, environment="trial_envs:Counter", key="loud", deadline=60, transport="http"
    )
    assert lease.server == ending_tls
    await lease.release()


async def test_a_server_that_cannot_prove_its_name_gets_nothing(ending_tls):
    stranger = ending_tls.replace("localhost", "127.0.0.1")
    with pytest.raises(EnvironmentFailure, match="certificate") as caught:
        await Lease.create(
            stranger, environment="trial_envs:Counter", key="k", deadline=60, transport="http"
        )
    assert caught.value.kind == "unreachable"
