"""What a store has to say to a receipt of forgetting."""

from typing import Any

from holdfast.operations.receipt_check import ReceiptCheck


def document(found: ReceiptCheck) -> dict[str, Any]:
    """As `holdfast verify --receipt --json` has it."""
    receipt = found.receipt
    return {
        "ok": found.ok,
        "receipt": receipt.id,
        "of": receipt.of,
        "at": receipt.at.isoformat(),
        "runs": len(receipt.runs),
        "gone": found.gone,
        "came_back": list(found.came_back),
        "missing": found.missing,
        "leftovers": list(found.leftovers),
        "since": list(found.since),
        "recorded": found.recorded,
        "same_store": found.same_store,
        "problems": list(found.problems),
    }
