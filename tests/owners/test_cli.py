"""With $HOLDFAST_OWNER, no command tells of another's runs, or changes one.

Every command is in `CALLS`: a new one fails until it is tried here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import holdfast as hf
from holdfast.cli.main import holdfast
from tests.owners.conftest import Two
from tests.owners.world import THREAD, Asked

FLOWS = tuple(
    word for name in ("talk", "later", "part") for word in ("--flow", f"tests.owners.world:{name}")
)
Call = Callable[[Asked], tuple[str, ...]]

CALLS: dict[str, list[Call]] = {
    "runs": [lambda of: (), lambda of: ("--owner", of.owner), lambda of: (of.saved[:3],)],
    "show": [lambda of: (of.saved,), lambda of: (of.asks, "--full"), lambda of: (of.done,)],
    "watch": [lambda of: (of.done,)],
    "diff": [lambda of: (of.saved, "1", "2")],
    "stats": [lambda of: ("--since", "1d"), lambda of: ("--prometheus",)],
    "questions": [lambda of: ()],
    "workers": [lambda of: ()],
    "verify": [
        lambda of: (),
        lambda of: (of.saved,),
        lambda of: ("--chain",),
        lambda of: ("--chain", of.task),
    ],
    "doctor": [lambda of: ()],
    "attest": [lambda of: (of.task, "--sign-key", "key", "--out", "out.jsonl")],
    "anchor": [lambda of: ("--to", "out")],
    "remember": [lambda of: ("--file", "heads"), lambda of: ("--accept", of.saved)],
    "dry-run": [lambda of: FLOWS],
    "export": [
        lambda of: ("--all", "--to", "out"),
        lambda of: ("--thread", THREAD, "--to", "out"),
        lambda of: ("--owner", of.owner, "--to", "out"),
        lambda of: (of.saved, "--to", "out"),
    ],
    "copy": [lambda of: ("copy.db",), lambda of: ("copy.db", "--run", of.saved)],
    "import": [lambda of: ("theirs.jsonl",)],
    "answer": [lambda of: (of.asks, "--with", "mine")],
    "pause": [lambda of: (of.asks,)],
    "resume": [lambda of: (of.asks, *FLOWS), lambda of: (of.asks, "--submit")],
    "run": [
        lambda of: ("tests.owners.world:later", "-i", "words=mine", "--run-id", of.saved),
        lambda of: ("tests.owners.world:later", "-i", "words=mine", "--owner", of.owner),
    ],
    "submit": [
        lambda of: ("tests.owners.world:later", "-i", "words=mine", "--run-id", of.due),
        lambda of: ("tests.owners.world:later", "-i", "words=mine", "--owner", of.owner),
    ],
    "fork": [lambda of: (of.saved,), lambda of: (of.done, "--run-id", "mine")],
    "rollback": [lambda of: (of.saved, "1")],
    "retry": [lambda of: ("--dry-run",), lambda of: (of.done, *FLOWS), lambda of: ("--yes",)],
    "recover": [lambda of: ("--no-wait", *FLOWS)],
    "worker": [lambda of: ("--until-idle", *FLOWS)],
    "cancel": [lambda of: (of.asks,)],
    "prune": [
        lambda of: (of.saved, "--keep-latest", "1", "--yes"),
        lambda of: ("--runs-older-than", "0s", "--owner", of.owner, "--yes"),
        lambda of: ("--keep-latest", "1", "--yes"),
    ],
    "delete": [lambda of: (of.saved, "1", "--yes", "--force")],
    "rekey": [lambda of: ()],
    "forget": [
        lambda of: (of.saved, "--yes", "--force"),
        lambda of: ("--owner", of.owner, "--yes", "--force"),
        lambda of: ("--thread", THREAD, "--yes", "--force"),
    ],
    # What serves until it is stopped is tried with the web UI and with MCP.
    "ui": [],
    "mcp": [],
    # What looks at no runs.
    "bench": [],
    "completion": [],
    "config": [lambda of: ()],
    "demo": [],
    "keygen": [],
}


@pytest.fixture
def bob_alone(two_in_file: Two, monkeypatch: pytest.MonkeyPatch) -> Two:
    """Commands are Ann's, in a directory of their own."""
    monkeypatch.chdir(two_in_file.files)
    monkeypatch.setenv("HOLDFAST_OWNER", "ann")
    monkeypatch.setenv("HOLDFAST_STORE", two_in_file.store.url)
    with hf.SyncCheckpointer(two_in_file.store) as cp:
        cp.export_run(two_in_file.bob.saved, "theirs.jsonl")
    CliRunner().invoke(holdfast, ["keygen", "--sign", "--out", "key"])
    return two_in_file


def test_every_command_is_tried() -> None:
    assert {*holdfast.list_commands(click.Context(holdfast))} == CALLS.keys()


def noticed(two: Two) -> list[str]:
    """The commands that told of another's runs, or changed one."""
    found = []
    before = two.untouched()
    for name, calls in CALLS.items():
        for call in calls:
            bob = Asked(two.bob)
            told = {*Path().rglob("*")}
            for form in ((), ("--json",)):
                result = CliRunner().invoke(holdfast, [name, *call(bob), *form])
                text = f"{result.output} {result.exception!r}"
                for file in {*Path().rglob("*")} - told:
                    if file.is_file() and file.suffix != ".db":
                        text += file.read_bytes().decode("latin-1")
                if two.bob.among(text, bob.named):
                    found.append(f"{name} tells {text}")
                if two.untouched() != before:
                    found.append(f"{name} changes something")
                    before = two.untouched()
    return found


def test_no_command_tells_or_changes_anything_of_another_owner(bob_alone: Two) -> None:
    assert noticed(bob_alone) == []
    with hf.SyncCheckpointer("copy.db") as copied:
        assert {run.owner for run in copied.runs()} == {"ann"}


def test_the_same_commands_without_an_owner_are_noticed(
    bob_alone: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_OWNER")
    seen = {one.partition(" ")[0] for one in noticed(bob_alone)}
    assert seen >= {"runs", "show", "questions", "export", "verify", "worker", "prune", "forget"}


def test_an_owner_that_is_not_the_environments_is_a_wrong_word(bob_alone: Two) -> None:
    result = CliRunner().invoke(holdfast, ["worker", "--owner", "bob", *FLOWS])
    assert result.exit_code == 2
    assert "HOLDFAST_OWNER" in result.output
