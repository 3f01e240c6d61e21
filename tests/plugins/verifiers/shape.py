"""Prints what the plugin relies on of the package `verifiers`, real or stand-in, as JSON."""

import inspect
import json

import verifiers as vf
from verifiers.clients import Client
from verifiers.types import Response, ResponseMessage, ToolCall


def parameters(function):
    return list(inspect.signature(function).parameters)


def fields(model):
    known = model.model_fields
    return sorted(name for name in known if name not in ("reasoning_content", "thinking_blocks"))


print(
    json.dumps(
        {
            "load_environment": parameters(vf.load_environment),
            "rollout": parameters(vf.MultiTurnEnv.rollout),
            "get_dataset": parameters(vf.Environment.get_dataset),
            "get_eval_dataset": parameters(vf.Environment.get_eval_dataset),
            "requires_group_rollouts": isinstance(vf.Environment.requires_group_rollouts, property),
            "score_rollout": parameters(vf.Rubric.score_rollout),
            "cleanup": parameters(vf.Rubric.cleanup),
            "teardown": parameters(vf.Environment._teardown),
            "get_response": parameters(Client.get_response),
            "abstract": sorted(Client.__abstractmethods__),
            "errors": {
                name: [base.__name__ for base in getattr(vf, name).__mro__[1:-3]]
                for name in ("Error", "ModelError", "InfraError", "ToolError", "ToolCallError")
            },
            "response": fields(Response),
            "message": fields(ResponseMessage),
            "tool_call": fields(ToolCall),
        },
        indent=1,
    )
)
