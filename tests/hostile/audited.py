"""Look at a store whose bytes name modules, functions and commands, under an audit hook.

    python -m tests.hostile.audited DIRECTORY

makes it there, looks at it in every way twice, and prints what Python did the while, as JSON. The
first time, libraries of holdfast's own choice are still being imported; the second time, nothing
should be imported, compiled or executed at all.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import ormsgpack
from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.main import holdfast
from holdfast.codec.reduce import CODED
from holdfast.codec.values import encode
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.model import Entry
from holdfast.stores.memory import MemoryStore
from tests.damage.lives import LIVES
from tests.hostile.forging import Forged, forged
from tests.hostile.looking import look, undocumented

CANARY: Final = "holdfast_canary"
"""A module that can be imported, and leaves a file when it is."""

STORE: Final = "evil.db"
THREAD: Final = "chat"
LIBRARIES: Final = ("numpy", "pandas", "polars", "pyarrow", "torch")
"""What holdfast imports where it finds values of theirs: see docs/guides/frames-and-tensors.md."""

_WATCHED: Final = (
    *("import", "exec", "compile", "marshal.loads", "pickle.find_class", "code.__new__"),
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
    *("pty.spawn", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"),
    *("ctypes.dlopen", "ctypes.dlsym", "sqlite3.enable_load_extension", "webbrowser.open"),
    *("open", "os.remove", "os.rename", "os.chmod", "shutil.rmtree"),
)
_WRONG_WORDS: Final = 2  # the exit code: the command was called wrongly
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Trap:
    """Its pickle runs a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch sprung",)


_TRAP: Final = pickle.dumps(Trap())
_NAMES: Final = {
    "$type": f"{CANARY}.Evil",
    "__class__": f"{CANARY}.Evil",
    "py/object": f"{CANARY}.Evil",
    "__reduce__": [f"{CANARY}.evil", []],
    "$codec": {"name": f"{CANARY}.evil", "data": 1},
    "lc": 1,
    "type": "constructor",
    "id": [CANARY, "Evil"],
    "kwargs": {},
    "!!python/object/apply:os.system": ["touch sprung"],
    "pickle": _TRAP,
    "module": CANARY,
    "flow": f"{CANARY}:flow",
    "source": f"{CANARY}.py:flow",
}


def _ext(code: int, data: bytes) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, data))


def _array(*parts: bytes) -> bytes:
    return bytes([0x90 + len(parts)]) + b"".join(parts)


def _coded(name: str) -> bytes:
    return _array(_ext(CODED, b""), ormsgpack.packb(name), ormsgpack.packb(_TRAP))


_OF_LIBRARIES: Final = tuple(_coded(f"{name}.frame") for name in LIBRARIES)
_STATES: Final = (
    encode(_NAMES),
    _TRAP,
    encode([_TRAP, {"x": _TRAP}]),
    _ext(1, ormsgpack.packb([CANARY, "Evil", []])),
    _ext(100, _TRAP),
    *map(_coded, (CANARY, f"{CANARY}.Evil", "numpy.evil", "holdfast.evil", "os.system")),
    *(
        _ext(25, ormsgpack.packb([dtype, [1], b"12345678"]))
        for dtype in ("|O8", f"{CANARY}.Evil", "<f8", "V8")
    ),
    _ext(20, f"2026-01-01T00:00:00+00:00[{CANARY}/Evil]".encode()),
)  # fmt: skip
_META: Final = {
    "source": f"{CANARY}:flow",
    "flows": [f"{CANARY}:flow"],
    "structure": {"nodes": [CANARY], "source": f"{CANARY}:flow"},
    "metadata": {"$codec": {"name": f"{CANARY}.Evil", "data": 1}},
    "evidence": [{"claims": [{"evidence_type": CANARY, "description": CANARY, "data": {"path": CANARY}}]}],
    "kind": f"{CANARY}.Evil",
    "child": f"{CANARY}:flow",
    "langgraph": {"type": CANARY},
}  # fmt: skip


def make() -> list[str]:
    """The store, in the current directory; returns the ids of its runs."""
    Path(f"{CANARY}.py").write_text("open('sprung', 'w')\nflow = Evil = evil = print\n")
    journals: list[list[Entry]] = []
    for life in LIVES:
        store = MemoryStore()
        life.make(store)
        journals += [store.read(name) for name in store._journals]
    with contextlib.closing(hf.open_store(STORE)) as evil:
        for number, entries in enumerate(journals):
            evil.append(forged(entries, _Editor(number)))
    return [*(life.run for life in LIVES), *_saved(STORE, _STATES), *_threads()]


def _saved(url: str, states: Sequence[bytes]) -> Iterator[str]:
    """Runs with these states, which nobody could save."""
    with contextlib.closing(hf.open_store(url)) as store:
        for number, state in enumerate(states):
            plain = MemoryStore()
            hf.SyncCheckpointer(plain).save("state", 1, step=f"{CANARY}.step", owner=CANARY)
            named = [entry._replace(run=f"state-{number}") for entry in plain.read("state")]
            store.append(forged(named, lambda one: _with_state(one, state)))  # noqa: B023
            yield f"state-{number}"


class _Editor:
    """Puts names into the metadata of every entry of a journal."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, one: Forged) -> Forged:
        fields = json.loads(one.entry.meta or "{}")
        items = list(_META.items())
        chosen = dict(items[(self._number + one.entry.seq) % len(items) :][:2])
        flow = None if one.entry.flow is None else f"{CANARY}:flow"
        return one.with_fields(meta=json.dumps(chosen | fields), flow=flow, type=CANARY)


def _with_state(one: Forged, state: bytes) -> Forged:
    return one.with_state(state) if one.entry.size else one


def _threads() -> list[str]:
    """Threads of LangGraph's, whose values name types."""
    from langgraph.checkpoint.base import empty_checkpoint

    values = [
        ["msgpack", _ext(code, ormsgpack.packb([CANARY, "Evil", [], "evil"]))] for code in range(7)
    ]
    values += [[kind, _TRAP] for kind in ("pickle", "pickle+aes", "bytes", CANARY)]
    values += [
        ["json", json.dumps({"lc": 2, "type": "constructor", "id": [CANARY, "Evil"]}).encode()]
    ]
    names = []
    with HoldfastSaver(STORE) as saver, hf.SyncCheckpointer(STORE) as cp:
        config: Any = {"configurable": {"thread_id": THREAD, "checkpoint_ns": ""}}
        saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
        found = cp.load(THREAD)
        assert found is not None
        for number, value in enumerate(values):
            names.append(f"{THREAD}-{number}")
            cp.fork(THREAD, run_id=names[-1], state={**found.state, "channel_values": {"x": value}})
    return names


def look_at(url: str, runs: list[str], place: Path) -> Iterator[str]:
    """Look at each run in every way; what was raised that is not documented."""
    with contextlib.closing(hf.open_store(url)) as store:
        for run in runs:
            for problem in undocumented(look(store, run, place)):
                yield f"{run}: {problem}"


def look_around(runs: list[str], place: Path) -> Iterator[str]:
    """The same, also as LangGraph and with the command line."""
    yield from look_at(STORE, runs, place)
    with HoldfastSaver(STORE) as saver:
        for run in runs:
            config: Any = {"configurable": {"thread_id": run}}
            with contextlib.suppress(hf.HoldfastError):
                saver.get_tuple(config)
            with contextlib.suppress(hf.HoldfastError):
                list(saver.list(config))
    for run in ("hand", "flow", "graph", "state-0", f"{THREAD}-1"):
        for words in (["show", run], ["show", run, "--json"], ["diff", run, "1", "2"]):
            yield from _command(*words)
        yield from _command("export", run, "--to", str(place / f"{run}.jsonl"))
        yield from _command("import", str(place / f"{run}.jsonl"), store=str(place / "other.db"))
        yield from _command("resume", run)
    for words in (["runs"], ["runs", "--json"], ["stats"], ["questions"], ["workers"], ["doctor"],
                  ["verify"], ["recover"]):  # fmt: skip
        yield from _command(*words)


def _command(*words: str, store: str = STORE) -> Iterator[str]:
    done = CliRunner().invoke(holdfast, [*words, "--store", store])
    if done.exit_code == _WRONG_WORDS:
        yield f"holdfast {' '.join(words)}: {done.output}"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        yield f"holdfast {' '.join(words)}: {type(done.exception).__name__}: {done.exception}"


class Auditor:
    """Notes what Python does, and which modules it looks for, while it `listens`."""

    def __init__(self, place: Path) -> None:
        self.listens = False
        self.seen: list[list[str]] = []
        self._place = str(place)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.listens and event in _WATCHED and not self._is_harmless(event, arguments):
            self.listens = False  # for what this itself does
            stack = "".join(traceback.format_stack(limit=8)[:-1])
            self.seen.append([event, repr(arguments)[:300], stack])
            self.listens = True

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """As a finder: `importlib.import_module` tells audit hooks nothing."""
        if self.listens:
            self.seen.append(["find", name, ""])

    def _is_harmless(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Files may be read, and written in the directory of the test alone."""
        if event == "open":
            path, mode, flags = arguments
            writes = flags & _WRITING if isinstance(flags, int) else set(mode or "r") & set("wax+")
            return not writes or isinstance(path, int) or self._is_ours(path)
        if event in ("os.remove", "os.rename", "os.chmod", "shutil.rmtree"):
            return self._is_ours(arguments[0])
        return False

    def _is_ours(self, path: Any) -> bool:
        found = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - pathlib would import in here
        return found.startswith((self._place, "/dev/null")) and CANARY not in found


def main(directory: str) -> None:
    """Make the store there, and look at it twice."""
    place = Path(directory)
    os.chdir(place)
    sys.path.insert(0, str(place))
    sys.dont_write_bytecode = True
    runs = make()
    of_libraries = list(_saved("libraries.db", _OF_LIBRARIES))
    auditor = Auditor(place)
    sys.addaudithook(auditor)
    sys.meta_path.insert(0, auditor)  # it finds nothing
    told: dict[str, Any] = {}
    for time in ("first", "second", "control"):
        auditor.seen = []
        auditor.listens = True
        problems = list(spring()) if time == "control" else list(look_around(runs, place))
        if time == "first":  # again and again: those that are not installed are looked for
            problems += look_at("libraries.db", of_libraries, place)
        auditor.listens = False
        sprung = Path("sprung").exists()
        told[time] = {"seen": auditor.seen, "problems": problems, "sprung": sprung}
    print(json.dumps(told))


def spring() -> Iterator[str]:
    """What must not happen, so that it is known to be seen."""
    importlib.import_module(CANARY)
    pickle.loads(_TRAP)
    yield "sprung"


if __name__ == "__main__":
    main(sys.argv[1])
