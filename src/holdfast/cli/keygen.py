"""`holdfast keygen`: make keys, in files that only their owner can read."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import NamedTuple, TypeVar

import click

from holdfast.cli import _show
from holdfast.cli._options import option
from holdfast.cli._session import Session, as_command
from holdfast.errors import KeyFileError
from holdfast.keys import key_files
from holdfast.keys.signing import SigningKey, new_ed25519

T = TypeVar("T")


class Made(NamedTuple):
    """A new key."""

    key_id: str
    file: str
    public_file: str | None = None
    fingerprint: str | None = None


@as_command(
    "holdfast keygen --out ring.keys",
    "holdfast keygen --out ring.keys --add --id 2027",
    "holdfast keygen --out ann.key --sign",
)
@option("--out FILE", "The private file to make.", required=True, type=click.Path(dir_okay=False))
@option("--sign", "Make a pair of keys to sign and to check with, in FILE and FILE.pub.")
@option("--add", "Add a newer key to the ring in FILE.")
@option(
    "--id ID",
    "What the key is called; by default the date, or FILE without its ending.",
    to="key_id",
)
def command(session: Session, out: str, sign: bool, add: bool, key_id: str | None) -> None:
    """Make a key, in a file that only you can read.

    Without --sign it is a random key for the ring that encrypts a store. The file has a line for
    each key: the last one encrypts, and all of them decrypt. With --sign it is an Ed25519 key, to
    sign answers and attestations with; FILE.pub is for those who check them.

    A file is never overwritten, and a key is never shown. Who loses a key loses what it encrypts:
    keep a copy of the file elsewhere.
    """
    if sign and add:
        raise click.UsageError("--add is for rings; a file has one key that signs")
    if sign:
        made = _make_pair(out, key_id or Path(out).stem)
        then = (
            f"sign with --sign-key {quote(out)}, and give {quote(out + '.pub')} to those who check"
        )
    else:
        made = _make_ring(out, key_id or _new_id(), add=add)
        then = (
            "give the file to all programs that use it, then, for each store: holdfast rekey "
            f"--key-file {quote(out)}"
            if add
            else f"encrypt with --key-file {quote(out)}, or key=hf.Keyring.from_file({out!r}), and keep "
            "a copy of the file elsewhere: nobody can read anything without it"
        )

    def draw() -> None:
        _show.say(f"key {made.key_id} {'added to' if add else 'made in'} {_show.clean(out)}")
        if made.fingerprint:
            _show.say(made.fingerprint)
        _show.say(f"next: {_show.clean(then)}")

    session.show(made._asdict(), draw)


def _new_id() -> str:
    """The date says how old a key is, and the rest keeps two keys of one day apart."""
    return f"{datetime.now(UTC):%Y-%m-%d}-{os.urandom(2).hex()}"


def _make_ring(out: str, key_id: str, *, add: bool) -> Made:
    key = os.urandom(key_files.SHORTEST_KEY)
    if add:
        key_files.add_key(out, key_id, key)
        return Made(key_id, out)
    _write_new(out, key_files.format_keys({key_id: key}))
    _check(out, lambda: key_files.read_keys(out))
    return Made(key_id, out)


def _make_pair(out: str, key_id: str) -> Made:
    public_file = f"{out}.pub"
    if os.path.lexists(public_file):
        raise _exists(public_file)
    private, public = new_ed25519(key_id)
    _write_new(out, private)
    made = _check(out, lambda: SigningKey.from_file(out))
    key_files.write_new(public_file, public, 0o644)
    return Made(key_id, out, public_file, made.fingerprint)


def _write_new(out: str, content: bytes) -> None:
    try:
        key_files.write_new(out, content)
    except FileExistsError:
        raise _exists(out) from None


def _check(out: str, read: Callable[[], T]) -> T:
    """Read the new file as commands will: its directory may be in reach of others."""
    try:
        return read()
    except KeyFileError:
        Path(out).unlink()
        raise


def _exists(path: str) -> KeyFileError:
    return KeyFileError(path, "is there already, and keys are never overwritten; name another file")
