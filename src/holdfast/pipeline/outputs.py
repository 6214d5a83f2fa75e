"""A pipeline's state with its outputs apart: a step adds its own, and reads only what it names.

The state is stored whole after every step. To encode and decode all of it each time would take
longer with every output; joining what is encoded already hardly does.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from holdfast.codec.values import map_header
from holdfast.engine.program import Codec, Stored

INPUT: Final = "pipeline_input"
STEPS: Final = "steps"

# The bytes of a state, in MessagePack: {"pipeline_input": ..., "steps": {name: output, ...}}
_TWO: Final = b"\x82"
_ONE: Final = b"\x81"
_OUTPUTS: Final = b"\xa5steps"
_ALONE: Final = _ONE + _OUTPUTS + _ONE  # what is before the only output of {"steps": {...}}


class Outputs(Stored):
    """A state as it is recorded, and each output as it is encoded there, with its name.

    It belongs to one walk: the state after the next step takes the outputs over.
    """

    __slots__ = ("_codec", "_front", "_new", "_parts")

    def __init__(
        self,
        codec: Codec,
        front: bytes,
        parts: dict[str, bytes],
        encoding: bytes,
        new: tuple[str, bytes] | None = None,
    ) -> None:
        super().__init__(encoding, codec.decode)
        self._codec = codec
        self._front = front  # the input, with its name
        self._parts = parts
        self._new = new  # an output that is not among the others yet

    @classmethod
    def of(cls, state: Mapping[str, Any], codec: Codec) -> Self | None:
        """The state; None if a part of it can't be encoded by itself, such as a secret."""
        front = codec.encode({INPUT: state[INPUT]})
        parts = {name: _encoded(codec, name, output) for name, output in state[STEPS].items()}
        if type(front) is not bytes or not front.startswith(_ONE) or None in parts.values():
            return None
        known = {name: part for name, part in parts.items() if part is not None}
        front = front[1:]
        encoding = b"".join((_before(front, len(known)), *known.values()))
        return cls(codec, front, known, encoding)

    def adding(self, name: str, output: Any) -> Self | None:
        """The state after one more step; None as for `of`. Raises `SerializeError`.

        An output that the step had before is replaced: the last to finish stands last.
        """
        part = _encoded(self._codec, name, output)
        if part is None:
            return None
        parts, front = self._parts, self._front
        if name in parts:
            others = [other for known, other in parts.items() if known != name]
            encoding = b"".join((_before(front, len(parts)), *others, part))
        else:
            begin, count = len(_before(front, len(parts))), len(parts) + 1
            with memoryview(self.encoding) as known:
                encoding = b"".join((_before(front, count), known[begin:], part))
        return type(self)(self._codec, front, parts, encoding, (name, part))

    def settle(self) -> Self:
        """It is the walk's state now, and the one before is not asked for its outputs again."""
        if self._new is not None:
            name, part = self._new
            self._parts.pop(name, None)
            self._parts[name] = part
            self._new = None
        return self

    def copies_of(self, name: str) -> Callable[[], Any]:
        """Makes copies of the output of a step, as plain data."""
        part = self._new[1] if self._new and self._new[0] == name else self._parts[name]
        return lambda: self._codec.decode(_ALONE + part)[STEPS][name]

    def output(self, name: str) -> Any:
        """The output of a step, as plain data; a new copy each time."""
        return self.copies_of(name)()

    @property
    def seen(self) -> Mapping[str, Any]:
        """The state, of which only that is decoded which is looked at; a new copy each time."""
        known: Mapping[str, Any] = self._parts
        if self._new is not None:
            known = ChainMap(dict([self._new]), self._parts)
        outputs = Seen(known, self.output, lambda: self.value()[STEPS])
        return looked_at(self._input, outputs)

    def _input(self) -> Any:
        return self._codec.decode(_ONE + self._front)[INPUT]


class Seen(Mapping[str, Any]):
    """Values by name, each made when it is first asked for."""

    def __init__(
        self, names: Mapping[str, Any], make: Callable[[str], Any], whole: Callable[[], Any]
    ) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, Any] = {}
        self.whole = whole  # all of them, as plain data

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def looked_at(given: Callable[[], Any], outputs: Seen) -> Mapping[str, Any]:
    """A state of this input, which is decoded when it is asked for, and these outputs."""
    names = {INPUT: None, STEPS: None}
    return Seen(names, lambda name: outputs if name == STEPS else given(), dict)


def handed_on(names: Sequence[str], steps: Mapping[str, Any]) -> Any:
    """The output of a step; where several led here, theirs by id."""
    if len(names) == 1:
        return steps.get(names[0])
    return {name: steps[name] for name in names if name in steps} or None


def _encoded(codec: Codec, name: str, output: Any) -> bytes | None:
    """An output as it stands in an encoded state, with its name: as deep, and under its path."""
    encoding = codec.encode({STEPS: {name: output}})
    if type(encoding) is not bytes or not encoding.startswith(_ALONE):
        return None
    return encoding[len(_ALONE) :]


def _before(front: bytes, count: int) -> bytes:
    """What is before the outputs of a state that has so many."""
    return _TWO + front + _OUTPUTS + map_header(count)
