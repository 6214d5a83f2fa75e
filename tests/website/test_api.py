"""The pages of the API: complete, and with the signatures that `help()` shows."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

import holdfast as hf
from holdfast.kernel.methods import Iteration, Operation
from website import api, build


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(api.pages())


def test_every_public_name_is_on_one_page(pages: dict[str, str]) -> None:
    for module in {page.module for page in api.PAGES}:
        exported = importlib.import_module(module)
        for name in getattr(exported, "__all__", ()):
            value = getattr(exported, name)
            shown = [page for page in api.PAGES if api.homes()[id(value)] is page]
            assert [f"## {name} {{" in pages[f"{page.path}.md"] for page in shown] == [True], name


@pytest.mark.parametrize("cls", [hf.Checkpointer, hf.Engine])
def test_methods_are_shown_as_help_shows_them(cls: type, pages: dict[str, str]) -> None:
    section = section_of(cls, pages)
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_") or name.endswith("_sync"):
            continue
        found = re.search(rf"^### {name} .*?```python\n(.*?)```", section, re.M | re.S)
        assert found, name
        assert found[1].startswith("async def" if inspect.iscoroutinefunction(method) else "def")
        for parameter in inspect.signature(method).parameters:
            assert re.search(rf"\b{parameter}\b", found[1]), (name, parameter)


def section_of(cls: type, pages: dict[str, str]) -> str:
    _, _, section = "\n".join(pages.values()).partition(f"\n## {cls.__name__} {{")
    return section.partition("\n## ")[0]


def test_nothing_differs_between_two_builds(pages: dict[str, str]) -> None:
    """No address of an object, no order of a set."""
    assert dict(api.pages()) == pages
    assert not [path for path, text in pages.items() if " at 0x" in text]


def test_operations_are_not_shown_as_what_they_are_made_of(pages: dict[str, str]) -> None:
    for made in (Operation, Iteration):
        assert made.__name__ + "(" not in pages["checkpointer.md"]
    assert "core:" not in pages["checkpointer.md"]


def test_a_default_is_shown_as_a_caller_would_write_it(pages: dict[str, str]) -> None:
    assert "\n    where: RunFilter = RunFilter(),\n" in pages["store.md"]
    assert not [path for path, text in pages.items() if re.search(r"(?m)^ {4}_\w+: ", text)]


def test_a_blocking_form_is_one_line_below_its_async_method(pages: dict[str, str]) -> None:
    engine = section_of(hf.Engine, pages)
    assert "### pause { #Engine.pause }\n" in engine
    assert "\n`pause_sync(...)` blocks; same arguments.\n{: #Engine.pause_sync }\n" in engine
    assert "\n`close_sync()` blocks.\n" in engine
    assert "\n`stream_sync(...)` is for a plain `for` loop; same arguments.\n" in engine
    assert "`start_sync(...)` takes the same arguments: the run is executed in another" in engine
    names = [name for name, _ in inspect.getmembers(hf.Engine) if name.endswith("_sync")]
    for name in names:
        below = engine.partition(f"\n### {name.removesuffix('_sync')} ")[2].partition("\n### ")[0]
        assert f"{{: #Engine.{name} }}" in below, name
        assert f"### {name} " not in engine


def test_search_finds_a_method_of_two_forms_once(pages: dict[str, str]) -> None:
    text = pages["pydantic_ai.md"]  # its two forms differ, so each has an entry
    assert "### run { #HoldfastAgent.run }" in text
    assert "### run_sync { #HoldfastAgent.run_sync data-search-exclude }" in text


def test_the_blocking_checkpointer_lists_methods_that_are_described_once(
    pages: dict[str, str],
) -> None:
    section = section_of(hf.SyncCheckpointer, pages)
    assert "[`fork`](#Checkpointer.fork){ #SyncCheckpointer.fork }" in section
    assert re.findall(r"(?m)^### (\w+)", section) == ["watch"]  # its example differs
    for name, _ in inspect.getmembers(hf.SyncCheckpointer):
        assert name.startswith("_") or f"#SyncCheckpointer.{name} }}" in section, name


def test_a_page_begins_with_what_users_begin_with(pages: dict[str, str]) -> None:
    names = re.findall(r"(?m)^## (\w+) ", pages["workflow.md"])
    assert names[:3] == ["step", "workflow", "for_each"]


def test_methods_begin_with_what_users_begin_with(pages: dict[str, str]) -> None:
    names = re.findall(r"(?m)^### (\w+) ", section_of(hf.Engine, pages))
    assert names[:4] == ["run", "start", "resume", "recover"]
    section = section_of(hf.Checkpointer, pages)
    assert re.findall(r"(?m)^### (\w+) ", section)[:2] == ["save", "load"]


def test_the_navigation_calls_each_page_of_the_api_by_its_title(pages: dict[str, str]) -> None:
    listed = dict(re.findall(r"- (.+): reference/api/(\w+)\.md", build.CONFIG.read_text()))
    titles = {
        path: pages[f"{path}.md"].partition("\n")[0].removeprefix("# ") for path in listed.values()
    }
    assert {path: title for title, path in listed.items()} == titles


def test_no_entry_is_empty(pages: dict[str, str]) -> None:
    for path, text in pages.items():
        for section in re.split(r"(?m)^## ", text)[1:]:
            head, _, body = section.partition("\n")
            said = re.sub(r"(?s)```python\n.*?```", "", body).strip()
            assert said, (path, head)


def test_options_are_listed_with_types_and_defaults(pages: dict[str, str]) -> None:
    section = pages["workflow.md"].partition("\n## for_each ")[2].partition("\n## ")[0]
    assert "\nconcurrency: int | None = 10\n" in section
    assert "how many items are worked on at once" in section
