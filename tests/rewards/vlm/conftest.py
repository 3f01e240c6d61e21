"""A real HTTP endpoint that answers as a test says, and rollouts to judge."""

from __future__ import annotations

import asyncio
import io
import json
import re
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image, ImageDraw

from mintact_platform.judging.judge import JudgeView
from mintact_platform.judging.rate import RateLimit
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Segment, Trajectory, Turn
from mintact_platform.records.verdict import StateCheck

KEY = "sk-very-secret-0123456789"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        endpoint = self.server.endpoint
        endpoint.requests.append(json.loads(body))
        endpoint.keys.append(self.headers.get("authorization"))
        answers = endpoint.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def log_message(self, *_):
        pass

    def send(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"content_type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, *_):
        """A client that leaves is no matter."""


class Endpoint:
    """An OpenAI-compatible endpoint; the last of `answers` is given again and again."""

    def __init__(self):
        self.requests, self.keys, self.answers = [], [], []
        self.release = threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.endpoint = self
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def does(self, *answers):
        self.answers = list(answers)

    def says(self, *texts, **more):
        """Complete with these texts; NONCE in one is the nonce of the call."""
        self.does(*(self.completing(text, **more) for text in texts))

    def completing(self, text, *, finish="stop", **message):
        def answer(handler):
            told = text.replace("NONCE", self.nonce()) if isinstance(text, str) else text
            choice = {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": told, **message},
            }
            usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
            body = {"object": "chat.completion", "choices": [choice], "usage": usage}
            handler.send(200, json.dumps(body).encode())

        return answer

    def sending(self, status, body=b"", **headers):
        return lambda handler: handler.send(status, body, **headers)

    def hanging(self, *, after_headers):
        def answer(handler):
            if after_headers:
                handler.send_response(200)
                handler.send_header("content-type", "application/json")
                handler.send_header("content-length", "100")
                handler.end_headers()
                handler.wfile.write(b"{")
                handler.wfile.flush()
            self.release.wait(20)

        return answer

    def streaming(self):
        def answer(handler):
            handler.send_response(200)
            handler.send_header("content-type", "text/event-stream; charset=utf-8")
            handler.end_headers()
            with suppress(OSError):
                while not self.release.wait(0.01):
                    handler.wfile.write(b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n')
            handler.close_connection = True

        return answer

    def breaking(self, sent=b'{"choices": [', promised=1000):
        def answer(handler):
            if promised:
                handler.send_response(200)
                handler.send_header("content-type", "application/json")
                handler.send_header("content-length", str(promised))
                handler.end_headers()
                handler.wfile.write(sent)
            handler.close_connection = True

        return answer

    def endless(self):
        def answer(handler):
            handler.send_response(200)
            handler.send_header("content-type", "application/json")
            handler.send_header("connection", "close")
            handler.end_headers()
            with suppress(OSError):
                while not self.release.is_set():
                    handler.wfile.write(b" " * 65536)
            handler.close_connection = True

        return answer

    @property
    def system(self):
        return self.requests[-1]["messages"][0]["content"]

    def nonce(self):
        return re.search(r'"nonce": "([0-9a-f]{32})"', self.system)[1]

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)


@pytest.fixture
def endpoint():
    served = Endpoint()
    yield served
    served.close()


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", KEY)
    return KEY


class VirtualClock:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.now, self.slept = 1000.0, []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def ask(clock):
    """`await ask(judge, view)`: through the runner, as a run does, on virtual time."""

    async def asked(judge, view, **options):
        options = {"deadline": 60.0, "retries": 0, "backoff": 0.0, **options}
        rate = RateLimit(clock=clock, sleep=clock.sleep)
        running = JudgeRunner(judge, name="vlm", rate=rate, sleep=clock.sleep, **options)
        async with running:
            return await running.judge(view.task, view)

    return asked


def png(text="", color="white"):
    """A screenshot that shows a text."""
    image = Image.new("RGB", (320, 200), color)
    ImageDraw.Draw(image).multiline_text((4, 4), text, fill="black")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="session")
def screenshot():
    return png


@pytest.fixture(scope="session")
def make_view():
    """`make_view(turns, goal=…, images={digest: bytes}, …)`."""

    def make(turns, *, goal="buy a red cap", domain="web", images=None, **more):
        stored = images or {}
        mask = np.array([True])
        segment = Segment(
            np.zeros(1, np.int32), mask, np.zeros(1, np.float32), np.zeros(1, np.int32)
        )
        trajectory = Trajectory(
            **{
                "id": "01J",
                "group": "",
                "member": 0,
                "attempt": 0,
                "task": Task("t", goal, domain, params=more.pop("params", {})),
                "outcome": Outcome.COMPLETED,
                "turns": tuple(turns),
                "segments": (segment,),
                **more,
            }
        )
        return JudgeView(trajectory, lambda digest, extension: stored[digest])

    return make


@pytest.fixture
def view(make_view):
    turns = [
        Turn(0, "the shop", ("a",), "I click.", calls=({"name": "click", "arguments": {"x": 1}},)),
        Turn(1, "the cart", ("b",), "Done: the cap is bought."),
    ]
    images = {"a": png("shop"), "b": png("cart", "pink")}
    return make_view(turns, images=images, state_check=StateCheck(True, 1.0, {"cart": ["cap"]}))
