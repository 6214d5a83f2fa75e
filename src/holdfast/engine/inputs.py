"""A hash of what a run was started with."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from holdfast.codec import readable


def inputs_hash(inputs: object) -> str:
    """SHA-256 over the inputs in one form: equal inputs have equal hashes, in every process.

    The order of a dict's keys and of a set's members does not matter. Raises `SerializeError`
    with the path to what can't be stored.
    """
    tree = _ordered(readable.to_json(inputs, root="inputs"))
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _ordered(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_ordered(item) for item in tree]
    if isinstance(tree, dict):
        ordered = {key: _ordered(item) for key, item in tree.items()}
        if "$map" in ordered:
            ordered["$map"] = sorted(ordered["$map"], key=json.dumps)
        return ordered
    return tree
