"""Servers of others as children: ready when they answer, gone when their parent is."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from mintact_plugin_sglang import launch as launching
from mintact_plugin_sglang.launch import launch

from mintact_platform.errors import MintactError
from mintact_platform.trees import marked

MARK = f"sglang-guard-{os.getpid()}"
STRAY = f"stray-{os.getpid()}"
"""Last word of the command line of what these tests leave behind, and no others."""

# a server whose helper leaves its tree and forgets its mark, as pickled memory's manager does
SERVER = """
import http.server, os, sys
if os.fork() == 0:
    os.setsid()
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "STRAY"], {})
class Answer(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
""".replace("STRAY", STRAY)


def strays() -> int:
    found = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            found += words[-2:-1] == [STRAY.encode()]
    return found


def server(ports):
    return [sys.executable, "-c", SERVER, str(ports[0])]


async def test_stopping_ends_the_server_and_what_it_left_behind(tmp_path, until):
    child = await launch(server, ports=1, probe="/", log=tmp_path / "log", mark=MARK, deadline=60)
    await until(lambda: strays() == 1)
    await child.stop()
    assert marked(MARK) == []
    assert strays() == 0


async def test_a_killed_server_ends_its_guard(tmp_path, until):
    child = await launch(server, ports=1, probe="/", log=tmp_path / "log", mark=MARK, deadline=60)
    await until(lambda: strays() == 1)
    served = [pid for pid in marked(MARK) if pid != child.process.pid]
    left = Path(f"/dev/shm/sgl_shm_mm_{served[0]}_0123abcd")
    left.touch()
    os.kill(served[0], signal.SIGKILL)
    await until(lambda: not child.alive())
    assert not left.exists()
    assert child.process.returncode == 128 + signal.SIGKILL
    await until(lambda: strays() == 0)
    await child.stop()


async def test_a_killed_parent_leaves_nothing(tmp_path, until):
    script = f"""
        import asyncio, sys
        from pathlib import Path
        from mintact_plugin_sglang.launch import launch
        async def main():
            await launch(lambda ports: [sys.executable, "-c", {SERVER!r}, str(ports[0])], ports=1,
                         probe="/", log=Path({str(tmp_path / "log")!r}), mark={MARK!r}, deadline=60)
            print("ready", flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE
    )
    assert await asyncio.to_thread(parent.stdout.readline) == b"ready\n"
    assert len(marked(MARK)) >= 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await until(lambda: marked(MARK) == [] and strays() == 0)


async def test_what_ends_before_it_answers_is_told_with_its_last_words(tmp_path):
    words = [sys.executable, "-c", "print('no such option'); raise SystemExit(3)"]
    with pytest.raises(MintactError, match="no such option"):
        await launch(
            lambda ports: words, ports=1, probe="/", log=tmp_path / "log", mark=MARK, deadline=60
        )
    assert marked(MARK) == []


async def test_a_port_that_is_taken_meanwhile_is_not_the_end(tmp_path, monkeypatch):
    taken, kept = socket.create_server(("127.0.0.1", 0)), socket.socket()
    # bound and deaf: the server may listen there, and nobody else gets the port meanwhile
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    first, second = ([one.getsockname()[1]] for one in (taken, kept))
    left = [second, first]
    monkeypatch.setattr(launching, "free_ports", lambda count: left.pop())
    simple = SERVER.replace("os.fork() == 0", "False")
    child = await launch(
        lambda ports: [sys.executable, "-c", simple, str(ports[0])],
        ports=1,
        probe="/",
        log=tmp_path / "log",
        mark=MARK,
        deadline=60,
    )
    assert child.ready["url"].endswith(f":{second[0]}")
    await child.stop()
    taken.close()
    kept.close()
