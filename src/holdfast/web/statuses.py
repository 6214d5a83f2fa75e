"""The status codes of errors, for pages and for the REST API."""

from __future__ import annotations

from typing import Final

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.views.errors import NotFoundError


class TooLargeError(Exception):
    """More was sent than is accepted."""


class ReadOnlyError(HoldfastError):
    """Nothing can be changed here."""

    def __str__(self) -> str:
        return "nothing can be changed here: start `holdfast ui` with --allow-writes"


class InvalidFieldError(HoldfastError, ValueError):
    """What was sent does not fit; `field` names the part of it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)
        self.field = field
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class OutdatedPreviewError(HoldfastError):
    """What was confirmed is not what would be done now."""

    def __str__(self) -> str:
        return "what would be deleted has changed since it was shown: look at it again"


_STATUSES: Final[tuple[tuple[int, tuple[type[Exception], ...]], ...]] = (  # the first that fits
    (403, (ReadOnlyError,)),
    (404, (NotFoundError, errors.CheckpointNotFoundError, errors.FlowMissingError)),
    (400, (errors.InvalidIdError,)),
    (422, (errors.InvalidAnswerError, errors.SerializeError, errors.StateTooLargeError)),
    (422, (InvalidFieldError,)),
    (503, (errors.StoreError, errors.CheckpointLoadError, errors.CheckpointSaveError)),
    (409, (HoldfastError,)),  # the run does not allow that
)


def status_of(error: Exception) -> int:
    """The HTTP status of an error; 500 for what nobody foresaw."""
    return next((code for code, kinds in _STATUSES if isinstance(error, kinds)), 500)
