"""The pages of the documentation that need heavy packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_docs import WITH_EXTRAS, named, run_page


@pytest.mark.parametrize("page", WITH_EXTRAS, ids=named)
def test_every_block_of_a_page_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_page(page, tmp_path, monkeypatch)
