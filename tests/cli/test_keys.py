"""keygen."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import holdfast as hf
from holdfast.cli._exits import Exit
from holdfast.keys import key_files
from holdfast.model import CUT_OVER
from tests.cli.conftest import Cli


def test_a_new_ring_has_one_random_key_that_is_not_shown(cli: Cli) -> None:
    done = cli("keygen", "--out", "ring.keys", "--id", "2026")
    assert done.code == 0
    assert "key 2026 made in ring.keys" in done.out
    (key,) = key_files.read_keys("ring.keys").values()
    assert len(key) == 32
    text = Path("ring.keys").read_text().split()[1]
    assert text not in done.out + done.err
    assert stat.S_IMODE(Path("ring.keys").stat().st_mode) == 0o600
    cli("keygen", "--out", "other.keys", "--id", "2026")
    assert key_files.read_keys("other.keys")["2026"] != key


def test_a_newer_key_is_added_behind_the_others(cli: Cli) -> None:
    made = cli("keygen", "--out", "ring.keys", "--json").json
    added = cli("keygen", "--out", "ring.keys", "--add", "--json").json
    assert list(key_files.read_keys("ring.keys")) == [made["key_id"], added["key_id"]]
    taken = cli("keygen", "--out", "ring.keys", "--add", "--id", made["key_id"])
    assert taken.code == Exit.UNAVAILABLE
    assert "already" in taken.err
    assert cli("keygen", "--out", "none.keys", "--add").code == Exit.UNAVAILABLE


def test_a_key_pair_is_named_like_its_file(cli: Cli) -> None:
    done = cli("keygen", "--out", "ann.key", "--sign", "--json").json
    key = hf.SigningKey.from_file("ann.key")
    assert (done["key_id"], done["fingerprint"]) == ("ann", key.fingerprint)
    hf.TrustedKeys.from_files(done["public_file"]).verify("ann", b"x", key.sign(b"x"))
    assert stat.S_IMODE(Path("ann.key").stat().st_mode) == 0o600


def test_no_file_is_overwritten(cli: Cli) -> None:
    Path("ann.key").write_text("precious")
    Path("bob.key.pub").write_text("precious")
    for arguments in (["ann.key"], ["ann.key", "--sign"], ["bob.key", "--sign"]):
        done = cli("keygen", "--out", *arguments)
        assert done.code == Exit.UNAVAILABLE
        assert "never overwritten" in done.err
    assert Path("ann.key").read_text() == Path("bob.key.pub").read_text() == "precious"
    assert not Path("bob.key").exists()
    assert cli("keygen", "--out", "x", "--sign", "--add").code == Exit.USAGE


def test_no_key_is_left_where_others_could_replace_it(cli: Cli) -> None:
    Path("open").mkdir()
    Path("open").chmod(0o777)
    for more in ([], ["--sign"]):
        done = cli("keygen", "--out", "open/k", *more)
        assert done.code == Exit.UNAVAILABLE
        assert "others can replace files in its directory" in done.err
    assert not list(Path("open").iterdir())


def test_runs_of_an_encrypted_store_are_listed_without_its_key(cli: Cli) -> None:
    cli("keygen", "--out", "ring.keys")
    with hf.SyncCheckpointer("k.db", key=hf.Keyring.from_file("ring.keys")) as cp:
        cp.save("r-1", {"n": 1})
    assert "r-1" in cli("runs", "--store", "k.db").out
    assert "no key was given" in cli("show", "r-1", "--store", "k.db").err


def test_a_store_from_before_there_was_a_key_says_how_to_begin_with_one(cli: Cli) -> None:
    cli("keygen", "--out", "ring.keys")
    with hf.SyncCheckpointer("old.db") as cp:
        cp.save("r-1", {"n": 1})
    keyed = ("--store", "old.db", "--key-file", "ring.keys")
    assert "holdfast rekey --cut-over" in cli("show", "r-1", *keyed).err
    assert cli("rekey", "--cut-over", *keyed).code == 0
    assert cli("show", "r-1", *keyed).code == 0


def test_commands_work_where_only_fields_are_encrypted(cli: Cli) -> None:
    cli("keygen", "--out", "ring.keys", "--id", "2025")
    options = {"key": hf.Keyring.from_file("ring.keys"), "encrypt": ["ssn"]}
    with hf.SyncCheckpointer("sqlite:///runs.db", **options) as cp:  # type: ignore[arg-type]
        cp.save("hers", {"name": "Ann", "ssn": "078-05-1120"}, owner="ann")
        cp.save("shared", {"name": "Bob", "ssn": "219-09-9999"})
    cli("keygen", "--out", "ring.keys", "--add", "--id", "2026")
    with_keys = ["--store", "sqlite:///runs.db", "--key-file", "ring.keys"]
    shown = cli("show", "hers", *with_keys)
    assert shown.code == 0
    assert "Ann" in shown.out
    assert "078-05-1120" not in shown.out
    assert cli("rekey", "--json", *with_keys).json == {"owners": 2, "rewrapped": 2}
    done = cli("forget", "--owner", "ann", "--yes", "--json", *with_keys)
    assert done.code == 0, done.err
    assert len(done.json["keys"]) == 1
    newest = key_files.read_keys("ring.keys")["2026"]
    options["key"] = hf.Keyring({"2026": newest})
    with hf.SyncCheckpointer("sqlite:///runs.db", **options) as cp:  # type: ignore[arg-type]
        found = cp.load("shared")
        assert found is not None
        assert found.state["ssn"] == "219-09-9999"
    assert cli("rekey", "--cut-over", *with_keys).code == 0
    with hf.SyncCheckpointer("sqlite:///runs.db", key=options["key"]) as cp:  # type: ignore[arg-type]
        found = cp.load("shared")
        assert found is not None
        assert found.state["ssn"] == "219-09-9999"


def test_a_store_whose_record_of_encryption_was_removed_is_not_taken_for_a_readable_one(
    cli: Cli,
) -> None:
    cli("keygen", "--out", "ring.keys", "--id", "2026")
    with hf.SyncCheckpointer("sqlite:///runs.db", key=hf.Keyring.from_file("ring.keys")) as cp:
        cp.save("hers", 1)
    with closing(sqlite3.connect("runs.db")) as db, db:
        [(table,)] = db.execute(
            "select name from sqlite_master where name like '%entries' and type = 'table'"
        )
        assert db.execute(f"delete from {table} where run = ?", [CUT_OVER]).rowcount
    with hf.SyncCheckpointer("sqlite:///runs.db") as cp:
        cp.save("forged", 1)
    done = cli("show", "forged", "--store", "sqlite:///runs.db", "--key-file", "ring.keys")
    assert done.code
    assert "not encrypted" in done.err


def test_a_key_file_that_is_not_there_is_named(cli: Cli) -> None:
    with hf.SyncCheckpointer("sqlite:///some.db") as cp:
        cp.save("run", 1)
    done = cli("runs", "--store", "some.db", "--key-file", "nope.keys")
    assert "there is no key file 'nope.keys'; name another one" in done.err


def test_a_key_that_is_missing_or_wrong_exits_as_what_can_not_be_read(cli: Cli) -> None:
    cli("keygen", "--out", "ring.keys", "--id", "one")
    cli("keygen", "--out", "other.keys", "--id", "one")
    with hf.SyncCheckpointer("k.db", key=hf.Keyring.from_file("ring.keys")) as cp:
        cp.save("r-1", {"n": 1})
    for arguments in (["show", "r-1"], ["diff", "r-1", "0", "1"], ["fork", "r-1"]):
        missing = cli(*arguments, "--store", "k.db")
        assert missing.code == Exit.UNAVAILABLE, arguments
        assert "no key was given" in missing.err
        wrong = cli(*arguments, "--store", "k.db", "--key-file", "other.keys")
        assert wrong.code == Exit.UNAVAILABLE, arguments
        assert "key" in wrong.err
    assert cli("show", "r-1", "--store", "k.db", "--key-file", "ring.keys").code == Exit.OK
