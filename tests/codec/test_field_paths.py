"""Paths to fields: which values they lead to."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.codec.field_paths import FieldPath
from holdfast.errors import SerializeError


def hidden(path: str, tree: Any) -> Any:
    return FieldPath(path).replaced(tree, lambda _, where: f"<{where}>")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", {"a": {"b": "<a.b>"}, "rows": [{"b": 2}]}),
        ("**.b", {"a": {"b": "<a.b>"}, "rows": [{"b": "<rows[0].b>"}]}),
        ("**.**.b", {"a": {"b": "<a.b>"}, "rows": [{"b": "<rows[0].b>"}]}),
        ("rows[*].b", {"a": {"b": 1}, "rows": [{"b": "<rows[0].b>"}]}),
        ("rows[1].b", {"a": {"b": 1}, "rows": [{"b": 2}]}),
        ("b", {"a": {"b": 1}, "rows": [{"b": 2}]}),
    ],
)
def test_a_path_leads_to_keys_items_and_any_of_them(path: str, found: Any) -> None:
    assert hidden(path, {"a": {"b": 1}, "rows": [{"b": 2}]}) == found


def test_a_value_that_is_nested_too_deeply_is_refused_and_not_stored_as_it_is() -> None:
    tree: Any = {"b": 1}
    for _ in range(5_000):
        tree = [tree]
    with pytest.raises(SerializeError, match="nested too deeply"):
        hidden("**.b", tree)
