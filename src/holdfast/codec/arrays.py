"""numpy arrays and scalars as a dtype's name, a shape and raw bytes.

numpy is imported only when stored bytes hold an array; that name is fixed here, never in them.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any, Final

from holdfast.codec.paths import Misplaced
from holdfast.extras import install_command

_DTYPE: Final = re.compile(r"[<>|=]([biufcSUMm])[0-9]{1,9}(?:\[[0-9]{0,9}[A-Za-z]{1,2}\])?")
_HIGHEST_CODE_POINT: Final = 0x10FFFF
_MAX_DIMS: Final = 64  # numpy has no more


def is_numpy(value: object) -> bool:
    """Whether this is a numpy array or scalar, without importing numpy to find out."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return False
    kinds = getattr(numpy, "ndarray", None), getattr(numpy, "generic", None)
    return any(kind is not None and isinstance(value, kind) for kind in kinds)


def is_array(value: object) -> bool:
    """Whether this is a numpy array, rather than a scalar or something else."""
    numpy: Any = sys.modules.get("numpy")
    return isinstance(value, getattr(numpy, "ndarray", ()))


def take_apart(value: Any) -> tuple[str, list[int] | None, bytes]:
    """The dtype, the shape (None for a scalar) and the bytes, in C order, of an array or scalar.

    Raises `Misplaced` for object and structured dtypes, and for subclasses of ndarray, which
    carry more than an array: a mask, a unit.
    """
    numpy: Any = sys.modules["numpy"]
    shape = list(value.shape) if is_array(value) else None
    if shape is not None and type(value) not in (numpy.ndarray, numpy.memmap):
        raise Misplaced(
            f"{type(value).__name__} can't be stored without loss; store its plain arrays instead"
        )
    name = value.dtype.str
    if not _DTYPE.fullmatch(name) or value.dtype.itemsize == 0:
        raise Misplaced(
            f"a numpy value of dtype {str(value.dtype)[:60]} can't be stored; "
            "store lists, or one plain array per field"
        )
    return name, shape, value.tobytes()


def put_together(name: object, shape: object, data: object) -> Any:
    """The array, newly made, or the scalar. Raises ValueError when the parts don't fit."""
    try:
        import numpy
    except ImportError:
        raise ValueError(f"a numpy value; to read it: {install_command('numpy')}") from None
    matched = _DTYPE.fullmatch(name) if isinstance(name, str) else None
    if matched is None or not isinstance(name, str) or not isinstance(data, bytes):
        raise ValueError("a malformed numpy value")
    dtype = numpy.dtype(name)
    if shape is None:
        dims: list[int] = []
    elif (
        isinstance(shape, list)
        and len(shape) <= _MAX_DIMS
        and all(type(dim) is int and dim >= 0 for dim in shape)
    ):
        dims = shape
    else:
        raise ValueError("a numpy array of malformed shape")
    if dtype.itemsize == 0 or math.prod(dims) * dtype.itemsize != len(data):
        raise ValueError(f"a numpy array whose shape does not fit its {len(data):,} bytes")
    array = numpy.frombuffer(data, dtype).reshape(dims).copy()
    if matched[1] == "U" and array.size:
        points = numpy.frombuffer(data, numpy.dtype(numpy.uint32).newbyteorder(dtype.byteorder))
        if int(points.max()) > _HIGHEST_CODE_POINT:
            raise ValueError("a numpy text array that holds no text")
    return array[()] if shape is None else array
