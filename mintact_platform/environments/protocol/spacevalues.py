"""Members of a gymnasium space as JSON values, both ways, as one would write them by hand.

A number for `Discrete`, lists for arrays and tuples, an object for `Dict`. The leaves are those of
gymnasium's own `to_jsonable`, which writes batches; here a value stands alone. Large arrays, such
as pictures, become base64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from mintact_platform.environments.protocol.arraycodec import read_array, write_array

Array = npt.NDArray[Any]
Space = gymnasium.Space[Any]

_MAX_LISTED = 512
"""Elements up to which an array is written as lists."""


def to_jsonable(space: Space, value: Any) -> Any:
    """A member of the space as JSON values.

    Example:
        >>> to_jsonable(spaces.Box(-1, 1, (2,)), np.zeros(2, np.float32))
        [0.0, 0.0]
    """
    match space:
        case spaces.Tuple():
            return [to_jsonable(s, v) for s, v in zip(space.spaces, value, strict=True)]
        case spaces.Dict():
            return {key: to_jsonable(inner, value[key]) for key, inner in space.spaces.items()}
        case spaces.Sequence(stack=False):
            return [to_jsonable(space.feature_space, item) for item in value]
        case spaces.Sequence():
            return _write_batch(space.feature_space, space.stacked_feature_space, value)
        case spaces.OneOf():
            return [int(value[0]), to_jsonable(space.spaces[int(value[0])], value[1])]
        case spaces.Graph():
            return _write_graph(space, value)
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            return _write_array(np.asarray(value, space.dtype))
        case spaces.Discrete():
            return int(value)
    return value


def from_jsonable(space: Space, value: Any) -> Any:
    """The value that `to_jsonable` wrote, in the space's own types.

    It need not be a member: what an environment shows may lie outside of its own space.

    Raises:
        ValueError: it has not the form of a member.
    """
    return _read(space, value, "value")


def read_member(space: Space, value: Any, name: str = "value") -> Any:
    """The member of the space that the JSON value means.

    Raises:
        ValueError: in words that its writer can act on: which part, what it must be, what it is.
    """
    read = _read(space, value, name)
    _check(space, read, value, name)
    return read


def words(space: Space) -> str:
    """What a member of the space is, in words.

    Example:
        >>> words(spaces.Discrete(3)), words(spaces.Box(-1, 1, (2,)))
        ('an integer from 0 to 2', 'a list of 2 numbers from -1.0 to 1.0')
    """
    match space:
        case spaces.Discrete():
            return f"an integer from {space.start} to {int(space.start) + int(space.n) - 1}"
        case spaces.Box():
            kind = {"f": "number", "b": "boolean"}.get(space.dtype.kind, "integer")
            return f"{_shaped(kind, space.shape)}{'' if kind == 'boolean' else _range(space)}"
        case spaces.MultiDiscrete():
            last = (space.start + (space.nvec - 1)).tolist()
            return f"{_shaped('integer', space.shape)} from {space.start.tolist()} to {last}"
        case spaces.MultiBinary():
            return f"{_shaped('integer', space.shape)}, each 0 or 1"
        case spaces.Text():
            return f"text of {space.min_length} to {space.max_length} characters"
        case spaces.Tuple():
            return f"a list of {len(space.spaces)} items"
        case spaces.Dict():
            return f"an object with the keys {', '.join(map(repr, space.spaces))}"
        case spaces.Sequence():
            return f"a list of which each item is {words(space.feature_space)}"
        case spaces.OneOf():
            return f"[index, value], the index one of 0 to {len(space.spaces) - 1}"
        case spaces.Graph():
            return "an object with the keys 'nodes', 'edges', 'edge_links'"
    return str(space)


def _shaped(kind: str, shape: tuple[int, ...]) -> str:
    if not shape:
        return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    if len(shape) == 1:
        return f"a list of {shape[0]} {kind}{'' if shape[0] == 1 else 's'}"
    return f"{kind}s in nested lists of shape {list(shape)}"


def _range(space: spaces.Box[Any]) -> str:
    below, above = space.bounded_below.all(), space.bounded_above.all()
    if not space.bounded_below.any() and not space.bounded_above.any():
        return ""
    low, high = np.unique(space.low), np.unique(space.high)
    if len(low) == len(high) == 1 and below and above:
        return f" from {low[0]} to {high[0]}"
    if len(low) == len(high) == 1:
        return f" of at least {low[0]}" if below else f" of at most {high[0]}"
    if space.low.size <= 8:
        return f" from {space.low.tolist()} to {space.high.tolist()}"
    return ""


# ---- writing ----------------------------------------------------------------------------------


def _write_array(array: Array) -> Any:
    return array.tolist() if array.size <= _MAX_LISTED else write_array(array)


def _write_batch(space: Space, batch: Space, values: Any) -> list[Any]:
    return [to_jsonable(space, value) for value in iterate(batch, values)]


def _write_graph(space: spaces.Graph, value: spaces.GraphInstance) -> dict[str, Any]:
    written: dict[str, Any] = {
        "nodes": _write_batch(space.node_space, space.batch_node_space, value.nodes)
    }
    if value.edges is not None and value.edge_links is not None and space.edge_space is not None:
        written["edges"] = _write_batch(space.edge_space, space.batch_edge_space, value.edges)
        written["edge_links"] = value.edge_links.tolist()
    return written


# ---- reading ----------------------------------------------------------------------------------


def _read(space: Space, value: Any, name: str) -> Any:
    """The value in the space's own types, its form checked, its range not."""
    match space:
        case spaces.Tuple():
            items = _items(space, value, name, len(space.spaces))
            pairs = zip(space.spaces, items, strict=True)
            return tuple(
                _read(inner, item, f"{name}[{k}]") for k, (inner, item) in enumerate(pairs)
            )
        case spaces.Dict():
            given = _object(space, value, name, set(space.spaces), set(space.spaces))
            return {k: _read(inner, given[k], f"{name}.{k}") for k, inner in space.spaces.items()}
        case spaces.Sequence():
            read = tuple(_read_all(space.feature_space, _items(space, value, name), name))
            return _batch(space.feature_space, read) if space.stack else read
        case spaces.OneOf():
            index, inner = _items(space, value, name, 2)
            if not _is_integer(index) or not 0 <= index < len(space.spaces):
                raise _wrong(space, value, name)
            return np.int64(index), _read(space.spaces[index], inner, f"{name}[1]")
        case spaces.Graph():
            return _read_graph(space, value, name)
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            return _read_array(space, value, name)
        case spaces.Discrete():
            if not _is_integer(value):
                raise _wrong(space, value, name)
            try:
                return space.dtype.type(int(value))
            except OverflowError:
                raise _wrong(space, value, name) from None
    return value


def _read_all(space: Space, items: Sequence[Any], name: str) -> list[Any]:
    return [_read(space, item, f"{name}[{index}]") for index, item in enumerate(items)]


def _read_array(space: Any, value: Any, name: str) -> Array:
    if isinstance(value, Mapping):
        return _read_base64(space, value, name)
    try:
        array = np.array(value)
        if array.dtype.kind not in "iufb" and array.size:
            raise _wrong(space, value, name)
        if space.dtype.kind in "iu" and array.size and not _whole(array, space.dtype):
            raise _wrong(space, value, name)
        with np.errstate(over="ignore", invalid="ignore"):
            read: Array = array.astype(space.dtype)
    except (ValueError, TypeError, OverflowError):
        raise _wrong(space, value, name) from None
    return read


def _read_base64(space: Any, value: Mapping[str, Any], name: str) -> Array:
    try:
        read: Array = read_array(value).astype(space.dtype)
    except ValueError:
        raise _wrong(space, value, name) from None
    return read


def _read_graph(space: spaces.Graph, value: Any, name: str) -> spaces.GraphInstance:
    known = {"nodes", "edges", "edge_links"}
    given = _object(space, value, name, {"nodes"}, known)
    items = _items(space, given["nodes"], f"{name}.nodes")
    nodes = _batch(space.node_space, _read_all(space.node_space, items, f"{name}.nodes"))
    if given.get("edges") is None or given.get("edge_links") is None or space.edge_space is None:
        return spaces.GraphInstance(nodes, None, None)
    items = _items(space, given["edges"], f"{name}.edges")
    edges = _batch(space.edge_space, _read_all(space.edge_space, items, f"{name}.edges"))
    try:
        links = np.array(given["edge_links"], np.int32).reshape(-1, 2)
    except (ValueError, TypeError, OverflowError):
        raise _wrong(space, value, name) from None
    return spaces.GraphInstance(nodes, edges, links)


def _batch(space: Space, values: Sequence[Any]) -> Any:
    room: Any = create_empty_array(space, len(values))
    return concatenate(space, values, room)


def _check(space: Space, read: Any, value: Any, name: str) -> None:
    """Whether it is a member; a compound is searched for the part that is not."""
    match space:
        case spaces.Tuple():
            for index, inner in enumerate(space.spaces):
                _check(inner, read[index], value[index], f"{name}[{index}]")
        case spaces.Dict():
            for key, inner in space.spaces.items():
                _check(inner, read[key], value[key], f"{name}.{key}")
        case spaces.Sequence(stack=False):
            for index, item in enumerate(read):
                _check(space.feature_space, item, value[index], f"{name}[{index}]")
    if not space.contains(read):
        raise _wrong(space, value, name)


def _items(space: Space, value: Any, name: str, length: int | None = None) -> Sequence[Any]:
    if not isinstance(value, list | tuple) or length not in (None, len(value)):
        raise _wrong(space, value, name)
    return value


def _object(
    space: Space, value: Any, name: str, needed: set[str], known: set[str]
) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not needed <= value.keys() <= known:
        raise _wrong(space, value, name)
    return value


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether these are integers of that type; infinity raises."""
    if array.dtype.kind == "b" or (array.dtype.kind == "f" and np.any(array != np.floor(array))):
        return False
    limits = np.iinfo(dtype)
    return int(array.min()) >= limits.min and int(array.max()) <= limits.max


def _wrong(space: Space, value: Any, name: str) -> ValueError:
    said = repr(value)
    return ValueError(
        f"{name} must be {words(space)}, got {said if len(said) <= 80 else said[:77] + '...'}"
    )
