from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.stores.file import FileStore
from holdfast.testing.contract import PersistentStoreContract


class TestFileStore(PersistentStoreContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Callable[[], Store]:
        return partial(FileStore, tmp_path / "runs")
