"""Comparing a store with an anchor: what was cut off, replaced or removed since. Blocks."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.errors import AnchorError, CheckpointCorruptedError
from holdfast.errors.base import named_journals
from holdfast.kernel.core import Core
from holdfast.kernel.entries import EntryReader
from holdfast.kernel.known_heads import KnownHead, find
from holdfast.kernel.reader import all_runs
from holdfast.kernel.store_id import known_store_id
from holdfast.model import HIDDEN
from holdfast.operations.anchor_files import Anchor, Section, heads_in, sections
from holdfast.operations.anchor_proofs import FIRST, AnchorProof, make
from holdfast.operations.anchoring import anchors_run, opened_beside, refuse_bound
from holdfast.operations.copying import Progress, unseen
from holdfast.operations.iterating import iter_states
from holdfast.operations.reading import load
from holdfast.store import PAGE, RunFilter, Store

if TYPE_CHECKING:
    from holdfast.keys.sealing import Trusts
    from holdfast.keys.signing import TrustedKeys

Lines = str | os.PathLike[str] | Store | Iterable[bytes]
"""Where anchors are: a file, another store by URL or as an object, or the lines themselves."""


OTHER_STORE: Final = "other store"
_COUNTS: Final = ("heads", "deleted", "expired", "skipped", "older")


class AnchorProblem(NamedTuple):
    """Something that is not as an anchor says."""

    run_id: str  # a run, the name of a journal beside the runs, or empty for the whole store
    seq: int | None  # that was its newest entry then
    what: str  # removed, cut off, altered, damaged, other store
    reason: str

    def __str__(self) -> str:
        return named_journals(f"{self.run_id}: {self.reason}" if self.run_id else self.reason)


class AnchorReport(NamedTuple):
    """What comparing a store with anchors found."""

    anchors: tuple[Anchor, ...]  # that it was compared with
    heads: int  # that were compared
    deleted: int  # of these: whose run was deleted since, as its tombstone says
    expired: int  # of these: whose run vanished from a store that lets runs expire
    skipped: int  # anchors whose writing was interrupted
    problems: tuple[AnchorProblem, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def older(self) -> bool:
        """Whether it looks as if an older copy had taken the place of the whole store."""
        what = Counter(problem.what for problem in self.problems)
        behind = what["cut off"] + what["removed"]
        return behind > 1 and behind == what.total()

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "ok": self.ok,
            "anchors": [anchor.to_dict() for anchor in self.anchors],
            **{name: getattr(self, name) for name in _COUNTS},
            "problems": [problem._asdict() for problem in self.problems],
        }


def prove_anchored(
    core: Core, source: Lines, run_id: str, *, root: str | bytes | None = None
) -> AnchorProof:
    """A proof that a run was in an anchor: for who knows the root, and not the other runs.

    Of the newest anchor, or of the one with this `root`. Give it to `verify_anchor` of a store
    that has the run, such as one that it was imported to. Raises `AnchorError` if it is not in it.
    """
    refuse_bound(core)
    with _opened(core, source, root is not None) as (file, where):
        (section,) = _chosen(sections(file, where)[0], where, False, root)
        return make(section.anchor, list(heads_in(file, section, where)), run_id)


def verify_anchor(
    core: Core,
    source: Lines | AnchorProof,
    *,
    every: bool = False,
    root: str | bytes | None = None,
    trusted: TrustedKeys | None = None,
    progress: Progress = unseen,
) -> AnchorReport:
    """Compare the store with what `anchor` wrote: with the newest of them, or with `every` one.

    With `root`, with the anchor that has this root, which was published elsewhere. With `trusted`,
    or if the checkpointer trusts only signed entries, anchors must be signed, too. `source` is what `anchor` was given as `to`, the lines that a function got, or a proof of one run. Finds runs that were cut off,
    replaced by another history or removed without a tombstone, and a store that is another one.
    Runs that were deleted, pruned, rolled back or continued since are fine.

    It compares digests; `verify_chain` proves that the entries have them. Raises `AnchorError` if
    there is no such anchor, or it was changed, and `InvalidSignatureError`.
    """
    refuse_bound(core)
    sealer = core.journals.sealer
    trusts: Trusts | None = trusted or (None if sealer is None else sealer.trusts)
    problems: dict[AnchorProblem, None] = {}
    counts: Counter[str] = Counter()
    proof = _as_proof(source)
    if proof is not None:
        proof.check(None if root is None else _in_hex(root))
        if trusts is not None:
            proof.anchor.check_signature(trusts)
        found = tuple(_compared(core.journals, [proof.head], counts))
        return AnchorReport((proof.anchor,), 1, counts["deleted"], counts["expired"], 0, found)
    assert not isinstance(source, AnchorProof)
    with _opened(core, source, every or root is not None) as (file, where):
        complete, skipped = sections(file, where)
        chosen = _chosen(complete, where, every, root)
        for section in chosen:
            if trusts is not None:
                section.anchor.check_signature(trusts)
            own = _own_id(core)
            heads = heads_in(file, section, where)
            if own != section.anchor.store_id:
                problems[_other_store(section.anchor, own)] = None
                # A copy has the same runs, and lists their threads and aliases by itself.
                heads = (head for head in heads if not head.run.startswith(HIDDEN))
            while page := list(islice(heads, PAGE)):
                problems.update(dict.fromkeys(_compared(core.journals, page, counts)))
                progress(page[-1].run)
    return AnchorReport(
        tuple(section.anchor for section in chosen),
        counts["heads"],
        counts["deleted"],
        counts["expired"],
        skipped,
        tuple(problems),
    )


def _compared(
    journals: EntryReader, heads: list[KnownHead], counts: Counter[str]
) -> Iterator[AnchorProblem]:
    """What is wrong with some of the heads."""
    counts["heads"] += len(heads)
    try:
        there = journals.store.entries_at([(head.run, head.seq) for head in heads])
    except CheckpointCorruptedError:
        there = []  # look at them one by one
    known = {(entry.run, entry.seq): entry.digest for entry in there}
    for head in heads:
        if known.get((head.run, head.seq)) == head.digest:
            continue
        found = find(journals, head)
        if not head.run.startswith(HIDDEN):
            counts[found.fate] += 1
        if not found.ok:
            yield AnchorProblem(head.run, head.seq, found.fate, found.said(head.seq))


def _own_id(core: Core) -> str | None:
    """The id of the store, None if that can't be read."""
    try:
        return known_store_id(core.journals)
    except CheckpointCorruptedError:
        return None


def _other_store(anchor: Anchor, own: str | None) -> AnchorProblem:
    is_now = (
        "this store has no id that can be read" if own is None else f"this store has the id {own}"
    )
    reason = f"the anchor is of a store with the id {anchor.store_id}, and {is_now}"
    return AnchorProblem("", None, OTHER_STORE, reason)


def _chosen(
    found: list[Section], where: str, every: bool, root: str | bytes | None
) -> list[Section]:
    if root is not None:
        wanted = _in_hex(root)
        found = [section for section in found if section.anchor.root == wanted]
        if not found:
            raise AnchorError(where, f"no anchor in it has the root {wanted}")
    return found if every else found[-1:]


def _in_hex(root: str | bytes) -> str:
    return root.hex() if isinstance(root, bytes) else root.strip().lower()


def _as_proof(source: Lines | AnchorProof) -> AnchorProof | None:
    """The proof of one run that was given, as such or as a file; None if it is something else."""
    if isinstance(source, AnchorProof):
        return source
    if isinstance(source, Store) or not isinstance(source, str | os.PathLike):
        return None
    if "://" in str(source):
        return None
    with Path(source).open("rb") as file:
        if file.read(len(FIRST)) != FIRST:
            return None
        return AnchorProof.read(FIRST + file.read(), str(source))


@contextmanager
def _opened(core: Core, source: Lines, every: bool) -> Iterator[tuple[IO[bytes], str]]:
    """The lines as a file, and what to call it in messages."""
    if isinstance(source, Store) or (isinstance(source, str) and "://" in source):
        with opened_beside(core, source) as other, tempfile.TemporaryFile() as file:
            where = other.journals.store.url
            for text in _kept(other, core, where, every):
                file.write(text.encode())
            yield file, where
    elif isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            yield file, str(source)
    else:
        with tempfile.TemporaryFile() as file:
            file.writelines(source)
            yield file, "what was given"


def _kept(other: Core, core: Core, where: str, every: bool) -> Iterator[str]:
    """The texts of the anchors of this store that another one keeps."""
    run = _run_of_anchors(other, _own_id(core), where)
    pages = iter_states(other, run) if every else iter([[load(other, run)]])
    for page in pages:
        for found in page:
            if found is not None:
                yield str(found.state["lines"])


def _run_of_anchors(other: Core, own: str | None, where: str) -> str:
    """The run that keeps the anchors of this store, or of the only store that has any there."""
    if own is not None and other.journals.head_seq(anchors_run(own)) is not None:
        return anchors_run(own)
    prefix = anchors_run("")
    there = [head.run for head in all_runs(other.journals.store, RunFilter(prefix=prefix))]
    if len(there) == 1:
        return there[0]
    ids = ", ".join(run.removeprefix(prefix) for run in there) or "no store"
    raise AnchorError(where, f"it has anchors of {ids}, and the id of this store is {own}")
