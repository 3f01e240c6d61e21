"""Gymnasium spaces as JSON, both ways; nothing is pickled.

A space becomes `{"type": "Box", …}`; infinite bounds are the words `inf` and `-inf`, because JSON
has no such numbers. Members of a space are `spacevalues`' part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from mintact_platform.environments.spaces import CallSpace, ScreenSpace
from mintact_platform.errors import ConfigurationError, near_match

Array = npt.NDArray[Any]
Space = gymnasium.Space[Any]
Described = Mapping[str, Any]

_MAX_ELEMENTS = 1 << 26
_MAX_DEPTH = 32


def describe_space(space: Space) -> dict[str, Any]:
    """A space as JSON values.

    Raises:
        ConfigurationError: it is not one of gymnasium's or of ours; a subclass is neither.

    Example:
        >>> describe_space(spaces.Discrete(3))
        {'type': 'Discrete', 'n': 3, 'start': 0, 'dtype': 'int64'}
    """
    kind = type(space).__name__
    codec = _CODECS.get(kind)
    if codec is None or type(space) is not codec.kind:
        raise ConfigurationError(
            f"a space of type {kind!r} has no JSON form",
            where="space",
            next=f"compose it of {', '.join(_CODECS)}",
        )
    return {"type": kind, **codec.describe(space)}


def space_of(description: Described) -> Space:
    """The space that `describe_space` described; its random state is fresh.

    Raises:
        ConfigurationError: no description of a space.
    """
    return _space_of(description, 0)


def native_spaces(environment: Any) -> dict[str, Any] | None:
    """What gymnasium code at the far end of a lease is told: the spaces it acts and observes in.

    They are the attribute `native` of an adapter such as `gym/<id>`; else the environment's own
    where its actions are calls. None where calls and observations are all that is known.
    """
    native = getattr(environment, "native", None)
    if isinstance(native, Mapping):
        return dict(native)
    if not isinstance(getattr(environment, "action_space", None), CallSpace):
        return None
    try:
        return {
            "observation_space": describe_space(environment.observation_space),
            "action_space": describe_space(environment.action_space),
        }
    except (ConfigurationError, AttributeError):
        return None


def _space_of(description: Described, depth: int) -> Space:
    if depth > _MAX_DEPTH or not isinstance(description, Mapping):
        raise ConfigurationError(f"no description of a space: {description!r:.80}", where="space")
    kind = description.get("type")
    if kind not in _CODECS:
        hint = near_match(str(kind), _CODECS)
        raise ConfigurationError(f"unknown space {kind!r}", where="space", next=hint)
    try:
        return _CODECS[kind].build(description, lambda inner: _space_of(inner, depth + 1))
    except (KeyError, TypeError, ValueError, AssertionError, OverflowError) as error:
        raise ConfigurationError(
            f"no description of a {kind}: {type(error).__name__}: {error}", where="space"
        ) from None


# ---- one codec a kind of space ----------------------------------------------------------------

Build = Callable[[Described], Space]


class _Codec(NamedTuple):
    kind: type[Space]
    describe: Callable[[Any], dict[str, Any]]
    build: Callable[[Described, Build], Space]


def _describe_box(space: spaces.Box[Any]) -> dict[str, Any]:
    return {
        "shape": list(space.shape),
        "dtype": space.dtype.name,
        "low": _bounds(space.low, space.bounded_below, "-inf"),
        "high": _bounds(space.high, space.bounded_above, "inf"),
    }


def _build_box(description: Described, build: Build) -> spaces.Box[Any]:
    shape, dtype = _shape(description["shape"]), np.dtype(description["dtype"])
    lowest, highest = _limits(dtype)
    low, bounded_below = _bound(description["low"], shape, dtype, "-inf", lowest)
    high, bounded_above = _bound(description["high"], shape, dtype, "inf", highest)
    # of its own type: gymnasium would round int64 bounds through floats
    space = spaces.Box(low, high, shape, dtype.type)
    space.bounded_below, space.bounded_above = bounded_below, bounded_above
    return space


def _describe_discrete(space: spaces.Discrete[Any]) -> dict[str, Any]:
    dtype = np.dtype(space.dtype).name
    return {"n": int(space.n), "start": int(space.start), "dtype": dtype}


def _build_discrete(description: Described, build: Build) -> spaces.Discrete[Any]:
    n, start = _integer(description["n"]), _integer(description["start"])
    if description["dtype"] == "int64":
        return spaces.Discrete(n, start=start)  # older gymnasiums have no other type
    dtype: Any = np.dtype(description["dtype"]).type
    return spaces.Discrete(n, start=start, dtype=dtype)


def _describe_multi_discrete(space: spaces.MultiDiscrete[Any]) -> dict[str, Any]:
    start = space.start.tolist() if np.any(space.start) else 0
    return {"nvec": space.nvec.tolist(), "start": start, "dtype": np.dtype(space.dtype).name}


def _build_multi_discrete(description: Described, build: Build) -> spaces.MultiDiscrete[Any]:
    dtype: Any = np.dtype(description["dtype"])
    counts = np.array(description["nvec"], dtype)
    start = np.array(np.broadcast_to(np.array(description["start"], dtype), counts.shape))
    return spaces.MultiDiscrete(counts, dtype=dtype.type, start=start)


def _build_multi_binary(description: Described, build: Build) -> spaces.MultiBinary:
    n = description["n"]
    if isinstance(n, int):
        return spaces.MultiBinary(_shape([n])[0])
    return spaces.MultiBinary(_shape(n))


def _describe_text(space: spaces.Text) -> dict[str, Any]:
    charset = "".join(space.character_list)
    return {"min_length": space.min_length, "max_length": space.max_length, "charset": charset}


def _build_text(description: Described, build: Build) -> spaces.Text:
    return spaces.Text(
        _integer(description["max_length"]),
        min_length=_integer(description["min_length"]),
        charset=str(description["charset"]),
    )


def _describe_dict(space: spaces.Dict) -> dict[str, Any]:
    for key in space.spaces:
        if not isinstance(key, str):
            raise ConfigurationError(f"a Dict with the key {key!r} has no JSON form", where="space")
    # pairs, because the order of the keys is that of the flattened values
    return {"spaces": [[key, describe_space(inner)] for key, inner in space.spaces.items()]}


def _build_dict(description: Described, build: Build) -> spaces.Dict:
    return spaces.Dict([(str(key), build(inner)) for key, inner in description["spaces"]])


def _describe_graph(space: spaces.Graph) -> dict[str, Any]:
    edges = None if space.edge_space is None else describe_space(space.edge_space)
    return {"node_space": describe_space(space.node_space), "edge_space": edges}


def _build_graph(description: Described, build: Build) -> spaces.Graph:
    edges = description["edge_space"]
    return spaces.Graph(build(description["node_space"]), None if edges is None else build(edges))


def _describe_many(space: Any) -> dict[str, Any]:
    return {"spaces": [describe_space(inner) for inner in space.spaces]}


def _describe_sequence(space: spaces.Sequence) -> dict[str, Any]:
    return {"feature_space": describe_space(space.feature_space), "stack": bool(space.stack)}


def _build_sequence(description: Described, build: Build) -> spaces.Sequence:
    return spaces.Sequence(build(description["feature_space"]), stack=description["stack"])


_CODECS: dict[str, _Codec] = {
    codec.kind.__name__: codec
    for codec in (
        _Codec(spaces.Box, _describe_box, _build_box),
        _Codec(spaces.Discrete, _describe_discrete, _build_discrete),
        _Codec(spaces.MultiDiscrete, _describe_multi_discrete, _build_multi_discrete),
        _Codec(spaces.MultiBinary, lambda s: {"n": _plain_shape(s.n)}, _build_multi_binary),
        _Codec(spaces.Text, _describe_text, _build_text),
        _Codec(
            spaces.Tuple, _describe_many, lambda d, build: spaces.Tuple(map(build, d["spaces"]))
        ),
        _Codec(spaces.Dict, _describe_dict, _build_dict),
        _Codec(spaces.Sequence, _describe_sequence, _build_sequence),
        _Codec(spaces.Graph, _describe_graph, _build_graph),
        _Codec(
            spaces.OneOf,
            _describe_many,
            lambda d, build: spaces.OneOf(tuple(map(build, d["spaces"]))),
        ),
        _Codec(
            CallSpace,
            lambda s: {"examples": [dict(example) for example in s.examples]},
            lambda d, build: CallSpace(d["examples"]),
        ),
        _Codec(
            ScreenSpace,
            lambda s: {"width": s.width, "height": s.height},
            lambda d, build: ScreenSpace(d["width"], d["height"]),
        ),
    )
}


def _plain_shape(n: Any) -> Any:
    return [int(size) for size in n] if isinstance(n, tuple) else int(n)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected an integer, got {value!r}")
    return value


def _shape(values: Any) -> tuple[int, ...]:
    shape = tuple(_integer(value) for value in values)
    if any(size < 0 for size in shape) or math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"shape {list(shape)} is over the cap of {_MAX_ELEMENTS} elements")
    return shape


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """What stands for -inf and inf in this type."""
    if dtype.kind == "i":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return -np.inf, np.inf


def _bounds(bounds: Array, bounded: Array, infinite: str) -> Any:
    """One number where all are the same, else nested lists; the unbounded ones in words."""
    words = [
        (value if one else infinite)
        for value, one in zip(bounds.ravel().tolist(), bounded.ravel().tolist(), strict=True)
    ]
    if words and all(word == words[0] for word in words):
        return words[0]
    nested: Any = np.array(words, object).reshape(bounds.shape).tolist()
    return nested


def _bound(
    given: Any, shape: tuple[int, ...], dtype: np.dtype[Any], infinite: str, value: Any
) -> tuple[Array, Array]:
    """The bounds as an array of the space's type, and where there are any."""
    words = np.broadcast_to(np.array(given, object), shape)
    unbounded = words == infinite
    bounds = np.array([value if word == infinite else word for word in words.ravel()], dtype)
    return bounds.reshape(shape), np.array(~unbounded.astype(bool))
