"""What a new user's first mistakes look like on the terminal."""

from __future__ import annotations

import hashlib
import shlex
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pytest

from holdfast.cli._exits import Exit
from holdfast.engine.people.questions import Approval, Question
from holdfast.engine.people.schema import schema_of, schema_of_fields
from holdfast.views.commands import answer_form
from tests.cli.conftest import Cli

RECURSIVE = {
    "type": "object",
    "required": ["x", "y"],
    "properties": {key: {"$ref": "#/$defs/a"} for key in "xy"},
}
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]
FLOWS = """
from pathlib import Path

from holdfast.workflow import approve, ask, step, workflow


@step
def double(n: int) -> int:
    return 2 * n


@workflow("body")
async def body() -> None:
    await double(1)
    raise ValueError("the body is wrong")


@workflow("caught")
async def caught() -> None:
    try:
        await step("bad").python(int, args=("x",))
    except Exception:
        raise KeyError("and then this") from None


@workflow("forgetful")
async def forgetful() -> int:
    return double(1) + 1


@workflow("unstorable")
async def unstorable() -> None:
    await step("make").python(object)


@workflow("many")
async def many() -> None:
    await step("write").python(Path("out.txt").write_text, args=("aa",)).outputs("out.txt")
    for n in range(3):
        await double(n)
    raise ValueError("stop")


@workflow("sure")
async def sure() -> bool:
    return await ask("really?", returns=bool, name="sure")


@workflow("approval")
async def approval() -> bool:
    return (await approve("publish?", name="publish")).approved


@workflow("text")
async def text() -> str:
    return await ask("which?", returns=str, name="which")
"""


@pytest.fixture
def mine(cli: Cli) -> Cli:
    Path("mine.py").write_text(FLOWS)
    return cli


@pytest.mark.parametrize(
    ("flow", "error"),
    [
        ("body", "ValueError: the body is wrong"),
        ("caught", "KeyError: 'and then this'"),
        ("forgetful", "TypeError: <step 'double'> is not its result: `await` it first"),
    ],
)
def test_an_error_of_the_body_is_told_like_one_of_a_step(mine: Cli, flow: str, error: str) -> None:
    for done in (
        mine("run", f"mine:{flow}", "--run-id", "r"),
        mine("resume", "r", "--flow", f"mine:{flow}"),
        mine("retry", "r", "--flow", f"mine:{flow}"),
    ):
        assert done.code == Exit.FAILED
        assert f"failed in the flow: {error}" in done.err
        assert f"in {flow}\n" in done.err, "the user's own line"
        assert "src/holdfast" not in done.err
        assert f"continue it with: holdfast retry r --flow=mine:{flow}\n" in done.err
    shown = mine("show", "r").out
    assert f"failed in the flow: {error}" in shown
    assert "src/holdfast" not in shown
    assert "holdfast retry r" in shown


def test_a_traceback_without_the_users_frames_has_one_line(mine: Cli) -> None:
    done = mine("run", "mine:unstorable", "--run-id", "r")
    assert "make: object can't be stored" in done.err
    assert done.err.count("  File ") == 1
    assert mine("show", "r").out.count("  File ") == 1


def test_with_debug_every_frame_is_shown(mine: Cli) -> None:
    with pytest.raises(ValueError, match="the body is wrong"):
        mine("run", "mine:body", "--run-id", "r", "--debug")
    assert "src/holdfast" in mine("show", "r").out


def test_the_form_of_an_answer_is_shown_and_yes_is_an_answer(mine: Cli) -> None:
    way = "holdfast answer r --with=true\nor with another answer: false\n"
    asked = mine("run", "mine:sure", "--run-id", "r")
    assert way in asked.err
    assert asked.err.count("? sure: really?") == 1
    again = mine("resume", "r", "--flow", "mine:sure")
    assert again.code == Exit.PAUSED
    assert "? sure: really?\npaused; continue with: " + way in again.err
    assert mine("show", "r").out.endswith(way)
    assert "true|false" in mine("questions").out
    wrong = mine("answer", "r", "--with", "perhaps")
    assert wrong.code == Exit.USAGE
    assert "--with takes true|false, not 'perhaps'" in wrong.err
    assert mine("answer", "r", "--with", "Yes").code == 0
    assert mine("resume", "r", "--flow", "mine:sure").json is True


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": "boolean"}, "true|false"),
        ({"type": "string"}, "TEXT"),
        ({"type": "integer"}, "NUMBER"),
        ({"type": "object"}, "JSON"),
        (schema_of(Approval), '{"approved": true}'),
        (schema_of(list[int]), "[1]"),
        (schema_of_fields({"n": int, "when": Literal["now", "later"]}), '{"n": 1, "when": "now"}'),
        (schema_of(dict[str, Decimal]), "JSON"),
        ({**schema_of(list[str]), "minItems": 2}, "JSON"),
        ({"type": "object", "required": ["\x85"]}, "JSON"),
        ({"type": "object", "required": [*map(str, range(9))]}, "JSON"),
        ({"type": "object", "required": [["no name"]]}, "JSON"),
        ({"type": "array", "items": {"enum": [DEEP]}}, "JSON"),
        ({"enum": [DEEP]}, "JSON"),
        ({"$defs": {"a": RECURSIVE}, **RECURSIVE}, "JSON"),
        ({"type": ["string", "null"]}, '"TEXT"'),
        ({}, "JSON"),
        ({"enum": ["red", "blue"]}, "red|blue"),
        ({"enum": [1, "1", "", "@file"]}, '1|"1"|""|"@file"'),
        ({"enum": ["x" * 30] * 3}, "JSON"),
        ({"enum": ["\x1b[2J"]}, "JSON"),
    ],
)
def test_the_form_of_an_answer_is_a_word_its_choices_or_an_example_that_fits(
    schema: dict[str, Any], form: str
) -> None:
    assert answer_form(Question("r", "q", "well?", schema, datetime.now(UTC))) == form


def test_how_to_approve_is_shown_and_works_as_printed(mine: Cli) -> None:
    way = """holdfast answer r '--with={"approved": true}'"""
    assert way in mine("run", "mine:approval", "--run-id", "r").err
    assert way in mine("show", "r").out
    assert '{"approved": true}' in mine("questions").out
    for wrong in ("true", "yes", '{"approved": 1}'):
        refused = mine("answer", "r", "--with", wrong)
        assert refused.code == Exit.USAGE
        assert f"for example: {way}" in refused.err
    assert mine(*shlex.split(way)[1:]).code == 0
    assert mine("resume", "r", "--flow", "mine:approval").json is True


def test_an_example_of_an_answer_has_every_field_that_is_required(cli: Cli) -> None:
    cli("run", "jobs:review", "-i", "what=x", "--run-id", "r")
    wrong = cli("answer", "r", "--with", '{"approved": "no"}')
    assert """holdfast answer r '--with={"approved": true, "amount": 1}'""" in wrong.err


@pytest.mark.parametrize("said", ["7", "true", "null", "[a]", "[7]", '"7"', "plain"])
def test_text_that_looks_like_json_is_text_where_text_is_asked_for(mine: Cli, said: str) -> None:
    mine("run", "mine:text", "--run-id", "r")
    assert mine("answer", "r", "--with", said).code == 0
    assert mine("resume", "r", "--flow", "mine:text").json == said.strip('"')


def test_choices_of_a_store_do_not_become_commands(mine: Cli) -> None:
    Path("picky.py").write_text(FLOWS.replace("returns=bool", 'choices=["a", "rm -r x"]'))
    asked = mine("run", "picky:sure", "--run-id", "r")
    assert "holdfast answer r --with=a\nor with another answer: 'rm -r x'\n" in asked.err


def test_an_extra_that_is_missing_is_the_callers_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "holdfast.web.server", None)
    done = cli("ui")
    assert done.code == Exit.USAGE, "4 is a store that can't be reached"
    assert "[ui]'" in done.err


def test_who_gives_an_address_of_this_machine_as_host_is_told_of_bind(cli: Cli) -> None:
    for address in ("0.0.0.0", "::", "localhost", "::1"):
        done = cli("ui", "--host", address)
        assert done.code == Exit.USAGE
        assert f"to listen at {address}: --bind {address}; to check claims there" in done.err


def test_doctor_names_the_store_in_its_advice(cli: Cli) -> None:
    cli("submit", "jobs:etl", "-i", "day=1", "--run-id", "a", "--store", "other.db")
    found = cli("doctor", "--store", "other.db").out
    assert "Start one (MODULE:NAME is the module and name of flow 'etl'): " in found
    assert "): holdfast worker --flow=MODULE:NAME --store=other.db\n" in found


def test_a_claim_that_fails_many_checkpoints_is_told_once(
    mine: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    mine("run", "mine:many", "--run-id", "r")
    Path("out.txt").write_text("bb")
    done = mine("resume", "r", "--flow", "mine:many")
    digests = [hashlib.sha256(text).hexdigest()[:12] for text in (b"bb", b"aa")]
    why = "verification failed: out.txt has the digest {}…, not {}… (claim: ".format(*digests)
    assert f"! 4 steps (r@1 to r@4) run again: {why}" in done.err
    assert done.err.count("verification failed") == 1
    assert "verification failed" not in caplog.text, "the event says it"
    Path("out.txt").write_text("cc")
    mine("resume", "r", "--flow", "mine:many", "--json")
    assert caplog.text.count("verification failed") == 1
    assert caplog.text.count("r goes back to its beginning; write, double") == 1


def test_a_directory_that_is_no_store_names_the_database_in_it(cli: Cli) -> None:
    cli("run", "jobs:etl", "-i", "day=1", "--run-id", "a", "--store", "runs.db")
    done = cli("runs", "--store", ".")
    assert done.code == Exit.NOT_FOUND
    assert "holds no files of holdfast; did you mean --store runs.db?" in done.err
    cli("run", "jobs:etl", "-i", "day=1", "--run-id", "a", "--store", "files/")
    assert cli("runs", "--store", "files/").code == 0


@pytest.mark.parametrize("arguments", [["runs"], ["runs", "--store", "."]])
def test_a_database_that_is_named_can_be_pasted_into_a_shell(
    cli: Cli, arguments: list[str]
) -> None:
    cli("run", "jobs:etl", "-i", "day=1", "--run-id", "a", "--store", "./a;cmd .db")
    assert "did you mean --store 'a;cmd .db'?" in cli(*arguments).err


def test_words_of_other_programs_and_wrong_places_lead_to_commands(cli: Cli) -> None:
    cli("run", "jobs:etl", "-i", "day=1", "--run-id", "a")
    for words, right in (("inbox", "questions"), ("log", "show"), ("status a", "show")):
        assert f"did you mean {right!r}?" in cli(*words.split()).err
    assert "did you mean 'holdfast --version'?" in cli("version").err
    assert "did you mean 'a'?" in cli("show", "A").err
    assert "To delete the whole run: holdfast forget a" in cli("delete", "a").err
    wrong = cli("submit", "jobs:etl", "-i", "day=1", "--store", "sqlite://x.db").err
    assert wrong.count("sqlite://x.db") == 1
    assert "it has @3, @1" in cli("diff", "a", "1", "99").err
    assert "holdfast show a" in cli("retry", "a").err
