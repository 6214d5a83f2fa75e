"""Tables and lines that fit."""

from __future__ import annotations

import io
import os
import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli import _drawing
from holdfast.cli._drawing import (
    LiveBlock,
    Text,
    columns,
    highlighted,
    one_line_each,
    paragraph,
)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def plain(painted: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", painted)


def drawn(rows: list[list[str]], out: io.StringIO, right: tuple[int, ...] = ()) -> list[str]:
    cells = [[Text(cell) for cell in row] for row in rows]
    return [line.plain for line in columns(cells, right, out)]


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    rows = [["NAME", "N", "NOTE"], ["a", "10", ""], ["日本", "7", "x"], ["é", "", "y"]]
    assert drawn(rows, io.StringIO(), (1,)) == [
        "NAME   N  NOTE",
        "a     10",
        "日本   7  x",
        "é         y",
    ]


def test_nothing_is_cut_where_nobody_looks() -> None:
    assert drawn([["A"], ["x" * 1000]], io.StringIO()) == ["A", "x" * 1000]


_WORD = st.text(st.sampled_from("ab日é\u0301 "), max_size=60).map(str.strip)


@given(st.lists(st.tuples(_WORD, _WORD, _WORD), min_size=1, max_size=5), st.integers(30, 100))
def test_a_table_fits_on_its_screen_and_loses_nothing(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        size = os.terminal_size((width, 24))
        patch.setattr(shutil, "get_terminal_size", lambda: size)
        lines = drawn([list(row) for row in rows], Screen())
    assert all(_drawing._width(line) <= width for line in lines)
    kept = sorted("".join(lines).replace(" ", ""))
    assert kept == sorted("".join("".join(row) for row in rows).replace(" ", ""))


@given(st.lists(st.tuples(_WORD, _WORD, _WORD), min_size=1, max_size=5), st.integers(30, 100))
def test_a_table_that_is_drawn_again_and_again_has_one_line_for_each_row(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    lines = [line.plain for line in one_line_each([[*map(Text, row)] for row in rows], width)]
    assert len(lines) == len(rows)
    assert all(_drawing._width(line) <= width for line in lines)
    for line, row in zip(lines, rows, strict=True):
        assert "…" in line or all(cell in line for cell in row)


def test_a_long_id_gives_way_to_the_columns_behind_it() -> None:
    rows = [["RUN", "FLOW", "SINCE"], ["order-of-a-customer-with-many-words-1", "order", "41 ms"]]
    assert [line.plain for line in one_line_each([[*map(Text, row)] for row in rows], 30)] == [
        "RUN               FLOW   SINCE",
        "order-of-a-cust…  order  41 ms",
    ]


def test_a_block_begins_at_the_first_column_whatever_was_typed_meanwhile() -> None:
    screen = Screen()
    block = LiveBlock(screen)
    block.draw([Text("one"), Text("two")])
    screen.write("^C")
    block.print("draining\n")
    assert screen.getvalue() == "one\ntwo\n^C\r\x1b[2A\x1b[Jdraining\none\ntwo\n"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=40))
def test_color_changes_no_letter(text: str) -> None:
    assert plain(highlighted(text).painted(True)) == text
    assert highlighted(text).painted(False) == text


def test_json_is_colored_by_what_it_is() -> None:
    shown = highlighted('  "key": ["a: \\"b\\"", 1.5, true],').painted(True)
    assert '\x1b[1;34m"key"\x1b[0m:' in shown
    assert '\x1b[32m"a: \\"b\\""\x1b[0m' in shown
    assert "\x1b[36m1.5\x1b[0m" in shown
    assert "\x1b[36mtrue\x1b[0m" in shown


def on_screen(rows: list[list[str]], width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((width, 24)))
    return drawn(rows, Screen())


def test_a_long_cell_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["RUN", "NOTE"], ["nightly-31", "ConnectionError: the very long named host is away"]]
    assert on_screen(rows, 34, monkeypatch) == [
        "RUN         NOTE",
        "nightly-31  ConnectionError: the",
        "            very long named host",
        "            is away",
    ]


def test_only_a_word_that_is_wider_than_its_column_is_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [["A", "B"], ["see", "the file /a/very/long/path/indeed"]]
    assert on_screen(rows, 20, monkeypatch) == [
        "A    B",
        "see  the file",
        "     /a/very/long/pa",
        "     th/indeed",
    ]


def test_a_column_of_sentences_gives_way_before_a_column_of_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = "order-of-a-customer-with-many-words-1"
    rows = [["RUN", "NOTE"], [ids, "it waits for an answer to a question"]]
    lines = on_screen(rows, 54, monkeypatch)
    assert lines[1:] == [f"{ids}  it waits for an", f"{'':39}answer to a", f"{'':39}question"]


def test_an_id_stays_whole_where_other_columns_can_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((40, 24)))
    ids, flow = "0h1x9c4tq7vb3m8k2w5d", "ingest-of-all-stations"
    rows = [[Text(ids), Text(flow), Text("the tide gauge is out of order")]]
    lines = [line.plain for line in columns(rows, (), Screen(), whole=(0,))]
    assert lines[0].startswith(f"{ids}  ")
    assert len(lines) > 1
    (line,) = columns([[Text(ids), rows[0][2]]], (), Screen(), cut=(1,))
    assert line.plain == f"{ids}  the tide gauge is…"


@given(st.lists(_WORD, min_size=1, max_size=8), st.integers(1, 30))
def test_lines_are_broken_within_words_only_where_they_must_be(
    texts: list[str], width: int
) -> None:
    text = " ".join(texts)
    whole = Text(text[:10], "bold").add(text[10:])
    lines = [line.plain for line in whole.wrapped(width)]
    assert all(_drawing._width(line) <= max(width, 2) for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    words = text.split()
    for part in {part for line in lines for part in line.split()} - set(words):
        assert any(part in word and _drawing._width(word) > width for word in words)


def test_a_paragraph_is_indented_below_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 24)))
    text = Text("  ✗ ", "red").add("fetch: the file is gone, and was 12 bytes")
    lines = [line.plain for line in paragraph(text, Screen(), 4)]
    assert lines == ["  ✗ fetch: the file", "    is gone, and was", "    12 bytes"]
    assert [line.plain for line in paragraph(text, io.StringIO(), 4)] == [text.plain]
