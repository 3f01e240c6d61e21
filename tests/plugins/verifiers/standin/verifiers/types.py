"""Messages and responses of the stand-in."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")

    def __getitem__(self, key):
        return getattr(self, key)

    def get(self, key, default=None):
        return getattr(self, key, default)


class Said(Model):
    role: str
    content: Any = None


class ToolCall(Model):
    id: str
    name: str
    arguments: str


class AssistantMessage(Model):
    role: str = "assistant"
    content: Any = None
    tool_calls: list[ToolCall] | None = None


class ToolMessage(Model):
    role: str = "tool"
    tool_call_id: str
    content: Any


class Tool(Model):
    name: str
    description: str
    parameters: dict[str, object]


class ResponseMessage(AssistantMessage):
    finish_reason: str | None
    is_truncated: bool | None
    tokens: Any = None


class Response(Model):
    id: str
    created: int
    model: str
    usage: Any = None
    message: ResponseMessage


def message_of(message):
    return Said(**message) if isinstance(message, dict) else message
