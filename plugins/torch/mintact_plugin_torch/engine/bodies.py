"""Bodies of the control routes, and how any body is read and refused."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, ValidationError

from mintact_plugin_torch.engine.request import BadRequest
from mintact_plugin_torch.engine.scheduler import PauseMode

Body = TypeVar("Body", bound=BaseModel)

_OFF_LOOP_BYTES = 64 * 1024


class _ControlBody(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class PauseBody(_ControlBody):
    """Body of `/pause_generation`."""

    mode: PauseMode = "abort"


class AbortBody(_ControlBody):
    """Body of `/abort_request`."""

    rid: str = ""
    abort_all: bool = False


class DiskBody(_ControlBody):
    """Body of `/update_weights_from_disk`."""

    model_path: str
    weight_version: str | None = None
    abort_all_requests: bool = False


class VersionBody(_ControlBody):
    """Body of `/update_weight_version`; as SGLang has it, it aborts by default."""

    new_version: str
    abort_all_requests: bool = True


async def read(request: Request, kind: type[Body]) -> Body:
    """The checked body of a request; no body counts as an empty object. Raises BadRequest."""
    content = await request.body() or b"{}"
    try:
        if len(content) > _OFF_LOOP_BYTES:
            return await asyncio.to_thread(kind.model_validate_json, content)
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"{place}: {first['msg']}" if place else first["msg"]) from None


def failure(status: int, message: str) -> Response:
    """An error reply in SGLang's shape."""
    return JSONResponse({"error": {"message": message, "code": status}}, status_code=status)
