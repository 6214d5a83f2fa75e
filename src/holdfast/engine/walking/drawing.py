"""A walking flow as a picture: Mermaid text, which notebooks and Markdown viewers draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Arrow(NamedTuple):
    """A way from one node to another, or to anywhere."""

    source: str
    target: str | None
    words: str = ""
    decided: bool = False  # on the way: drawn dashed


class Picture(NamedTuple):
    """What is drawn of a flow; dashed arrows depend on a decision."""

    entry: str
    nodes: Iterable[str]
    ends: Iterable[tuple[str, str]]  # with labels of their own
    arrows: Iterable[Arrow]


def mermaid(picture: Picture) -> str:
    """The flow as Mermaid text."""
    entry, nodes, ends, arrows = picture
    ends = list(ends)
    nodes = list(nodes)
    ids = {name: f"n{index}" for index, name in enumerate((*nodes, *(name for name, _ in ends)))}
    lines = ["flowchart TD", '    start(["start"])']
    lines += [f'    {ids[name]}["{_text(name)}"]' for name in nodes]
    lines += [f'    {ids[name]}(["{_text(words)}"])' for name, words in ends]
    lines.append(f"    start --> {ids[entry]}")
    for source, target, words, decided in arrows:
        word = f'|"{_text(words)}"|' if words else ""
        to = f'any{ids[source]}["anywhere"]' if target is None else ids[target]
        lines.append(f"    {ids[source]} {'-.->' if decided else '-->'}{word} {to}")
    return "\n".join(lines) + "\n"


def _text(name: str) -> str:
    """A name escaped so that it neither ends its quotes nor is taken for markup."""
    safe = "".join(
        char if char.isalnum() or char in " _-.:,+/" else f"#{ord(char)};" for char in name
    )
    return safe or " "
