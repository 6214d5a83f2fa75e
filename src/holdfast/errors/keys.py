"""Something is wrong with a key, or with what it protects."""

from holdfast.errors.base import HoldfastError, one_line
from holdfast.errors.checkpoints import CheckpointCorruptedError, CheckpointError


class KeyMissingError(CheckpointError):
    """Something is encrypted or signed, and the key for it was not given.

    `key_id` is empty if no key at all was given.
    """

    run_id: str
    seq: int | None = None
    key_id: str = ""

    def __str__(self) -> str:
        ours = not self.run_id.isprintable()  # one of holdfast's own journals
        what = f"run {self.run_id!r}" if self.run_id and not ours else "this store"
        if not self.key_id:
            return (
                f"{what} is encrypted or signed, and no key was given; pass key=hf.Keyring(...) or "
                "sign=hf.SigningKey(...), or on the command line --key-file or --sign-key"
            )
        return (
            f"{what} needs the key {self.key_id!r}, which is not among those that were given; add "
            "it to them"
        )


class WrongKeyError(CheckpointError):
    """There is a key with the right id, and it is another one than was used."""

    key_id: str
    reason: str = "it does not open the data keys of this store"
    _text = (
        "the key {key_id!r} is not the one that was used: {reason}; give the right key under this "
        "id, and new keys ids of their own"
    )


class KeyDestroyedError(CheckpointCorruptedError):
    """The owner of the run was forgotten, and the key with it: nobody can read it any more."""

    def __str__(self) -> str:
        return f"run {self.run_id!r} can't be read by anyone: {self.reason}; delete the run"


class PlaintextError(CheckpointCorruptedError):
    """An entry is neither encrypted nor signed where every one must be: others wrote it."""

    def __str__(self) -> str:
        return f"{self.run_id}@{self.seq} is refused: {self.reason}"


class SignatureError(CheckpointCorruptedError):
    """The signature of an entry is not that of a trusted key, or there is none."""

    def __str__(self) -> str:
        return f"{self.run_id}@{self.seq} is refused: {self.reason}"


class CutOverError(HoldfastError):
    """A store holds runs from before there was a key, and nobody said where they end."""

    url: str
    _text = (
        "{url} holds runs that were saved without a key; to accept them as they are now, and "
        "nothing without the key from now on, run `holdfast rekey --cut-over`"
    )


class KeyFileError(HoldfastError, ValueError):
    """A key, or a file of keys, that can't be used: malformed, or in reach of others."""

    path: str
    reason: str
    _text = "{path} {reason}"

    def __str__(self) -> str:
        return one_line(super().__str__())


class InvalidSignatureError(HoldfastError, ValueError):
    """The key that a signature names did not make it, or there is no signature."""

    what: str
    key_id: str = ""

    def __str__(self) -> str:
        if not self.key_id:
            return f"{self.what} is not signed; nothing of it is used"
        return (
            f"{self.what} was not signed by the key {self.key_id!r} as it is now: it was changed, "
            "or another key has this id; nothing of it is used"
        )


class UntrustedKeyError(InvalidSignatureError):
    """The key that a signature names is not trusted here."""

    def __str__(self) -> str:
        return (
            f"{self.what} is signed with the key {self.key_id!r}, which is not trusted here; if it "
            "should be, add its public key to hf.TrustedKeys"
        )
