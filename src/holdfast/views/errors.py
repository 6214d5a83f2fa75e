"""What can't be shown or done, for people: the text says what to do instead."""

import re
import shlex

from holdfast.errors import HoldfastError, InputMismatchError
from holdfast.errors.base import did_you_mean

_POLICY = re.compile(r"Policy\((\w+)=(?:True|\[[^])]*]|{[^})]*}|\.\.\.)\)")
_ALLOWS = {
    "base_path": "--base-path DIR",
    "roots": "--root DIR",
    "hosts": "--host NAME",
    "private_addresses": "--private-addresses",
    "connections": "--connection NAME=URL",
    "docker_socket": "--docker-socket PATH",
}
_ARGUMENT = re.compile(r'\b(force|take_over|trust|by|question|sign)=(?:True|"(\w+)")?(?!\w)')
_NAMED = {"sign": "--sign-key FILE"}


class NotFoundError(HoldfastError):
    """What was named is not there."""


class NoRunError(NotFoundError):
    """No run has this id; `meant` is that of one that may have been meant."""

    def __init__(self, run_id: str, where: str, meant: str | None = None) -> None:
        super().__init__(run_id, where, meant)
        self.run_id = run_id
        self.where = where
        self.meant = meant

    def __str__(self) -> str:
        return f"there is no run {self.run_id!r} in {self.where}{did_you_mean(self.meant)}"


class RefusedError(HoldfastError):
    """The run is of a kind that does not allow that."""


def message(error: Exception) -> str:
    """An error on one line, with the options of commands instead of arguments."""
    text = " ".join(line.strip() for line in str(error).splitlines())
    text = text.replace("; list its checkpoints to see what there is", "")
    text = text.replace("cancel it or close the stream of its events", "or cancel it")
    text = text.replace("add its public key to hf.TrustedKeys", "give it with --trusted FILE")
    if isinstance(error, InputMismatchError):
        resume = f"use `holdfast resume {shlex.quote(error.run_id)}`"
        text = text.replace(f"call engine.resume({error.run_id!r})", resume)
    return as_options(_ARGUMENT.sub(_option, text))


def as_options(text: str) -> str:
    """A text with the options of commands instead of those of a `Policy`."""
    return _POLICY.sub(lambda found: _ALLOWS.get(found[1], found[0]), text)


def _option(argument: re.Match[str]) -> str:
    name, value = argument.groups()
    if name in _NAMED:
        return _NAMED[name]
    return f"--{name.replace('_', '-')}" + (f" {value}" if value else "")
