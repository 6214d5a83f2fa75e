"""What messages mention exists: parameters, commands, options, functions, extras."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

import holdfast as hf
from holdfast.cli.main import SECTIONS, holdfast

ROOT = Path(hf.__file__).parent
PARAMETER = re.compile(r"""(?<![\w.?&$"'<-])([a-z][a-z_]+)=(?=True|False|None|["{(\[\s,;:.)]|$)""")
COMMAND = re.compile(r"\bholdfast ([a-z]+)((?: (?!holdfast)[^;,`:]+)?)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@cache
def texts() -> list[tuple[str, str]]:
    """Every sentence in the code that is not a docstring, and where it is."""
    return [found for path in sorted(ROOT.rglob("*.py")) for found in _read(path)[0]]


def parameters() -> set[str]:
    """Every parameter of every function, and every declared field."""
    return {name for path in ROOT.rglob("*.py") for name in _read(path)[1]}


@cache
def _read(path: Path) -> tuple[list[tuple[str, str]], set[str]]:
    """The sentences and the parameters of a module, which is parsed once."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    return list(_texts_in(path, nodes)), set(_parameters_in(nodes))


def _texts_in(path: Path, nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    skipped |= {id(part) for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
            text: object = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            text = node.value
        else:
            continue
        if isinstance(text, str) and " " in text:
            yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def _parameters_in(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                yield one.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def options() -> dict[str, set[str]]:
    """The options of each command."""
    context = click.Context(holdfast)
    found = {}
    for name in (name for commands in SECTIONS.values() for name in commands):
        command = holdfast.get_command(context, name)
        assert command is not None
        found[name] = {option for parameter in command.params for option in parameter.opts}
        found[name] |= {one for parameter in command.params for one in parameter.secondary_opts}
    return found


def test_every_parameter_that_a_message_names_exists() -> None:
    known = parameters() | {
        "allowed_msgpack_modules",  # LangGraph's
        *("realm", "charset", "filename"),  # of HTTP
    }
    unknown = {
        (where, name)
        for where, text in texts()
        if not text.startswith("<")  # markup
        for name in PARAMETER.findall(text)
        if name not in known
    }
    assert not unknown


def test_every_command_that_a_message_names_exists_with_its_options() -> None:
    known = options()
    wrong = []
    for where, text in texts():
        for name, rest in COMMAND.findall(text):
            given = OPTION.findall(rest)
            if (given and name not in known) or set(given) - known.get(name, set(given)):
                wrong.append((where, name, given))
        quoted = re.findall(r"`holdfast ([a-z]+)", text)
        wrong += [(where, name, []) for name in quoted if name not in known]
    assert not wrong


def test_every_option_that_a_message_names_exists() -> None:
    known = {option for found in options().values() for option in found}
    known |= {"--help", "--version"}
    unknown = {
        (where, option)
        for where, text in texts()
        if where.startswith(("cli/", "errors/"))
        for option in OPTION.findall(text)
        if option not in known
    }
    assert not unknown


def test_every_name_of_the_package_that_a_message_mentions_exists() -> None:
    for where, text in texts():
        for name in re.findall(r"\bhf\.(\w+)", text):
            assert hasattr(hf, name), (where, name)


def test_every_extra_that_a_message_names_can_be_installed() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    for where, text in texts():
        for extra in re.findall(r"holdfast\[(\w+)\]", text):
            assert extra in {*extras, "X"}, (where, extra)


@pytest.mark.parametrize("what", [PARAMETER, COMMAND, OPTION])
def test_messages_are_found_at_all(what: re.Pattern[str]) -> None:
    assert sum(bool(what.search(text)) for _, text in texts()) > 10
