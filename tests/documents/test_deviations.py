from __future__ import annotations

import re
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE.parents[1] / "docs" / "documents" / "deviations.md"


def test_every_row_is_asserted_by_a_test_and_every_test_names_a_row() -> None:
    rows = re.findall(r"^\| ([A-Z]\d+) \|", PAGE.read_text(), re.MULTILINE)
    tests = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    named = re.findall(r"# deviation: ([A-Z]\d+)", tests)
    assert len(rows) == len(set(rows))
    assert sorted(set(named)) == sorted(rows)
