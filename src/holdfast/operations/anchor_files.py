"""Anchors as they are written: JSON Lines, of which anyone can compute the root again.

A file has one section for each anchor. The first line of a section is `{"holdfast_anchor":1}`. Then
comes a line for each head, in the order of their names: `["RUN",SEQ,"DIGEST"]`. The last line has
the fields of `Anchor`. Lines are JSON in ASCII without spaces, with sorted keys.

The tree is the one of RFC 6962, over these lines without their ends. The root is the SHA-256 of the
last line without `root` and `signature`: so 32 bytes stand for the store, the time and every head.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from holdfast import markup
from holdfast.checkpoint import to_datetime, to_micros
from holdfast.errors import AnchorError, InvalidSignatureError
from holdfast.kernel.known_heads import KnownHead
from holdfast.model import Entry

if TYPE_CHECKING:
    from holdfast.keys.sealing import Signs, Trusts

FIRST_LINE: Final = b'{"holdfast_anchor":1}\n'
_LONGEST_LINE: Final = 1 << 16
_CARD: Final = markup.card("root", "store_id", "at", "heads")


class Anchor(NamedTuple):
    """One root over the heads of all runs of a store, as it was at a time."""

    root: str  # 32 bytes in hex: enough to publish
    store_id: str
    at: datetime
    heads: int
    tree: str  # the root of the tree alone, in hex
    signature: dict[str, str] | None = None

    def line(self) -> bytes:
        """As it ends its section."""
        signed = {} if self.signature is None else {"signature": self.signature}
        return as_line({**self._rooted(), "root": self.root, **signed})

    def _rooted(self) -> dict[str, Any]:
        at = to_datetime(to_micros(self.at)).isoformat()
        return {"at": at, "heads": self.heads, "store": self.store_id, "tree": self.tree}

    def root_of_fields(self) -> str:
        """The root that the other fields have."""
        return hashlib.sha256(as_line(self._rooted())[:-1]).hexdigest()

    @classmethod
    def made(cls, store_id: str, at: datetime, heads: int, tree: bytes) -> Anchor:
        """The anchor of a tree."""
        found = cls("", store_id, at, heads, tree.hex())
        return found._replace(root=found.root_of_fields())

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Anchor:
        """The anchor of a last line. Raises `KeyError`, `TypeError` and `ValueError`."""
        store, tree, heads = fields["store"], fields["tree"], fields["heads"]
        if not isinstance(store, str) or not isinstance(tree, str) or type(heads) is not int:
            raise TypeError("its fields have other types")
        at, root = datetime.fromisoformat(fields["at"]), str(fields["root"])
        bytes.fromhex(root)
        if at.tzinfo is None:
            raise ValueError("its time has no zone")
        signature = fields.get("signature")
        if signature is not None and not isinstance(signature, dict):
            raise TypeError("its signature is no object")
        return cls(root, store, at, heads, tree, signature)

    def signed(self, key: Signs) -> Anchor:
        """This anchor, with a signature of its root."""
        made = base64.b64encode(key.sign(self._as_signed())).decode()
        return self._replace(signature={"key": key.key_id, "of_root": made})

    def check_signature(self, trusted: Trusts) -> None:
        """Raise `InvalidSignatureError` unless one of these keys signed the root."""
        what = f"the anchor of {self.at:%Y-%m-%d %H:%M:%S} UTC"
        said = self.signature or {}
        try:
            signature = base64.b64decode(said.get("of_root", ""), validate=True)
        except (TypeError, ValueError):
            signature = b""
        if not isinstance(said.get("key"), str):
            raise InvalidSignatureError(what)
        try:
            trusted.verify(said["key"], self._as_signed(), signature)
        except InvalidSignatureError as error:
            raise type(error)(what, said["key"]) from None

    def _as_signed(self) -> bytes:
        return b"holdfast anchor\0" + bytes.fromhex(self.root)

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**self._rooted(), "root": self.root, "signed": self.signature is not None}

    def _repr_html_(self) -> str:
        return _CARD(self)


class Tree:
    """The root of a Merkle tree (RFC 6962), of leaves that are given one by one."""

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []  # of full subtrees, by their number of leaves
        self.leaves = 0

    def add(self, leaf: bytes) -> None:
        """One leaf more."""
        self.leaves += 1
        size, node = 1, hashlib.sha256(b"\0" + leaf).digest()
        while self._peaks and self._peaks[-1][0] == size:
            node = joined(self._peaks.pop()[1], node)
            size *= 2
        self._peaks.append((size, node))

    def root(self) -> bytes:
        """The root of all leaves so far."""
        if not self._peaks:
            return hashlib.sha256().digest()
        *others, (_, node) = self._peaks
        for _, left in reversed(others):
            node = joined(left, node)
        return node


def joined(left: bytes, right: bytes) -> bytes:
    """The node above two others."""
    return hashlib.sha256(b"\1" + left + right).digest()


def as_line(value: object) -> bytes:
    """A value as one line."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def head_line(head: Entry) -> bytes:
    """The line of a head."""
    return as_line([head.run, head.seq, head.digest.hex()])


def write_section(file: IO[bytes], heads: Iterable[Entry], store_id: str, at: int) -> Anchor:
    """Write all lines of an anchor but the last, which is that of the returned one."""
    tree = Tree()
    file.write(FIRST_LINE)
    for head in heads:
        line = head_line(head)
        tree.add(line[:-1])
        file.write(line)
    return Anchor.made(store_id, to_datetime(at), tree.leaves, tree.root())


class Section(NamedTuple):
    """Where an anchor is in a file."""

    anchor: Anchor
    begins: int


def sections(file: IO[bytes], where: str) -> tuple[list[Section], int]:
    """The complete anchors of a file, in order, and how many are not: their writing was interrupted.

    Raises `AnchorError` for another kind of file, and if none is complete.
    """
    found: list[Section] = []
    begun, begins = 0, -1
    place = file.seek(0)
    while line := file.readline(_LONGEST_LINE):
        if line == FIRST_LINE:
            begun, begins = begun + 1, place
        elif not begun:
            raise AnchorError(where, "it is not a file of anchors")
        elif begins >= 0 and not line.startswith(b"["):
            with suppress(KeyError, TypeError, ValueError, RecursionError):
                if line.endswith(b"\n"):
                    found.append(Section(Anchor.read(json.loads(line)), begins))
            begins = -1
        place += len(line)
    if not found:
        raise AnchorError(where, "there is no complete anchor in it")
    return found, begun - len(found)


def heads_in(file: IO[bytes], section: Section, where: str) -> Iterator[KnownHead]:
    """The heads of an anchor. Raises `AnchorError` at the end if it is not as it was written."""
    anchor, tree = section.anchor, Tree()
    at = to_micros(anchor.at)
    file.seek(section.begins)
    file.readline(_LONGEST_LINE)
    while (line := file.readline(_LONGEST_LINE)).startswith(b"["):
        tree.add(line[:-1])
        try:
            run, seq, digest = json.loads(line)
            if not isinstance(run, str) or type(seq) is not int or seq < 0:
                raise TypeError("it is no head")
            known = KnownHead(run, seq, bytes.fromhex(digest), at)
        except (TypeError, ValueError, RecursionError) as error:
            raise changed(where, anchor, str(error)) from None
        yield known
    if (tree.leaves, tree.root().hex()) != (anchor.heads, anchor.tree):
        raise changed(where, anchor, "its heads do not have its root")
    if anchor.root_of_fields() != anchor.root:
        raise changed(where, anchor, "its fields do not have its root")


def changed(where: str, anchor: Anchor, why: str) -> AnchorError:
    """What to raise for an anchor that is not as it was written."""
    made = f"{anchor.at:%Y-%m-%d %H:%M:%S} UTC"
    return AnchorError(where, f"the anchor of {made} was changed: {why}; use a copy of the file")
