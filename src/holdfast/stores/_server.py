"""What the stores that need a driver or a server share."""

from __future__ import annotations

import re
from typing import Final

_SECRETS: Final = re.compile(
    r"(?<=://)([^:@/?#]*:).*(?=@)"
    r"|([?&][^=&]*(?i:pass|secret|token|key|authMechanismProperties)[^=&]*=)[^&]*"
)


def missing_extra(extra: str, error: ImportError) -> ImportError:
    """What to say when a store's driver is not installed."""
    text = f"this store needs {error.name}; install it with: pip install 'holdfast[{extra}]'"
    return ImportError(text, name=error.name)


def masked(url: str) -> str:
    """A URL fit for a screen or a log: without its password and what else may be a secret."""
    return _SECRETS.sub(r"\1\2***", url)


def as_flag(value: str | bool) -> bool:
    """An option of a URL that is yes or no."""
    if isinstance(value, str):
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise ValueError(f"must be true or false, not {value!r}")
        return value.lower() in ("true", "1", "yes")
    return value
