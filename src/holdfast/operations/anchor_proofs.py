"""Proving one run against the root of an anchor, without the list of all others. Blocks.

For an auditor who knows the root, and gets the export of one run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from holdfast.errors import AnchorError
from holdfast.kernel.known_heads import KnownHead
from holdfast.operations.anchor_files import Anchor, as_line, changed, joined

FIRST: Final = b'{"holdfast_anchor_proof":1,'
_LARGEST: Final = 1 << 20


class AnchorProof(NamedTuple):
    """That a run had this head when an anchor was made."""

    anchor: Anchor
    head: KnownHead
    place: int  # of its line among those of all heads
    path: tuple[str, ...]  # the hashes beside the way to the root of the tree, in hex

    def check(self, root: str | None = None) -> None:
        """Raise `AnchorError` unless the root, or else the anchor's own, stands for this head."""
        leaf = as_line([self.head.run, self.head.seq, self.head.digest.hex()])[:-1]
        found = _root(_leaf(leaf), self.place, self.anchor.heads, self.path)
        if found is None or found.hex() != self.anchor.tree:
            raise changed("the proof", self.anchor, "the run does not lead to its root")
        if self.anchor.root_of_fields() != self.anchor.root:
            raise changed("the proof", self.anchor, "its fields do not have its root")
        if root is not None and root != self.anchor.root:
            raise AnchorError("the proof", f"it is one for another root, {self.anchor.root}")

    def line(self) -> bytes:
        """As it is written: a JSON object on one line."""
        proof = {
            "run": self.head.run, "seq": self.head.seq, "digest": self.head.digest.hex(),
            "place": self.place, "path": list(self.path),
        }  # fmt: skip
        return FIRST + as_line({**json.loads(self.anchor.line()), **proof})[1:]

    @classmethod
    def read(cls, content: bytes, where: str) -> AnchorProof:
        """The proof of a line. Raises `AnchorError` if it is none."""
        try:
            fields: dict[str, Any] = json.loads(content[:_LARGEST])
            anchor = Anchor.read(fields)
            seq, index, path = int(fields["seq"]), int(fields["place"]), fields["path"]
            at = round(anchor.at.timestamp() * 1e6)
            head = KnownHead(str(fields["run"]), seq, bytes.fromhex(fields["digest"]), at)
            return cls(anchor, head, index, tuple(map(str, path)))
        except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
            raise AnchorError(where, f"it is no proof: {error}") from None


def make(anchor: Anchor, heads: Sequence[KnownHead], run: str) -> AnchorProof:
    """The proof for one run, of all heads of an anchor."""
    index = next((at for at, head in enumerate(heads) if head.run == run), None)
    if index is None:
        raise AnchorError("the anchor", f"run {run!r} is not in it")
    lines = (as_line([head.run, head.seq, head.digest.hex()])[:-1] for head in heads)
    path = _path([_leaf(line) for line in lines], index)
    return AnchorProof(anchor, heads[index], index, tuple(node.hex() for node in path))


def _leaf(line: bytes) -> bytes:
    return hashlib.sha256(b"\0" + line).digest()


def _path(leaves: list[bytes], index: int) -> list[bytes]:
    """The hashes beside the way from a leaf to the root, the nearest first (RFC 6962, 2.1.1)."""
    if len(leaves) == 1:
        return []
    half = 1 << (len(leaves) - 1).bit_length() - 1
    left, right = leaves[:half], leaves[half:]
    if index < half:
        return [*_path(left, index), _tree(right)]
    return [*_path(right, index - half), _tree(left)]


def _tree(leaves: list[bytes]) -> bytes:
    nodes = leaves
    while len(nodes) > 1:
        pairs = range(0, len(nodes) - 1, 2)
        odd = nodes[-1:] if len(nodes) % 2 else []
        nodes = [joined(nodes[at], nodes[at + 1]) for at in pairs] + odd
    return nodes[0]


def _root(node: bytes, index: int, size: int, path: Sequence[str]) -> bytes | None:
    """The root that a leaf leads to; None if it can't be there (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return None
    last = size - 1
    for text in path:
        try:
            beside = bytes.fromhex(text)
        except ValueError:
            return None
        if last == 0:
            return None
        if index & 1 or index == last:
            node = joined(beside, node)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            node = joined(node, beside)
        index, last = index >> 1, last >> 1
    return node if last == 0 else None
