"""Every checkpointer and engine of a test has a key, whether or not the test gives one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import holdfast.checkpointer
from holdfast.keys.sealing import Sealer, sealers_of
from tests.keys.forging import RING


@contextmanager
def keyed_by_default() -> Iterator[None]:
    """Give the ring to all who are opened inside the block without keys."""

    def sealers(
        store: Any, key: Any, sign: Any, trusted: Any, *others: Any, **options: Any
    ) -> tuple[Sealer | None, Sealer | None]:
        ring = RING if key is sign is trusted is None else key
        return sealers_of(store, ring, sign, trusted, *others, **options)

    with patch.object(holdfast.checkpointer, "sealers_of", sealers):
        yield
