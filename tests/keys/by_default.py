"""Every checkpointer and engine of a test has a key, whether or not the test gives one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import holdfast.checkpointer
from holdfast.keys.sealing import Sealer, sealer_of
from tests.keys.forging import RING


@contextmanager
def keyed_by_default() -> Iterator[None]:
    """Give the ring to all who are opened inside the block without keys."""

    def sealer(store: Any, key: Any, sign: Any, trusted: Any, *others: Any) -> Sealer | None:
        ring = RING if key is sign is trusted is None else key
        return sealer_of(store, ring, sign, trusted, *others)

    with patch.object(holdfast.checkpointer, "sealer_of", sealer):
        yield
