"""Line charts as SVG: nothing but text, the same bytes for the same figures.

They are readable at 400 pixels and follow the reader's light or dark scheme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]

_WIDTH: Final = 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 460, 44, 262  # the corners of the plot
_ROW: Final = 20  # of the legend
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.paper { fill: #ffffff } .grid { stroke: #d0d7de; stroke-width: 1 }
.line { fill: none; stroke-width: 2.2 } .floor { stroke-dasharray: 5 4 }
.c0 { stroke: #0969da; fill: #0969da } .c1 { stroke: #bc4c00; fill: #bc4c00 }
.c2 { stroke: #1a7f37; fill: #1a7f37 } .c3 { stroke: #6e7781; fill: #6e7781 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .paper { fill: #0d1117 } .grid { stroke: #30363d }
.c0 { stroke: #58a6ff; fill: #58a6ff } .c1 { stroke: #f0883e; fill: #f0883e }
.c2 { stroke: #56d364; fill: #56d364 } .c3 { stroke: #8b949e; fill: #8b949e }
}
.line { fill: none }
"""
FLOOR: Final = 3
"""The number of the style that is dashed."""


class Axis(NamedTuple):
    """A logarithmic axis from `low` to `high`, drawn from pixel `first` to pixel `last`."""

    low: float
    high: float
    first: float
    last: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        share = (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return self.first + share * (self.last - self.first)


def chart(title: str, x_label: str, y_label: str, series: Mapping[str, tuple[int, Points]]) -> str:
    """A chart of several lines, both axes logarithmic; values must be above 0.

    Each has the number of its style, 0 to 3: its colour and the shape of its marks.
    """
    xs = sorted({x for _, points in series.values() for x, _ in points})
    ys = [y for _, points in series.values() for _, y in points]
    across = Axis(xs[0], xs[-1] if xs[-1] > xs[0] else xs[0] * 10, _LEFT + 8, _RIGHT - 8)
    ticks = _ticks(min(ys), max(ys))
    up = Axis(ticks[0], ticks[-1], _BOTTOM, _TOP)
    rows = ceil(len(series) / 2)
    height = _BOTTOM + 50 + rows * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(title, {chr(34): "&quot;"})}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}"/>',
        _text(_LEFT, 18, title, "start", "title"),
        _text(_LEFT, 36, y_label, "start"),
        *(_horizontal(up.at(tick), _number(tick)) for tick in ticks),
        *_vertical(across, xs),
        _text((_LEFT + _RIGHT) / 2, _BOTTOM + 36, x_label),
    ]
    for place, (name, (style, points)) in enumerate(series.items()):
        parts += _line(style, [(across.at(x), up.at(y)) for x, y in points])
        left, top = _LEFT + (place % 2) * 210, _BOTTOM + 56 + (place // 2) * _ROW
        parts.append(f'<path class="{_kind(style)}" d="M{left} {top - 4}h24"/>')
        parts += [_mark(style, left + 12, top - 4), _text(left + 32, top, name, "start")]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that enclose all values: powers of ten or, if these are few, 2 and 5, too.

    They span a factor of ten at least, so that what hardly grows does not look steep.
    """
    least, most = floor(log10(low)), ceil(log10(high))
    if most - least >= 4:
        return [10.0**decade for decade in range(least, most + 1)]
    fine = [step * 10.0**decade for decade in range(least - 1, most + 2) for step in (1, 2, 5)]
    first = max(place for place, tick in enumerate(fine) if tick <= low * 1.0001)
    last = min(place for place, tick in enumerate(fine) if tick >= high * 0.9999)
    while fine[last] < 9.9 * fine[first]:
        first, last = (first - 1, last) if (last - first) % 2 else (first, last + 1)
    return fine[first : last + 1]


def _horizontal(y: float, label: str) -> str:
    line = f'<path class="grid" d="M{_LEFT} {y:.1f}H{_RIGHT}"/>'
    return line + _text(_LEFT - 6, y + 4, label, "end")


def _vertical(across: Axis, xs: Sequence[float]) -> list[str]:
    """A mark for each value that was measured, and its number where there is room."""
    parts, free = [], 0.0
    for x in xs:
        place = across.at(x)
        parts.append(f'<path class="grid" d="M{place:.1f} {_BOTTOM}v5"/>')
        label = _number(x)
        half = len(label) * 3.7
        if place - half >= free:
            parts.append(_text(place, _BOTTOM + 18, label))
            free = place + half + 6
    return parts


def _line(style: int, points: Points) -> list[str]:
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return [f'<path class="{_kind(style)}" d="M{way}"/>', *(_mark(style, x, y) for x, y in points)]


def _kind(style: int) -> str:
    return f"line c{style}" + (" floor" if style == FLOOR else "")


def _mark(style: int, x: float, y: float) -> str:
    """Shapes differ, for those who see no colours."""
    colour = f'class="c{style}"'
    match style:
        case 0:
            return f'<circle {colour} cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        case 1:
            return f'<rect {colour} x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"/>'
        case 2:
            return f'<path {colour} d="M{x:.1f} {y - 5:.1f}l5 9h-10z"/>'
        case _:
            return f'<path {colour} d="M{x:.1f} {y - 5:.1f}l5 5-5 5-5-5z"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle", kind: str = "") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{shown}>{escape(text)}</text>'


def _number(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value:,.0f}" if value >= 1 else f"{value:.10f}".rstrip("0")
