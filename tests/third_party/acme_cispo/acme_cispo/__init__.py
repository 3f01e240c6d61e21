"""A loss of one's own, for any run: `objective = "acme/cispo"`."""

from mintact_platform import hookimpl


@hookimpl
def register_objectives():
    return {"acme/cispo": "acme_cispo.loss:cispo"}
