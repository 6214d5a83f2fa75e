"""Answers that are signed with the key of a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli._exits import Exit
from tests.cli.conftest import Cli

WORKER = ("--sign-key", "ci.key", "--trusted", "ann.key.pub")
ANN = ("--sign-key", "ann.key", "--trusted", "ci.key.pub")
BOB = ("--sign-key", "bob.key", "--trusted", "ci.key.pub")


@pytest.fixture
def keys(cli: Cli) -> None:
    for name in ("ci", "ann", "bob"):
        assert cli("keygen", "--out", f"{name}.key", "--sign").code == 0
    Path("releases.py").write_text(
        "from holdfast.workflow import ask, workflow\n"
        "@workflow\n"
        "async def release() -> bool:\n"
        "    return await ask('publish?', returns=bool, assignees=['ann'])\n"
    )


@pytest.mark.usefixtures("keys")
def test_only_the_key_of_the_person_who_was_asked_answers(cli: Cli) -> None:
    run = ("releases:release", "--run-id", "r")
    assert cli("run", *run, *WORKER).code == Exit.PAUSED
    refused = cli("answer", "r", "--with", "true", "--by", "ann", *BOB)
    assert refused.code == Exit.NOT_FOUND
    assert "is answered by 'ann' with the key of 'bob'" in refused.err
    refused = cli("answer", "r", "--with", "true", *BOB)
    assert "is for 'ann'; not for 'bob'" in refused.err
    refused = cli("answer", "r", "--with", "true", "--by", "ann", "--trusted", "ci.key.pub")
    assert refused.code != 0
    done = cli("answer", "r", "--with", "true", *ANN)
    assert done.code == 0, done.err
    assert "signed by ann" in cli("show", "r", *WORKER).out
    assert cli("resume", "r", "--flow", "releases:release", *WORKER).code == 0


@pytest.mark.usefixtures("keys")
def test_an_answer_can_be_signed_in_a_store_that_is_not(cli: Cli) -> None:
    assert cli("run", "releases:release", "--run-id", "r").code == Exit.PAUSED
    done = cli("answer", "r", "--with", "true", "--sign-key", "ann.key")
    assert done.code == 0, done.err
    assert "by ann, signed (not checked)" in cli("show", "r").out
    assert cli("resume", "r", "--flow", "releases:release").code == 0


@pytest.mark.usefixtures("keys")
def test_commands_for_others_do_not_name_our_own_key(cli: Cli) -> None:
    paused = cli("run", "releases:release", "--run-id", "r", *WORKER)
    assert "answer r --with=true --sign-key=FILE --trusted=FILE" in paused.err
    done = cli("answer", "r", "--with", "true", *ANN)
    assert "ann.key" not in done.out
    untrusted = cli("show", "r", "--trusted", "ci.key.pub")
    assert "--trusted FILE" in untrusted.out + untrusted.err or "damaged" in untrusted.out


@pytest.mark.usefixtures("keys")
def test_a_signing_key_alone_does_not_read_an_encrypted_store(cli: Cli) -> None:
    cli("keygen", "--out", "ring.keys")
    ring = ("--key-file", "ring.keys")
    assert cli("run", "releases:release", "--run-id", "r", *ring, *WORKER).code == Exit.PAUSED
    for command in (["attest", "r"], ["show", "r"]):
        done = cli(*command, *WORKER)
        assert done.code != 0
        assert "no key was given" in done.err
    assert cli("attest", "r", *ring, *WORKER).code == 0
    assert cli("attest", "r", *ring, "--sign-key", "ci.key").code == 0
