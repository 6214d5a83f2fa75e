"""pyarrow: Table, RecordBatch, Array, ChunkedArray and Schema, as an Arrow IPC stream.

Such a stream may come from anywhere: it is read without compression, which could make gigabytes of
a few bytes, and every offset in it is validated before it is used.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from holdfast.codec.registry import add_ready

_BATCHES: Final = {2: "dictionary", 3: "records"}  # the headers of messages that hold data


def _table_data(table: pa.Table) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    whole = table.combine_chunks().unify_dictionaries()  # equal tables are stored as equal bytes
    options = pa.ipc.IpcWriteOptions(compression=None, unify_dictionaries=True)
    with pa.ipc.new_stream(sink, whole.schema, options=options) as writer:
        writer.write_table(whole)
    return {
        "rows": table.num_rows,
        "columns": [[field.name, str(field.type)] for field in table.schema],
        "ipc": sink.getvalue().to_pybytes(),
    }


def _table(data: Any) -> pa.Table:
    stream = data["ipc"]
    if type(stream) is not bytes:
        raise ValueError("an Arrow stream that is not bytes")
    _refuse_compression(stream)
    with pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return table


def _refuse_compression(stream: bytes) -> None:
    """Raise `ValueError` if the data of a message is compressed: the format says how large it is
    only in the data itself."""
    for message in pa.ipc.MessageReader.open_stream(stream):
        meta = message.metadata.to_pybytes()
        try:
            root = struct.unpack_from("<I", meta)[0]
            kind = _field(meta, root, 1)
            header = _field(meta, root, 2)
            if kind is None or header is None or meta[kind] not in _BATCHES:
                continue
            batch = header + struct.unpack_from("<I", meta, header)[0]
            if _BATCHES[meta[kind]] == "dictionary":
                inner = _field(meta, batch, 1)
                if inner is None:
                    continue
                batch = inner + struct.unpack_from("<I", meta, inner)[0]
            if _field(meta, batch, 3) is not None:
                raise ValueError("an Arrow stream that is compressed")
        except (struct.error, IndexError):
            raise ValueError("a malformed Arrow stream") from None


def _field(meta: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table is; None if it is absent."""
    vtable = table - struct.unpack_from("<i", meta, table)[0]
    if vtable < 0:
        raise ValueError("a malformed Arrow stream")
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", meta, vtable)[0]:
        return None
    offset = struct.unpack_from("<H", meta, vtable + slot)[0]
    return table + offset if offset else None


def column_data(values: Any) -> dict[str, Any]:
    """An array as a table of one column; of a pandas array, what it is made of."""
    chunked = values.__arrow_array__() if hasattr(values, "__arrow_array__") else values
    return _table_data(pa.table({"": chunked}))


def column(data: Any) -> pa.ChunkedArray:
    """The array that `column_data` was given, in chunks."""
    table = _table(data)
    if table.num_columns != 1:
        raise ValueError("an Arrow stream of more than one column")
    return table.column(0)


def _array(data: Any) -> pa.Array:
    found = column(data)
    whole = found.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        return pa.array([], found.type) if not whole.num_chunks else whole.chunk(0)
    return whole


def _batch(data: Any) -> pa.RecordBatch:
    table = _table(data)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _arrays() -> tuple[type, ...]:
    """Every class of array: there is one for each type."""
    return tuple(
        kind
        for kind in vars(pa.lib).values()
        if isinstance(kind, type) and issubclass(kind, pa.Array)
    )


add_ready("pyarrow.Table", (pa.Table,), _table_data, _table)
add_ready(
    "pyarrow.RecordBatch",
    (pa.RecordBatch,),
    lambda batch: _table_data(pa.Table.from_batches([batch])),
    _batch,
)
add_ready("pyarrow.ChunkedArray", (pa.ChunkedArray,), column_data, column)
add_ready("pyarrow.Array", _arrays(), column_data, _array)
add_ready(
    "pyarrow.Schema",
    (pa.Schema,),
    lambda schema: _table_data(schema.empty_table()),
    lambda data: _table(data).schema,
)
