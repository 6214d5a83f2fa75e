"""Values of codecs as they were first stored: `codecs.json` must load forever.

Each has its packed form, in hex, and its readable one. Add new ones; never change one.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

GOLDEN: Final[dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "codecs.json").read_text()
)


def register() -> None:
    """The codec that is not holdfast's own."""
    import holdfast as hf

    hf.register_codec(
        Fraction, "golden.fraction", lambda f: [f.numerator, f.denominator], lambda d: Fraction(*d)
    )
