"""A run of a workflow as a picture: its steps in the order in which they were finished."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from holdfast.engine.resume.history import History
from holdfast.engine.walking.drawing import Arrow, Picture, mermaid
from holdfast.kernel.core import Core
from holdfast.model import Kind, Status

_ITEM: Final = re.compile(r"(\[\d+\]).*")
_END: Final = "\0end"


def picture(core: Core, run_id: str) -> str:
    """The run in Mermaid's words; the items of a `for_each` are one box. Blocks.

    Raises `CheckpointNotFoundError`.
    """
    history = History(core, run_id, whole=True)
    items: dict[str, set[str]] = {}  # by box: those of a `for_each`, each with all its parts
    for entry in history.of(Kind.RESULT):
        step = str(entry.step)
        items.setdefault(_ITEM.sub("[]", step), set()).add(_ITEM.sub(r"\1", step))
    boxes = [_words(box, len(parts)) for box, parts in items.items()]
    status = history.head.status
    ends = [(_END, "end" if status == Status.COMPLETED else status)]
    ways = [Arrow(one, other) for one, other in pairwise([*boxes, _END])]
    return mermaid(Picture(boxes[0] if boxes else _END, boxes, ends, ways))


def _words(box: str, count: int) -> str:
    return f"{box.removesuffix('[]')} x {count}" if box.endswith("[]") else box
