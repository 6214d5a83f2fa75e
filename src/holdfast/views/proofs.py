"""What proving histories, and comparing them with an anchor, comes to: documents and advice."""

from collections.abc import Iterator
from typing import Any

from holdfast.operations.anchor_checks import OTHER_STORE, AnchorReport
from holdfast.operations.anchor_files import Anchor
from holdfast.operations.verifying import ChainReport
from holdfast.views import words


def document(chain: ChainReport | None, anchored: AnchorReport | None) -> dict[str, Any]:
    """As `holdfast verify --chain --anchor --json` has it."""
    return {
        "ok": all(one.ok for one in (chain, anchored) if one is not None),
        "chain": None if chain is None else chain.to_dict(),
        "anchor": None if anchored is None else anchored.to_dict(),
    }


def said_of_chain(found: ChainReport) -> str:
    """One line for people."""
    names = (words.plural(found.runs, "run"), words.plural(found.journals, "journal"))
    return (
        f"{names[0]} and {names[1]} beside them: {words.plural(found.entries, 'entry')}, "
        f"{found.proved:,} proved by the chain, {found.rewritten:,} rewritten since, "
        f"{found.deleted:,} deleted"
    )


def said_of_anchors(found: AnchorReport) -> str:
    """One line for people."""
    newest = found.anchors[-1]
    of = made_at(newest) if len(found.anchors) == 1 else f"{len(found.anchors):,} anchors"
    gone = f", {found.deleted:,} deleted since" if found.deleted else ""
    gone += f", {found.expired:,} expired since" if found.expired else ""
    if found.skipped:
        incomplete = words.plural(found.skipped, "incomplete anchor")
        gone += f"; passed over {incomplete}, whose writing was interrupted"
    return f"compared with {of}: {words.plural(found.heads, 'head')}{gone}"


def made_at(anchor: Anchor) -> str:
    """Which anchor it is, for people."""
    return f"the anchor of {anchor.at:%Y-%m-%d %H:%M:%S} UTC"


def advice(found: AnchorReport) -> Iterator[str]:
    """What to do about what is not as an anchor says."""
    what = {problem.what for problem in found.problems}
    if OTHER_STORE in what:
        yield (
            "Another store has taken the place of the one that was anchored, or this is a copy of "
            "it. If that is meant, make an anchor of this one: holdfast anchor --to FILE"
        )
    if found.older:
        yield (
            "All of them are shorter than they were, and none has another history: it looks as if "
            "the store had been replaced by an older copy. If you restored a backup, that is why; "
            "make a new anchor then."
        )
    if what & {"cut off", "removed", "damaged"}:
        yield (
            "To get back what is missing, restore the store, or add it from an export or a copy: "
            "holdfast import FILE, or holdfast copy FROM TO. Both keep what is there."
        )
    if "altered" in what:
        yield (
            "What was altered can't be trusted, nor what was saved behind it. Keep the store as it "
            "is, as evidence, and restore a backup elsewhere that agrees with the anchor."
        )
