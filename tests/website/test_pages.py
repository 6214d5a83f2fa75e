"""What becomes of a page of docs/ on the site; and pages that must say everything."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

import pytest
from website.pages import staged

import holdfast as hf
from holdfast.project import SETTINGS
from website import diagrams

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "docs/reference/configuration.md").read_text()


def on_site(text: str, source: str = "docs/guides/a.md", target: str = "guides/a.md") -> str:
    return staged(text, PurePosixPath(source), PurePosixPath(target)).strip()


def test_the_name_of_a_file_is_the_title_of_its_block() -> None:
    page = "Save this:\n\n<!-- file: a.py -->\n```python\nx = 1\n```\n"
    assert on_site(page) == 'Save this:\n\n\n```python title="a.py"\nx = 1\n```'


def test_what_follows_a_block_with_a_title_is_prose() -> None:
    page = (
        '```python title="a.py"\nx = 1\n```\n\n<!-- shell: run -->\n```console\n$ ls\n```\n\nEnd.\n'
    )
    shown = on_site(page)
    assert shown.startswith('```python title="a.py"\nx = 1\n```\n')
    assert "shell: run" not in shown
    assert shown.endswith("\nEnd.")


def test_what_a_block_prints_looks_like_output() -> None:
    page = "```python\nprint(1)\n```\n\n```text\n1\n```\n\nAnd a tree:\n\n```text\na\n```\n"
    assert on_site(page).count("{ .text .output }") == 1


def test_links_lead_to_the_pages_of_the_site() -> None:
    page = "[a](../adr/README.md#b) [c](../../PERFORMANCE.md) [d](../../examples/etl.py)"
    assert on_site(page) == (
        "[a](../concepts/decisions.md#b) [c](../proof/performance.md) [d](../start/examples/etl.md)"
    )


def test_a_link_to_a_file_without_a_page_is_only_its_words() -> None:
    assert on_site("see [the hooks](.pre-commit-config.yaml)", "CONTRIBUTING.md") == "see the hooks"


def test_a_picture_follows_the_theme_of_the_site() -> None:
    page = (
        '<picture>\n<source media="(prefers-color-scheme: dark)" srcset="../images/ui/a-dark.png">\n'
        '<img alt="A" src="../images/ui/a-light.png">\n</picture>'
    )
    shown = on_site(page)
    assert '<img class="only-light" alt="A" src="../images/ui/a-light.png">' in shown
    assert '<img class="only-dark" alt="A" src="../images/ui/a-dark.png">' in shown


def test_blocks_in_lists_stay_in_their_item() -> None:
    page = "1. Do this:\n\n   ```console\n   $ ls\n   ```\n"
    assert "\n    ```console\n    $ ls\n    ```" in on_site(page)


@pytest.mark.parametrize("draw", diagrams.DRAWINGS, ids=lambda draw: draw.__name__)
def test_a_diagram_is_drawn_by_its_script_for_both_themes(draw: diagrams.Draw) -> None:
    stored = (diagrams.IMAGES / f"{draw.__name__}.svg").read_text()
    assert ElementTree.fromstring(stored).get("aria-label")
    assert "prefers-color-scheme: dark" in stored
    if draw is not diagrams.deltas:  # it has what zstd makes of a state, which versions differ in
        assert stored == draw().svg(), "draw it anew: python -m website.diagrams"


@pytest.mark.parametrize("cls", [hf.Engine, hf.Checkpointer, hf.SyncCheckpointer])
def test_the_configuration_page_has_every_option_and_its_default(cls: type) -> None:
    for option in inspect.signature(cls).parameters.values():
        rows = re.findall(rf"^\| .*`{option.name}`.*\|$", CONFIGURATION, re.M)
        assert rows, option.name
        if not repr(option.default).startswith("<"):
            assert any(f"| `{option.default!r}` |" in row for row in rows), option


def test_the_configuration_page_has_every_variable_setting_and_extra() -> None:
    source = "\n".join(path.read_text() for path in ROOT.glob("src/holdfast/**/*.py"))
    variables = set(re.findall(r'"(HOLDFAST_[A-Z_]+[A-Z])"', source)) | {"HOLDFAST_SECRET_…"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    shown = set(re.findall(r"`([^`\n]+)`", CONFIGURATION))
    assert variables | SETTINGS | extras.keys() <= shown
