from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.codec import readable
from holdfast.operations.diff import diff_values
from tests.strategies import values


def apply_patch(document: Any, patch: list[dict[str, Any]]) -> Any:
    """RFC 6902, as far as we use it."""
    document = {"root": copy.deepcopy(document)}
    for change in patch:
        parts = [
            "root",
            *(p.replace("~1", "/").replace("~0", "~") for p in change["path"].split("/")[1:]),
        ]
        target: Any = document
        for part in parts[:-1]:
            target = target[int(part)] if isinstance(target, list) else target[part]
        key: Any = int(parts[-1]) if isinstance(target, list) else parts[-1]
        if change["op"] == "remove":
            del target[key]
        elif change["op"] == "add" and isinstance(target, list):
            target.insert(key, change["value"])
        else:
            target[key] = change["value"]
    return document["root"]


@given(values(), values())
def test_the_patch_turns_one_state_into_the_other(old: object, new: object) -> None:
    difference = diff_values(old, new)
    assert not diff_values(
        readable.from_json(apply_patch(readable.to_json(old), difference.patch)), new
    )


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from("ab~/"),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["a", "b/c", "~"]), inner)
    ),
)


@given(_json, _json)
def test_similar_states_are_patched_exactly(old: Any, new: Any) -> None:
    patched = apply_patch(old, diff_values(old, new).patch)
    assert not diff_values(patched, new)
    assert not diff_values(old, copy.deepcopy(old))


def test_people_read_what_changed_in_a_line_each() -> None:
    old = {"user": {"name": "ann"}, "items": [1, 2, 3], "gone": True, "odd key": 1}
    new = {"user": {"name": "bob"}, "items": [1, 2, 3, 4], "odd key": 1.0, "new": None}
    text = diff_values(old, new, "run@1", "run@2").text()
    assert text.splitlines() == [
        "run@1 → run@2",
        '~ user.name: "ann" → "bob"',
        "+ items[3]: 4",
        "- gone: true",
        "~ ['odd key']: 1 → 1.0",
        "+ new: null",
    ]
    assert "\x1b[32m+ items[3]: 4\x1b[0m" in diff_values(old, new).text(color=True)
    assert diff_values(old, old).text().endswith("no difference")


def test_a_hostile_value_cannot_write_to_the_terminal() -> None:
    text = diff_values({}, {"x": "\x1b[2J\x07boo", "y": "long" * 100}).text()
    assert "\x1b" not in text
    assert "402 characters" in text
