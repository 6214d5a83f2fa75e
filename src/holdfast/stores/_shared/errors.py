"""Errors of drivers as errors of ours."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import HoldfastError, StoreError, StoreUnavailableError


@contextmanager
def translated(
    url: str,
    drivers: type[Exception] | tuple[type[Exception], ...],
    translate: Callable[[Any], HoldfastError],
) -> Iterator[None]:
    """Raise what the driver raises as a `HoldfastError`."""
    try:
        yield
    except HoldfastError:
        raise  # before OSError, as some are both
    except drivers as error:
        raise translate(error) from error
    except OSError as error:
        raise StoreUnavailableError(f"{url}: {error}") from error
    except (OverflowError, UnicodeError, struct.error) as error:  # a value that no column can hold
        raise StoreError(f"{url}: {error}") from error
