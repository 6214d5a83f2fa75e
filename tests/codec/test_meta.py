"""An entry's metadata: typed, and what is of another type is damage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.checkpoint import CheckpointInfo, run_info
from holdfast.codec.meta import CLEAR, Key, Meta, dump_meta
from holdfast.errors import CheckpointCorruptedError
from holdfast.model import SHARED, Entry


def entry(meta: str) -> Entry:
    return Entry(
        "run", 3, "checkpoint", b"id", None, 3, b"digest", None, None, None, "open", 0, None, 0,
        None, None, None, meta, b"",
    )  # fmt: skip


def test_keys_come_back_as_they_were_given_and_absent_ones_as_their_default() -> None:
    meta = Meta(entry(dump_meta({"begun": "ab", "next_steps": ["x"], "iteration": 2})))
    assert (meta.begun, meta.next_steps, meta.iteration) == ("ab", ["x"], 2)
    assert (meta.alias, meta.rolled_back, meta.after) == (None, (), "")
    assert meta.fields == {"begun": "ab", "next_steps": ["x"], "iteration": 2}
    assert Meta(entry("")).fields == {}
    assert dump_meta({}) == ""


@pytest.mark.parametrize("claimed", [{"p": 1}, [{"p": 1}]])
def test_one_pack_of_claims_reads_like_a_list_of_one(claimed: object) -> None:
    assert Meta(entry(dump_meta({"evidence": claimed}))).evidence == [{"p": 1}]
    assert Meta(entry("{}")).evidence == []


@pytest.mark.parametrize("text", ["{", "[]", "7", "[" * 100_000])
def test_metadata_that_is_not_an_object_is_damage_of_that_entry(text: str) -> None:
    with pytest.raises(CheckpointCorruptedError) as caught:
        Meta(entry(text))
    assert (caught.value.run_id, caught.value.seq) == ("run", 3)


def test_a_value_of_another_type_is_damage_of_that_entry() -> None:
    meta = Meta(entry(dump_meta({"begun": 7, "next_steps": "x"})))
    with pytest.raises(CheckpointCorruptedError, match="begun is not a str"):
        _ = meta.begun
    with pytest.raises(CheckpointCorruptedError, match="next_steps is not a list"):
        _ = meta.next_steps


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_numbers_that_json_has_not_are_damage_of_that_entry(number: str) -> None:
    with pytest.raises(CheckpointCorruptedError, match="metadata"):
        Meta(entry(f'{{"since": {{"step": {number}}}}}'))


def test_the_digest_in_a_tombstone_is_hex() -> None:
    assert Meta(entry('{"after": "00ff"}')).digest_before == b"\x00\xff"
    assert Meta(entry("")).digest_before == b""
    with pytest.raises(CheckpointCorruptedError, match="after is not a digest"):
        _ = Meta(entry('{"after": "no"}')).digest_before


def test_what_a_caller_attached_and_can_not_be_read_is_damage_of_that_entry() -> None:
    nested: dict[str, object] = {}
    for _ in range(300):
        nested = {"in": nested}
    with pytest.raises(CheckpointCorruptedError, match="its metadata"):
        _ = CheckpointInfo(entry(dump_meta({"metadata": nested}))).metadata


@pytest.mark.parametrize(("at", "year"), [(2**62, 9999), (-(2**62), 1)])
def test_a_time_out_of_range_is_shown_as_the_nearest_there_is(at: int, year: int) -> None:
    """Times are for people: one that was altered must not hide a list of runs."""
    assert run_info(entry("")._replace(at=at), None, None).updated_at.year == year


def test_the_format_documents_every_key_and_every_hidden_journal() -> None:
    root = Path(__file__).parents[2]
    text = (root / "docs/reference/format.md").read_text()
    keys = {key._name for key in vars(Meta).values() if isinstance(key, Key)}
    assert {key for key in keys | set(CLEAR) if f"`{key}`" not in text} == set()
    model = (root / "src/holdfast/model.py").read_text()
    journals = set(re.findall(r"\{HIDDEN\}([a-z]+)", model)) | {name[1:] for name in SHARED}
    assert len(journals) > 10
    assert {name for name in journals if f"U+001F `{name}`" not in text} == set()
