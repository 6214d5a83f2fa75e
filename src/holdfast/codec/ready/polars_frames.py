"""Polars: DataFrame and Series. A column is stored by its type: numbers and times as raw bytes with
a mask of what is null, everything else as a list of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from holdfast.codec.paths import Misplaced
from holdfast.codec.ready.vectors import array, vector
from holdfast.codec.registry import add_ready

_SIMPLE: Final[dict[str, Any]] = {
    name: getattr(pl, name)
    for name in (
        *("Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64"),
        *("UInt128", "Float16", "Float32", "Float64"),
        *("Boolean", "String", "Binary", "Date", "Time", "Null", "Categorical"),
    )
    if hasattr(pl, name)
}
_RAW: Final = frozenset(
    [
        *("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
        *("Float32", "Float64", "Boolean"),
    ]
)
_TIMES: Final = {"Date": pl.Int32, "Time": pl.Int64, "Datetime": pl.Int64, "Duration": pl.Int64}


def _frame_data(frame: pl.DataFrame) -> dict[str, Any]:
    return {"rows": frame.height, "columns": [_series_data(column) for column in frame]}


def _frame(data: Any) -> pl.DataFrame:
    frame = pl.DataFrame([_series(column) for column in data["columns"]])
    if data["columns"] and frame.height != data["rows"]:
        raise ValueError("its columns are not as long as it says")
    return frame


def _series_data(series: pl.Series) -> dict[str, Any]:
    made: dict[str, Any] = {"name": series.name, "dtype": _dtype_data(series.dtype, series.name)}
    kind = series.dtype.base_type().__name__
    plain = series
    if kind in _TIMES:
        plain = series.to_physical()
    elif kind not in _RAW:
        return made | {"values": _listed(series)}
    if series.null_count():
        made["null"] = vector(series.is_null().to_numpy())
        plain = plain.fill_null(False if kind == "Boolean" else 0)
    return made | {"values": vector(plain.to_numpy())}


def _listed(series: pl.Series) -> list[Any]:
    """The values of a column, if it can be made of them again."""
    values: list[Any] = series.to_list()
    again = pl.Series(series.name, values, dtype=series.dtype)
    if not again.equals(series, check_dtypes=True, null_equal=True):
        raise Misplaced(
            f"its column {series.name!r} of type {series.dtype} can't be stored without loss; "
            "cast it to another type"
        )
    return values


def _series(data: Any) -> pl.Series:
    name, dtype = data["name"], _dtype(data["dtype"])
    if type(name) is not str:
        raise TypeError("a column without a name")
    kind = dtype.base_type().__name__
    if kind not in _RAW and kind not in _TIMES:
        return pl.Series(name, data["values"], dtype=dtype)
    values = pl.Series(name, array(data["values"]))
    if kind in _TIMES and values.dtype != _TIMES[kind]:
        raise ValueError(f"a column of {kind} that holds {values.dtype}")
    values = values.cast(dtype) if values.dtype != dtype else values
    if "null" in data:
        null = pl.Series(array(data["null"]))
        if null.dtype != pl.Boolean or len(null) != len(values):
            raise ValueError("a column whose mask does not fit it")
        values = values.zip_with(~null, pl.Series(name, [None], dtype=dtype))
    return values


def _dtype_data(dtype: Any, column: str) -> Any:
    """A type as data: its name, or a list of its name and what it is made of."""
    kind = dtype.base_type().__name__
    if kind in _PARTS:
        return [kind, *_PARTS[kind](dtype, column)]
    if kind not in _SIMPLE:
        raise Misplaced(f"its column {column!r} of type {dtype} can't be stored; cast it")
    return kind


def _dtype(data: Any) -> Any:
    if type(data) is str:
        return _SIMPLE[data]() if data != "Categorical" else pl.Categorical()
    kind, *parts = data
    return _MADE[kind](*parts)


def _guarded(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A panic in Polars' own code is no `Exception`; of stored data, it is a refusal."""

    def made(data: Any) -> Any:
        try:
            return make(data)
        except pl.exceptions.PanicException as panic:
            raise ValueError(f"Polars refused it: {panic}") from None

    return made


_PARTS: Final[dict[str, Callable[[Any, str], list[Any]]]] = {
    "Datetime": lambda dtype, _: [dtype.time_unit, dtype.time_zone],
    "Duration": lambda dtype, _: [dtype.time_unit],
    "Decimal": lambda dtype, _: [dtype.precision, dtype.scale],
    "Enum": lambda dtype, _: [dtype.categories.to_list()],
    "List": lambda dtype, column: [_dtype_data(dtype.inner, column)],
    "Array": lambda dtype, column: [_dtype_data(dtype.inner, column), dtype.size],
    "Struct": lambda dtype, column: [
        [[field.name, _dtype_data(field.dtype, column)] for field in dtype.fields]
    ],
}
_MADE: Final[dict[str, Callable[..., Any]]] = {
    "Datetime": lambda unit, zone: pl.Datetime(unit, zone),
    "Duration": lambda unit: pl.Duration(unit),
    "Decimal": lambda precision, scale: pl.Decimal(precision, scale),
    "Enum": lambda categories: pl.Enum(categories),
    "List": lambda inner: pl.List(_dtype(inner)),
    "Array": lambda inner, size: pl.Array(_dtype(inner), size),
    "Struct": lambda fields: pl.Struct({name: _dtype(inner) for name, inner in fields}),
}

add_ready("polars.DataFrame", (pl.DataFrame,), _frame_data, _guarded(_frame))
add_ready("polars.Series", (pl.Series,), _series_data, _guarded(_series))
