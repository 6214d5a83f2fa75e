"""What can't be shown or done, for people: the text says what to do instead."""

from holdfast.errors import HoldfastError


class NotFoundError(HoldfastError):
    """What was named is not there."""


class RefusedError(HoldfastError):
    """The run is of a kind that does not allow that."""
