"""A page as GitHub shows it becomes one as the site shows it.

The pages of docs/ are written for both readers. What differs is done here: file names become titles
of blocks, output gets a look of its own, pictures follow the site's theme, and links to files
outside of docs/ lead to the pages that show them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"

PLACES: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "PERFORMANCE.md": "proof/performance.md",
    "RELIABILITY.md": "proof/reliability.md",
    "bench/README.md": "project/benchmarks.md",
    "docs/adr": "concepts/decisions.md",
    "docs/adr/README.md": "concepts/decisions.md",
    "docs/documents/README.md": "documents/overview.md",
    "examples/README.md": "start/examples.md",
}
"""Where the site has files of the repository; all others of docs/ stay where they are."""

_FENCE: Final = re.compile(r'^( *)(```+)(\w*)(?: title="([^"]+)")?\s*$')
_MARK: Final = re.compile(r"^ *<!-- (file|database|shell|no-run): (.+) -->$")
_LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")
_SOURCE: Final = re.compile(r'(?<=src=")[^"]+|(?<=href=")[^"#]+')
_PICTURE: Final = re.compile(
    r'<picture>\s*<source[^>]*srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)"[^>]*>\s*</picture>'
)
_ITEM: Final = re.compile(r"(?:[*-]|\d+\.) ")


def staged(text: str, source: PurePosixPath, target: PurePosixPath) -> str:
    """The page for the site: `source` is its place in the repository, `target` that in the site."""

    def moved(link: str) -> str | None:
        if "://" in link or link.startswith("mailto:"):
            return link
        found = place(PurePosixPath(os.path.normpath(source.parent / link)))
        return None if found is None else os.path.relpath(found, target.parent)

    lines: list[str] = []
    for prose, part in _parts(text):
        lines.extend(_prose(part, moved) if prose else part)
    return "\n".join(lines) + "\n"


def place(path: PurePosixPath) -> PurePosixPath | None:
    """Where the site shows a file of the repository, if it does."""
    if (found := PLACES.get(str(path))) is not None:
        return PurePosixPath(found)
    if path.parts[0] == "examples" and path.suffix == ".py":
        return PurePosixPath("start/examples") / f"{path.stem}.md"
    return path.relative_to("docs") if path.parts[0] == "docs" else None


def _parts(text: str) -> Iterator[tuple[bool, list[str]]]:
    """The page cut into prose and blocks; the blocks are ready for the site."""
    prose: list[str] = []
    block: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            block.append(line)
            if found and found[2] == fence and not found[3]:
                titled, output = _about(prose)
                yield True, prose
                yield False, list(_block(block, titled, output=output))
                prose, block, fence = [""], [], ""
        elif found:
            fence, block = found[2], [line]
        else:
            prose.append(line)
    assert not fence, block  # what follows would be missing
    yield True, prose


def _about(prose: list[str]) -> tuple[str, bool]:
    """The file name that a comment before a block gives it, and whether it directly follows one."""
    said = [line for line in prose if line.strip()]
    mark = _MARK.match(said[-1]) if said else None
    return (mark[2] if mark and mark[1] == "file" else ""), not said and prose[:1] == [""]


def _block(lines: list[str], title: str, *, output: bool) -> Iterator[str]:
    """A fenced block; in a list, Python-Markdown wants it four columns in."""
    found = _FENCE.match(lines[0])
    assert found is not None
    indent = len(found[1])
    margin = "    " if indent else ""
    language, title = found[3], found[4] or title
    if output and language == "text":
        head = f"{found[2]} {{ .text .output }}"
    else:
        head = found[2] + language + (f' title="{title}"' if title else "")
    yield ""
    yield margin + head
    yield from (margin + line[indent:] for line in lines[1:])


def _prose(lines: list[str], moved: Callable[[str], str | None]) -> Iterator[str]:
    text = "\n".join(line for line in lines if not _MARK.match(line))
    text = _PICTURE.sub(_by_theme, text)
    text = _SOURCE.sub(lambda found: moved(found[0]) or "", text)
    text = _LINK.sub(lambda found: _linked(found[1], moved(found[2]), found[3] or ""), text)
    before = ""
    for line in text.split("\n"):
        if _ITEM.match(line) and before.strip() and before[0] != " " and not _ITEM.match(before):
            yield ""  # Python-Markdown sees no list otherwise
        yield line
        before = line


def _linked(words: str, link: str | None, fragment: str) -> str:
    return words if link is None else f"[{words}]({link}{fragment})"


def _by_theme(found: re.Match[str]) -> str:
    """GitHub chooses a picture by the system's theme, the site by its own switch."""
    dark, alt, light = found.groups()
    pair = (("light", light), ("dark", dark))
    return "\n".join(f'<img class="only-{theme}" alt="{alt}" src="{src}">' for theme, src in pair)
