"""Ctrl-C at each line of the kernel, one after the other: nothing waits for good afterwards."""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast as hf
from holdfast import kernel
from holdfast.kernel.core import Durability
from holdfast.stores.memory import MemoryStore
from tests.waiting import PATIENCE

KERNEL = str(Path(kernel.__file__).parent)
NOT_INTERRUPTED = ("with ", "try:")
"""Python executes these in one piece with what follows, a line event in between or not."""


class Queued(MemoryStore):
    """One whose entries wait for the writer, as those of a disk do, and that outlives its owner."""

    inline = False

    def close(self) -> None:
        pass


@contextmanager
def ctrl_c(nth: int) -> Iterator[list[str]]:
    """Interrupt the nth line of the kernel that this thread executes in the block; says which."""
    struck: list[str] = []
    left = nth

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(KERNEL) else None

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and not text.startswith(NOT_INTERRUPTED):
            left -= 1
            if left == 0:
                struck.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}: {text}")
                raise KeyboardInterrupt
        return line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield struck
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)


def returns(call: Callable[[], object]) -> bool:
    """Whether it does not wait for good."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_checkpointer_can_be_closed_wherever_ctrl_c_struck(
    durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nth in count(1):
        store = Queued()
        monkeypatch.setattr("holdfast.checkpointer.open_store", lambda url, store=store: store)
        cp = hf.SyncCheckpointer("its own", durability=durability)
        cp.save("run", 0)
        with ctrl_c(nth) as struck:
            cp.save("run", 1)
            cp.save("run", 2)
            cp.flush()
        assert returns(cp.close), struck
        if not struck:
            break
        with hf.SyncCheckpointer(store) as fresh:
            assert fresh.verify("run").ok, struck
    assert nth > 200, "it strikes in the kernel"
