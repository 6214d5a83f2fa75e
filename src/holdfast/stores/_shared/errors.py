"""Errors of drivers as errors of ours."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from holdfast.errors import HoldfastError, StoreError, StoreUnavailableError


class Translated:
    """A context manager that lets no driver error escape. It may be used again, and nested."""

    def __init__(
        self,
        url: str,
        drivers: type[Exception] | tuple[type[Exception], ...],
        translate: Callable[[Any], HoldfastError],
    ) -> None:
        self._url = url
        self._drivers = drivers
        self._translate = translate

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, HoldfastError):  # some are an OSError, too
            return
        if isinstance(error, self._drivers):
            raise self._translate(error) from error
        if isinstance(error, OSError):
            raise StoreUnavailableError(f"{self._url}: {error}") from error
        if isinstance(error, OverflowError | UnicodeError | struct.error):  # no column can hold it
            raise StoreError(f"{self._url}: {error}") from error
