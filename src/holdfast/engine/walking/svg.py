"""A walking flow as an SVG: for notebooks, which then need nothing else to draw it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.engine.walking.drawing import Arrow, Picture
from holdfast.errors.base import one_line

MOST: Final = 200  # nodes that are drawn
_WIDTH, _HEIGHT = 140, 34
_ACROSS, _DOWN = 170, 78
_MARGIN: Final = 16
_LETTERS: Final = 18  # of a name that fit into a box
_START: Final = "\0start"
_ANYWHERE: Final = "\0anywhere"


class _Box(NamedTuple):
    words: str
    x: int  # of its middle
    y: int
    is_end: bool = False


def svg(picture: Picture) -> str:
    """The picture, from top to bottom. The first `MOST` nodes, if there are more."""
    nodes = list(picture.nodes)[:MOST]
    ends = dict(picture.ends)
    words = {_START: "start", **{name: name for name in nodes}, **ends}
    arrows = [Arrow(_START, picture.entry)]
    for arrow in picture.arrows:
        target = _ANYWHERE if arrow.target is None else arrow.target
        if arrow.source in words and (target in words or target == _ANYWHERE):
            arrows.append(arrow._replace(target=target))
    if any(arrow.target == _ANYWHERE for arrow in arrows):
        words[_ANYWHERE] = "anywhere"
    places = _places(words, arrows)
    round_ones = {_START, _ANYWHERE, *ends}
    boxes = {name: _Box(words[name], *places[name], name in round_ones) for name in words}
    drawn = [*(_arrow(arrow, boxes) for arrow in arrows), *map(_box, boxes.values())]
    width = max(box.x for box in boxes.values()) + _WIDTH // 2 + 4 * _MARGIN
    height = max(box.y for box in boxes.values()) + _HEIGHT // 2 + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" style="max-width:100%" font-family="sans-serif" font-size="12" '
        f'fill="none" stroke="currentColor">{"".join(drawn)}</svg>'
    )


def _places(words: Mapping[str, str], arrows: list[Arrow]) -> dict[str, tuple[int, int]]:
    """A row for each node, below all that lead to it but for the ways back; ends come last."""
    ways: dict[str, list[str]] = {name: [] for name in words}
    for arrow in arrows:
        ways[arrow.source].append(str(arrow.target))
    rows = dict.fromkeys(_in_order(ways), 0)
    order = {name: place for place, name in enumerate(rows)}
    for name in rows:
        for target in ways[name]:
            if order[target] > order[name]:
                rows[target] = max(rows[target], rows[name] + 1)
    for name in words:  # what nothing leads to
        rows.setdefault(name, 0)
    by_row: dict[int, list[str]] = {}
    for name, row in rows.items():
        by_row.setdefault(row, []).append(name)
    widest = max(map(len, by_row.values()))
    places = {}
    for row, names in by_row.items():
        for column, name in enumerate(names):
            x = _MARGIN + _WIDTH // 2 + _ACROSS * column + _ACROSS * (widest - len(names)) // 2
            places[name] = x, _MARGIN + _HEIGHT // 2 + _DOWN * row
    return places


def _in_order(ways: Mapping[str, list[str]]) -> list[str]:
    """The nodes, each before those that it leads to, but for the ways back in loops."""
    done: list[str] = []
    seen = {_START}
    open_ones = [(_START, iter(ways[_START]))]
    while open_ones:
        name, targets = open_ones[-1]
        target = next((target for target in targets if target not in seen), None)
        if target is None:
            done.append(name)
            open_ones.pop()
        else:
            seen.add(target)
            open_ones.append((target, iter(ways[target])))
    return done[::-1]


def _box(box: _Box) -> str:
    left, top = box.x - _WIDTH // 2, box.y - _HEIGHT // 2
    curve = _HEIGHT // 2 if box.is_end else 5
    cut = box.words if len(box.words) <= _LETTERS else f"{box.words[: _LETTERS - 1]}…"
    return (
        f'<g><title>{_escaped(box.words)}</title><rect x="{left}" y="{top}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" rx="{curve}" fill="rgba(128,128,128,.12)"/>'
        f'<text x="{box.x}" y="{box.y + 4}" text-anchor="middle" fill="currentColor" '
        f'stroke="none">{_escaped(cut)}</text></g>'
    )


def _arrow(arrow: Arrow, boxes: Mapping[str, _Box]) -> str:
    """A line with its tip; a way back goes around on the right."""
    one, other = boxes[arrow.source], boxes[str(arrow.target)]
    dashed = ' stroke-dasharray="5 4"' if arrow.decided else ""
    half = _HEIGHT // 2
    if other.y > one.y:
        x, y = other.x, other.y - half
        middle = (one.y + half + y) // 2
        line = f"M{one.x} {one.y + half} C{one.x} {middle} {x} {middle} {x} {y}"
        tip = f"M{x - 4} {y - 7} L{x} {y} L{x + 4} {y - 7}"
        at = (one.x + x) // 2, middle
    else:
        x, y = other.x + _WIDTH // 2, other.y
        right = max(one.x, other.x) + _WIDTH // 2 + 3 * _MARGIN
        start = one.x + _WIDTH // 2, one.y - 6
        line = f"M{start[0]} {start[1]} C{right} {start[1]} {right} {y + 6} {x} {y + 6}"
        tip = f"M{x + 7} {y + 2} L{x} {y + 6} L{x + 7} {y + 10}"
        at = right - _MARGIN, (one.y + y) // 2
    label = ""
    if arrow.words:
        cut = arrow.words if len(arrow.words) <= _LETTERS else f"{arrow.words[: _LETTERS - 1]}…"
        label = (
            f'<text x="{at[0] + 6}" y="{at[1] + 8}" font-size="10" '
            f'fill="currentColor" stroke="none" opacity=".8">{_escaped(cut)}'
            f"<title>{_escaped(arrow.words)}</title></text>"
        )
    return f'<path d="{line}"{dashed}/><path d="{tip}"/>{label}'


def _escaped(words: str) -> str:
    return html.escape(one_line(words))
