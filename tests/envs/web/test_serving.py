"""Live pages through a real environment server and its leases."""

import asyncio
import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PIL import Image

from mintact_platform.config import Deadlines
from mintact_platform.environments.pools.manager import EnvironmentManager, PoolSpec
from mintact_platform.errors import EnvironmentFailure
from mintact_platform.records.task import Task

PAGES = {
    "/": "<!doctype html><body style='margin:0'><button id=b style='width:200px;height:100px' "
    "onclick='this.textContent = (n = n + 1)'>go</button><script>let n = 0</script>",
    "/hang": "<!doctype html><body style='margin:0'><button style='width:200px;height:100px' "
    "onclick='while (true) {}'>hang</button>",
    "/crowd": "<!doctype html><body style='margin:0'><button style='width:200px;height:100px' "
    "onclick='while (true) alert(1)'>ask</button>",
}
CLICK = {"name": "browser_use", "arguments": {"action": "click", "coordinate": [100, 50]}}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = PAGES.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def port():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
async def manager(port, tmp_path):
    spec = PoolSpec("web/live", {"private": [f"127.0.0.1:{port}"]}, instances=3)
    manager = EnvironmentManager(
        {"web": spec}, deadlines=Deadlines(), log_directory=tmp_path, incarnation=1
    )
    await manager.start()
    yield manager
    await manager.close()


def task(port, path="/"):
    return Task(f"t{path}", "click", "web", params={"url": f"http://127.0.0.1:{port}{path}"})


async def begin(lease, number, page):
    return await lease.reset(episode=f"e{number}", task=page, seed=number, deadline=60)


@pytest.mark.browser
async def test_a_page_is_operated_through_a_lease_and_its_picture_passes_unopened(manager, port):
    async with manager.acquire("web") as lease:
        seen = await begin(lease, 0, task(port))
        (image,) = seen.images
        assert (image.format, image.width, image.height) == ("jpeg", 1280, 720)
        assert Image.open(io.BytesIO(image.data)).size == (1280, 720)
        after = await lease.step(step=0, action=CLICK, deadline=30)
        assert after.images[0].data != image.data
        end = {"name": "browser_use", "arguments": {"action": "stop", "response": "1"}}
        assert (await lease.step(step=1, action=end, deadline=30)).terminated
        assert await lease.evaluate(deadline=30) is None


@pytest.mark.browser
@pytest.mark.parametrize(
    ("path", "kind"),
    [pytest.param("/hang", "timeout", marks=pytest.mark.runs), ("/crowd", "crash")],
)
async def test_a_page_that_hangs_fails_its_lease_and_disturbs_no_sibling(manager, port, path, kind):
    async with manager.acquire("web") as bad, manager.acquire("web") as good:
        # one worker and so one browser: its name is the first part of the instance's
        assert bad.instance.rpartition(".")[0] == good.instance.rpartition(".")[0]
        await begin(bad, 0, task(port, path))
        await begin(good, 1, task(port))
        hanging = asyncio.create_task(bad.step(step=0, action=CLICK, deadline=30))
        steps = 0
        while not hanging.done():
            await good.step(step=steps, action=CLICK, deadline=30)
            steps += 1
        with pytest.raises(EnvironmentFailure) as caught:
            await hanging
        assert caught.value.kind == kind
        assert steps >= 1
        await good.step(step=steps, action=CLICK, deadline=30)
    async with manager.acquire("web") as next_one:
        await begin(next_one, 2, task(port))
        await next_one.step(step=0, action=CLICK, deadline=30)
