"""How hard tests try: `make test` is to be quick, `make crash` is to find what it does not."""

from __future__ import annotations

import os


def examples(few: int) -> int:
    """How many examples a property is tried on."""
    return few * int(os.environ.get("HOLDFAST_EFFORT", "1"))
