"""Prints what the plugin relies on of `verifiers.v1`, real or stand-in, as JSON."""

import inspect
import json

import verifiers.v1 as vf
from verifiers.v1.clients import ModelContext


def parameters(function):
    return list(inspect.signature(function).parameters)


agent, client = vf.AgentConfig.model_fields, vf.EvalClientConfig.model_fields
print(
    json.dumps(
        {
            "resolve_env_config": parameters(vf.resolve_env_config),
            "load_environment": parameters(vf.load_environment),
            "default_harness_id": parameters(vf.default_harness_id),
            "run_episode": parameters(vf.Env.run_episode),
            "serving": parameters(vf.Env.serving),
            "bounded": hasattr(vf.Taskset, "bounded"),
            "take": len(parameters(vf.Taskset.take)),
            "context": [name for name in parameters(ModelContext) if name != "sampling"],
            "agent": sorted(set(agent) & {"harness", "runtime", "model"}),
            "client": sorted(set(client) & {"base_url", "api_key_var"}),
        },
        indent=1,
    )
)
