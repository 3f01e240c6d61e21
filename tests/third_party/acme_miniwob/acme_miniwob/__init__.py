"""MiniWoB++ for any run: `environment = "acme/miniwob"`, `tasks = "acme/miniwob:train"`."""

from mintact_platform import hookimpl


@hookimpl
def register_environments():
    return {"acme/miniwob": "acme_miniwob.environment:MiniWob"}


@hookimpl
def register_task_sets():
    return {"acme/miniwob": "acme_miniwob.tasks:tasks"}
