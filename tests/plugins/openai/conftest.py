"""A real HTTP server that speaks chat completions and does what a test says; a scripted teacher."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import socket
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from mintact_env_micro.scene import SIZE, Layout
from mintact_env_micro.tasks import DOMAINS
from PIL import Image

from mintact_platform.actions.space import ParseError
from mintact_platform.actions.tools import ToolUse
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse
from mintact_platform.records.task import SPLITS

KEY = "sk-very-secret-0123456789"
SPACES = {"mobile": MobileUse, "desktop": ComputerUse, "web": BrowserUse, "tools": ToolUse}


def completion(text="", *, finish="stop", usage=None, logprobs=None, **message):
    choice = {"index": 0, "finish_reason": finish,
              "message": {"role": "assistant", "content": text, **message}}  # fmt: skip
    if logprobs is not None:
        choice["logprobs"] = {"content": [{"token": t, "logprob": p} for t, p in logprobs]}
    counts = {"prompt_tokens": 100, "completion_tokens": 10}
    return {"id": "c", "object": "chat.completion", "model": "teacher-1",
            "choices": [choice], "usage": counts if usage is None else usage}  # fmt: skip


@dataclass
class Endpoint:
    """Answers with what it was told, in order; the last goes on for ever.

    An answer is a dict, a `Response`, or a callable from the request's body to either.
    """

    url: str = ""
    requests: list = field(default_factory=list)
    headers: list = field(default_factory=list)
    answers: list = field(default_factory=lambda: [completion("hello")])
    models: Response | None = None
    asked: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    def does(self, *answers):
        self.answers = list(answers)

    def says(self, *texts, **more):
        self.does(*(completion(text, **more) for text in texts))

    async def list_models(self):
        return self.models or JSONResponse({"data": [{"id": "teacher-1"}]})

    async def complete(self, request: Request):
        body = json.loads(await request.body())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "hang":
            self.asked.set()
            while (await request.receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return Response()
        if callable(answer) and not isinstance(answer, Response):
            answer = answer(body)
        return JSONResponse(answer) if isinstance(answer, dict) else answer


def refuses(status, message="no", *, code=None, **headers):
    error = {"error": {"message": message, "code": code}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse(error, status, headers=named)


@pytest.fixture(scope="session")
def served():
    """The address of a server, and its endpoints: what is late for one does not reach the next."""
    made = []
    app = FastAPI()

    @app.get("/{number}/v1/models")
    async def models(number: int):
        return await made[number].list_models()

    @app.post("/{number}/v1/chat/completions")
    async def complete(number: int, request: Request):
        return await made[number].complete(request)

    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", lifespan="off"))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", made
    server.should_exit = server.force_exit = True
    thread.join()
    listening.close()


@pytest.fixture
def endpoint(served):
    url, made = served
    made.append(Endpoint(f"{url}/{len(made)}/v1"))
    return made[-1]


@pytest.fixture
def say():
    """`say.completion(…)` and `say.refuses(…)` make answers."""

    class Say:
        pass

    Say.completion, Say.refuses, Say.key = staticmethod(completion), staticmethod(refuses), KEY
    return Say


class Teacher:
    """Solves micro tasks from what it is sent alone: goal, screenshots, its own former calls.

    The task is found by its goal and its first screenshot, so pictures must arrive as they are.

    Args:
        domains: whose tasks it knows.
        split: of the tasks.
        count: how many of them it knows.
        native: whether it calls tools natively.
    """

    def __init__(self, *domains, split="test", count=40, native=False):
        self.native, self.seen = native, []
        self.spaces = {name: SPACES[name]() for name in domains}
        base = SPLITS.index(split) * 1_000_000
        layout = Layout(4, 6, 3)
        self.starts = [
            DOMAINS[name].start(base + index, layout) for name in domains for index in range(count)
        ]

    def __call__(self, body):
        state, space = self.find(body["messages"])
        for message in body["messages"]:
            if message["role"] == "assistant":
                state = self.after(state, space, message)
        decision = state.decisions()[0]
        call = space.to_grid(decision.call, SIZE, SIZE)
        usage = {"prompt_tokens": 1000, "completion_tokens": 20,
                 "prompt_tokens_details": {"cached_tokens": 400}}  # fmt: skip
        if not self.native:
            return completion(space.render(decision.thought, call), usage=usage)
        function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
        made = [{"id": f"call-{len(self.seen)}", "type": "function", "function": function}]
        return completion(decision.thought, finish="tool_calls", tool_calls=made, usage=usage)

    def find(self, messages):
        parts = next(m for m in messages if m["role"] == "user")["content"]
        shown = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        said = "".join(part["text"] for part in parts if part["type"] == "text")
        head, _, data = shown[0].partition(",")
        assert re.fullmatch(r"data:image/(png|jpeg);base64", head)
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            pixels = np.asarray(image.convert("RGB"))
        goal = said.split("\n")[0]
        found = [s for s in self.starts if s.goal == goal and np.array_equal(s.render(), pixels)]
        assert found, f"no task shows this and asks for {goal!r}"
        self.seen.append(goal)
        return found[0], self.spaces[found[0].domain]

    def after(self, state, space, message):
        if message.get("tool_calls"):
            (call,) = message["tool_calls"]
            function = call["function"]
            body = {"name": function["name"], "arguments": json.loads(function["arguments"])}
            text = f"<tool_call>{json.dumps(body)}</tool_call>"
        else:
            text = message["content"]
        tools = [state.schema] if state.domain == "tools" and state.found else []
        calls = space.parse(text, tools)
        assert not isinstance(calls, ParseError), calls
        for call in calls:
            done = space.to_pixels(call, SIZE, SIZE)
            state = state.apply(done.name, done.arguments)
        return state


@pytest.fixture
def teacher():
    return Teacher
