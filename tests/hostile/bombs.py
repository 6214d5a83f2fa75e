"""Small bytes that ask for much: looked at with little memory, in a process of their own.

    python -m tests.hostile.bombs

prints what went wrong, as JSON: nothing, or a `MemoryError` or another error that no caller expects.
"""

from __future__ import annotations

import contextlib
import json
import resource
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import ormsgpack

import holdfast as hf
from holdfast.codec import compress, readable, values, varint
from holdfast.codec.wrapping import DEFLATED, DELTA, READABLE, ZSTD
from holdfast.model import Entry
from holdfast.stores.memory import MemoryStore
from tests.damage.lives import large
from tests.effort import EFFORT
from tests.hostile.forging import Forged, forged
from tests.hostile.looking import look, undocumented

SPARE: Final = 300 << 20
"""Bytes that may be taken; the largest state that can be loaded has 64 MB."""

_RUN: Final = "bomb"
_MUCH: Final = 1 << 32
_DEEP: Final = min(EFFORT, 10) * 100_000
"""Levels that no stack has."""

_ZEROS: Final = compress.compress(bytes(SPARE + (50 << 20)))
"""More than may be taken, in few bytes."""

_FLAT_ZEROS: Final = compress.deflated(bytes(SPARE + (50 << 20)), b"") or b""


def _ext(code: int, data: bytes) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, data))


def _number(value: int) -> bytes:
    out = bytearray()
    varint.put(out, value)
    return bytes(out)


def _bearings(back: int = 1) -> bytes:
    return _number(back) + _number(back)


STATES: Final[dict[str, tuple[bytes, int, int | None]]] = {
    "an array of four billion": (b"\xdd\xff\xff\xff\xff", 0, None),
    "a map of four billion": (b"\xdf\xff\xff\xff\xff", 0, None),
    "text of four gigabytes": (b"\xdb\xff\xff\xff\xffx", 0, None),
    "bytes of four gigabytes": (b"\xc6\xff\xff\xff\xffx", 0, None),
    "an Ext of four gigabytes": (b"\xc9\xff\xff\xff\xff\x01x", 0, None),
    "many arrays in each other": (b"\x91" * _DEEP, 0, None),
    "many maps in each other": (b"\x81\xa0" * _DEEP, 0, None),
    "many marks in each other": (b"\x92\xc7\x00\x01" * _DEEP, 0, None),
    "lists within the limit of an Ext": (_ext(25, b"\x91" * _DEEP), 0, None),
    "an array of numpy's of any size": (
        _ext(25, ormsgpack.packb(["<f8", [2**62, 2**62], b""])), 0, None,
    ),
    "an array of numpy's without a size": (
        _ext(25, ormsgpack.packb(["<f8", [0, 2**62, 2**62], b""])), 0, None,
    ),
    "an item of numpy's of a gigabyte": (_ext(26, ormsgpack.packb(["|S999999999", b"x"])), 0, None),
    "a large number as text": (_ext(18, b"1E+999999999999999999"), 0, None),
    "zeros that claim to be few": (_ZEROS, ZSTD, 1000),
    "zeros that claim to be more than can be copied": (_ZEROS, ZSTD, 2 << 30),
    "zeros beyond all": (_ZEROS, ZSTD, 2**62),
    "JSON nested deep": (b"[" * _DEEP, READABLE, None),
    "JSON with a long number": (b"9" * _DEEP, READABLE, None),
    "a change that claims to be large": (
        _bearings() + _number(_MUCH) + _ZEROS, DELTA | ZSTD, 5000,
    ),
    "a change of a state that is large": (_bearings() + _number(_MUCH) + _ZEROS, DELTA | ZSTD, 2**62),
    "a change that keeps and leaves four billion": (
        _bearings() + _number(_MUCH) + _number(_MUCH) + _number(_MUCH), DELTA, None,
    ),
    "a small change that inflates to much": (
        _bearings() + _number(4000) + _number(0) + _FLAT_ZEROS, DELTA | DEFLATED, 5000,
    ),
    "a span of four billion landmarks": (b"\0" + _number(_MUCH) + b"\1" * _DEEP, DELTA, None),
    "a number without an end": (_bearings() + b"\xff" * _DEEP, DELTA, None),
    "a base before all entries": (_bearings(_MUCH), DELTA, None),
}  # fmt: skip

METADATA: Final = {
    "metadata nested deep": '{"metadata":' * _DEEP,
    "metadata with a long number": '{"iteration":' + "9" * _DEEP + "}",
    "all seqs are dropped": '{"dropped":"0-999999999999999999"}',
    "all seqs are in force": '{"in_force":"0-999999999999999999","evidence":[]}',
    "many ranges": json.dumps({"dropped": ",".join(f"{n}-{n + 10**15}" for n in range(10_000))}),
}


def entries() -> list[Entry]:
    """A run of whole states and changes."""
    store = MemoryStore()
    with hf.SyncCheckpointer(store) as cp:
        for number in range(4):
            cp.save(_RUN, large(number), step="s")
    return store.read(_RUN)


def journals() -> Iterator[tuple[str, list[Entry]]]:
    """By name, the run with each of the bombs at its end."""
    honest = entries()
    last = honest[-1].seq

    def ending(change: Callable[[Forged], Forged]) -> list[Entry]:
        return forged(honest, lambda one: change(one) if one.entry.seq == last else one)

    for name, state in STATES.items():
        yield name, ending(partial(_with_state, state=state))
    for name, meta in METADATA.items():
        yield name, ending(partial(Forged.with_fields, meta=meta))
        yield f"{name}, in a marker", ending(partial(Forged.with_fields, meta=meta, kind="trim"))


def _with_state(one: Forged, state: tuple[bytes, int, int | None]) -> Forged:
    return one.with_state(*state)


def direct() -> Iterator[tuple[str, Exception]]:
    """What decodes without a store."""
    for name, (content, _, _) in STATES.items():
        for decode in (values.decode, values.decode_data, readable.loads):
            try:
                with contextlib.suppress(ValueError):
                    decode(content)
            except Exception as error:  # noqa: BLE001 - which one it is, is the question
                yield f"{name} ({decode.__name__})", error


def main() -> None:
    """Look at all of them, with little memory."""
    made = list(journals())
    warm_up = entries()
    problems = []
    with tempfile.TemporaryDirectory() as place:
        for name, journal in [("nothing", warm_up), *made]:
            store = MemoryStore()
            store.append(journal)
            for problem in undocumented(look(store, _RUN, Path(place))):
                problems.append(f"{name}: {problem}")
            if name == "nothing":
                taken = (
                    int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                )
                resource.setrlimit(resource.RLIMIT_AS, (taken + SPARE, taken + SPARE))
    problems += undocumented(direct())
    print(json.dumps({"tried": len(made), "problems": problems}))


if __name__ == "__main__":
    main()
