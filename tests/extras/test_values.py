"""Values of pandas, Polars, pyarrow and torch come back equal, from every form of storage."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import random
from pathlib import Path
from typing import Any

import numpy as np
import ormsgpack
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import pandas as frames
from polars.testing.parametric import dataframes as polars_frames

import holdfast as hf
from holdfast.codec import readable
from holdfast.codec.paths import Misplaced
from holdfast.codec.ready import arrow_tables
from holdfast.codec.ready.vectors import vector
from holdfast.codec.registry import value_of
from holdfast.codec.summaries import summary
from holdfast.codec.values import decode, decode_data, encode
from holdfast.engine.arguments import digest
from holdfast.engine.inputs import inputs_hash


def round_trip(value: Any) -> Any:
    """What comes back, from the packed and the readable form; both are the same, each time."""
    data = encode({"it": value})
    came_back = decode(data)["it"]
    assert encode(decode_data(data)) == data
    assert encode(readable.loads(readable.dumps({"it": value}))) == data
    assert encode({"it": came_back}) == data
    assert inputs_hash(came_back) == inputs_hash(value)
    assert digest((came_back,), {}) == digest((value,), {})
    assert type(came_back) is type(value)
    return came_back


EVERY_DTYPE = pd.DataFrame(
    {
        "int": [1, 2, 3],
        "float": [1.5, np.nan, -0.0],
        "complex": [1j, 2, 3],
        "bool": [True, False, True],
        "text": ["x", None, "z"],
        "objects": [1, "a", (None, dt.date(2026, 1, 1))],
        "scalars": [pd.Timestamp("2026-01-01 00:00:00.123456789", tz="UTC"), pd.NaT, pd.NA],
        "zone": pd.date_range("2026-10-25", periods=3, tz="Europe/Berlin", freq="h"),
        "offset": pd.to_datetime(["2026-01-01T00:00+05:30"] * 3),
        "nanoseconds": pd.to_datetime(["2026", None, "2027"]).as_unit("ns"),
        "span": pd.to_timedelta([1, None, 3], unit="s"),
        "category": pd.Categorical(["a", None, "b"], categories=["b", "a"], ordered=True),
        "Int": pd.array([1, None, 3], dtype="Int16"),
        "Float": pd.array([1, None, 3], dtype="Float32"),
        "boolean": pd.array([True, None, False], dtype="boolean"),
        "string": pd.array(["a", None, "b"], dtype="string"),
        "string in Python": pd.array(["a", None, "b"], dtype="string[python]"),
        "period": pd.period_range("2026-01", periods=3, freq="M"),
        "interval": pd.interval_range(0, 3),
        "arrow": pd.array([[1], None, [3]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
    }
)


@pytest.mark.parametrize(
    "frame",
    [
        EVERY_DTYPE,
        EVERY_DTYPE[::2],
        EVERY_DTYPE.iloc[:0],
        EVERY_DTYPE.set_index(["int", "category", "zone"]),
        EVERY_DTYPE.set_index("period"),
        EVERY_DTYPE.set_index("zone").asfreq("h"),
        EVERY_DTYPE[["int", "float"]].T,
        pd.DataFrame(np.arange(6).reshape(2, 3), columns=["x", "x", ("t", 1)]),
        pd.DataFrame({("a", 1): [1], ("a", 2): [2]}),
        pd.DataFrame(),
        pd.DataFrame(columns=["a"]),
        pd.DataFrame(index=[1, 2]),
    ],
)
def test_pandas_frames_come_back_equal(frame: pd.DataFrame) -> None:
    frame.attrs["source"] = {"file": "a.csv"}
    came_back = round_trip(frame)
    pd.testing.assert_frame_equal(came_back, frame, check_freq=True)
    assert came_back.attrs == frame.attrs
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        pd.testing.assert_series_equal(round_trip(column), column)
    pd.testing.assert_index_equal(round_trip(frame.index), frame.index, exact=True)


@settings(max_examples=30)
@given(
    frames.data_frames(
        [
            frames.column("a", dtype=np.int64),
            frames.column("b", dtype=np.float64),
            frames.column("c", dtype=np.dtype("M8[ns]")),
            frames.column("d", elements=st.text() | st.none(), dtype=object),
            frames.column("e", elements=st.lists(st.integers(), max_size=2), dtype=object),
        ],
        index=frames.range_indexes() | frames.indexes(dtype=np.float32),
    )
)
def test_any_pandas_frame_comes_back_equal(frame: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(round_trip(frame), frame)


def test_pandas_scalars_keep_their_nanoseconds() -> None:
    moment = pd.Timestamp("2026-10-25 00:30:00.123456789Z").tz_convert("Europe/Berlin")
    for value in (moment, pd.Timestamp("2026-01-01"), pd.Timedelta("1ns")):
        assert round_trip(value) == value
        assert round_trip(value).unit == value.unit
    assert round_trip(pd.NaT) is pd.NaT
    assert round_trip(pd.NA) is pd.NA


def test_what_pandas_can_not_give_as_data_is_refused_with_its_column() -> None:
    sparse = pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])})
    with pytest.raises(hf.SerializeError, match=r"state\.f: its column 'a': dtype Sparse"):
        encode({"f": sparse})
    with pytest.raises(hf.SerializeError, match=r"state\.f.*values\[0\]: function print"):
        encode({"f": pd.DataFrame({"a": [print]})})


@pytest.mark.parametrize(
    "offset",
    [
        pd.DateOffset(months=1, days=2),
        pd.offsets.Easter(),
        pd.offsets.CustomBusinessDay(holidays=["2026-02-02"]),
        pd.offsets.BusinessHour(start="10:00"),
    ],
)
def test_a_frequency_that_would_come_back_as_another_is_refused(offset: pd.DateOffset) -> None:
    index = pd.date_range("2026-01-05 11:00", periods=3, freq=offset)
    with pytest.raises(hf.SerializeError, match=r"the frequency .* of its index.*freq = None"):
        encode(pd.Series([1, 2, 3], index=index))


@pytest.mark.parametrize("freq", ["-1h", "WOM-2TUE", "QS-NOV", "3B", "W-WED", "bh", "1D12h"])
def test_a_frequency_that_has_a_name_comes_back(freq: str) -> None:
    index = pd.date_range("2026-01-05 11:00", periods=3, freq=freq)
    assert round_trip(index).freq == index.freq


@settings(max_examples=40)
@given(
    polars_frames(
        max_cols=6,
        max_size=6,
        allow_null=True,
        allowed_dtypes=[
            *(pl.Int8, pl.Int64, pl.UInt64, pl.Int128, pl.Float32, pl.Float64, pl.Boolean),
            *(pl.String, pl.Binary, pl.Date, pl.Time, pl.Datetime, pl.Duration, pl.Categorical),
        ],
    )
)
def test_any_polars_frame_comes_back_equal(frame: pl.DataFrame) -> None:
    came_back = round_trip(frame)
    assert came_back.schema == frame.schema
    assert came_back.equals(frame)


def test_polars_types_come_back_equal() -> None:
    frame = pl.DataFrame(
        {
            "text": ["x", None, "z"],
            "time": [dt.datetime(2026, 1, 1), None, dt.datetime(2027, 1, 1)],
            "list": [[1], None, []],
            "struct": [{"x": 1, "y": "a"}, None, {"x": None, "y": None}],
            "decimal": [decimal.Decimal("1.5"), None, None],
            "null": [None] * 3,
        }
    ).with_columns(
        pl.col("text").cast(pl.Categorical).alias("category"),
        pl.col("text").cast(pl.Enum(["x", "z"])).alias("enum"),
        pl.col("time").dt.replace_time_zone("Europe/Berlin").alias("zone"),
        pl.col("time").cast(pl.Datetime("ns")).alias("nanoseconds"),
        pl.Series("array", [[1, 2], [3, 4], None], dtype=pl.Array(pl.Int8, 2)),
    )
    for one in (frame, frame.reverse(), frame.head(0), pl.DataFrame()):
        came_back = round_trip(one)
        assert came_back.schema == one.schema
        assert came_back.equals(one)
    for series in frame:
        assert round_trip(series).equals(series)
    with pytest.raises(hf.SerializeError, match="Object"):
        encode(pl.DataFrame({"a": [object()]}))


TABLE = pa.table(
    {
        "int": [1, None, 3],
        "text": ["x", "yy", None],
        "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
        "list": [[1], None, [2, 3]],
        "struct": [{"x": 1}, None, {"x": 2}],
        "view": pa.array(["abc", "a text of more than twelve", None], pa.string_view()),
    },
    metadata={"made": "by hand"},
)


def test_arrow_tables_come_back_equal() -> None:
    chunks = pa.concat_tables([TABLE, TABLE])
    for table in (TABLE, chunks, TABLE.slice(1, 1), TABLE.schema.empty_table()):
        came_back = round_trip(table)
        assert came_back.equals(table, check_metadata=True)
    assert encode(chunks) == encode(chunks.combine_chunks()), "equal is equal"
    assert round_trip(TABLE.schema).equals(TABLE.schema, check_metadata=True)
    assert round_trip(TABLE["int"]).equals(TABLE["int"])
    assert round_trip(TABLE["text"].chunk(0)).equals(TABLE["text"].chunk(0))
    assert round_trip(pa.array([], pa.int8())).type == pa.int8()
    batch = TABLE.to_batches()[0]
    assert round_trip(batch).equals(batch)


def test_a_few_bytes_can_not_ask_for_a_huge_index() -> None:
    for length in (3, 10**8, 10**40):
        hostile = {"type": "range", "range": [0, length, 1], "name": None}
        codes = vector(np.array([1, 0], dtype="i1"))
        multi = {"type": "multi", "levels": [hostile], "codes": [codes], "names": ["n"]}
        with pytest.raises(Misplaced, match=r"more labels than it has codes|OverflowError"):
            value_of("pandas.Index", multi)
        values = {"type": "categorical", "codes": codes, "categories": hostile, "ordered": False}
        with pytest.raises(Misplaced, match=r"more labels than it has codes|OverflowError"):
            value_of("pandas.Index", {"type": "index", "values": values, "name": None})


def test_labels_that_no_row_has_come_back() -> None:
    labels = pd.RangeIndex(5, name="n")
    index = pd.MultiIndex(levels=[labels, ["a", "b"]], codes=[[4, 2, 4], [0, 1, 0]])
    came_back = round_trip(index)
    assert came_back.equals(index)
    assert list(came_back.levels[0]) == list(labels)
    short = pd.Series(pd.Categorical.from_codes([4, -1], categories=pd.RangeIndex(5)))
    pd.testing.assert_series_equal(round_trip(short), short, check_index_type=False)


def test_a_hostile_arrow_stream_is_refused_and_crashes_nothing() -> None:
    """It is read in this process: a crash would end the tests."""
    chance = random.Random(7)
    stream = arrow_tables._table_data(TABLE)["ipc"]
    for _ in range(2000):
        changed = bytearray(stream)
        for _ in range(chance.choice([1, 2, 8])):
            place = chance.randrange(len(changed))
            wild = chance.choice([b"\xff\xff\xff\x7f", b"\xff", b"\0\0\0\0", chance.randbytes(1)])
            changed[place : place + len(wild)] = wild
        data = ormsgpack.packb([ormsgpack.Ext(5, b""), "pyarrow.Table", {"ipc": bytes(changed)}])
        try:
            table = decode(data)
        except hf.ReviveError:
            continue
        table.to_pylist()


def test_a_compressed_arrow_stream_is_refused() -> None:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE)
    with pytest.raises(ValueError, match="compressed"):
        arrow_tables._table({"ipc": sink.getvalue().to_pybytes()})


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6).reshape(2, 3).T,
        torch.arange(120.0).reshape(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        torch.tensor(3, dtype=torch.bfloat16),
        torch.zeros(0, 3),
        torch.ones(3, requires_grad=True),
        torch.ones(3, requires_grad=True) * 2,
        torch.tensor([True, False]),
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(3).to(torch.float8_e4m3fn),
        torch.tensor([1 + 2j]),
    ],
    ids=lambda tensor: f"{tensor.dtype}{tuple(tensor.shape)}",
)
def test_tensors_come_back_equal(tensor: torch.Tensor) -> None:
    came_back = round_trip(tensor)
    assert came_back.dtype == tensor.dtype
    assert came_back.shape == tensor.shape
    assert came_back.stride() == tensor.stride()
    assert came_back.requires_grad == tensor.requires_grad
    assert came_back.is_leaf
    assert came_back.detach().tolist() == tensor.detach().tolist()


def test_a_tensor_that_has_no_plain_data_is_refused() -> None:
    assert decode(encode(torch.ones(1).expand(4))).tolist() == [1, 1, 1, 1]
    for tensor in (torch.eye(2).to_sparse(), torch.empty(2, device="meta")):
        with pytest.raises(hf.SerializeError, match=r"state\.t: a "):
            encode({"t": tensor})


def test_numpy_scalars_come_back_as_themselves() -> None:
    for scalar in (np.float32(1.5), np.int8(-1), np.bool_(True), np.datetime64("2026-01-01", "ns")):
        assert decode(encode(scalar)) == scalar
        assert type(decode(encode(scalar))) is type(scalar)


@pytest.mark.parametrize("value", [EVERY_DTYPE, TABLE, torch.ones(2), pl.DataFrame({"a": [1]})])
def test_damaged_data_of_a_ready_codec_is_an_error_and_nothing_else(value: Any) -> None:
    chance = random.Random(3)
    good = readable.to_json(value)["$codec"]

    def damage(tree: Any) -> Any:
        if isinstance(tree, dict) and tree and chance.random() < 0.9:
            key = chance.choice(list(tree))
            return {**tree, key: damage(tree[key])}
        if isinstance(tree, list) and tree and chance.random() < 0.9:
            place = chance.randrange(len(tree))
            return [*tree[:place], damage(tree[place]), *tree[place + 1 :]]
        return chance.choice([None, -1, 10**12, "", "x", [], {}, {"$bytes": ""}, 1.5, ["List", 3]])

    for _ in range(300):
        tree = {"$codec": {"name": good["name"], "data": damage(good["data"])}}
        with contextlib.suppress(hf.ReviveError, ValueError):
            readable.from_json(tree)
        assert summary(tree)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_a_run_keeps_a_model_and_a_frame(kind: str, tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 2)
    where = f"{kind}:///{tmp_path}/runs" + (".db" if kind == "sqlite" else "")
    frame = pd.DataFrame({"a": range(5000), "b": np.random.default_rng(1).random(5000)})
    with hf.SyncCheckpointer(where) as cp:
        first = cp.save("train", {"model": model.state_dict(), "log": frame})
        frame.loc[7, "b"] = 0.5
        second = cp.save("train", {"model": model.state_dict(), "log": frame})
        found = cp.load("train")
        assert found is not None
        fresh = torch.nn.Linear(4, 2)
        fresh.load_state_dict(found.state["model"])
        assert torch.equal(fresh.weight, model.weight)
        pd.testing.assert_frame_equal(found.state["log"], frame)
        assert str(cp.diff("train", first.seq, second.seq)).splitlines()[1:] == [
            "~ log: DataFrame 5,000 × 2: a int64, b float64 changed in b"
        ]
        if kind == "sqlite":
            stored = [cp.core.journals.entry("train", c.seq) for c in (first, second)]
            sizes = [len(entry.body) for entry in stored if entry is not None]
            assert sizes[1] < 300, "only the change is stored"
