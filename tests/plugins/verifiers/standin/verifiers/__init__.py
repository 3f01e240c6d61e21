"""A stand-in for the package `verifiers`: the shape that the plugin relies on, and no more.

`shape.json` holds the real package's; a test compares this one with it on every run, and the marked
test compares the real one.
"""

import asyncio
import importlib
import inspect
import json
import logging

from verifiers.types import (
    AssistantMessage,
    Tool,
    ToolMessage,
    message_of,
)

LOG = logging.getLogger("verifiers")


class Error(Exception):
    pass


class ModelError(Error):
    pass


class InfraError(Error):
    pass


class ToolError(Error):
    pass


class ToolCallError(ToolError):
    pass


def stop(function):
    function.is_stop = True
    return function


async def settle(value):
    return await value if inspect.isawaitable(value) else value


def chosen(function, known):
    names = inspect.signature(function).parameters
    return function(**{name: value for name, value in known.items() if name in names})


class Rubric:
    def __init__(self, funcs=None, weights=None):
        self.funcs = list(funcs or [])
        self.weights = list(weights or [1.0] * len(self.funcs))
        self.cleaned = 0

    def add_metric(self, func, weight=0.0):
        self.funcs.append(func)
        self.weights.append(weight)

    @property
    def has_group_rewards(self):
        return any("states" in inspect.signature(f).parameters for f in self.funcs)

    async def score_rollout(self, state):
        known = {**state["input"], **state, "state": state}
        numbers = {}
        for function in self.funcs:
            try:
                numbers[function.__name__] = float(await settle(chosen(function, known)))
            except Exception as error:
                LOG.error("reward function %s: %s", function.__name__, error)
                numbers[function.__name__] = 0.0
        state["metrics"] = numbers
        state["reward"] = sum(
            numbers[f.__name__] * w for f, w in zip(self.funcs, self.weights, strict=True)
        )

    async def cleanup(self, state):
        self.cleaned += 1


class RubricGroup(Rubric):
    def __init__(self, rubrics):
        super().__init__()
        self.rubrics = rubrics

    @property
    def has_group_rewards(self):
        return any(rubric.has_group_rewards for rubric in self.rubrics)

    async def score_rollout(self, state):
        reward, metrics = 0.0, {}
        for rubric in self.rubrics:
            await rubric.score_rollout(state)
            reward += state["reward"]
            metrics |= state["metrics"]
        state["reward"], state["metrics"] = reward, metrics


class Environment:
    def __init__(
        self,
        dataset=None,
        eval_dataset=None,
        system_prompt=None,
        rubric=None,
        tool_defs=None,
        score_rollouts=True,
        pass_threshold=0.5,
    ):
        self.dataset_source = (lambda: dataset) if dataset is not None else None
        self.eval_dataset_source = (lambda: eval_dataset) if eval_dataset is not None else None
        self.dataset, self.eval_dataset = dataset, eval_dataset
        for rows in filter(None, (dataset, eval_dataset)):
            for row in rows.rows:
                system = [{"role": "system", "content": system_prompt}] if system_prompt else []
                asked = {"role": "user", "content": row.get("question")}
                row.setdefault("prompt", [*system, asked])
        self.rubric = RubricGroup([rubric or Rubric(), Rubric()])
        self.tool_defs = tool_defs
        self.score_rollouts, self.pass_threshold = score_rollouts, pass_threshold
        # as the real one does, which a worker must not keep
        import signal

        signal.signal(signal.SIGTERM, lambda *_: exit(143))

    @property
    def requires_group_rollouts(self):
        return self.rubric.has_group_rewards

    def get_dataset(self, n=-1, seed=None):
        return self.dataset

    def get_eval_dataset(self, n=-1, seed=None):
        return self.eval_dataset if self.eval_dataset is not None else self.dataset

    async def _teardown(self):
        pass


class MultiTurnEnv(Environment):
    def __init__(self, max_turns=-1, timeout_seconds=None, **kwargs):
        super().__init__(**kwargs)
        self.max_turns, self.timeout_seconds = max_turns, timeout_seconds
        self.rubric.rubrics[1].add_metric(self.num_turns)

    async def num_turns(self, state):
        return len(state["trajectory"])

    async def env_response(self, messages, state, **kwargs):
        raise NotImplementedError

    async def setup_state(self, state):
        return state

    async def has_error(self, state):
        return state["error"] is not None

    async def is_completed(self, state):
        if await self.has_error(state):
            condition = "has_error"
        elif 0 < self.max_turns <= len(state["trajectory"]):
            condition = "max_turns_reached"
        elif state["final_env_response"] is not None:
            condition = "has_final_env_response"
        else:
            condition = None
            for name, method in inspect.getmembers(self, callable):
                if getattr(method, "is_stop", False) and await method(state):
                    condition = name
        state["stop_condition"] = condition
        return condition is not None

    async def get_prompt_messages(self, state):
        if not state["trajectory"]:
            return state["prompt"]
        last = state["trajectory"][-1]
        so_far = [*last["prompt"], *last["completion"]]
        answered = await self.env_response(so_far, state)
        return [*so_far, *map(message_of, answered)]

    async def rollout(self, input, client, model, sampling_args=None):
        info = input.get("info")
        state = {
            "input": input,
            **input,
            "info": json.loads(info) if isinstance(info, str) else info or {},
            "prompt": [message_of(message) for message in input["prompt"]],
            "client": client,
            "trajectory": [],
            "completion": None,
            "error": None,
            "final_env_response": None,
            "reward": None,
            "metrics": None,
        }
        try:
            async with asyncio.timeout(self.timeout_seconds):
                await self._loop(state, client, model)
        except TimeoutError:
            state["stop_condition"] = "timeout_reached"
        finally:
            steps = state["trajectory"]
            whole = [*steps[-1]["prompt"], *steps[-1]["completion"]] if steps else []
            whole += map(message_of, state["final_env_response"] or ())
            state["completion"] = whole[len(state["prompt"]) :]
        return state

    async def _loop(self, state, client, model):
        try:
            await self.setup_state(state)
        except Error as error:
            state["error"] = error
        while not await self.is_completed(state):
            try:
                prompt = await self.get_prompt_messages(state)
                if state["final_env_response"] is not None:
                    continue
                response = await client.get_response(
                    prompt=prompt,
                    model=model,
                    tools=self.tool_defs or None,
                    sampling_args={},
                    state=state,
                )
            except Error as error:
                state["error"] = error
                continue
            said = AssistantMessage(
                content=response.message.content, tool_calls=response.message.tool_calls
            )
            state["trajectory"].append({"prompt": prompt, "completion": [said]})


class SingleTurnEnv(MultiTurnEnv):
    def __init__(self, **kwargs):
        super().__init__(max_turns=1, **kwargs)


class ToolEnv(MultiTurnEnv):
    def __init__(self, tools=None, max_turns=10, stop_errors=None, **kwargs):
        self.tools = {tool.__name__: tool for tool in tools or ()}
        self.stop_errors = tuple(stop_errors or ())
        described = [
            Tool(
                name=name,
                description=tool.__doc__ or "",
                parameters={
                    "type": "object",
                    "properties": {p: {} for p in inspect.signature(tool).parameters},
                },
            )
            for name, tool in self.tools.items()
        ]
        super().__init__(max_turns=max_turns, tool_defs=described, **kwargs)

    @stop
    async def no_tools_called(self, state):
        steps = state["trajectory"]
        return bool(steps) and not steps[-1]["completion"][-1].tool_calls

    async def env_response(self, messages, state, **kwargs):
        replies = []
        for call in messages[-1].tool_calls:
            try:
                given = str(await settle(self.tools[call.name](**json.loads(call.arguments))))
            except self.stop_errors as error:
                raise ToolCallError from error
            except Exception as error:
                given = str(error)
            replies.append(ToolMessage(content=given, tool_call_id=call.id))
        return replies


def load_environment(env_id, **env_args):
    module = importlib.import_module(env_id.replace("-", "_").split("/")[-1])
    try:
        return module.load_environment(**env_args)
    except Exception as error:
        raise RuntimeError(f"Failed to load environment '{env_id}': {error}") from error
