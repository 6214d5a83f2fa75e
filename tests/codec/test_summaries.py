from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec import readable
from holdfast.codec.registry import Coded
from holdfast.codec.summaries import changed, for_people, summary
from holdfast.operations.diff import diff_values

READY = [
    *("pandas.DataFrame", "pandas.Series", "pandas.Index", "polars.DataFrame", "polars.Series"),
    *("pyarrow.Table", "pyarrow.Array", "pyarrow.Schema", "torch.Tensor", "numpy.ndarray"),
]


def column(dtype: str, length: int) -> dict[str, Any]:
    raw = {"dtype": "<i8", "length": length, "bytes": bytes(8 * length)}
    return {"dtype": dtype, "type": "numpy", "values": raw}


def frame(*names: str, rows: int = 1000) -> Coded:
    labels = {"dtype": "object", "type": "object", "values": list(names)}
    data = {
        "rows": rows,
        "columns": {"type": "index", "values": labels, "name": None},
        "index": {"type": "range", "range": [0, rows, 1], "name": None},
        "values": [column("int64", rows) for _ in names],
    }
    return Coded("pandas.DataFrame", data)


TENSOR = Coded("torch.Tensor", {"dtype": "float32", "shape": [3, 224, 224], "bytes": b""})


def test_people_see_a_line_where_a_frame_or_tensor_is_stored() -> None:
    state = {
        "frame": frame("a", "b"),
        "wide": frame(*"abcdefg", rows=1),
        "image": TENSOR,
        "array": np.zeros((2, 3)),
        "digest": bytes(range(4)),
        "file": bytes(3_000_000),
        "money": Coded("shop.money", [5, "EUR"]),
        "plain": [1, {"$codec": "a key of the user's"}],
    }
    assert for_people(readable.to_json(state)) == {
        "frame": "<DataFrame 1,000 × 2: a int64, b int64>",
        "wide": "<DataFrame 1 × 7: a int64, b int64, c int64, d int64, e int64, …>",
        "image": "<Tensor float32 3 × 224 × 224>",
        "array": "<ndarray float64 2 × 3, 48 B>",
        "digest": "<bytes 00010203>",
        "file": "<bytes, 3.0 MB>",
        "money": "<shop.money [5, 'EUR']>",
        "plain": [1, {"$$codec": "a key of the user's"}],
    }


def test_a_diff_names_the_columns_that_changed() -> None:
    old, new = frame("a", "b"), frame("a", "b")
    new.data["values"][1]["values"]["bytes"] = b"\x01" + bytes(7999)
    found = diff_values({"f": old, "t": TENSOR}, {"f": new, "t": frame("x", rows=2)})
    assert [str(change) for change in found.changes] == [
        "~ f: DataFrame 1,000 × 2: a int64, b int64 changed in b",
        "~ t: Tensor float32 3 × 224 × 224 → DataFrame 2 × 1: x int64",
    ]
    assert [change["path"] for change in found.patch] == ["/f", "/t"]
    assert not diff_values({"f": old}, {"f": frame("a", "b")})


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"rows": 10**30, "columns": {"type": "range", "range": [0, 10**18, 1]}, "values": []},
        {"rows": "x", "columns": [], "values": []},
        {"dtype": "\x1b[2J", "shape": [1]},
        {"dtype": "<f8", "shape": ["a"], "data": ""},
    ],
)
@pytest.mark.parametrize("name", READY)
def test_a_summary_of_anything_is_short_and_printable(name: str, data: Any) -> None:
    text = summary({"$codec": {"name": name, "data": data}})
    assert text is not None
    assert text.isprintable()
    assert len(text) < 300


@given(
    st.sampled_from(READY),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["rows", "columns", "values", "dtype", "type", "shape", "index"]),
                inner,
            )
        ),
        max_leaves=10,
    ),
)
def test_no_data_makes_a_summary_fail(name: str, data: Any) -> None:
    tree = {"$codec": {"name": name, "data": data}}
    assert summary(tree)
    assert changed(tree, tree) == "changed"
    json.dumps(for_people([tree, {"$codec": data}, {"$ndarray": data}, {"$bytes": data}]))
