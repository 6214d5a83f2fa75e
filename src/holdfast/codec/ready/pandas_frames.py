"""pandas: DataFrame, Series, every kind of Index, Timestamp, Timedelta, NaT and NA.

A column is stored by its dtype: numbers and times as raw bytes, text and objects as lists.
"""

from __future__ import annotations

from typing import Any, Final

import numpy
import pandas as pd
from pandas.tseries.frequencies import to_offset

from holdfast.codec.paths import Misplaced
from holdfast.codec.ready import zones
from holdfast.codec.ready.vectors import array, objects, vector
from holdfast.codec.registry import add_ready


def _frame_data(frame: pd.DataFrame) -> dict[str, Any]:
    columns = []
    for place, name in enumerate(frame.columns):
        try:
            columns.append(_values_data(frame.iloc[:, place].array))
        except Misplaced as misplaced:
            raise Misplaced(f"its column {name!r}: {misplaced.reason}") from misplaced
    return {
        "rows": len(frame),
        "columns": _index_data(frame.columns),
        "index": _index_data(frame.index),
        "values": columns,
        **_extras(frame),
    }


def _frame(data: Any) -> pd.DataFrame:
    index, columns = _index(data["index"]), _index(data["columns"])
    if len(columns) != len(data["values"]) or len(index) != data["rows"]:
        raise ValueError("its columns are not those that it names")
    parts = {place: _column(item, index) for place, item in enumerate(data["values"])}
    frame = pd.DataFrame(parts, index=index, copy=False)
    frame.columns = columns
    return _with_extras(frame, data)


def _series_data(series: pd.Series) -> dict[str, Any]:
    return {
        "name": series.name,
        "index": _index_data(series.index),
        "values": _values_data(series.array),
        **_extras(series),
    }


def _series(data: Any) -> pd.Series:
    series = _column(data["values"], _index(data["index"]))
    series.name = data["name"]
    return _with_extras(series, data)


def _extras(value: Any) -> dict[str, Any]:
    """What most frames do not have: attributes, and that labels may not occur twice."""
    found: dict[str, Any] = {"attrs": dict(value.attrs)} if value.attrs else {}
    if not value.flags.allows_duplicate_labels:
        found["unique_labels"] = True
    return found


def _with_extras(value: Any, data: Any) -> Any:
    value.attrs.update(data.get("attrs", {}))
    return value.set_flags(allows_duplicate_labels=False) if data.get("unique_labels") else value


def _column(data: Any, index: pd.Index) -> pd.Series:
    values = _values(data)
    return pd.Series(values, index=index, dtype=values.dtype, copy=False)


def _index_data(index: pd.Index) -> dict[str, Any]:
    if isinstance(index, pd.MultiIndex):
        return {
            "type": "multi",
            "levels": [_labels_data(level, len(index)) for level in index.levels],
            "codes": [vector(codes) for codes in index.codes],
            "names": list(index.names),
        }
    if isinstance(index, pd.RangeIndex):
        return {
            "type": "range",
            "range": [index.start, index.stop, index.step],
            "name": index.name,
        }
    freq = _freq_data(index) if isinstance(index, _WITH_FREQ) else None
    return {
        "type": "index",
        "values": _values_data(index.array),
        "name": index.name,
        **({"freq": freq} if freq else {}),
    }


def _index(data: Any) -> pd.Index:
    kind = data["type"]
    if kind == "multi":
        codes = [array(one) for one in data["codes"]]
        levels = [
            _labels(level, len(one)) for level, one in zip(data["levels"], codes, strict=True)
        ]
        return pd.MultiIndex(levels=levels, codes=codes, names=data["names"])
    if kind == "range":
        return pd.RangeIndex(*data["range"], name=data["name"])
    if kind != "index":
        raise ValueError(f"an index of unknown type {kind!r}")
    values = _values(data["values"])
    index = pd.Index(values, dtype=values.dtype, name=data["name"], copy=False)
    if "freq" in data:
        if not isinstance(index, _WITH_FREQ):
            raise ValueError("an index that has no frequency")
        index.freq = data["freq"]
    return index


def _labels_data(index: pd.Index, count: int) -> dict[str, Any]:
    """The labels that so many codes refer to. A longer range is stored as its numbers."""
    if isinstance(index, pd.RangeIndex) and len(index) > count:
        index = pd.Index(index.to_numpy(), name=index.name)
    return _index_data(index)


def _labels(data: Any, count: int) -> pd.Index:
    """The labels again. pandas makes an array of a range: a few bytes must not ask for a huge one."""
    if data["type"] == "range" and len(range(*data["range"])) > count:
        raise ValueError("an index with a range of more labels than it has codes")
    return _index(data)


def _freq_data(index: Any) -> str | None:
    """The name of an index's frequency. Raises `Misplaced` if it does not say all of it."""
    if index.freq is None:
        return None
    name: str = index.freqstr
    try:
        same = to_offset(name) == index.freq
    except ValueError:
        same = False
    if not same:
        raise Misplaced(
            f"the frequency {index.freq!r} of its index has no name to be stored by; "
            "leave it out: index.freq = None"
        )
    return name


def _values_data(values: Any) -> dict[str, Any]:
    """A column, or the labels of an index. Raises `Misplaced` for a dtype that can't be stored."""
    if type(values) is pd.arrays.NumpyExtensionArray:  # text has a subclass of it
        values = values.to_numpy()
    dtype = values.dtype
    shown = {"dtype": str(dtype)}
    if isinstance(dtype, pd.CategoricalDtype):
        return shown | {
            "type": "categorical",
            "codes": vector(values.codes),
            "categories": _labels_data(dtype.categories, len(values)),
            "ordered": bool(dtype.ordered),
        }
    if isinstance(dtype, pd.DatetimeTZDtype):
        zone = zones.zone_data(dtype.tz)
        plain = values.tz_convert("UTC").tz_localize(None)
        return shown | {"type": "datetimetz", "zone": zone, "values": vector(plain.to_numpy())}
    if isinstance(dtype, pd.PeriodDtype):
        return shown | {
            "type": "period",
            "freq": dtype.name.removeprefix("period[").removesuffix("]"),
            "values": vector(values.asi8),
        }
    if isinstance(dtype, pd.IntervalDtype):
        return shown | {
            "type": "interval",
            "closed": dtype.closed,
            "left": _values_data(values.left.array),
            "right": _values_data(values.right.array),
        }
    if isinstance(dtype, pd.StringDtype):
        texts = values.to_numpy(dtype=object, na_value=None).tolist()
        missing = "NA" if dtype.na_value is pd.NA else "nan"
        return shown | {
            "type": "string",
            "storage": dtype.storage,
            "missing": missing,
            "values": texts,
        }
    if isinstance(values, _MASKED):
        mask = values.isna()
        plain = values.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
        return shown | {"type": "masked", "values": vector(plain), "mask": vector(mask)}
    if isinstance(dtype, pd.ArrowDtype):
        from holdfast.codec.ready import arrow_tables

        return shown | {"type": "arrow", "values": arrow_tables.column_data(values)}
    if isinstance(dtype, numpy.dtype):
        plain = numpy.asarray(values)
        if dtype.kind == "O":
            return shown | {"type": "object", "values": list(plain)}
        return shown | {"type": "numpy", "values": vector(plain)}
    raise Misplaced(f"dtype {dtype} can't be stored; convert it to another with astype()")


def _values(data: Any) -> Any:
    match data["type"]:
        case "numpy":
            return array(data["values"])
        case "object":
            return objects(data["values"])
        case "string":
            missing = {"NA": pd.NA, "nan": numpy.nan}[data["missing"]]
            dtype = pd.StringDtype(data["storage"], na_value=missing)
            return pd.array(objects(data["values"]), dtype=dtype)
        case "categorical":
            codes = array(data["codes"])
            labels = _labels(data["categories"], len(codes))
            kind = pd.CategoricalDtype(labels, ordered=data["ordered"])
            return pd.Categorical.from_codes(codes, dtype=kind)
        case "datetimetz":
            times = pd.DatetimeIndex(array(data["values"]))
            return times.tz_localize("UTC").tz_convert(zones.zone(data["zone"])).array
        case "period":
            return pd.PeriodIndex.from_ordinals(array(data["values"]), freq=data["freq"]).array
        case "interval":
            left, right = _values(data["left"]), _values(data["right"])
            return pd.arrays.IntervalArray.from_arrays(left, right, closed=data["closed"])
        case "masked":
            plain, mask = array(data["values"]), array(data["mask"])
            return _MASKED_OF[plain.dtype.kind](plain, mask)
        case "arrow":
            from holdfast.codec.ready import arrow_tables

            return pd.arrays.ArrowExtensionArray(arrow_tables.column(data["values"]))
        case kind:
            raise ValueError(f"a column of unknown type {kind!r}")


def _timestamp_data(moment: pd.Timestamp) -> list[Any]:
    zone = None if moment.tzinfo is None else zones.zone_data(moment.tzinfo)
    plain = moment if zone is None else moment.tz_convert("UTC").tz_localize(None)
    return [int(plain.to_datetime64().astype("i8")), moment.unit, zone]


def _timestamp(data: Any) -> pd.Timestamp:
    count, unit, zone = data
    moment = pd.Timestamp(numpy.datetime64(count, unit)).as_unit(unit)
    if zone is None:
        return moment
    return moment.tz_localize("UTC").tz_convert(zones.zone(zone))


def _timedelta_data(span: pd.Timedelta) -> list[Any]:
    return [int(span.to_timedelta64().astype("i8")), span.unit]


def _timedelta(data: Any) -> pd.Timedelta:
    count, unit = data
    return pd.Timedelta(numpy.timedelta64(count, unit)).as_unit(unit)


_WITH_FREQ: Final = (pd.DatetimeIndex, pd.TimedeltaIndex)
_MASKED: Final = (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)
_MASKED_OF: Final = {
    "i": pd.arrays.IntegerArray,
    "u": pd.arrays.IntegerArray,
    "f": pd.arrays.FloatingArray,
    "b": pd.arrays.BooleanArray,
}
_INDEXES: Final = (
    pd.Index,
    pd.RangeIndex,
    pd.MultiIndex,
    pd.CategoricalIndex,
    pd.DatetimeIndex,
    pd.TimedeltaIndex,
    pd.PeriodIndex,
    pd.IntervalIndex,
)

add_ready("pandas.DataFrame", (pd.DataFrame,), _frame_data, _frame)
add_ready("pandas.Series", (pd.Series,), _series_data, _series)
add_ready("pandas.Index", _INDEXES, _index_data, _index)
add_ready("pandas.Timestamp", (pd.Timestamp,), _timestamp_data, _timestamp)
add_ready("pandas.Timedelta", (pd.Timedelta,), _timedelta_data, _timedelta)
add_ready("pandas.NaT", (type(pd.NaT),), lambda _: None, lambda _: pd.NaT)
add_ready("pandas.NA", (type(pd.NA),), lambda _: None, lambda _: pd.NA)
