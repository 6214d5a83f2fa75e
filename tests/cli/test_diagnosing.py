"""A run that failed can be understood and continued from the command line alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli import _bulk
from holdfast.cli._exits import Exit
from holdfast.views import words
from tests.cli.conftest import Cli

CARDS = """
from pathlib import Path

from holdfast.workflow import for_each, step, workflow


@step(retry=2)
def charge(card: str) -> int:
    return check(card)


def check(card: str) -> int:
    if card == "old" and not Path("renewed").exists():
        raise ValueError(f"card {card!r} was declined")
    return 10


@workflow
async def billing(cards: list[str]) -> int:
    return sum(await for_each(cards, charge, name="charges"))


@workflow
async def other() -> int:
    raise LookupError("nothing there")
"""


@pytest.fixture
def failed(cli: Cli) -> None:
    Path("cards.py").write_text(CARDS)
    run = ("run", "cards:billing", "--input-json", '{"cards": ["new", "old"]}', "--run-id", "bill")
    done = cli(*run)
    assert done.code == Exit.FAILED
    assert done.err.count("card 'old' was declined") == 2, "one attempt each"
    assert "return check(card)" in done.err, "the user's own lines"
    assert "holdfast retry bill --flow=cards:billing" in done.err


def test_show_has_inputs_the_item_the_error_once_and_the_users_own_lines(
    cli: Cli, failed: None
) -> None:
    out = cli("show", "bill").out
    assert 'inputs  {"cards": ["new", "old"]}' in out
    assert "charges[0]" in out
    assert "failed in charges[1], after 2 attempts: ValueError: card 'old' was declined" in out
    assert out.count("return check(card)") == 1
    assert "holdfast/engine" not in out
    assert "holdfast retry bill --flow=MODULE:NAME" in out
    told = cli("show", "bill", "--json").json
    assert told["inputs"] == {"cards": ["new", "old"]}
    assert (told["failure"]["step"], told["failure"]["attempts"]) == ("charges[1]", 2)


def test_show_tells_a_long_error_in_full_once(cli: Cli) -> None:
    Path("gauges.py").write_text(
        "from holdfast.workflow import step, workflow\n"
        "@step\n"
        "def load():\n"
        "    raise ValueError('a gauge is out of order: ' + 'x' * 80)\n"
        "@workflow('gauges')\n"
        "async def gauges():\n"
        "    await load()\n"
    )
    assert cli("run", "gauges:gauges", "--run-id", "g").code == Exit.FAILED
    out = cli("show", "g").out
    assert out.count("x" * 80) == 1
    assert "  ValueError: a gauge is out of order: xxx" in out.partition("failed in load")[0]


def test_show_of_a_step_has_all_attempts_one_traceback_and_every_item(
    cli: Cli, failed: None
) -> None:
    out = cli("show", "bill", "--step", "charges").out
    assert "attempt 1 failed" in out
    assert "attempt 2 failed" in out
    assert out.count("return check(card)") == 1
    assert out.index("charges[1]  failed") < out.index("charges[0]  completed"), "problems first"


def test_retry_continues_a_run_where_it_failed(cli: Cli, failed: None) -> None:
    Path("renewed").touch()
    done = cli("retry", "bill", "--flow", "cards:billing")
    assert (done.code, done.out) == (0, "20\n")
    assert "1 step restored" in done.err
    again = cli("retry", "bill", "--flow", "cards:billing")
    assert again.code == Exit.REFUSED
    assert "is completed, and did not fail" in again.err


def test_the_preview_of_retry_names_errors_without_their_modules(cli: Cli) -> None:
    Path("parsing.py").write_text(
        "import json\n"
        "from holdfast.workflow import workflow\n"
        "@workflow('parsing')\n"
        "async def parsing():\n"
        "    json.loads('{')\n"
    )
    assert cli("run", "parsing:parsing", "--run-id", "p").code == Exit.FAILED
    assert "  JSONDecodeError: Expecting property name" in cli("retry", "--dry-run").out
    (told,) = cli("retry", "--dry-run", "--json").json
    assert told["error"].startswith("json.decoder.JSONDecodeError: ")


def test_retry_of_many_shows_them_first_and_asks(cli: Cli, failed: None) -> None:
    for n in range(3):
        assert cli("run", "cards:other", "--run-id", f"other-{n}").code == Exit.FAILED
    listed = cli("retry", "--dry-run")
    assert "LookupError: nothing there" in listed.out
    assert "4 failed runs" in listed.out
    assert {one["run_id"] for one in cli("retry", "--dry-run", "--json").json} == {
        *("bill", "other-0", "other-1", "other-2")
    }
    assert cli("retry", "--flow", "cards:billing").code == Exit.USAGE, "nobody can be asked"
    some = cli("retry", "--dry-run", "--error", "ValueError", "--json").json
    assert [one["run_id"] for one in some] == ["bill"]
    Path("renewed").touch()
    done = cli("retry", "--flow", "cards:billing", "--yes")
    assert done.code == Exit.FAILED, "of the others, nobody said what they are"
    assert "bill     billing  completed" in done.out
    assert done.out.count("name the flow with --flow") == 1, "below the table"
    submitted = cli("retry", "--of", "other", "--submit", "--yes", "--json")
    assert {one["status"] for one in submitted.json} == {"submitted"}
    assert cli("retry", "--of", "nobody", "--dry-run").out == "no failed runs\n"


def test_retry_of_named_runs_takes_no_filters(cli: Cli, failed: None) -> None:
    for option, value in (("--of", "other"), ("--since", "1h"), ("--error", "ValueError")):
        done = cli("retry", "bill", option, value, "--dry-run")
        assert done.code == Exit.USAGE, option
        assert "choose among all runs" in done.err


def test_a_run_that_another_process_continues_meanwhile_is_not_told_to_have_failed() -> None:
    active = hf.RunActiveError("bill", "running", "vm:7")
    told = _bulk.outcome("bill", {"bill": active})
    assert told == {"status": "running", "error": str(active)}


def test_many_failures_are_counted_by_flow_step_and_error(cli: Cli) -> None:
    Path("cards.py").write_text(CARDS)
    with hf.Engine(".holdfast/holdfast.db") as engine:
        import sys

        sys.path.insert(0, ".")
        from cards import other  # type: ignore[import-not-found]

        for n in range(25):
            with pytest.raises(LookupError):
                engine.run_sync(other(), run_id=f"r{n}")
    out = cli("retry", "--dry-run").out
    assert out.splitlines()[1].split() == ["25", "other", "LookupError"]


def test_an_error_in_a_file_of_flows_is_told_in_its_own_lines(cli: Cli) -> None:
    Path("broken.py").write_text("x = 1\ndef f(:\n    pass\n")
    for name in ("broken:flow", "broken.py:flow"):
        done = cli("run", name)
        assert done.code == Exit.FAILED
        assert "can't be imported: SyntaxError: invalid syntax" in done.err
        assert 'broken.py", line 2' in done.err
        assert "importlib" not in done.err
    Path("raises.py").write_text("def f():\n    return {}['key']\n\nf()\n")
    done = cli("run", "raises:flow")
    assert "raises can't be imported: KeyError: 'key'" in done.err
    assert "return {}['key']" in done.err
    assert "_flows.py" not in done.err
    with pytest.raises(SyntaxError):
        cli("run", "broken:flow", "--debug")


@pytest.mark.parametrize(
    ("wrong", "right"), [("shwo", "show"), ("list", "runs"), ("tail", "watch"), ("retyr", "retry")]
)
def test_a_wrong_command_names_the_one_that_is_meant(cli: Cli, wrong: str, right: str) -> None:
    done = cli(wrong)
    assert done.code == Exit.USAGE
    assert f"there is no command {wrong!r}; did you mean {right!r}?" in done.err


def test_a_wrong_run_or_step_names_the_one_that_is_meant(cli: Cli, failed: None) -> None:
    assert "did you mean 'bill'?" in cli("show", "bil1").err
    assert "did you mean" not in cli("show", "something").err
    assert "did you mean 'charges'?" in cli("show", "bill", "--step", "chagres").err


def test_bytes_and_arrays_are_summarised(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    cp.save("large", {"file": bytes(3_000_000), "id": b"\x01\x02"})
    out = cli("show", "large").out
    assert '{"file": "<bytes, 3.0 MB>", "id": "<bytes 0102>"}' in out


def test_doctor_groups_orphans_by_flow(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    from holdfast.engine.resume.recovery import Orphan
    from holdfast.views import health

    hf.SyncCheckpointer(".holdfast/holdfast.db").save("run", 1)
    dead = [
        Orphan(f"r{n}", "etl", None, "vm:1", datetime.now(UTC), answered=False) for n in range(20)
    ]
    monkeypatch.setattr(health, "survey", lambda *_, **__: dead)
    done = cli("doctor", "--quick")
    found = [line for line in done.out.splitlines() if line.startswith("✗")]
    assert found == ["✗ orphans: 20 runs of 'etl' have no living process: r0, r1, r2 and 17 more"]
    assert "holdfast recover --flow=MODULE:NAME" in done.out
    each = [
        one
        for one in cli("doctor", "--quick", "--json").json["findings"]
        if one["what"] == "orphan"
    ]
    assert len(each) == 20, "programs get every one"


def test_sizes_say_what_they_are(cli: Cli) -> None:
    path = Path(".holdfast/holdfast.db")
    with hf.SyncCheckpointer(path) as cp:
        cp.save("run", {"n": 1})
    found = re.search(r"1 checkpoint; their states take (\d+) B, the file (.*)", cli("doctor").out)
    assert found is not None
    assert found[2] == words.size(path.stat().st_size)
    stats = cli("stats").out
    assert f"states, as stored     {found[1]} B" in stats
    assert "states, each in full" in stats


def test_what_a_changed_flow_left_says_so_and_needs_no_worker(cli: Cli) -> None:
    source = (
        "import holdfast as hf\n"
        "from holdfast.workflow import ask, step, workflow\n"
        "@workflow('post')\n"
        "async def post() -> bool:\n"
        "    await step('{}').python(int)\n"
        "    return await ask('Publish?', returns=bool)\n"
    )
    Path("older.py").write_text(source.format("fetch"))
    Path("newer.py").write_text(source.format("load"))
    assert cli("run", "older:post", "--run-id", "it").code == Exit.PAUSED
    cli("answer", "it", "--with", "yes")
    refused = cli("resume", "it", "--flow", "newer:post")
    assert "changed" in refused.err
    shown = cli("show", "it").out
    assert re.search(r" released .*recorded next is 'fetch', the flow asks for 'load'", shown)
    assert re.search(r"nobody executes it: its code could not continue it, see @\d+;", shown)
    doctor = cli("doctor").out
    assert "✗ orphans: 1 run of 'post' has no living process: it" in doctor
    assert "workers" not in doctor
    assert cli("resume", "it", "--flow", "older:post").json is True
