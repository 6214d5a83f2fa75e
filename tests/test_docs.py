"""The documentation is run: every Python block, every output it shows, every link.

The blocks of a page run in order, in one namespace and one fresh directory; `await` may stand
anywhere. If the page tells readers to type them into a plain `python` or `python -m asyncio`, they
run as there: values are echoed, and in the latter an event loop is running. A `text` block that
directly follows one that ran is what it prints (`...` stands for anything). An HTML comment right
before a block says what else it is:

    <!-- file: name.py -->        saved under that name instead; test_*.py must pass under pytest
    <!-- database: name.db -->    SQL to be run, read-only, on that SQLite file; or on $DATABASE_URL
                                  or $MYSQL_URL, an empty database on a private server
    <!-- shell: run -->           commands (`$ …`) to be run, each with what it prints below it
    <!-- no-run: reason -->       not run
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import gc
import inspect
import os
import pkgutil
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stdout, suppress
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import duckdb
import psycopg
import pytest

import holdfast as hf
from holdfast import urls
from tests import forks
from tests.own_codecs import own_codecs
from tests.servers import mariadb, postgres, redis
from tests.waiting import ENOUGH, run_process

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
WITH_EXTRAS: Final = [page for page in PAGES if page.stem in ("frames-and-tensors",)]
"""The pages that need heavy packages: tests/extras runs them."""
BY_A_SHELL: Final = [ROOT / "README.md", ROOT / "docs/start/tutorial.md"]
"""Pages whose commands a shell runs, as that of whoever begins with them."""
FORKED: Final = re.compile(r"(holdfast )|python \S+\.py")
OF_THE_SHELL: Final = frozenset("|;&<>$*?()`\\~{}[]!#\n")
LANGUAGES: Final = frozenset(
    ["python", "text", "console", "json", "sql", "toml", "bash", "diff", "mermaid", "yaml", "ini"]
)

SQL_VIEWS: Final = frozenset(["holdfast.checkpoints"])  # looks like a module

SERVERS: Final[dict[str, Callable[[], str]]] = {
    "DATABASE_URL": postgres.new_database,
    "MYSQL_URL": mariadb.new_url,
    "REDIS_URL": redis.server_url,
}
"""The variables in which a page that names them finds a private server."""

_FENCE: Final = re.compile(r" *(```+) *(\S*)")
_MARK: Final = re.compile(r"<!-- (file|database|shell|no-run): (.+) -->")
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_MODULE: Final = re.compile(r"`((?:\w+/)+\w+\.py|holdfast(?:\.\w+)+)`")
_HEADING: Final = re.compile(r"#+ +(.+?) *#*")
_TYPED: Final = re.compile(r"plain\s+`python`|`python -m (asyncio)`")


class Block(NamedTuple):
    """A fenced block."""

    line: int  # of the page, where its text begins
    language: str
    text: str
    mark: tuple[str, str] | None
    follows: bool  # nothing stands between it and the block before


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.on_disk
@pytest.mark.parametrize("page", [p for p in PAGES if p not in WITH_EXTRAS], ids=named)
def test_every_block_of_a_page_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_page(page, tmp_path, monkeypatch)


def run_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for variable in ("HOLDFAST_STORE", "HOLDFAST_KEYS"):
        monkeypatch.setenv(variable, "")  # so that one that a page sets is gone after it
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")  # prints and tracebacks in order, as on a terminal
    dask = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"
    monkeypatch.setenv(dask, "forkserver")  # it is imported once for all workers
    text = page.read_text()
    for variable, new_url in SERVERS.items():
        if variable in text:
            monkeypatch.setenv(variable, new_url())
    monkeypatch.setattr(urls, "_openers", dict(urls._openers))
    module = types.ModuleType(f"docs_{page.stem}".replace("-", "_"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delitem(sys.modules, "jobs", raising=False)  # the one of tests/cli
    known = set(sys.modules)
    try:
        with own_codecs():
            run_blocks(page, module)
    finally:
        for name in set(sys.modules) - known:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]
        end_children(module)
        module.__dict__.clear()
        gc.collect()  # what a page leaves open is said here, and not in another test
    for path in sorted(tmp_path.glob("test_*.py")):
        run_pytest(page, path)


def end_children(module: types.ModuleType) -> None:
    """End the processes that a page started and, because a block failed, did not stop."""
    for value in vars(module).values():
        if isinstance(value, subprocess.Popen):
            with value:
                value.kill()


def test_blocks_run_as_in_the_interpreter_that_their_page_names(tmp_path: Path) -> None:
    page, module = tmp_path / "page.md", types.ModuleType("page")
    looping = "import asyncio; loop = asyncio.get_running_loop()"

    def printed(source: str) -> str | None:
        with asyncio.Runner() as runner:
            return run(Block(1, "python", f"{source}\n", None, False), page, module, runner)

    page.write_text("These are programs.")
    assert printed("1 + 1") == ""
    page.write_text("Type this into a plain `python`.")
    assert printed("1 + 1; None") == "2\n"
    with pytest.raises(RuntimeError):
        printed(looping)
    page.write_text("Type this into `python -m asyncio`.")
    assert printed(looping) == ""
    assert printed("await asyncio.sleep(0, 3)") == "3\n"


def test_the_processes_of_a_page_end_with_it() -> None:
    module = types.ModuleType("page")
    exec("import subprocess; child = subprocess.Popen(['sleep', '600'])", vars(module))
    end_children(module)
    assert vars(module)["child"].returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql", "mysql"])
def test_the_ready_questions_can_be_asked_on_every_store_with_sql(
    kind: str, tmp_path: Path
) -> None:
    """The page asks them of SQLite; these are their answers there, too."""
    text = (ROOT / "docs/operate/stores.md").read_text()
    page = list(blocks(text))
    (fill,) = [block.text for block in page if '"sqlite:///shop.db"' in block.text]
    asked = [
        (block.text, answer.text)
        for block, answer in pairwise(page)
        if block.mark == ("database", "shop.db")
    ]
    assert len(asked) == 2
    new_url: dict[str, Callable[[], str]] = {
        "sqlite": lambda: f"sqlite:///{tmp_path}/shop.db",
        "duckdb": lambda: f"duckdb:///{tmp_path}/shop.duckdb",
        "postgresql": postgres.new_database,
        "mysql": mariadb.new_url,
    }
    url = new_url[kind]()
    exec(fill.replace("sqlite:///shop.db", url), {"hf": hf})
    view = {"postgresql": "holdfast.checkpoints", "duckdb": "checkpoints"}.get(kind)
    for question, answer in asked:
        if view is not None:
            assert f"`{view}`" in text
            question = question.replace("FROM holdfast_checkpoints", f"FROM {view}")
        with closing(connect_to(url)) as db, closing(db.cursor()) as cursor:
            cursor.execute(question)
            rows = cursor.fetchall()
        assert [tuple(map(_number, row)) for row in rows] == [
            tuple(map(_number, line.split("|"))) for line in answer.splitlines()
        ]


def _number(cell: Any) -> Any:
    """Stores differ in how they write truth and numbers."""
    try:
        return float(cell)
    except ValueError:
        return cell


def test_every_block_says_its_language() -> None:
    wrong = [
        f"{named(page)}:{block.line}: {block.language or 'no language'}"
        for page in PAGES
        for block in blocks(page.read_text())
        if block.language not in LANGUAGES
    ]
    assert wrong == []


def test_blocks_can_be_pasted_into_an_interactive_python() -> None:
    wrong = [
        f"{named(page)}:{block.line + line - 1}"
        for page in PAGES
        for block in blocks(page.read_text())
        if block.language == "python" and block.mark is None
        for line in unpasteable(block.text)
    ]
    assert wrong == [], "a compound statement ends with a blank line there, and has none within"


def test_every_relative_link_leads_somewhere() -> None:
    wrong = [
        f"{named(page)}: {link}"
        for page in PAGES
        for link in _LINK.findall(without_blocks(page.read_text()))
        if "://" not in link and not link.startswith("mailto:") and not leads(page, link)
    ]
    assert wrong == []


def test_prose_stays_within_100_columns() -> None:
    wrong = [
        f"{named(page)}: {line[:60]}…"
        for page in [*PAGES, ROOT / "CHANGELOG.md"]
        for line in without_blocks(page.read_text()).splitlines()
        if len(line) > 100 and not line.startswith("|")
    ]
    assert wrong == []


def test_every_module_that_a_page_names_exists() -> None:
    wrong = [
        f"{named(page)}: {name}"
        for page in PAGES
        for name in _MODULE.findall(without_blocks(page.read_text()))
        if name not in SQL_VIEWS and not exists(name)
    ]
    assert wrong == []


def exists(name: str) -> bool:
    """Whether `engine/run/loop.py` is a file, or `holdfast.model.follows` can be imported."""
    if name.endswith(".py"):
        return any((ROOT / below / name).exists() for below in ("", "src/holdfast"))
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError):
        return False
    return True


def unpasteable(text: str) -> Iterator[int]:
    """The lines of a block where an interactive Python stops, or goes on, at the wrong place."""
    lines = text.splitlines()
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    statements = compile(text, "block", "exec", flags).body
    for statement in statements:
        if not hasattr(statement, "body"):
            continue
        end = statement.end_lineno
        if statement is not statements[-1] and lines[end].strip():
            yield end + 1
        quoted = {
            line
            for part in ast.walk(statement)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            for line in range(part.lineno, (part.end_lineno or 0) + 1)
        }
        within = range(statement.lineno, end)
        yield from (at for at in within if not lines[at - 1].strip() and at not in quoted)


def run_blocks(page: Path, module: types.ModuleType) -> None:
    printed: str | None = None
    with asyncio.Runner() as runner:
        for block in blocks(page.read_text()):
            where = f"{named(page)}:{block.line}"
            expected = block.follows and block.language == "text"
            if expected and printed is not None:
                compare(where, block.text, printed)
            printed = None
            try:
                printed = run(block, page, module, runner)
            except Exception as error:
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def run(block: Block, page: Path, module: types.ModuleType, runner: asyncio.Runner) -> str | None:
    """What the block prints; None if it is not one to be run."""
    mark, value = block.mark or ("", "")
    if mark == "no-run":
        return None
    if mark == "file":
        Path(value).write_text(block.text)
    elif block.language == "sql" and mark == "database":
        with closing(connect(value)) as db, closing(db.cursor()) as cursor:
            cursor.execute(block.text)
            rows = cursor.fetchall()
        return "".join("|".join(map(str, row)) + "\n" for row in rows)
    elif block.language == "console" and mark == "shell":
        run_commands(block, page)
    elif block.language == "python":
        with redirect_stdout(StringIO()) as output, patch.object(sys, "displayhook", echo):
            run_python(block, page, module, runner)
        return output.getvalue()
    return None


def run_python(block: Block, page: Path, module: types.ModuleType, runner: asyncio.Runner) -> None:
    # The empty lines before it make tracebacks point into the page.
    source = "\n" * (block.line - 1) + block.text
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    typed = _TYPED.search(page.read_text())
    if typed is None:
        result = eval(compile(source, page, "exec", flags, dont_inherit=True), module.__dict__)
        if inspect.iscoroutine(result):
            runner.run(result)
        return

    async def type_in() -> None:
        tree = compile(source, page, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        for statement in tree.body:
            line = ast.Interactive([statement])
            result = eval(compile(line, page, "single", flags, True), module.__dict__)
            if inspect.iscoroutine(result):
                await result

    if typed[1]:
        runner.run(type_in())
        return
    with suppress(StopIteration):
        type_in().send(None)  # to its end: a plain `python` has no event loop, and no `await`


def echo(value: object) -> None:
    """What an interactive Python does with the value of an expression; keep nothing of it."""
    if value is not None:
        print(repr(value))


def run_commands(block: Block, page: Path) -> None:
    for session in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, wanted = session.partition("\n")
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            os.environ[name] = value  # for the commands after it; run_page forgets it
            continue
        compare(f"{named(page)}:{block.line}: {line}", wanted, typed_into_a_shell(line, page))


def typed_into_a_shell(line: str, page: Path) -> str:
    """What a command prints. Of most pages, what imports holdfast is forked by what has done so."""
    if page not in BY_A_SHELL and (called := FORKED.match(line)) and not OF_THE_SHELL & set(line):
        arguments = ("-m", *shlex.split(line)) if called[1] else shlex.split(line)[1:]
        with tempfile.TemporaryFile("w+") as output:
            to = output.fileno()
            forks.run(*arguments, check=False, stdout=to, stderr=to)
            output.seek(0)
            return output.read()
    command = ["bash", "-c", line]
    done = run_process(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout


def connect(database: str) -> Any:
    if database.startswith("$"):
        return connect_to(os.environ[database[1:]])
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True)


def connect_to(url: str) -> Any:
    """The plain driver's connection to a store's database."""
    path = urls.local_path(url)
    if url.startswith("duckdb:"):
        return duckdb.connect(str(path), read_only=True)
    if path is not None:
        return connect(str(path))
    return psycopg.connect(url) if url.startswith("postgres") else mariadb.connect(url)


PAUSE = re.compile(r"^ +· nothing for .* m?s\n", re.MULTILINE)
VARYING: Final = {
    r"\d{4}-\d\d-\d\d": "DATE",
    r"\d\d:\d\d:\d\d": "TIME",
    r"\b\d+(\.\d+)? m?s\b": "TOOK",
    r" *━+": " ",  # how long it took, drawn
    r" {2,}": "  ",  # columns, whose width depends on these
    r" +$": "",
}


def compare(where: str, wanted: str, printed: str) -> None:
    """Fail unless this was printed. Times depend on the machine, and so does where a run pauses."""
    check = doctest.OutputChecker().check_output
    wanted, printed = PAUSE.sub("", wanted), PAUSE.sub("", printed)
    if check(wanted, printed, doctest.ELLIPSIS):
        return
    if not check(settled(wanted), settled(printed), doctest.ELLIPSIS):
        pytest.fail(f"{where}: expected\n{wanted}\nbut it printed\n{printed}", pytrace=False)


def settled(text: str) -> str:
    for varying, name in VARYING.items():
        text = re.sub(varying, name, text, flags=re.MULTILINE)
    return text


def run_pytest(page: Path, path: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "--assert=plain"]  # rewriting takes a second
    options += ["-p", "holdfast.pytest_plugin"]  # as if it were installed
    command = [sys.executable, "-W", "error", "-m", "pytest", *options, path.name]
    alone = os.environ | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # others take a second to load
        "HYPOTHESIS_STORAGE_DIRECTORY": str(
            ROOT / ".hypothesis"
        ),  # it has a table of all of Unicode
    }
    many = 4 * ENOUGH  # such as all tests of the store contract, on a busy machine
    done = run_process(command, capture_output=True, check=False, seconds=many, env=alone)
    if done.returncode != 0:
        pytest.fail(f"{named(page)}, {path.name}:\n{done.stdout}{done.stderr}", pytrace=False)


def blocks(text: str) -> Iterator[Block]:
    fence = language = ""
    start = 0
    indent = 0
    content: list[str] = []
    between: list[str] | None = None  # what was said since the last block, if there was one
    for number, line in enumerate(text.splitlines(), 1):
        found = _FENCE.match(line)
        if fence:
            if found and found[1] == fence and not found[2]:
                said = between or []
                mark = _MARK.fullmatch(said[-1]) if said else None
                follows = between == []
                body = "".join(f"{kept[indent:]}\n" for kept in content)
                yield Block(start, language, body, (mark[1], mark[2]) if mark else None, follows)
                fence, between = "", []
            else:
                content.append(line)
        elif found:
            fence, language = found[1], found[2]
            start, indent, content = number + 1, found.start(1), []
        elif line.strip():
            between = [*(between or []), line.strip()]
    assert not fence, f"the block that begins before line {start} never ends"


def without_blocks(text: str) -> str:
    lines = text.splitlines(keepends=True)
    for block in blocks(text):
        for at in range(block.text.count("\n")):
            lines[block.line - 1 + at] = "\n"
    return "".join(lines)


def leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path) if path else page
    if not target.exists() or not anchor:
        return target.exists()
    lines = without_blocks(target.read_text()).splitlines()
    return anchor in [slug(found[1]) for line in lines if (found := _HEADING.fullmatch(line))]


def slug(heading: str) -> str:
    """The anchor that a heading gets on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
