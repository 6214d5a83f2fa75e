"""What holdfast's own codecs ever stored comes back; `tests/golden/codecs.json` has it."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import torch

from holdfast.codec.values import decode
from tests.golden.codecs import GOLDEN

FRAME = pd.DataFrame(
    {
        "n": [1, 2],
        "text": pd.array(["a", None], dtype="string[python]"),
        "at": pd.DatetimeIndex(["2026-01-01", "2026-07-01"], tz="Europe/Berlin").as_unit("us"),
        "kind": pd.Categorical(["x", None]),
        "maybe": pd.array([True, None], dtype="boolean"),
    },
    index=pd.Index(["i", "j"], dtype=object, name="key"),
)
FRAME.columns = FRAME.columns.astype(object)
POLARS = pl.DataFrame({"n": [1, None], "text": ["a", None]})
TABLE = pa.table({"n": [1, None], "text": ["a", None]})
TENSOR = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.bfloat16).T


def test_frames_tables_and_tensors_of_every_version_come_back() -> None:
    found = {name: decode(bytes.fromhex(golden["packed"])) for name, golden in GOLDEN.items() if name != "fraction"}  # fmt: skip
    pd.testing.assert_frame_equal(found["pandas"], FRAME)
    assert found["polars"].equals(POLARS)
    assert found["pyarrow"].equals(TABLE)
    assert torch.equal(found["torch"], TENSOR)
    assert found["torch"].stride() == (1, 2)
