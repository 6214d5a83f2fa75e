"""What is kept out of the store by its path, or stored encrypted: `secrets=` and `encrypt=`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from holdfast import revealed
from holdfast.codec import values
from holdfast.codec.field_paths import field_paths
from holdfast.codec.secrets import (
    Carrying,
    Encrypted,
    Provider,
    Secret,
    Sources,
    Withheld,
    check_provider,
)
from holdfast.seams import on_fork

if TYPE_CHECKING:
    from holdfast.kernel.journal import Journals
    from holdfast.keys.sealing import Sealer

_MOST: Final = 1_000  # values that are kept in mind, and fields that were encrypted


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

    def __init__(
        self,
        journals: Journals,
        hidden: Hidden,
        sealer: Sealer | None = None,
    ) -> None:
        self._journals = journals
        self._secrets = hidden.secrets
        self._encrypted = hidden.encrypted
        self._sealer = sealer
        self._known: OrderedDict[frozenset[str], revealed.Revealed] = OrderedDict()
        self._sealed: OrderedDict[tuple[str, str], tuple[bytes, Encrypted]] = OrderedDict()
        self._reset()
        on_fork(self._reset)
        opened = None if sealer is None else sealer.open_field
        journals.fields = sealer
        journals.sources = Sources(hidden.secrets_from, opened, self._note)

    def _reset(self) -> None:
        self._lock = threading.Lock()

    def encode(self, run: str, value: object, root: str, owner: str | None = None) -> bytes:
        """The value as it is stored, carrying in memory what is not. Raises `SerializeError`.

        The keys of `owner` encrypt its fields; those of the run's owner unless it is given. To find
        that out, and the keys, it may block once for a run.
        """
        if not (self._secrets or self._encrypted) or self._journals.live:
            return self._journals.encode(value, root=root)
        packed = values.encode(value, root=root)
        kept: dict[str, bytes] = {}

        def withhold(part: Any, path: str) -> Any:
            if _is_hidden(part):
                return part
            kept[path] = values.encode(part, root=path)
            self._note(part, path)
            return Withheld(path)

        def encrypt(part: Any, path: str) -> Any:
            if _is_hidden(part):
                return part
            plain = values.encode(part, root=path)
            kept[path] = plain
            self._note(part, path)
            return self._encrypt(run, owner, path, bytes(plain))

        tree = self._replaced(packed, withhold, encrypt)
        if not kept:
            return self._journals.encode(value, root=root)
        known = packed.secrets if isinstance(packed, Carrying) else {}
        return Carrying.of(self._journals.encode(tree, root=root), known, kept)

    def masked(self, value: object) -> Any:
        """The value as plain data, with its path in the place of what is withheld or encrypted."""
        if not (self._secrets or self._encrypted) or self._journals.live:
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

    def _encrypt(self, run: str, owner: str | None, path: str, plain: bytes) -> Encrypted:
        """The encrypted field; the same again for the same value, so that deltas stay small."""
        assert self._sealer is not None
        whose = owner or self._journals.owner or self._owner_of(run)
        with self._lock:
            known = self._sealed.get((run, path))
        if known is not None and (known[0], known[1].owner) == (plain, whose):
            made = known[1]
            if self._sealer.encrypts_like(made):
                return made
        sealed = self._sealer.seal_field(run, whose, path, plain)
        made = Encrypted(path, run, whose, sealed)
        with self._lock:
            self._sealed[run, path] = plain, made
            while len(self._sealed) > _MOST:
                self._sealed.popitem(last=False)
        return made

    def _owner_of(self, run: str) -> str | None:
        tip = self._journals.tip(run) or self._journals.fetch_tip(run, with_state=False)
        return tip.owner

    def _note(self, value: Any, path: str) -> None:
        """Keep a value out of error messages for as long as this is in use."""
        known = revealed.note(value, path)
        with self._lock:
            self._known[known.exact] = known
            while len(self._known) > _MOST:
                self._known.popitem(last=False)


def _is_hidden(part: Any) -> bool:
    return part is None or isinstance(part, Secret | Withheld | Encrypted)
