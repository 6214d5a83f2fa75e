from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.keys import key_files

KEY = bytes(range(32))
LINE = b"2026: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
IDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=16).filter(
    lambda text: not text.startswith(("#", "-----"))
)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    key_files.write_new(path, LINE)
    return path


def test_keys_are_read_back_in_the_order_they_were_written(tmp_path: Path) -> None:
    keys = {"b": KEY, "a": KEY[::-1], "kms:eu:7": bytes(64)}
    key_files.write_keys(tmp_path / "keys", keys)
    assert list(key_files.read_keys(tmp_path / "keys").items()) == list(keys.items())
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600


@given(st.dictionaries(IDS, st.binary(min_size=32, max_size=100), min_size=1))
def test_any_keys_survive_their_file(keys: dict[str, bytes]) -> None:
    assert key_files.parse_keys(key_files.format_keys(keys), "keys") == keys


@given(st.binary() | st.text().map(str.encode))
@example(b"a: " + b"A" * 44)
@example(b"\x00")
def test_a_malformed_file_is_refused_without_quoting_it(content: bytes) -> None:
    try:
        keys = key_files.parse_keys(content, "keys")
    except hf.KeyFileError as error:
        assert error.path == "keys"
    else:
        assert keys
        assert all(len(key) >= 32 for key in keys.values())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"# nothing\n\n", "has no key"),
        (b"secretsecret\n", "line 1: a line is an id"),
        (LINE + b"\n2027: c2VjcmV0!\n", "line 3: the key is not base64"),
        (b"2027: c2VjcmV0\n", "line 1: a key has 32 to 1024 random bytes, not 6"),
        (LINE + LINE, "line 2: a key has the id of an earlier line"),
        (b"a key" + LINE[4:], "line 1: the id of the key may hold printable characters only"),
        (b"\xff" + LINE, "is not text"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_by_line(content: bytes, reason: str) -> None:
    with pytest.raises(hf.KeyFileError) as caught:
        key_files.parse_keys(content, "keys")
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644])
def test_a_file_that_others_can_use_is_refused(private: Path, mode: int) -> None:
    private.chmod(mode)
    with pytest.raises(hf.KeyFileError, match="can be used by others"):
        key_files.read_keys(private)


def test_a_file_in_a_directory_where_others_can_replace_it_is_refused(private: Path) -> None:
    private.parent.chmod(0o777)
    with pytest.raises(hf.KeyFileError, match="others can replace files"):
        key_files.read_keys(private)
    private.parent.chmod(0o700)
    assert key_files.read_keys(private)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_or_link_or_directory_of_somebody_else_is_refused(private: Path) -> None:
    link = private.parent / "link"
    link.symlink_to(private)
    assert key_files.read_keys(link) == {"2026": KEY}
    os.lchown(link, 12345, -1)
    with pytest.raises(hf.KeyFileError, match="it belongs to uid 12345"):
        key_files.read_keys(link)
    os.chown(private, 12345, -1)
    with pytest.raises(hf.KeyFileError, match="it belongs to uid 12345"):
        key_files.read_keys(private)
    os.chown(private, 0, -1)
    os.chown(private.parent, 12345, -1)
    with pytest.raises(hf.KeyFileError, match="its directory belongs to uid 12345"):
        key_files.read_keys(private)


def test_a_link_into_a_directory_of_others_is_refused(private: Path, tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    private.rename(open_to_all / "keys")
    open_to_all.chmod(0o777)
    (tmp_path / "link").symlink_to(open_to_all / "keys")
    with pytest.raises(hf.KeyFileError, match="others can replace files"):
        key_files.read_keys(tmp_path / "link")


def test_a_pipe_a_directory_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "directory").mkdir(0o700)
    (tmp_path / "huge").write_bytes(b"#" * (key_files.MAX_FILE + 1))
    (tmp_path / "huge").chmod(0o600)
    for name in ("pipe", "directory", "huge"):
        with pytest.raises(hf.KeyFileError):
            key_files.read_keys(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        key_files.read_keys(tmp_path / "none")


def test_a_key_is_added_behind_the_others_and_comments_stay(private: Path) -> None:
    private.write_bytes(b"# jobs\n" + LINE.rstrip())
    key_files.add_key(private, "2027", KEY[::-1])
    assert private.read_bytes().startswith(b"# jobs\n" + LINE + b"2027: ")
    assert list(key_files.read_keys(private)) == ["2026", "2027"]
    with pytest.raises(hf.KeyFileError, match="has a key '2027' already"):
        key_files.add_key(private, "2027", KEY)
    assert [path.name for path in private.parent.iterdir()] == ["keys"]


def test_a_file_of_keys_is_never_overwritten_by_a_new_one(private: Path) -> None:
    with pytest.raises(FileExistsError):
        key_files.write_new(private, b"")
    assert private.read_bytes() == LINE


@pytest.mark.parametrize(
    "key_id", ["", "a b", "#a", "-----BEGIN", "a\n", "x" * 65, "é" * 33, "\u200b", "a\u2028b"]
)
def test_an_id_that_cannot_be_shown_or_stored_is_refused(key_id: str) -> None:
    with pytest.raises(hf.InvalidIdError, match="key id"):
        key_files.check_key_id(key_id)
