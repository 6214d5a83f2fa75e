"""docs/images/demo.svg: a terminal that shows what the demo prints (`make screenshots`)."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.sax.saxutils import escape

from holdfast import demo

PICTURE: Final = Path(__file__).parents[1] / "docs/images/demo.svg"
_BEGIN: Final = "   Run it, and kill it"  # what comes before is the program
_LINE: Final = 19  # pixels,
_GAP: Final = 9  # and those of an empty line
_WIDTH: Final = 800
_STYLE: Final = """
text { font: 13px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d7dde3 }
.paper { fill: #14181d } .command { fill: #8fd3a8 } .said { fill: #8b98a5 } .bad { fill: #f2a65a }
"""


def picture(command: str, lines: Sequence[str]) -> str:
    """A terminal with a command and what it printed. Dark, in both themes, as terminals are."""
    y = 32
    rows = [_row(y, f"$ {command}", "command")]
    for line in lines:
        y += _LINE if line else _GAP
        rows += [_row(y, line, _look(line))] if line else []
    height = y + 27
    size = f'width="{_WIDTH}" height="{height}"'  # GitHub would else stretch it
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {height}" '
            'role="img">',
            f"<title>What {escape(command)} prints</title><style>{_STYLE}</style>",
            f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>',
            *rows,
            "</svg>\n",
        ]
    )


def shown(said: str) -> list[str]:
    """The part of what the demo says that is in the picture."""
    return said[said.index(_BEGIN) :].rstrip().splitlines()


def _row(y: int, line: str, look: str) -> str:
    return f'<text x="20" y="{y}" class="{look}" xml:space="preserve">{escape(line)}</text>'


def _look(line: str) -> str:
    if "-9" in line or "failed" in line:
        return "bad"
    return "said" if line.endswith(":") or line[1:2] == "." else "plain"


def main() -> None:
    """Run the demo, and draw it."""
    with TemporaryDirectory() as place:
        out = StringIO()
        demo.main(Path(place) / "demo", out)
    PICTURE.write_text(picture("make demo", shown(out.getvalue())))


if __name__ == "__main__":
    main()
