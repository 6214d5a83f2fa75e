"""What people are shown instead of frames, tensors, arrays, bytes and secrets: a line about each.

It is made of the readable form alone, and needs none of their libraries. Whatever was stored, a
summary raises nothing and is short.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.codec import readable
from holdfast.codec.readable import CODEC, HIDDEN_TAGS
from holdfast.errors import HoldfastError
from holdfast.errors.base import one_line

_BYTES: Final = "$bytes"
_SUMMARISED: Final = frozenset({"$ndarray", _BYTES, CODEC, *HIDDEN_TAGS})
_FEW_BYTES: Final = 32  # that are shown
_COLUMNS: Final = 5  # that are named
_LONGEST: Final = 40  # characters of a name, or of a type
_SHOWN: Final = 100  # characters of a user's own data
_DTYPE: Final = re.compile(r"[<>|=]([biufcSUMm])(\d{1,9})(\[\w*\])?")
_WORDS: Final = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def for_people(tree: Any) -> Any:
    """A readable form in which such values are replaced by their summaries, as text."""
    if isinstance(tree, list):
        return [for_people(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    text = summary(tree)
    return {key: for_people(item) for key, item in tree.items()} if text is None else f"<{text}>"


def summary(tree: Any) -> str | None:
    """What to show instead of this part of a readable form; None for what is shown as it is."""
    if not is_summarised(tree):
        return None
    ((tag, inner),) = tree.items()
    if tag in HIDDEN_TAGS:
        named = inner.get("path") if isinstance(inner, dict) else inner
        return one_line(f'{"encrypted" if tag == "$encrypted" else "secret"} "{named}"'[:_LONGEST])
    if tag == _BYTES:
        return _bytes(inner) if isinstance(inner, str) else None
    if not isinstance(inner, dict):
        return None
    name = str(inner.get("name")) if tag == CODEC else "numpy.ndarray"
    data = inner.get("data") if tag == CODEC else inner
    known = _KNOWN.get(name)
    try:
        text = known(data) if known is not None else _of_data(name, data)
    except _MALFORMED:
        text = name[:_LONGEST]
    return one_line(text)


def size(count: int) -> str:
    """A number of bytes, for people."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:,.1f} {unit}"


def shortened(text: str, most: int) -> str:
    """As much of a text as fits, with `…` at its end if that is not all."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def pretty(value: Any) -> str:
    """A value for people: JSON of several lines, with summaries."""
    try:
        tree = for_people(readable.to_json(value))
        return json.dumps(tree, indent=2, ensure_ascii=False)
    except (HoldfastError, RecursionError):  # what is kept in memory only may be anything
        return type(value).__name__


def is_summarised(tree: Any) -> bool:
    """Whether people are shown a summary instead of this part of a readable form."""
    return isinstance(tree, dict) and len(tree) == 1 and not _SUMMARISED.isdisjoint(tree)


def changed(old: Any, new: Any) -> str:
    """What changed between two values of the same summary: the columns, if that is known."""
    try:
        before, after = (
            {"name": tree[CODEC]["name"], **tree[CODEC]["data"]} for tree in (old, new)
        )
        if before["name"] == "pandas.DataFrame":
            pairs = zip(before["values"], after["values"], strict=True)
            places = [place for place, (one, other) in enumerate(pairs) if one != other]
            names = [_labels(before["columns"], place, place + 1)[0] for place in places]
        else:
            pairs = zip(before["columns"], after["columns"], strict=True)
            names = [one["name"] for one, other in pairs if one != other]
    except _MALFORMED:
        return "changed"
    shown = [_label(name) for name in names[:_COLUMNS]] + ["…"] * (len(names) > _COLUMNS)
    return one_line(f"changed in {', '.join(shown)}") if shown else "changed"


def _bytes(encoded: str) -> str:
    """A digest or an id is shown; of what is longer, only the size."""
    count = _decoded_size(encoded)
    if count > _FEW_BYTES:
        return f"bytes, {size(count)}"
    try:
        return f"bytes {base64.b64decode(encoded).hex()}".rstrip()
    except ValueError:
        return "bytes"


def _decoded_size(encoded: str) -> int:
    return len(encoded.rstrip("=")) * 3 // 4


def _of_data(name: str, data: Any) -> str:
    text = json.dumps(for_people(data), ensure_ascii=False)
    # A summary stands in a JSON text, where each double quote would have a backslash.
    text = text.replace('\\"', "'").replace('"', "'")
    return f"{name[:_SHOWN]} {shortened(text, _SHOWN)}"


def _pandas_frame(data: Any) -> str:
    dtypes = [column["dtype"] for column in data["values"]]
    names = _labels(data["columns"], 0, min(len(dtypes), _COLUMNS))
    columns = [*zip(names, dtypes, strict=False), *dtypes[_COLUMNS:]]
    return f"DataFrame {_sized(data['rows'], columns)}"


def _pandas_series(data: Any) -> str:
    name = "" if data["name"] is None else f"{_label(data['name'])} "
    return f"Series {_length(data['index']):,}: {name}{_word(data['values']['dtype'])}"


def _pandas_index(data: Any) -> str:
    kind = {"multi": "MultiIndex", "range": "RangeIndex"}.get(data["type"], "Index")
    dtype = f": {_word(data['values']['dtype'])}" if data["type"] == "index" else ""
    return f"{kind} {_length(data):,}{dtype}"


def _polars_frame(data: Any) -> str:
    columns = [(column["name"], _polars_type(column["dtype"])) for column in data["columns"]]
    return f"Polars DataFrame {_sized(data['rows'], columns)}"


def _polars_series(data: Any) -> str:
    return f"Polars Series {_count(data['values']):,}: {_label(data['name'])} {_polars_type(data['dtype'])}"


def _polars_type(data: Any) -> str:
    return _word(data if isinstance(data, str) else data[0])


def _arrow(kind: str) -> Callable[[Any], str]:
    return lambda data: f"{kind} {_sized(data['rows'], data['columns'])}"


def _arrow_column(kind: str) -> Callable[[Any], str]:
    return lambda data: f"{kind} {data['rows']:,}: {_word(data['columns'][0][1])}"


def _tensor(kind: str) -> Callable[[Any], str]:
    return lambda data: f"{kind} {_word(data['dtype'])} {_shape(data['shape'])}"


def _array(data: Any) -> str:
    shape = f"{_dtype(data['dtype'])} {_shape(data['shape'])}"
    return f"ndarray {shape}, {size(_decoded_size(data['data']))}"


def _sized(rows: int, columns: Sequence[Any]) -> str:
    named = [f"{_label(name)} {_word(dtype)}" for name, dtype in columns[:_COLUMNS]]
    if len(columns) > _COLUMNS:
        named.append("…")
    return f"{rows:,} × {len(columns):,}" + (f": {', '.join(named)}" if named else "")


def _labels(index: Any, first: int, end: int) -> list[Any]:
    """Some labels of an index of columns: those that are stored as they are, or numbers."""
    if index["type"] == "range":
        return list(range(*index["range"])[first:end])
    values = index.get("values", {})
    if values.get("type") in ("object", "string"):
        return list(values["values"][first:end])
    return [f"column {place}" for place in range(first, end)]


def _length(index: Any) -> int:
    """How many labels an index has."""
    if index["type"] == "range":
        return len(range(*index["range"]))
    if index["type"] == "multi":
        return int(index["codes"][0]["length"])
    return _count(index["values"])


def _count(values: Any) -> int:
    """How many values a column has, in whichever form it is stored."""
    while isinstance(values, dict):
        if "length" in values or "rows" in values:
            return int(values["length" if "length" in values else "rows"])
        values = next(values[name] for name in ("codes", "values", "left") if name in values)
    return len(values)


def _label(name: Any) -> str:
    if isinstance(name, dict):  # a tuple, for example
        name = next(iter(name.values()), "")
    text = name if isinstance(name, str) else json.dumps(name, ensure_ascii=False)
    return shortened(text, _LONGEST)


def _word(dtype: Any) -> str:
    return shortened(str(dtype), _LONGEST)


def _dtype(name: str) -> str:
    """A numpy dtype as numpy shows it."""
    matched = _DTYPE.fullmatch(name)
    if matched is None:
        raise ValueError(name)
    kind, size, unit = matched.groups()
    if kind in _WORDS:
        return f"{_WORDS[kind]}{8 * int(size)}"
    return {"b": "bool", "M": f"datetime64{unit}", "m": f"timedelta64{unit}"}.get(kind, name)


def _shape(shape: Any) -> str:
    return " × ".join(format(int(dim), ",") for dim in shape[:8]) or "scalar"


_MALFORMED: Final = (
    *(KeyError, IndexError, TypeError, ValueError, AttributeError, StopIteration),
    *(OverflowError, RecursionError),
)
_KNOWN: Final[dict[str, Callable[[Any], str]]] = {
    "numpy.ndarray": _array,
    "pandas.DataFrame": _pandas_frame,
    "pandas.Series": _pandas_series,
    "pandas.Index": _pandas_index,
    "polars.DataFrame": _polars_frame,
    "polars.Series": _polars_series,
    "pyarrow.Table": _arrow("Table"),
    "pyarrow.RecordBatch": _arrow("RecordBatch"),
    "pyarrow.Array": _arrow_column("Array"),
    "pyarrow.ChunkedArray": _arrow_column("ChunkedArray"),
    "pyarrow.Schema": lambda data: (
        f"Schema {', '.join(_label(name) for name, _ in data['columns'])}"
    ),
    "torch.Tensor": _tensor("Tensor"),
    "torch.Parameter": _tensor("Parameter"),
}
