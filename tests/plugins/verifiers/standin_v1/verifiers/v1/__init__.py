"""A stand-in for `verifiers.v1`: the shape that the plugin relies on, and no more.

A task is asked once, then once more for every call that the answer makes; a real harness does the
same in a program of its own. `shape_v1.json` holds the real package's shape.
"""

import contextlib
import importlib
from types import SimpleNamespace

import httpx
from pydantic import BaseModel, ConfigDict


class AgentConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")
    harness: dict | None = None
    runtime: dict | None = None
    model: str | None = None


class EvalClientConfig(BaseModel):
    base_url: str
    api_key_var: str = ""


class EnvConfig(BaseModel):
    model_config = ConfigDict(extra="forbid")
    taskset: dict
    id: str = ""
    agent: AgentConfig = AgentConfig()


class TwoSeats(EnvConfig):
    other: AgentConfig = AgentConfig()


class Task:
    def __init__(self, data):
        self.data = data


class Taskset:
    bounded = True

    def take(self, number):
        return [task for task, _ in zip(self, range(number), strict=False)]


class Env:
    def __init__(self, config):
        self.config = config
        module = importlib.import_module(config.taskset["id"].replace("-", "_"))
        self.taskset = getattr(module, module.__all__[0])()
        self.served = False

    @contextlib.asynccontextmanager
    async def serving(self):
        self.served = True
        yield
        self.served = False

    async def run_episode(self, task, ctx, *, on_trace=None, on_discard=None):
        assert self.served
        trace = SimpleNamespace(
            agent=SimpleNamespace(name="agent"),
            rewards={},
            metrics={},
            reward=0.0,
            stop_condition="agent_completed",
            is_truncated=False,
            last_error=None,
        )
        episode = SimpleNamespace(traces=[trace], last_error=None)
        try:
            await task.run(trace, lambda messages, tools: chat(ctx, messages, tools))
        except Exception as error:
            trace.last_error = SimpleNamespace(type="TaskError", message=str(error))
        trace.reward = sum(r.value for r in trace.rewards.values())
        return episode


async def chat(ctx, messages, tools):
    asked = {"model": ctx.model, "messages": messages, "tools": tools}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        reply = await client.post(f"{ctx.client.base_url}/chat/completions", json=asked)
    reply.raise_for_status()
    return reply.json()["choices"][0]["message"]


def resolve_env_config(data):
    return (TwoSeats if data.get("id") == "two-seats" else EnvConfig).model_validate(data)


def load_environment(config):
    return Env(config)


def default_harness_id(taskset_id):
    return "bash"
