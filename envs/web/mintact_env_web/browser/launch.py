"""The Chromium on this machine: where it is, which flags it gets, how it is cut off the network."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from mintact_platform.errors import ConfigurationError

Network = Literal["none", "proxy-lock", "open"]
"""How far requests get that no route answers.

`proxy-lock`: to a proxy that does not exist. `none`: the browser has no network interface either.
`open`: to public addresses, through the guard's proxy.
"""

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
VARIABLE = "MINTACT_CHROMIUM"
PACKAGE = "chromium-headless-shell"
DEAD_PROXY = "http://127.0.0.1:9"
HEAP_MB = 1024
"""JavaScript memory of one page; beyond it the page's process ends."""

_FLAGS = (
    # quiet: nothing but what a page asks for
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=Translate,OptimizationHints,MediaRouter,AutofillServerCommunication",
    "--disable-dev-shm-usage",
    f"--js-flags=--max-old-space-size={HEAP_MB}",
    # the same pixels every time
    "--disable-smooth-scrolling",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--disable-checker-imaging",
    # no packet past the proxy: neither WebRTC nor a look-up of a name
    f"--proxy-server={DEAD_PROXY}",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


def find_chromium() -> Path | None:
    """The executable: `MINTACT_CHROMIUM`, else the first known name on the path, else None."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen) if os.access(chosen, os.X_OK) else None
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return None if found is None else Path(found)


def require_chromium(where: str = "web") -> Path:
    """The executable.

    Args:
        where: named in the error.

    Raises:
        ConfigurationError: there is none; says which package brings one.
    """
    path = find_chromium()
    if path is None:
        raise ConfigurationError(
            "no Chromium found",
            where=where,
            next=f"run `apt-get install {PACKAGE}` or set {VARIABLE}",
        )
    return path


def requirements() -> Mapping[str, str]:
    """`requires` of an environment's metadata: any one of these programs, and the package."""
    chosen = os.environ.get(VARIABLE)
    return {"|".join((*((chosen,) if chosen else ()), *NAMES)): PACKAGE}


def arguments() -> list[str]:
    """Flags of every start. Chromium refuses its own sandbox to root."""
    return [*_FLAGS, *(("--no-sandbox",) if os.geteuid() == 0 else ())]


def executable(network: Network, directory: Path) -> Path:
    """What to start: the browser itself, or a script that first takes the network away.

    Args:
        network: only `none` makes a difference here.
        directory: for the script.

    Raises:
        ConfigurationError: no Chromium, or no program that can take the network away.
    """
    chromium = require_chromium()
    if network != "none":
        return chromium
    script = directory / "chromium-without-network"
    script.write_text(f'#!/bin/sh\nexec {_prefix()} {shlex.quote(str(chromium))} "$@"\n')
    script.chmod(0o700)
    return script


def _prefix() -> str:
    bubblewrap, unshare = shutil.which("bwrap"), shutil.which("unshare")
    if bubblewrap:
        spaces = "--unshare-net --unshare-pid --unshare-ipc --die-with-parent"
        return f"{shlex.quote(bubblewrap)} --dev-bind / / --proc /proc {spaces}"
    if unshare and os.geteuid() == 0:
        return f"{shlex.quote(unshare)} --net"
    raise ConfigurationError(
        "no program to start a browser without network",
        where="network = 'none'",
        next="run `apt-get install bubblewrap`, or use network = 'proxy-lock'",
    )
