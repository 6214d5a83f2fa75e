"""Build the site: python -m website.build [DIRECTORY]

The pages are prepared in build/website, and Zensical makes the site of them in site/, both below
the directory. A link that leads nowhere, or a page that is not in the navigation, fails the build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from website import api
from website.pages import DOCS, PLACES, ROOT, place, staged

CONFIG: Final = ROOT / "mkdocs.yml"
UNLISTED: Final = {
    "adr/": "concepts/decisions.md",
    "documents/": "documents/overview.md",
    "project/": "proof/performance.md",
    "reference/api/documents-": "reference/api/index.md",
    "start/examples/": "start/examples.md",
}
"""Pages that are reached by links, and the page that links to them: there is a way back to it."""
_UNSEARCHED: Final = ("adr", "documents/names", "documents/deviations", "reference/api/documents")
"""Pages that search passes over: they use every word of the guides. Their overviews are found."""
_WITHOUT_SIDEBARS: Final = "---\nhide: [navigation, toc]\n---\n\n"
_WITHOUT_SEARCH: Final = "---\nsearch: {exclude: true}\n---\n\n"
_SECTION: Final = re.compile(r"^#{2,} .+", re.MULTILINE)


def main(directory: str | Path = ROOT) -> None:
    """Prepare the pages, and build the site of them; a warning of Zensical's is an error."""
    project = Path(directory).resolve()
    config = yaml.safe_load(CONFIG.read_text())
    prepare(project / config["docs_dir"], config["nav"])
    if project != ROOT:
        shutil.copy(CONFIG, project)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    sys.exit(subprocess.run(command, cwd=project, check=False).returncode)


def prepare(stage: Path, nav: list[Any]) -> None:
    """Write every page and picture to a new directory."""
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(DOCS / "images", stage / "images")
    shutil.copytree(ROOT / "website/assets", stage / "assets")
    pages = dict(_pages())
    listed = set(_listed(nav))
    reached = {path for path in pages if path.startswith((*UNLISTED,))}
    for target, text in pages.items():
        path = stage / target
        path.parent.mkdir(parents=True, exist_ok=True)
        way_back = _way_back(target, pages) if target in reached - listed else ""
        path.write_text(_searched(target, way_back + text))
    if wrong := listed ^ (pages.keys() - reached | listed & reached):
        raise SystemExit(f"mkdocs.yml: its nav and the pages differ by {sorted(wrong)}")


def _pages() -> Iterator[tuple[str, str]]:
    """Every page of the site: its path, and its Markdown."""
    outside = [ROOT / name for name in PLACES if not name.startswith(("docs", "README"))]
    for page in [*sorted(DOCS.glob("**/*.md")), *outside]:
        source = PurePosixPath(page.relative_to(ROOT).as_posix())
        target = place(source)
        assert target is not None
        front = _WITHOUT_SIDEBARS if str(target) == "index.md" else ""
        yield str(target), front + staged(page.read_text(), source, target)
    for path, text in api.pages():
        yield f"reference/api/{path}", text
    for program in sorted(ROOT.glob("examples/*.py")):
        title = f"examples/{program.name}"
        text = f'# {program.name}\n\n```python title="{title}"\n{program.read_text()}```\n'
        yield f"start/examples/{program.stem}.md", text


def _way_back(target: str, pages: dict[str, str]) -> str:
    """A link to the page that a reader came from: the navigation does not show this one."""
    above = next(page for folder, page in UNLISTED.items() if target.startswith(folder))
    if above == target:
        return ""
    title = pages[above].partition("\n")[0].removeprefix("# ")
    return f"[← {title}]({os.path.relpath(above, PurePosixPath(target).parent)})\n\n"


def _searched(target: str, text: str) -> str:
    """A page as search should see it: of tables of figures, only the introduction."""
    if target.startswith(_UNSEARCHED):
        return _WITHOUT_SEARCH + text
    if target.startswith("proof/"):
        return _SECTION.sub(r"\g<0> { data-search-exclude }", text)
    return text


def _listed(nav: list[Any] | str) -> Iterator[str]:
    """The pages that the navigation names."""
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav:
            yield from _listed(item if isinstance(item, str) else next(iter(item.values())))


if __name__ == "__main__":
    main(*sys.argv[1:])
