"""What all commands have in common."""

from __future__ import annotations

import sqlite3
import sys
import unicodedata
from contextlib import closing
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.cli import _show
from holdfast.cli._exits import Exit, code_of
from holdfast.cli._session import Command
from holdfast.cli.main import SECTIONS, holdfast
from holdfast.workflow import for_each, workflow
from tests.cli import reference
from tests.cli.conftest import Cli
from tests.waiting import run_process

ROOT = Path(__file__).parents[2]
NAMES = [name for commands in SECTIONS.values() for name in commands]
SHARED = {"main", "__init__"}


def command(name: str) -> Command:
    found = holdfast.get_command(click.Context(holdfast), name)
    assert isinstance(found, Command)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_examples_and_the_common_options(name: str, cli: Cli) -> None:
    found = command(name)
    assert found.name == name
    assert found.help
    assert found.help.strip().split("\n\n")[0].endswith((".", "!")), "it begins with a sentence"
    assert found.examples
    assert any(f"holdfast {name}" in example for example in found.examples)
    options = {option for one in found.params for option in one.opts}
    assert {"--store", "--json", "--debug"} <= options
    for one in found.params:
        assert not isinstance(one, click.Option) or one.help, f"{one.name} has no help"
    done = cli(name, "--help")
    assert done.code == 0
    assert "Examples:" in done.out


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_command_name_options_that_it_has(name: str) -> None:
    options = {
        option for one in command(name).params for option in (*one.opts, *one.secondary_opts)
    }
    for example in command(name).examples:
        mine = example.partition("|")[0]
        assert {word for word in mine.split() if word.startswith("--")} <= options


def test_every_module_is_a_command_that_is_listed() -> None:
    modules = {path.stem for path in (ROOT / "src/holdfast/cli").glob("*.py")}
    public = {
        name.rstrip("_").replace("_", "-") for name in modules - SHARED if not name.startswith("_")
    }
    assert public == set(NAMES)


def test_the_reference_page_is_what_the_help_says() -> None:
    page = (ROOT / "docs/reference/cli.md").read_text()
    assert page == reference.page(), (
        "make it anew: python -m tests.cli.reference > docs/reference/cli.md"
    )
    for name in NAMES:
        assert f"## holdfast {name}\n" in page
    for code in Exit:
        assert f"| {code.value} | {code.meaning} |" in page


def test_help_imports_no_more_than_it_needs() -> None:
    program = (
        "import sys; from holdfast.cli.main import holdfast\n"
        "try: holdfast(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('rich', 'asyncio', 'sqlite3', 'holdfast.'))],"
        " file=sys.stderr)"
    )
    done = run_process([sys.executable, "-c", program], capture_output=True, check=True)
    assert "Keep, move, delete:" in done.stdout
    imported = [name for name in eval(done.stderr) if not name.startswith("holdfast.errors.")]
    assert imported == ["holdfast.errors", "holdfast.cli", "holdfast.cli.main"]


def test_counting_does_not_import_what_executes_runs(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    program = (
        "import sys; from holdfast.cli.main import holdfast\n"
        "holdfast(['stats'], standalone_mode=False)\n"
        "print({'asyncio', 'holdfast.engine.program', 'holdfast.integrations'} & {*sys.modules})"
    )
    done = run_process([sys.executable, "-c", program], capture_output=True, check=True)
    assert "checkpoints" in done.stdout
    assert done.stdout.endswith("\nset()\n")


def test_it_is_a_module_too_and_knows_its_version() -> None:
    done = run_process(
        [sys.executable, "-m", "holdfast", "--version"], capture_output=True, check=True
    )
    assert done.stdout == f"holdfast {hf.__version__}\n"


def test_what_is_misspelt_is_a_usage_error(cli: Cli) -> None:
    assert cli("rnus").code == Exit.USAGE
    assert cli("runs", "--stats", "x").code == Exit.USAGE
    assert cli("show").code == Exit.USAGE


def test_looking_at_a_store_that_is_not_there_creates_nothing(cli: Cli, tmp_path: Path) -> None:
    for arguments in (
        ["runs"],
        ["show", "x"],
        ["verify"],
        ["doctor"],
        ["stats"],
        ["prune", "--keep-latest", "1"],
    ):
        done = cli(*arguments)
        assert done.code == Exit.NOT_FOUND
        assert f"there is no store at {Path.cwd()}/.holdfast/holdfast.db" in done.err
        assert "Traceback" not in done.err
    assert not (tmp_path / ".holdfast").exists()


def test_a_command_with_a_store_of_its_own_offers_no_other(cli: Cli) -> None:
    shown = cli("demo", "--help").out
    assert "--json" in shown
    assert not any(name in shown for name in ("--store", "--key-file", "--sign-key"))


def test_of_a_store_that_is_not_there_it_is_said_who_named_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pyproject.toml").write_text('[tool.holdfast]\nstore = "a.db"\n')
    named = f"there is no store at {tmp_path}/a.db, which {tmp_path}/pyproject.toml names; "
    assert named in cli("runs").err
    monkeypatch.setenv("HOLDFAST_STORE", "b.db")
    assert f"no store at {tmp_path}/b.db, which $HOLDFAST_STORE names; " in cli("runs").err
    assert f"no store at {tmp_path}/c.db; name a store" in cli("runs", "--store", "c.db").err


def test_without_a_store_a_database_in_the_current_directory_is_named(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "a.db").write_bytes(b"this is no database at all" * 100)
    with hf.SyncCheckpointer(tmp_path / "runs.db") as cp:
        cp.save("run", {"n": 1})
    done = cli("runs")
    assert done.code == Exit.NOT_FOUND
    where = tmp_path / ".holdfast/holdfast.db"
    assert f"there is no store at {where}; did you mean --store runs.db?" in done.err
    assert cli("runs", "--store", "runs.db").code == 0


def test_looking_into_an_empty_file_leaves_it_empty(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    done = cli("runs", "--store", str(path))
    assert done.code == Exit.NOT_FOUND
    assert f"holdfast saved nothing in {path}; name a store with --store" in done.err
    assert path.stat().st_size == 0
    assert list(tmp_path.glob("empty.db*")) == [path]


def test_looking_at_the_database_of_another_program_adds_nothing_to_it(
    cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (n)")
    before = path.read_bytes()
    done = cli("runs", "--store", str(path))
    assert done.code == Exit.NOT_FOUND
    assert "holdfast saved nothing in" in done.err
    assert path.read_bytes() == before


def test_an_empty_name_of_a_store_is_refused(cli: Cli) -> None:
    done = cli("runs", "--store", "")
    assert done.code == Exit.USAGE
    assert "--store is empty: name a store, or leave it out" in done.err


def test_a_store_that_can_not_be_opened_is_unavailable(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"this is no database at all" * 100)
    done = cli("runs", "--store", "other.db")
    assert (done.code, done.out) == (Exit.UNAVAILABLE, "")
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1


def test_passwords_are_not_shown(cli: Cli) -> None:
    done = cli("runs", "--store", "nosuchdb://ann:s3cret@db/runs")
    assert done.code == Exit.USAGE
    assert "s3cret" not in done.err
    assert "ann:***@db" in done.err
    shown = cli("config", "--json", "--store", "postgresql://ann:s3cret@db/runs?password=s3cret")
    assert "s3cret" not in shown.out


def test_debug_shows_where_an_error_comes_from(cli: Cli, plain: hf.SyncCheckpointer) -> None:
    with pytest.raises(hf.CheckpointNotFoundError):
        cli("rollback", "plain-run", "99", "--debug")
    assert cli("rollback", "plain-run", "99").code == Exit.NOT_FOUND


# --- ids


def test_an_id_may_be_shortened_as_long_as_it_is_unique(cli: Cli, cp: hf.SyncCheckpointer) -> None:

    @workflow
    async def inner() -> None: ...

    @workflow
    async def step() -> None:
        await inner()

    @workflow
    async def outer() -> None:
        await step()

    hf.Engine(cp).run_sync(outer(), run_id="alpha-1")
    for run in ("alpha-2", "beta"):
        cp.save(run, {"run": run})
    assert cli("show", "b", "--json").json["run"]["run_id"] == "beta"
    assert cli("show", "alpha-1", "--json").json["run"]["run_id"] == "alpha-1"
    assert cli("show", "alpha-1//step//", "--json").json["run"]["run_id"] == "alpha-1//step//inner"
    unclear = cli("show", "alph")
    assert unclear.code == Exit.USAGE
    assert "alpha-1\n" in unclear.err
    assert "alpha-2" in unclear.err
    assert "//" not in unclear.err, "a run within another is no candidate"
    assert cli("show", "gamma").code == Exit.NOT_FOUND


def test_a_parent_is_not_confused_with_the_runs_within_it(
    cli: Cli, cp: hf.SyncCheckpointer
) -> None:

    @workflow
    async def part(n: int) -> None: ...

    @workflow
    async def parts() -> None:
        await for_each(range(60), part)

    hf.Engine(cp).run_sync(parts(), run_id="job-7")
    assert cli("show", "job", "--json").json["run"]["run_id"] == "job-7"
    cp.save("job-8", None)
    assert cli("show", "job", "--json").code == Exit.USAGE


def test_many_candidates_are_not_all_listed(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    for n in range(30):
        cp.save(f"job-{n:02}", None)
    done = cli("show", "job")
    assert done.err.count("job-") == 10
    assert "…" in done.err


@pytest.mark.parametrize("bad", ["", "\x1fverdict\x1frun", "a" * 600, "x\x1b[31m"])
def test_an_impossible_id_is_a_usage_error(cli: Cli, plain: hf.SyncCheckpointer, bad: str) -> None:
    done = cli("show", bad)
    assert done.code == Exit.USAGE
    assert "\x1b" not in done.err


# --- what is stored is hostile


HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202eevil\u2028\x7f\r\b"


@given(st.text())
def test_nothing_that_is_not_plainly_visible_gets_through(text: str) -> None:
    shown = _show.clean(text)
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
    assert shown == text or "\\" in shown
    assert _show.to_json(text).isascii()
    assert _show.to_json(text).isprintable()
    assert all(line == _show.clean(line) for line in _show.pretty({"k": text, text: 1}))


def test_no_escape_sequence_in_a_store_reaches_a_terminal(
    cli: Cli, cp: hf.SyncCheckpointer, tmp_path: Path
) -> None:
    import sqlite3

    cp.save("run", {HOSTILE: HOSTILE}, step="\u202estep", metadata={"x": HOSTILE})
    cp.save("run", {HOSTILE: "other"}, step="[red]markup[/red]")
    cp.save("\u202eoverride", {"x": 1}, flow="f\u202e", owner="\u2066o", thread_id="t\u200b")
    cp.close()
    commands = (
        ["runs"], ["runs", "--json"], ["show", "run"], ["show", "run", "--json"], ["stats"],
        ["diff", "run", "1", "2"], ["diff", "run", "1", "2", "--patch"], ["show", "\u202e"],
        ["export", "--all", "--to", "x/"], ["fork", "run", "--at", "1"], ["rollback", "run", "1"],
        ["verify"], ["doctor"], ["forget", "--owner", "\u2066o", "--yes"],
    )  # fmt: skip
    for arguments in commands:
        done = cli(*arguments)
        assert done.code == 0, (arguments, done)
        for char in done.out.replace("\n", "") + done.err.replace("\n", ""):
            assert unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp"), (arguments, done)
    with closing(sqlite3.connect(tmp_path / ".holdfast/holdfast.db")) as db, db:
        db.execute("UPDATE holdfast_entries SET step = ?, flow = ?", (HOSTILE, HOSTILE))
    for arguments in (["runs"], ["show", "run"], ["verify"], ["doctor"], ["verify", "run"]):
        done = cli(*arguments)
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out + done.err


def test_markup_in_a_store_is_only_text(cli: Cli, cp: hf.SyncCheckpointer) -> None:
    cp.save("run", {"x": "[bold]y[/]"}, step="[red]s[/red] :smile:")
    done = cli("show", "run")
    assert "[red]s[/red] :smile:" in done.out
    assert '"[bold]y[/]"' in done.out


# --- exit codes


def test_errors_have_the_exit_codes_that_are_documented() -> None:
    expected = {
        hf.CheckpointNotFoundError("r"): Exit.NOT_FOUND,
        hf.RunPausedError("r"): Exit.PAUSED,
        hf.RunExistsError("r"): Exit.REFUSED,
        hf.RunActiveError("r", "running"): Exit.REFUSED,
        hf.StoreUnavailableError("gone"): Exit.UNAVAILABLE,
        hf.CheckpointLoadError("r", "gone"): Exit.UNAVAILABLE,
        hf.InvalidIdError("run_id", "", "is empty"): Exit.USAGE,
        hf.InvalidAnswerError("r", "q", "wrong"): Exit.USAGE,
        hf.QuestionError("r", "q", "not asked"): Exit.NOT_FOUND,
        hf.StepFailedError("s", "E", "m"): Exit.FAILED,
        hf.CheckpointCorruptedError("r", 1, "changed"): Exit.FAILED,
        OSError("disk"): Exit.UNAVAILABLE,
    }
    assert {type(error): code_of(error) for error in expected} == {
        type(error): code for error, code in expected.items()
    }
