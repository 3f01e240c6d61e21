"""Arrays as JSON values with their type kept, alone or anywhere inside an `info`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_KEYS = {"base64", "dtype", "shape"}


def write_array(array: Array) -> dict[str, Any]:
    """`{"base64", "dtype", "shape"}` of an array of numbers or booleans."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"base64": data, "dtype": array.dtype.name, "shape": list(array.shape)}


def read_array(values: Mapping[str, Any]) -> Array:
    """The array that `write_array` wrote.

    Raises:
        ValueError: it wrote nothing like this.
    """
    try:
        dtype = np.dtype(values["dtype"])
        if dtype.kind not in "iufb":
            raise ValueError(f"no array of {dtype} is written")
        array = np.frombuffer(base64.b64decode(values["base64"], validate=True), dtype)
        # a copy, because what was decoded cannot be written to
        return array.reshape(values["shape"]).copy()
    except (KeyError, TypeError, binascii.Error) as error:
        raise ValueError(f"not an array: {error!r}") from None


def pack_info(value: Any) -> Any:
    """An `info` as JSON values; what JSON does not know becomes text."""
    match value:
        case Mapping():
            return {str(key): pack_info(item) for key, item in value.items()}
        case list() | tuple():
            return [pack_info(item) for item in value]
        case np.ndarray() if value.dtype.kind in "iufb":
            return write_array(value)
        case np.generic():
            return value.item()
        case None | bool() | int() | float() | str():
            return value
    return repr(value)


def unpack_info(value: Any) -> Any:
    """What `pack_info` wrote, its arrays read."""
    if isinstance(value, Mapping):
        if value.keys() == _KEYS:
            return read_array(value)
        return {key: unpack_info(item) for key, item in value.items()}
    return [unpack_info(item) for item in value] if isinstance(value, list) else value
