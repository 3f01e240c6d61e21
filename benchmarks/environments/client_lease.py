"""Leases of an environment server: `client_lease.py URL PID ENVIRONMENT TRANSPORT`."""

import asyncio
import functools
import sys

import driving
import leasing

from mintact_platform.environments.client.transport import TransportName


async def open_session(url: str, environment: str, transport: TransportName) -> driving.Step:
    lease = await leasing.create(url, environment, transport)
    await leasing.reset(lease)
    return leasing.stepper(lease)


if __name__ == "__main__":
    driving.end_with_parent()
    url, server, environment, transport = sys.argv[1:]
    chosen: TransportName = "stream" if transport == "stream" else "http"
    opening = functools.partial(open_session, url, environment, chosen)
    asyncio.run(driving.serve(opening, int(server)))
