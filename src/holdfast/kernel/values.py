"""Reading values: what encodings of a store are decoded to. Blocks where it reads."""

from __future__ import annotations

from typing import Any

from holdfast.codec import readable, values
from holdfast.codec.live import LiveValues
from holdfast.codec.secrets import Sources
from holdfast.errors import CheckpointCorruptedError
from holdfast.kernel.reader import Reader
from holdfast.keys.sealing import Sealer
from holdfast.model import Entry
from holdfast.store import Store


class ValueReader(Reader):
    """Encodes and decodes values in the form of a store, and reads those of entries."""

    def __init__(self, store: Store, largest_state: int, sealer: Sealer | None = None) -> None:
        super().__init__(store, largest_state, sealer)
        self.sources = Sources()  # of values that are not stored
        if self.is_readable:
            self.encode, self.decode = _encode_readable, self._decode_readable
            self.decode_data = _decode_readable_data
        else:
            self.encode, self.decode = values.encode, self._decode_packed
            self.decode_data = values.decode_data
        self.live = False  # any value may be saved, and none is stored

    def keep_live(self) -> None:
        """Keep what can't be stored as it is. Only for a store in memory that nobody else uses."""
        kept = LiveValues(self._decode_packed)
        self.live, self.encode, self.decode = True, kept.encode, kept.decode
        self.decode_data = kept.decode_data

    def keep_coded(self) -> None:
        """Let what codecs stored be data (`Coded`): for tools that have no types of a program."""
        self.decode = self.decode_data

    def _decode_packed(self, data: bytes) -> Any:
        return values.decode(data, self.sources)

    def _decode_readable(self, data: bytes) -> Any:
        return readable.unpacked(data, self.sources)

    def stored_form(self, value: Any) -> Any:
        """A value as it will be found recorded. Raises `SerializeError`."""
        return self.decode(self.encode(value))

    def value(self, run: str, seq: int, last: Entry | None = None, *, as_data: bool = False) -> Any:
        """The value of the entry at `seq`. Raises as `decoded` does. Blocks."""
        return self.decoded(run, seq, self.chain(run, seq, last).encoding, as_data=as_data)

    def decoded(self, run: str, seq: int, encoding: bytes, *, as_data: bool = False) -> Any:
        """What was read at this place. Raises `CheckpointCorruptedError`, `ReviveError`.

        As data, what codecs stored comes as `Coded`, whether or not they are known here.
        """
        try:
            return self.decode_data(encoding) if as_data else self.decode(encoding)
        except ValueError as error:
            raise CheckpointCorruptedError(run, seq, f"it can't be decoded: {error}") from None


def _encode_readable(value: object, *, root: str = "state") -> bytes:
    return readable.packed(value, indent=1, root=root)


def _decode_readable_data(data: bytes) -> Any:
    return readable.loads_data(data.decode())
