"""What an agent reads about an ordinary gymnasium environment: its action's schema, its state.

Schemas come from the action space, words from the observation; names of dimensions and actions
where gymnasium documents them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from mintact_platform.environments.protocol.spacevalues import words

Space = gymnasium.Space[Any]
Schema = dict[str, Any]

_MAX_CHOICES = 64
_MAX_NUMBERS = 64
_MAX_TEXT = 4000
_HIGHLIGHT = re.compile(r"\x1b\[[\d;]+m(.*?)\x1b\[0m", re.DOTALL)

_DIMENSIONS: Mapping[str, Sequence[str]] = {
    "CartPole": ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
    "MountainCar": ("position", "velocity"),
    "MountainCarContinuous": ("position", "velocity"),
    "Pendulum": ("cos of angle", "sin of angle", "angular velocity"),
    "Acrobot": (
        "cos of angle 1",
        "sin of angle 1",
        "cos of angle 2",
        "sin of angle 2",
        "angular velocity 1",
        "angular velocity 2",
    ),
    "LunarLander": (
        "x",
        "y",
        "x velocity",
        "y velocity",
        "angle",
        "angular velocity",
        "left leg on ground",
        "right leg on ground",
    ),
    "Blackjack": ("your sum", "dealer's card", "usable ace"),
}
_ACTIONS: Mapping[str, Sequence[str]] = {
    "CartPole": ("push left", "push right"),
    "MountainCar": ("accelerate left", "do nothing", "accelerate right"),
    "Acrobot": ("torque -1", "torque 0", "torque 1"),
    "LunarLander": ("do nothing", "left engine", "main engine", "right engine"),
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
}


def act_tool(id: str, environment: gymnasium.Env[Any, Any]) -> Schema:
    """The schema of the one tool: `act(action)`."""
    action = schema_of(environment.action_space)
    meanings = _meanings(id, environment)
    if meanings and isinstance(environment.action_space, spaces.Discrete):
        first = int(environment.action_space.start)
        action["description"] = ", ".join(f"{first + k}: {m}" for k, m in enumerate(meanings))
    return {
        "type": "function",
        "function": {
            "name": "act",
            "description": f"Take one action in {id}.",
            "parameters": {
                "type": "object",
                "properties": {"action": action},
                "required": ["action"],
            },
        },
    }


def schema_of(space: Space) -> Schema:
    """A JSON schema of the space's members, as `spacevalues` writes them.

    Example:
        >>> schema_of(spaces.Discrete(2))
        {'type': 'integer', 'enum': [0, 1]}
    """
    match space:
        case spaces.Discrete():
            first, count = int(space.start), int(space.n)
            if count <= _MAX_CHOICES:
                return {"type": "integer", "enum": list(range(first, first + count))}
            return {"type": "integer", "minimum": first, "maximum": first + count - 1}
        case spaces.Box():
            return _of_box(space)
        case spaces.MultiDiscrete():
            return _of_array(space.shape, [_choice(s, n) for s, n in _flat_pairs(space)])
        case spaces.MultiBinary():
            return _of_array(space.shape, [{"type": "integer", "enum": [0, 1]}])
        case spaces.Text():
            return _of_text(space)
        case spaces.Tuple():
            return _list_of([schema_of(inner) for inner in space.spaces])
        case spaces.Dict():
            inner = {key: schema_of(value) for key, value in space.spaces.items()}
            return {"type": "object", "properties": inner, "required": list(inner)}
        case spaces.Sequence():
            return {"type": "array", "items": schema_of(space.feature_space)}
        case spaces.OneOf():
            pairs = enumerate(space.spaces)
            return {"anyOf": [_list_of([{"const": k}, schema_of(inner)]) for k, inner in pairs]}
        case spaces.Graph():
            return _of_graph(space)
    return {"description": words(space)}


def state_text(id: str, space: Space, observation: Any) -> str:
    """A few words of an observation: numbers rounded to four digits, long arrays summed up."""
    names = _DIMENSIONS.get(_family(id), ())
    parts = _flat_parts(space, observation)
    if len(names) == len(parts):
        parts = [(name, value) for name, (_, value) in zip(names, parts, strict=True)]
    return _cut(", ".join(f"{name} {value}" if name else value for name, value in parts))


def drawing_text(drawing: str) -> str:
    """A drawing of characters (`render_mode="ansi"`); what is highlighted stands in brackets."""
    return _cut(_HIGHLIGHT.sub(r"[\1]", drawing).strip("\n"))


def _family(id: str) -> str:
    """The environment's bare name: `LunarLander` of `LunarLander-v3`."""
    return id.rpartition("/")[2].rpartition(":")[2].partition("-v")[0]


def _meanings(id: str, environment: gymnasium.Env[Any, Any]) -> Sequence[str]:
    own = getattr(environment.unwrapped, "get_action_meanings", None)
    known: Sequence[str] = own() if callable(own) else _ACTIONS.get(_family(id), ())
    count = getattr(environment.action_space, "n", 0)
    return known if len(known) == count else ()


# ---- schemas ----------------------------------------------------------------------------------


def _of_box(space: spaces.Box[Any]) -> Schema:
    low, high = space.low.ravel(), space.high.ravel()
    below, above = space.bounded_below.ravel(), space.bounded_above.ravel()
    kind = {"f": "number", "b": "boolean"}.get(space.dtype.kind, "integer")
    items: list[Schema] = []
    for index in range(low.size):
        item: Schema = {"type": kind}
        if below[index] and kind != "boolean":
            item["minimum"] = low[index].item()
        if above[index] and kind != "boolean":
            item["maximum"] = high[index].item()
        items.append(item)
    return _of_array(space.shape, items or [{"type": kind}])


def _of_array(shape: tuple[int, ...], items: list[Schema]) -> Schema:
    """Nested lists of that shape; one schema for all elements where they do not differ."""
    if not shape:
        return items[0]
    same = all(item == items[0] for item in items)
    if len(shape) == 1 and not same:
        return _list_of(items)
    inner = _of_array(shape[1:], items if same else [{"type": items[0]["type"]}])
    return {"type": "array", "items": inner, "minItems": shape[0], "maxItems": shape[0]}


def _list_of(items: list[Schema]) -> Schema:
    count = len(items)
    return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}


def _choice(start: int, count: int) -> Schema:
    return {"type": "integer", "minimum": start, "maximum": start + count - 1}


def _flat_pairs(space: spaces.MultiDiscrete[Any]) -> list[tuple[int, int]]:
    return list(zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True))


def _of_text(space: spaces.Text) -> Schema:
    limits = {"minLength": space.min_length, "maxLength": space.max_length}
    return {"type": "string", **limits, "description": f"of the characters {space.characters}"}


def _of_graph(space: spaces.Graph) -> Schema:
    link = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
    parts: dict[str, Schema] = {
        "nodes": {"type": "array", "items": schema_of(space.node_space)},
    }
    if space.edge_space is not None:
        parts["edges"] = {"type": "array", "items": schema_of(space.edge_space)}
        parts["edge_links"] = {"type": "array", "items": link}
    return {"type": "object", "properties": parts, "required": ["nodes"]}


# ---- words ------------------------------------------------------------------------------------


def _flat_parts(space: Space, value: Any) -> list[tuple[str, str]]:
    """Named pieces of a value in order, each `(name, words)`; a dimension has the name ""."""
    match space:
        case spaces.Dict() if isinstance(value, Mapping):
            return [
                (key, _said(_flat_parts(inner, value[key])))
                for key, inner in space.spaces.items()
                if key in value
            ]
        case spaces.Tuple() if isinstance(value, tuple | list):
            pairs = zip(space.spaces, value, strict=False)
            return [("", _said(_flat_parts(inner, item))) for inner, item in pairs]
    if isinstance(value, np.ndarray):
        return [("", text) for text in _numbers(value)]
    if isinstance(value, float | np.floating):
        return [("", f"{float(value):.4g}")]
    return [("", _cut(str(value)))]


def _said(parts: list[tuple[str, str]]) -> str:
    if len(parts) == 1:
        return parts[0][1]
    return f"({', '.join(f'{name} {value}' if name else value for name, value in parts)})"


def _numbers(array: npt.NDArray[Any]) -> list[str]:
    if array.dtype.kind not in "iufb" or not array.size:
        return [f"{array.dtype} {list(array.shape)}"]
    if array.size > _MAX_NUMBERS:
        low, mean, high = array.min(), array.mean(), array.max()
        return [f"{array.dtype} {list(array.shape)} from {low:.4g} to {high:.4g}, mean {mean:.4g}"]
    if array.ndim > 1:
        return [str(np.round(array, 4).tolist())]
    return [f"{value:.4g}" if array.dtype.kind == "f" else str(value) for value in array.ravel()]


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} …"
