"""An action space built from its description, for a client that has no plugin of that name.

An environment server sends what `describe()` of a space says: names, actions as JSON schemas with
the word that says how a value is read, the ending call, the grid. The space built from it prompts,
parses and converts as the original does, because it is made of the same parts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Optional

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from mintact_platform.actions.arguments import READERS, Action
from mintact_platform.actions.prompt import Form, action_name
from mintact_platform.actions.space import ActionSpace
from mintact_platform.actions.tools import ToolUse
from mintact_platform.actions.ui import ScreenSpace
from mintact_platform.errors import ConfigurationError, near_match

Description = Mapping[str, Any]

_TYPES: Mapping[str, Any] = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "object": dict[str, Any],
    "array": list[Any],
    "null": None,
}
_ITEMS: Mapping[str, Any] = {"point": list[int], "keys": list[str]}
_LIMITS = {"minimum": "ge", "maximum": "le", "minLength": "min_length", "maxLength": "max_length"}


def described_space(description: Description) -> Callable[..., ActionSpace]:
    """The action space that a description describes, yet to be given its parameters.

    Args:
        description: what `ActionSpace.describe` returned.

    Raises:
        ConfigurationError: it is no description, or one of a newer version.

    Example:
        >>> from mintact_platform.actions.ui import MobileUse
        >>> described_space(MobileUse().describe())(prompt="short").name
        'mobile_use'
    """
    styles: dict[str, Callable[..., Any]] = {"ui": DescribedScreen, "tools": DescribedTools}
    style = description.get("style")
    if style not in styles:
        raise ConfigurationError(
            f"an action space of style {style!r} cannot be built from its description",
            where=f"action space {description.get('name')!r}",
            next="install the plugin that brings it",
        )
    build = functools.partial(styles[style], description)
    try:
        build()
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"no description of an action space: {type(error).__name__}: {error}",
            where=f"action space {description.get('name')!r}",
        ) from None
    return build


class DescribedScreen(ScreenSpace):
    """A space of screens and one function.

    Args:
        description: what `ScreenSpace.describe` returned. Without `actions` they are read from
            the function's own schema, where every action may take every argument.
        prompt: as for the original; None takes the description's.
        grid: far edge of the coordinate grid; None takes the description's.
        actions: offer only these actions.
    """

    def __init__(
        self,
        description: Description,
        *,
        prompt: Form | None = None,
        grid: int | None = None,
        actions: tuple[str, ...] | None = None,
    ) -> None:
        (function,) = description["functions"]
        offered = tuple(map(action_model, description.get("actions") or _actions_of(function)))
        names = [action_name(action) for action in offered]
        # what a class of ours states once for all its instances is this instance's alone
        vars(self).update(
            name=str(description["name"]),
            domain=str(description["domain"]),
            title=str(description.get("title", description["name"])),
            description=str(description.get("description", function.get("description", ""))),
            all_actions=offered,
            main_actions=tuple(description.get("main", names)),
            ending=str((description.get("ends") or [""])[0]),
            aliases=dict(description.get("aliases", {})),
        )
        super().__init__(
            prompt=prompt or description.get("prompt", "full"),
            grid=int(description.get("grid", 999)) if grid is None else grid,
            actions=actions,
        )


class DescribedTools(ToolUse):
    """A space of callable tools.

    Args:
        description: what `ToolUse.describe` returned.
        prompt: as for the original; None takes the description's, as below.
        grid: kept for symmetry.
        search: False leaves `search_tool` out.
        plain_text: what a response without a call is.
        unlisted: what a tool that is not listed is.
    """

    def __init__(
        self,
        description: Description,
        *,
        prompt: Form | None = None,
        grid: int = 999,
        search: bool = True,
        plain_text: Literal["refuse", "answer"] | None = None,
        unlisted: Literal["refuse", "call"] | None = None,
    ) -> None:
        vars(self).update(
            name=str(description["name"]),
            domain=str(description["domain"]),
            ending=str((description.get("ends") or [""])[0]),
        )
        super().__init__(
            prompt=prompt or description.get("prompt", "full"),
            grid=grid,
            plain_text=plain_text or description.get("plain_text", "refuse"),
            unlisted=unlisted or description.get("unlisted", "refuse"),
        )
        self._own = {
            str(function["name"]): {"type": "function", "function": dict(function)}
            for function in description["functions"]
            if search or function["name"] != "search_tool"
        }


def action_model(schema: Mapping[str, Any]) -> type[Action]:
    """The pydantic model of an action that `prompt.action_schema` wrote.

    Raises:
        ConfigurationError: a value is read in a way that is not known here.
    """
    name, required = str(schema["name"]), set(schema.get("required", ()))
    fields: dict[str, Any] = {"action": (Literal[name], ... if "action" in required else name)}
    for field, value in schema["properties"].items():
        if field != "action":
            fields[field] = (_type_of(value), ... if field in required else value.get("default"))
    model: type[Action] = create_model(
        name, __base__=Action, __doc__=str(schema["description"]), **fields
    )
    return model


def _type_of(schema: Mapping[str, Any]) -> Any:
    """The annotation whose JSON schema this is, reading and checking included."""
    options = schema.get("anyOf")
    if options:
        (option,) = (option for option in options if option.get("type") != "null")
        return Optional[_type_of(option)]  # noqa: UP045 - `|` does not take Annotated values
    kept = {key: value for key, value in schema.items() if key != "default"}
    limits = {_LIMITS[key]: value for key, value in kept.items() if key in _LIMITS}
    parts: list[Any] = [Field(**limits), WithJsonSchema(kept)]
    reads = schema.get("reads")
    if reads is not None:
        if reads not in READERS:
            raise ConfigurationError(
                f"an argument is read as {reads!r}, which is not known here",
                where="action space",
                next=f"{near_match(str(reads), READERS)} or upgrade mintact-platform",
            )
        parts.insert(0, BeforeValidator(READERS[reads]))
    return Annotated[(_base(schema, reads), *parts)]


def _base(schema: Mapping[str, Any], reads: str | None) -> Any:
    if "const" in schema:
        return Literal[schema["const"]]
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    return _ITEMS.get(reads or "") or _TYPES.get(schema.get("type", ""), Any)


def _actions_of(function: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The actions of a function's merged schema; which needs what, it does not say."""
    properties = dict(function["parameters"]["properties"])
    choice = properties.pop("action")
    shared = {
        name: {"anyOf": [{"reads": "point", **value}, {"type": "null"}]}
        if name in ("coordinate", "coordinate2")
        else {"anyOf": [value, {"type": "null"}]}
        for name, value in properties.items()
    }
    return [
        {
            "name": name,
            "description": str(choice.get("description", name)),
            "properties": {"action": {"const": name}, **shared},
            "required": ["action"],
        }
        for name in choice["enum"]
    ]
