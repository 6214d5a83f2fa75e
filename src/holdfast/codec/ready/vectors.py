"""numpy arrays of one dimension, as the columns of frames are stored: without an Ext of their own.

So that a frame can be shown, compared and exported where numpy is not installed.
"""

from __future__ import annotations

from typing import Any

import numpy

from holdfast.codec.arrays import put_together, take_apart


def vector(values: Any) -> dict[str, Any]:
    """An array as data. Raises `Misplaced` for a dtype that can't be stored."""
    dtype, _, data = take_apart(numpy.ascontiguousarray(values))
    return {"dtype": dtype, "length": len(values), "bytes": data}


def array(data: Any) -> Any:
    """The array that `vector` was given. Raises if the parts don't fit."""
    return put_together(data["dtype"], [data["length"]], data["bytes"])


def objects(values: list[Any]) -> Any:
    """An array of any values, each of which stays what it is."""
    made = numpy.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        made[index] = value
    return made
