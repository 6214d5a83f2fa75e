"""The keys that a command is given: by options, or in the environment."""

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from holdfast.keys.keyring import ENVIRONMENT
from holdfast.urls import masked, open_store

if TYPE_CHECKING:
    from holdfast.keys.signing import SigningKey

OPTIONS: Final = (
    click.Option(
        ["--key-file"],
        metavar="FILE",
        envvar="HOLDFAST_KEY_FILE",
        help="The keyring of an encrypted store.",
    ),
    click.Option(
        ["--key-store"],
        metavar="URL",
        envvar="HOLDFAST_KEY_STORE",
        help="Where the data keys are, if they are not in the store itself.",
    ),
    click.Option(
        ["--sign-key"],
        metavar="FILE",
        envvar="HOLDFAST_SIGN_KEY",
        help="The key that signs what is saved.",
    ),
    click.Option(
        ["--trusted"],
        metavar="FILE",
        multiple=True,
        envvar="HOLDFAST_TRUSTED",
        help="Public keys whose signatures count. May be repeated.",
    ),
)


class Keys(NamedTuple):
    """Where the keys are."""

    ring: str | None = None
    store: str | None = None
    sign: str | None = None
    trusted: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The options, as they are typed; not those that the environment gives."""
        found = {
            "--key-file": (self.ring, "HOLDFAST_KEY_FILE"),
            "--key-store": (self.store and masked(self.store), "HOLDFAST_KEY_STORE"),
            "--sign-key": (self.sign, "HOLDFAST_SIGN_KEY"),
        }
        named = [f"{name}={at}" for name, (at, by) in found.items() if at and by not in os.environ]
        trusted = () if "HOLDFAST_TRUSTED" in os.environ else self.trusted
        return (*named, *(f"--trusted={one}" for one in trusted))

    def signing_key(self) -> "SigningKey | None":
        """The key that signs, if one was given. Raises `KeyFileError`."""
        if self.sign is None:
            return None
        from holdfast.keys.signing import SigningKey

        return SigningKey.from_file(self.sign)

    def opened(self, *, signing: bool = True) -> dict[str, Any]:
        """What a checkpointer is opened with. Raises `KeyFileError`, `ValueError`."""
        try:
            return self._opened(signing=signing)
        except FileNotFoundError as error:
            raise click.UsageError(
                f"there is no key file {error.filename!r}; name another one, or make one with "
                "holdfast keygen"
            ) from None

    def _opened(self, *, signing: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.ring is not None or os.environ.get(ENVIRONMENT):
            from holdfast.keys.keyring import Keyring

            kept = None if self.store is None else open_store(self.store)
            found["key"] = (
                Keyring.from_environment(data_keys=kept)
                if self.ring is None
                else Keyring.from_file(self.ring, data_keys=kept)
            )
        if self.sign is not None and signing:
            found["sign"] = self.signing_key()
        if self.trusted:
            from holdfast.keys.signing import TrustedKeys

            found["trusted"] = TrustedKeys.from_files(*self.trusted)
        return found
