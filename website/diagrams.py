"""Draw the diagrams of the docs: python -m website.diagrams

They are committed, in docs/images. Each follows the theme of the page or the system, is 480 wide so
that a phone shows it legibly, and says what it shows to screen readers. Shapes have the meaning
that they have in the web UI: filled is saved, hatched is restored, dashed never happened.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final

import holdfast as hf

Draw = Callable[[], "Drawing"]
IMAGES: Final = Path(__file__).parents[1] / "docs/images"

_LIGHT: Final = {
    "paper": "#ffffff",
    "sunken": "#edf1ef",
    "line": "#c3cdc8",
    "ink": "#12201c",
    "quiet": "#5f6d68",
    "saved": "#1e9382",
    "soft": "#ddf3ed",
    "bad": "#b82812",
    "faint": "#fde7e2",
    "other": "#752c92",
    "good-text": "#0a665a",
    "bad-text": "#a8200f",
    "other-text": "#73318f",
}
_DARK: Final = {
    "paper": "#131b19",
    "sunken": "#0a0f0e",
    "line": "#3a4942",
    "ink": "#e6efeb",
    "quiet": "#8d9c96",
    "saved": "#2fa893",
    "soft": "#10322c",
    "bad": "#dd4a31",
    "faint": "#44170f",
    "other": "#ce9ae6",
    "good-text": "#5ad0bc",
    "bad-text": "#ff9c88",
    "other-text": "#d7a3ec",
}
_RULES: Final = """
text { font: 13px Inter, system-ui, sans-serif; fill: var(--ink) }
.m { font: 12px ui-monospace, Menlo, "DejaVu Sans Mono", monospace }
.q { fill: var(--quiet); font-size: 12px } .b { font-weight: 650 }
.g { fill: var(--good-text) } .r { fill: var(--bad-text) } .o { fill: var(--other-text) }
.paper { fill: var(--paper) }
.box { fill: var(--sunken); stroke: var(--line) }
.saved { fill: var(--soft); stroke: var(--saved); stroke-width: 1.5 }
.lost { fill: none; stroke: var(--quiet); stroke-dasharray: 4 3 }
.dead { fill: var(--faint); stroke: var(--bad); stroke-width: 1.5 }
.bar { fill: var(--saved) } .ghost { fill: var(--line) }
.hatch { fill: url(#hatch); stroke: var(--saved) } .stripe { stroke: var(--saved) }
.wire { fill: none; stroke: var(--quiet); stroke-width: 1.4 }
.wire.good { stroke: var(--saved) } .wire.bad { stroke: var(--bad) }
.wire.other { stroke: var(--other) }
.thin { stroke: var(--line); fill: none }
.tip { fill: var(--quiet) } .tip.good { fill: var(--saved) } .tip.bad { fill: var(--bad) }
.tip.other { fill: var(--other) }
"""


class Drawing:
    """An SVG that grows by shapes."""

    def __init__(self, height: int, says: str) -> None:
        self.height = height
        self.says = says
        self.parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        """A rectangle."""
        size = f'width="{width}" height="{height}"'
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" {size} rx="4"/>')

    def text(self, x: float, y: float, text: str, kind: str = "", at: str = "start") -> None:
        """One line of text."""
        self.parts.append(
            f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{at}">{escape(text)}</text>'
        )

    def line(self, path: str, kind: str = "wire") -> None:
        """A line by its SVG path."""
        self.parts.append(f'<path class="{kind}" d="{path}"/>')

    def arrow(self, path: str, x: float, y: float, way: str = "right", kind: str = "") -> None:
        """A line that ends in an arrow at a point."""
        tips = {"right": "-7 -4v8", "left": "7 -4v8", "down": "-4 -7h8", "up": "-4 7h8"}
        self.line(path, f"wire {kind}".strip())
        self.line(f"M{x} {y}l{tips[way]}z", f"tip {kind}".strip())

    def svg(self) -> str:
        """The whole picture."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 {self.height}" '
                f'role="img" aria-label="{escape(self.says)}">',
                "<style>",
                f":root {{ {_variables(_LIGHT)} }}",
                f"@media (prefers-color-scheme: dark) {{ :root {{ {_variables(_DARK)} }} }}",
                _RULES.strip(),
                "</style>",
                '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
                'patternTransform="rotate(45)"><path class="stripe" d="M0 0v6" '
                'stroke-width="3"/></pattern></defs>',
                f'<rect class="paper" width="480" height="{self.height}"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )


def _variables(colours: dict[str, str]) -> str:
    return "; ".join(f"--{name}: {value}" for name, value in colours.items())


def journal() -> Drawing:
    """Entries, digests, head."""
    d = Drawing(
        236, "A journal: each entry's digest covers the entry before it; the last is the head"
    )
    d.text(16, 24, "run brest-1, one row per entry", "b")
    rows = [
        ("0", "open", "inputs: Brest", "5d0c…"),
        ("1", "fetch", "[1.5, 3.5, 2.5]", "91ae…"),
        ("2", "average", "2.5", "c47b…"),
        ("3", "write", "report.md", "08f2…"),
    ]
    for at, (seq, step, value, digest) in enumerate(rows):
        y = 40 + 44 * at
        d.box(16, y, 300, 32, "saved" if at == 3 else "box")
        d.text(28, y + 21, seq, "m q")
        d.text(50, y + 21, step, "m b")
        d.text(126, y + 21, value, "m")
        d.text(248, y + 21, digest, "m g")
        if at < 3:
            d.arrow(f"M304 {y + 32}v8", 304, y + 42, "down", "good")
    d.text(330, 56, "digest = SHA-256 of", "q")
    d.text(330, 72, "the digest before it,", "q")
    d.text(330, 88, "the fields, the value", "q")
    d.arrow("M400 188h-76", 320, 188, "left", "good")
    d.text(406, 192, "head", "b")
    d.box(16, 216, 300, 14, "lost")
    d.text(330, 227, "4: free, for one writer", "q")
    return d


def crash() -> Drawing:
    """Crash and resume on two processes."""
    d = Drawing(308, "A process is killed in its second step; another one resumes the run there")
    d.text(16, 26, "process 1", "b")
    d.box(16, 38, 92, 34, "saved")
    d.text(62, 60, "fetch", "", "middle")
    d.box(116, 38, 70, 34, "dead")
    d.text(151, 60, "average", "", "middle")
    d.text(196, 52, "kill -9", "b r")
    d.text(196, 68, "nothing is flushed", "q")
    d.text(16, 190, "store", "b")
    d.line("M16 168h448", "thin")
    for x, name, kind in [(62, "fetch", "g"), (306, "average", "g"), (404, "write", "g")]:
        d.parts.append(f'<circle class="bar" cx="{x}" cy="168" r="6"/>')
        d.text(x, 154, f"{name} ✓", f"m {kind}", "middle")
    d.arrow("M62 72v66", 62, 142, "down", "good")
    d.arrow("M62 176v24q0 20 20 20h118", 204, 220, "right", "good")
    d.text(76, 212, "read back", "q")
    d.text(208, 262, "process 2", "b")
    d.box(208, 204, 44, 34, "hatch")
    d.box(260, 204, 92, 34, "saved")
    d.text(306, 226, "average", "", "middle")
    d.box(360, 204, 92, 34, "saved")
    d.text(406, 226, "write", "", "middle")
    d.arrow("M306 204v-24", 306, 177, "up", "good")
    d.arrow("M404 204v-24", 404, 177, "up", "good")
    d.text(208, 280, "Hatched: not run again. The interrupted", "q")
    d.text(208, 296, "step is, as nobody knows how far it got.", "q")
    return d


def takeover() -> Drawing:
    """Heartbeat, taking over at a position, the losers refused."""
    d = Drawing(
        330, "A worker falls silent; of two that want position 8, one takes over; the others lose"
    )
    d.text(16, 26, "worker A", "b")
    d.line("M96 22h368", "thin")
    for at in range(5):
        d.parts.append(f'<circle class="bar" cx="{104 + 22 * at}" cy="22" r="4"/>')
    d.text(104, 48, "beats, then silence", "q")
    d.line("M214 22h96", "wire bad")
    d.text(262, 14, "dead_after", "m r", "middle")
    d.text(16, 96, "journal", "b")
    for at, (seq, name) in enumerate([("6", "fetch"), ("7", "charge")]):
        d.box(96 + 92 * at, 76, 84, 32)
        d.text(104 + 92 * at, 97, seq, "m q")
        d.text(122 + 92 * at, 97, name, "m")
    d.box(280, 76, 100, 32, "saved")
    d.text(288, 97, "8", "m q")
    d.text(306, 97, "B has it", "m g b")
    d.box(388, 76, 76, 32, "lost")
    d.text(396, 97, "9", "m q")
    d.text(16, 176, "worker B", "b")
    d.text(96, 176, "saw the head at 7, wants 8", "")
    d.arrow("M296 172h34v-56", 330, 111, "up", "good")
    d.text(342, 150, "wins", "b g")
    d.text(16, 232, "worker C", "b")
    d.text(96, 232, "saw the head at 7, wants 8", "")
    d.line("M296 228h150", "wire bad")
    d.text(452, 232, "✗", "r b", "middle")
    d.text(296, 250, "8 is taken: look again", "q")
    d.text(16, 288, "worker A", "b")
    d.text(96, 288, "wakes up, saves 8", "")
    d.line("M230 284h216", "wire bad")
    d.text(452, 288, "✗", "r b", "middle")
    d.text(230, 306, "8 is taken: LeaseLostError, it stops", "q")
    return d


def deltas() -> Drawing:
    """Deltas and keyframes: bytes per turn, measured."""
    stored, whole = _bytes_of_a_chat()
    top, base, left, step = 46.0, 190.0, 56.0, 16.0
    scale = (base - top) / max(whole)
    d = Drawing(
        256, "Bytes stored for each turn of a chat: holdfast's stay small, whole states grow"
    )
    d.text(16, 24, "stored for each turn of a chat", "b")
    for kb in range(0, int(max(whole) / 1000) + 1, 5):
        y = base - kb * 1000 * scale
        d.line(f"M{left} {y:.1f}h408", "thin")
        d.text(left - 6, round(y + 4, 1), f"{kb} KB", "q", "end")
    for at, (bytes_, all_) in enumerate(zip(stored, whole, strict=True)):
        x = left + 6 + step * at
        for value, kind in ((all_, "ghost"), (bytes_, "bar")):
            high = max(1.5, value * scale)
            d.parts.append(
                f'<rect class="{kind}" x="{x:.0f}" y="{base - high:.1f}" width="11" '
                f'height="{high:.1f}"/>'
            )
    d.text(left + 6, 66, "up to 4 KB, a state is stored whole;", "q")
    d.text(left + 6, 82, "then only what changed", "q")
    d.text(left + 6, 210, "turn 1", "q")
    d.text(left + 6 + step * (len(stored) - 1) + 11, 210, f"turn {len(stored)}", "q", "end")
    d.parts.append('<rect class="bar" x="56" y="226" width="11" height="11"/>')
    d.text(74, 236, f"holdfast: {sum(stored) / 1000:.0f} KB in all")
    d.parts.append('<rect class="ghost" x="252" y="226" width="11" height="11"/>')
    d.text(270, 236, f"whole states: {sum(whole) / 1000:.0f} KB")
    return d


def _bytes_of_a_chat(turns: int = 25) -> tuple[list[int], list[int]]:
    """What each turn of a chat of 600-byte messages takes in a store, and how large its state is."""
    messages: list[dict[str, str]] = []
    with hf.SyncCheckpointer("memory://") as cp:
        for turn in range(turns):
            words = " ".join(f"{(turn * 7919 + n * 104729) % 99991:05d}" for n in range(100))
            messages.append({"role": "user" if turn % 2 else "model", "text": words})
            cp.save("chat", {"messages": messages})
        found = [each for each in cp.store.read("chat") if each.kind == "checkpoint"]
    return [len(each.body) for each in found], [each.size for each in found]


def evidence() -> Drawing:
    """Claim, check, verdict, rerun."""
    d = Drawing(306, "A step claims a file; a resume checks the claim; a false one is run again")
    d.text(16, 26, "1  the step runs", "b")
    d.box(16, 38, 210, 48, "saved")
    d.text(28, 58, 'write(outputs="report.md")', "m")
    d.text(28, 76, "claims: SHA-256 is 9f86…", "q")
    d.arrow("M226 62h30", 260, 62)
    d.text(264, 26, "2  saved with its claim", "b")
    d.box(264, 38, 200, 48)
    d.text(276, 58, "brest-1@3", "m")
    d.text(276, 76, "the result, and the claim", "q")
    d.arrow("M364 86v34", 364, 124, "down")
    d.text(374, 108, "crash, resume", "q")
    d.text(264, 146, "3  the world is asked", "b")
    d.box(264, 156, 200, 48)
    d.text(276, 176, "report.md", "m")
    d.text(276, 194, "its digest now?", "q")
    d.arrow("M264 180h-34", 226, 180, "left")
    d.text(16, 146, "4  a verdict", "b")
    d.box(16, 156, 206, 48)
    d.text(28, 176, "verified, failed,", "m")
    d.text(28, 194, "or inconclusive", "m")
    d.arrow("M60 204v34", 60, 242, "down", "good")
    d.text(70, 228, "still true", "g")
    d.box(16, 246, 150, 44, "saved")
    d.text(28, 265, "trusted: go on")
    d.text(28, 282, "after this step", "q")
    d.arrow("M190 204v14q0 12 12 12h98q12 0 12 12", 312, 243, "down", "bad")
    d.text(206, 222, "no longer true", "r")
    d.box(216, 246, 248, 44, "dead")
    d.text(228, 265, "back to the newest that is true:")
    d.text(228, 282, "only this step runs again", "q")
    return d


def tree() -> Drawing:
    """Fork, rollback and compare as a tree."""
    d = Drawing(
        270, "A run whose branch was rolled back, a fork of it, and a comparison of the two"
    )
    d.text(16, 26, "run order-1", "b")
    for at, (x, kind) in enumerate([(60, "bar"), (150, "bar"), (240, "q"), (330, "q")]):
        _node(d, x, 62, str(at + 1), lost=kind == "q")
        if at:
            d.line(f"M{x - 74} 62h58", "wire" if kind == "q" else "wire good")
    d.text(352, 58, "left behind,", "q")
    d.text(352, 74, "still listed", "q")
    d.arrow("M240 84v14q0 12 -12 12h-54q-12 0 -12 -12v-10", 162, 84, "up", "bad")
    d.text(252, 104, "rollback to 2", "r")
    d.line("M150 78v58q0 16 16 16h138", "wire good")
    _node(d, 320, 152, "6")
    d.line("M336 152h58", "wire good")
    _node(d, 410, 152, "7")
    d.text(410, 128, "head", "b", "middle")
    d.text(180, 146, "continues", "g")
    d.line("M140 76v120q0 16 16 16h148", "wire other")
    _node(d, 320, 212, "1", kind="other")
    d.line("M336 212h58", "wire other")
    _node(d, 410, 212, "2", kind="other")
    d.text(16, 250, "run order-1-b", "b o")
    d.text(180, 206, "fork from 2", "o")
    d.line("M410 168v28", "wire")
    d.text(420, 186, "compare", "q")
    return d


def _node(d: Drawing, x: int, y: int, label: str, *, lost: bool = False, kind: str = "") -> None:
    shape = "lost" if lost else "box" if kind else "saved"
    d.parts.append(f'<circle class="{shape}" cx="{x}" cy="{y}" r="16"/>')
    d.text(x, y + 4, label, f"m {'q' if lost else 'o' if kind else 'g'}", "middle")


DRAWINGS: Final[tuple[Draw, ...]] = (journal, crash, takeover, deltas, evidence, tree)


if __name__ == "__main__":
    for draw in DRAWINGS:
        (IMAGES / f"{draw.__name__}.svg").write_text(draw().svg())
