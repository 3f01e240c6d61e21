"""The server's OpenAPI document: what each route takes, answers and refuses.

The routes read their bodies themselves, because they come as JSON or msgpack and each mistake is
answered in the server's own words; so FastAPI sees paths only, and the rest is added here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.messages import (
    CreateRequest,
    EvaluateRequest,
    HeartbeatRequest,
    ResetRequest,
    StepRequest,
)

_SCHEMA = "#/components/schemas/{model}"
_REQUESTS = (CreateRequest, ResetRequest, StepRequest, EvaluateRequest, HeartbeatRequest)
_MEANINGS = {
    400: "the request is wrong",
    401: "no bearer token",
    403: "sent by a web page",
    409: "a wrong step number, an episode that is not the current one, or another call still runs",
    410: "the lease is gone, its worker died, its key was cancelled or the token is not its own",
    413: "too large a body",
    415: "neither JSON nor msgpack",
    426: "another version of the protocol",
    500: "the environment raised, `kind` is its exception's type, or returned garbage: `invalid`",
    503: "full, or the environment is quarantined; `Retry-After` says when to come back",
    504: "the deadline passed; the instance was killed",
}
_BORDER = (400, 401, 403, 413, 426)


class _Route(NamedTuple):
    """What a route needs beside its path.

    Attributes:
        reply: schema of the answer, {} for none.
        request: model of the body, None for no body.
        errors: statuses of its refusals, beside those of every route.
        leased: needs the lease's token.
        links: what can be done with the answer.
        answers: statuses with that answer, and what they mean.
    """

    reply: Mapping[str, Any]
    request: type[BaseModel] | None = None
    errors: tuple[int, ...] = ()
    leased: bool = False
    links: Mapping[str, Any] | None = None
    answers: Mapping[str, str] = {"200": "done"}  # a NamedTuple's default


def install(app: FastAPI) -> None:
    """Let the app answer `/openapi.json` with the whole document."""

    def openapi() -> dict[str, Any]:
        app.openapi_schema = app.openapi_schema or document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # how FastAPI wants it extended


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the app's routes."""
    whole = get_openapi(
        title=app.title,
        version=str(wire.PROTOCOL),
        description=__doc__.split("\n")[0] if __doc__ else "",
        routes=app.routes,
    )
    for path, operations in whole["paths"].items():
        for method, operation in operations.items():
            _complete(operation, _ROUTES[method, path])
    _, models = models_json_schema([(m, "validation") for m in _REQUESTS], ref_template=_SCHEMA)
    whole["components"] = {
        "schemas": {**models["$defs"], **_REPLIES},
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    # a server without a token lets everyone in
    whole["security"] = [{}, {"bearer": []}]
    return whole


def _complete(operation: dict[str, Any], route: _Route) -> None:
    parameters = operation.setdefault("parameters", [])
    parameters.append(_header("Mintact-Protocol", {"const": str(wire.PROTOCOL)}, required=False))
    if route.leased:
        token = {"type": "string", "description": "fencing token, from the lease's creation"}
        parameters.append(_header("Mintact-Lease-Token", token, required=True))
    errors = {*_BORDER, *route.errors}
    if route.request is not None:
        errors.add(415)
        schema = {"$ref": _SCHEMA.format(model=route.request.__name__)}
        operation["requestBody"] = {"required": True, "content": _both(schema)}
    operation["responses"] = {
        **{status: _success(route, status) for status in route.answers},
        **{str(status): _refusal(status) for status in sorted(errors)},
    }


def _success(route: _Route, status: str) -> dict[str, Any]:
    success: dict[str, Any] = {"description": route.answers[status], "headers": _VERSION}
    if route.reply is _TEXT:
        success["content"] = {"text/plain": {"schema": _TEXT}}
    elif route.reply:
        success["content"] = _both(route.reply)
    return {**success, "links": route.links} if route.links else success


def _refusal(status: int) -> dict[str, Any]:
    headers = dict(_VERSION)
    if status == 503:
        headers["Retry-After"] = {"schema": {"type": "integer", "minimum": 1}}
    schema = {"$ref": _SCHEMA.format(model="Error")}
    return {"description": _MEANINGS[status], "headers": headers, "content": _both(schema)}


def _header(name: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": required, "schema": schema}


def _both(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {media: {"schema": schema} for media in (wire.JSON, wire.MSGPACK)}


def _object(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    properties = {**required, **optional}
    return {"type": "object", "required": [*required], "properties": properties}


def _link(operation: str) -> dict[str, Any]:
    lease, token = "$response.body#/lease", "$response.body#/token"
    parameters = {"lease": lease, "header.Mintact-Lease-Token": token}
    return {"operationId": operation, "parameters": parameters}


_BOOL, _NUMBER, _STRING, _ANY = ({"type": t} for t in ("boolean", "number", "string", "object"))
_NAME = {"type": ["string", "null"]}
_TEXT = {"type": "string", "description": "Prometheus' text format"}
_VERSION = {"Mintact-Protocol": {"required": True, "schema": {"const": str(wire.PROTOCOL)}}}
_OBSERVATION = {"$ref": _SCHEMA.format(model="Observation")}
_IMAGE = _object(
    {
        "data": {"type": "string", "contentEncoding": "base64", "description": "msgpack: bytes"},
        "format": {"enum": ["png", "jpeg"]},
        "width": {"type": "integer", "minimum": 1},
        "height": {"type": "integer", "minimum": 1},
    }
)
_REPLIES: dict[str, Any] = {
    "Error": _object(
        {
            "error": _object(
                {
                    "kind": _STRING,
                    "phase": {"enum": ["create", "reset", "step", "evaluate", "close"]},
                    "message": {"type": "string", "maxLength": wire.MAX_ERROR},
                    "retryable": _BOOL,
                    "log_tail": _STRING,
                },
                retry_after_s=_NUMBER,
            )
        }
    ),
    "Lease": _object(
        {
            "lease": _STRING,
            "token": _STRING,
            "instance": _STRING,
            "expires_at": {"type": "number", "description": "seconds since 1970"},
        },
        domain=_NAME,
        action_space=_NAME,
        action_space_schema={"type": ["object", "null"]},
        native={"type": ["object", "null"]},
    ),
    "Observation": _object(
        {
            "text": _STRING,
            "images": {"type": "array", "items": _IMAGE},
            "tools": {"type": ["array", "null"], "items": _ANY},
            "reward": _NUMBER,
            "terminated": _BOOL,
            "truncated": _BOOL,
            "info": _ANY,
        }
    ),
    "StateCheck": _object(
        {
            "check": {
                "type": ["object", "null"],
                "required": ["success", "score", "details"],
                "properties": {"success": _BOOL, "score": _NUMBER, "details": _ANY},
            }
        }
    ),
}
_LEASE = "/v1/leases/{lease}"
_CALL = (409, 410, 500, 504)
_ROUTES: dict[tuple[str, str], _Route] = {
    ("post", "/v1/leases"): _Route(
        {"$ref": _SCHEMA.format(model="Lease")},
        CreateRequest,
        (409, 410, 500, 503, 504),
        links={do: _link(do) for do in ("reset", "step", "evaluate", "release")},
    ),
    ("delete", "/v1/leases"): _Route(_ANY),
    ("post", f"{_LEASE}/reset"): _Route(_OBSERVATION, ResetRequest, _CALL, leased=True),
    ("post", f"{_LEASE}/step"): _Route(_OBSERVATION, StepRequest, _CALL, leased=True),
    ("post", f"{_LEASE}/evaluate"): _Route(
        {"$ref": _SCHEMA.format(model="StateCheck")}, EvaluateRequest, _CALL, leased=True
    ),
    ("delete", _LEASE): _Route(_ANY, errors=(410,), leased=True),
    ("post", "/v1/heartbeat"): _Route(
        _object({"gone": {"type": "array", "items": _STRING}}), HeartbeatRequest
    ),
    ("get", "/v1/environments"): _Route(
        _object({"environments": {"type": "object", "additionalProperties": _ANY}})
    ),
    ("get", "/v1/stream"): _Route({}, answers={"101": "the stream begins"}),
    ("get", "/healthz"): _Route(_object({"status": {"const": "ok"}})),
    ("get", "/readyz"): _Route(
        _object({"ready": _BOOL}), answers={"200": "a lease can be made", "503": "full"}
    ),
    ("get", "/metrics"): _Route(_TEXT),
}
