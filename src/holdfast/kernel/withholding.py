"""What is kept out of the store by its path, or stored encrypted: `secrets=` and `encrypt=`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from holdfast import revealed
from holdfast.codec import values
from holdfast.codec.field_paths import FieldPath, field_paths
from holdfast.codec.secrets import (
    Carrying,
    Encrypted,
    Provider,
    Secret,
    Sources,
    Withheld,
    check_provider,
)
from holdfast.errors import KeyMissingError
from holdfast.kernel.keyed import with_ring
from holdfast.seams import on_fork

if TYPE_CHECKING:
    from holdfast.kernel.journal import Journals

_MOST: Final = 1_000  # values that are kept in mind, and fields that were encrypted
_ANYWHERE: Final = FieldPath("**.*")


class Hidden:
    """Which fields are not stored as they are, and where secrets come from. Checks both."""

    def __init__(
        self,
        secrets_from: Provider | None = None,
        secrets: Iterable[str] = (),
        encrypt: Iterable[str] = (),
    ) -> None:
        check_provider(secrets_from)
        self.secrets_from = secrets_from
        self.secrets = field_paths("secrets", secrets)
        self.encrypted = field_paths("encrypt", encrypt)

    @property
    def options(self) -> dict[str, Any]:
        """What to give a checkpointer."""
        found: dict[str, Any] = {}
        if self.secrets_from is not None:
            found["secrets_from"] = self.secrets_from
        for name, paths in (("secrets", self.secrets), ("encrypt", self.encrypted)):
            if paths:
                found[name] = [path.text for path in paths]
        return found


class Withholding:
    """Encodes values without their secret fields, and says where those come from again."""

    def __init__(self, journals: Journals, hidden: Hidden) -> None:
        self._journals = journals
        self._secrets = hidden.secrets
        self._encrypted = hidden.encrypted
        self._stores_all = not (self._secrets or self._encrypted)
        self._sealer = journals.fields
        self._known: OrderedDict[frozenset[str], revealed.Revealed] = OrderedDict()
        self._sealed: OrderedDict[tuple[str, str], tuple[bytes, Encrypted]] = OrderedDict()
        self._reset()
        on_fork(self._reset)
        self._opener = next(with_ring(journals), None)
        opened = None if self._opener is None else self._opener.open_field
        journals.sources = Sources(hidden.secrets_from, opened, self._note)

    def _reset(self) -> None:
        self._lock = threading.Lock()

    def encode(self, run: str, value: object, root: str, owner: str | None = None) -> bytes:
        """The value as it is stored, carrying in memory what is not. Raises `SerializeError`.

        The keys of `owner` encrypt its fields; those of the run's owner unless it is given. To find
        that out, and the keys, it may block once for a run.
        """
        if self._stores_all or self._journals.live:
            return self._journals.encode(value, root=root)
        packed = values.encode(value, root=root)
        kept: dict[str, bytes] = {}

        def withhold(part: Any, path: str) -> Any:
            if _is_hidden(part):
                return part
            kept[path] = values.encode(part, root=path)
            self._note(part, path)
            return Withheld(path)

        whose = cache(lambda: self._whose(run, owner))

        def encrypt(part: Any, path: str) -> Any:
            if _is_hidden(part):
                return part
            plain = values.encode(part, root=path)
            kept[path] = plain
            self._note(part, path)
            return self._encrypt(run, *whose(), path, bytes(plain))

        tree = self._replaced(packed, withhold, encrypt)
        if not kept:
            return self._journals.encode(value, root=root)
        known = packed.secrets if isinstance(packed, Carrying) else {}
        return Carrying.of(self._journals.encode(tree, root=root), known, kept)

    @property
    def is_idle(self) -> bool:
        """Whether every value is stored as `values.encode` makes it."""
        return not (self._secrets or self._encrypted or self._journals.is_readable)

    def masked(self, value: object) -> Any:
        """The value as plain data, with its path in the place of what is withheld or encrypted."""
        if self._stores_all or self._journals.live:
            return value

        def mask(part: Any, path: str) -> Any:
            return part if part is None else Withheld(path)

        return self._replaced(values.encode(value, root="inputs"), mask, mask)

    def _replaced(
        self, packed: bytes, at_secret: Callable[..., Any], at_encrypted: Callable[..., Any]
    ) -> Any:
        tree = values.decode_data(packed)
        for paths, make in ((self._secrets, at_secret), (self._encrypted, at_encrypted)):
            for path in paths:
                tree = path.replaced(tree, make)
        return tree

    @property
    def encrypts(self) -> bool:
        """Whether fields are encrypted."""
        return bool(self._encrypted) and not self._journals.live

    def handed_over(
        self, run: str, encoding: bytes, owner: str | None, *, is_new: bool = False
    ) -> bytes:
        """The encoding for a run that has another owner: its fields have the keys of that one.

        So has a run that `is_new` the newest key of its owner. Blocks. Raises as
        `Sealer.open_field` does.
        """
        if self._journals.live:
            return encoding
        whose = self._journals.owner if owner is None else owner
        kept = encoding.withheld if isinstance(encoding, Carrying) else {}
        opener = self._opener
        changed = False

        def is_older(part: Encrypted) -> bool:
            return opener is not None and not opener.is_current(part, whose)

        def again(part: Any, _: str) -> Any:
            nonlocal changed
            if not isinstance(part, Encrypted):
                return part
            if part.owner == whose and not (is_new and is_older(part)):
                return part
            if opener is None:
                raise KeyMissingError(part.run)
            changed = True
            plain = kept.get(part.path) or opener.open_field(part)
            sealed = opener.seal_field(run, whose, part.path, bytes(plain))
            return Encrypted(part.path, run, whose, sealed)

        if is_new and kept and opener is not None:
            opener.prepare(whose)  # it may have been forgotten since its key was last used
        tree = _ANYWHERE.replaced(self._journals.decode_data(encoding), again)
        if not changed:
            return encoding
        found = self._journals.encode(tree)
        if isinstance(encoding, Carrying):
            return Carrying.of(found, encoding.secrets, encoding.withheld)
        return found

    def forget(self, run: str) -> None:
        """Drop the fields of a run that was deleted."""
        with self._lock:
            for place in [place for place in self._sealed if place[0] == run]:
                del self._sealed[place]

    def _encrypt(
        self, run: str, whose: str | None, is_new: bool, path: str, plain: bytes
    ) -> Encrypted:
        """The encrypted field; the same again for the same value, so that deltas stay small."""
        assert self._sealer is not None
        with self._lock:
            known = None if is_new else self._sealed.get((run, path))
        if known and known[0] == plain and self._sealer.is_current(known[1], whose):
            return known[1]
        made = Encrypted(path, run, whose, self._sealer.seal_field(run, whose, path, plain))
        with self._lock:
            self._sealed[run, path] = plain, made
            while len(self._sealed) > _MOST:
                self._sealed.popitem(last=False)
        return made

    def _whose(self, run: str, owner: str | None) -> tuple[str | None, bool]:
        """Whose key encrypts the fields of a run, and whether the run is new. That may block."""
        assert self._sealer is not None
        tip = self._journals.tip(run) or self._journals.fetch_tip(run, with_state=False)
        if tip.exists:
            return tip.owner, False
        whose = self._journals.owner if owner is None else owner
        self._sealer.prepare(whose)  # it may have been forgotten since its key was last used
        return whose, True

    def _note(self, value: Any, path: str) -> None:
        """Keep a value out of error messages for as long as this is in use."""
        known = revealed.note(value, path)
        with self._lock:
            self._known[known.exact] = known
            while len(self._known) > _MOST:
                self._known.popitem(last=False)


def _is_hidden(part: Any) -> bool:
    return part is None or isinstance(part, Secret | Withheld | Encrypted)
