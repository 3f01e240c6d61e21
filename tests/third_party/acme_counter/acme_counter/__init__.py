"""One phone that counts, for any run: `environment = "acme/counter"`."""

from mintact_platform import hookimpl


@hookimpl
def register_environments():
    return {"acme/counter": "acme_counter.env:Counter"}


@hookimpl
def register_task_sets():
    return {"acme/counter": "acme_counter.tasks:tasks"}
