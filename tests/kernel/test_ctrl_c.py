"""Ctrl-C wherever it may strike in the kernel: nothing waits for good afterwards."""

from __future__ import annotations

import dis
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
CHECKS = ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME")
"""The instructions after which Python lets a signal strike."""


class Queued(MemoryStore):
    """One whose entries wait for the writer, as those of a disk do, and that outlives its owner."""

    inline = False

    def close(self) -> None:
        pass


@contextmanager
def ctrl_c(nth: int) -> Iterator[list[str]]:
    """Strike at the nth chance that this thread gives in the kernel in the block; says where."""
    struck: list[str] = []
    left = nth
    latest: dict[FrameType, str] = {}

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(KERNEL):
            return None
        frame.f_trace_opcodes = True
        return trace

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        if event != "opcode":
            return trace
        if latest.get(frame) in CHECKS:
            left -= 1
            if left == 0:
                struck.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
                raise KeyboardInterrupt
        latest[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        return trace

    before = sys.gettrace()
    gc.disable()  # what earlier tests left must not be struck while it is collected
    sys.settrace(enter)
    try:
        yield struck
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
        gc.enable()
        latest.clear()


def returns(call: Callable[[], object]) -> bool:
    """Whether it does not wait for good."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="an error raised while it traces instructions may crash it"
)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_checkpointer_can_be_closed_wherever_ctrl_c_struck(
    durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strike() -> None:
        for nth in count(1):
            store = Queued()
            monkeypatch.setattr("holdfast.urls.open_store", lambda url, store=store: store)
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
        assert nth > 50, "it strikes in the kernel"

    # In a thread of its own: an error raised while Python traces at the end of an `except` leaves
    # the error before it behind, as the context of all later ones of the thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(strike).result()
