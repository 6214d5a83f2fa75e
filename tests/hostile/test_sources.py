"""The package has no way to turn bytes into code, but for the places that are listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent

FORBIDDEN = {
    "unpickling": (
        "pickle", "pickle.*", "_pickle*", "marshal*", "shelve*", "dill*", "cloudpickle*", "joblib*",
        "jsonpickle*", "*.protocol.pickle*", "*.read_pickle", "*.load_pickle", "torch.load",
        "numpy.load", "allow_pickle=",
    ),
    "code": (
        "builtins.eval", "builtins.exec", "builtins.compile", "builtins.__import__", "builtins",
        "builtins.breakpoint", "builtins.__builtins__", "code", "code.*", "codeop*", "runpy*",
        "types.CodeType(", "types.FunctionType(", "*.exec_module", "typing.get_type_hints",
        "inspect.get_annotations",
    ),
    "imports": ("importlib.import_module", "importlib.util.*", "importlib.machinery.*", "imp", "imp.*",
                "pkgutil.*", "*.entry_points"),
    "processes": (
        "subprocess.*", "os.system", "os.popen", "os.exec*", "os.spawn*", "os.posix_spawn*",
        "pty.*", "asyncio.create_subprocess_*", "shell=",
    ),
    "yaml": ("yaml.load", "yaml.load_all", "yaml.unsafe_*", "yaml.full_*", "yaml.*Loader"),
    "native code": ("ctypes*", "cffi*"),
    "guessable names": ("tempfile.mktemp",),
}  # fmt: skip

NAMES_OF_OURS = "it imports modules of this package, by names in its source"
DRIVER = "it imports a library by a name in its source, to say which extra is missing"
ANNOTATIONS = "it evaluates annotations in the source of a class or function that the caller gave"
TO_WORKERS = "Dask pickles whatever it sends; this is sent by a client, and never stored"
RUNS_A_PROGRAM = "it runs a fixed program with arguments of its own; no shell"

ALLOWED = {
    ("__init__.py", "imports"): NAMES_OF_OURS,
    ("stores/__init__.py", "imports"): NAMES_OF_OURS,
    ("cli/main.py", "imports"): NAMES_OF_OURS,
    ("evidence/checks/__init__.py", "imports"): "the name is one of BUILT_IN",
    ("codec/registry.py", "imports"): "the name is one of READY, five libraries",
    ("engine/people/fitting.py", "imports"): DRIVER,
    ("evidence/world/databases.py", "imports"): DRIVER,
    ("cli/_flows.py", "imports"): "the user names a flow on the command line or in pyproject.toml",
    ("cli/_flows.py", "code"): "it executes the file that the user named; annotations of its flows",
    ("pipeline/registry.py", "imports"): "a definition may name modules that its caller allowed",
    ("engine/functions.py", "imports"): "it is a function's own name, sent to a process executor",
    ("testing/crashing.py", "imports"): "modules that the first of its processes had imported",
    ("integrations/dask/flows.py", "imports"): TO_WORKERS,
    ("integrations/dask/runs.py", "unpickling"): TO_WORKERS,
    ("integrations/dask/steps.py", "unpickling"): TO_WORKERS,
    ("integrations/dask/travel.py", "unpickling"): "of what it pickled a line before",
    ("codec/records.py", "code"): ANNOTATIONS,
    ("engine/functions.py", "code"): ANNOTATIONS,
    ("engine/people/schema.py", "code"): ANNOTATIONS,
    ("web/api/schemas.py", "code"): ANNOTATIONS,
    ("kernel/processes.py", "processes"): RUNS_A_PROGRAM,
    ("evidence/world/programs.py", "processes"): RUNS_A_PROGRAM,
    ("demo/__init__.py", "processes"): RUNS_A_PROGRAM,
    ("evidence/world/commands.py", "processes"): "run_command: the caller's own command; no shell",
    ("evidence/capture.py", "processes"): "it takes what subprocess.run returned to the caller",
    ("pipeline/files.py", "yaml"): "the safe loaders",
    ("testing/_processes.py", "native code"): "prctl, for tests: a child dies with its parent",
}


def uses(source: str) -> Iterator[tuple[int, str]]:
    """Every name in a module, by the name that it was imported under, with its line."""
    tree = ast.parse(source)
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
                name = alias.asname or alias.name.partition(".")[0]
                origins[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                origin = f"{node.module}.{alias.name}"
                yield node.lineno, origin
                origins[alias.asname or alias.name] = origin
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, origins.get(node.id, f"builtins.{node.id}")
        elif isinstance(node, ast.Attribute):
            yield node.lineno, f"{_dotted(node.value, origins)}.{node.attr}"
        elif isinstance(node, ast.Call):
            yield node.lineno, f"{_dotted(node.func, origins)}("
        elif isinstance(node, ast.keyword) and node.arg and not _is_false(node.value):
            yield node.value.lineno, f"{node.arg}="


def _dotted(node: ast.expr, origins: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return origins.get(node.id, "(a variable)")
    return f"{_dotted(node.value, origins)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


@cache
def kinds_of(name: str) -> tuple[str, ...]:
    return tuple(
        kind
        for kind, patterns in FORBIDDEN.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def test_no_module_can_turn_bytes_into_code() -> None:
    found, used = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        for line, name in uses(path.read_text()):
            for kind in kinds_of(name):
                used.add((module, kind))
                if (module, kind) not in ALLOWED:
                    found.append(f"{module}:{line}: {name} ({kind})")
    assert not found, "\n".join(found)
    assert used == set(ALLOWED), "allowed, and not needed any more"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads as read",
        "from distributed.protocol import pickle",
        "import numpy as np\nnp.load('x')",
        "import numpy\nnumpy.lib.format.read_array(file, allow_pickle=True)",
        "list(map(eval, texts))",
        "run = exec",
        "compile(text, 'x', 'exec')",
        "__import__(name)",
        "import importlib\nimportlib.import_module(name)",
        "from importlib import import_module as take\ntake(name)",
        "import yaml\nyaml.load(text)",
        "from yaml import UnsafeLoader",
        "import subprocess\nsubprocess.run(command)",
        "start(command, shell=True)",
        "import os\nos.system('x')",
        "import tempfile as t\nt.mktemp()",
        "import typing\ntyping.get_type_hints(kind)",
        "import ctypes",
        "import types\ntypes.FunctionType(code, {})",
        "import builtins",
        "spec.loader.exec_module(module)",
    ],
)
def test_the_rule_finds_what_it_forbids(source: str) -> None:
    assert any(kind for _, name in uses(source) for kind in kinds_of(name))


@pytest.mark.parametrize(
    "source",
    [
        "import re\nre.compile('x')",
        "graph.compile()",
        "import zlib\nstart(command, shell=False)",
        "import tempfile\ntempfile.mkstemp()",
        "import implementation.codes",
    ],
)
def test_the_rule_lets_other_names_be(source: str) -> None:
    assert not [kind for _, name in uses(source) for kind in kinds_of(name)]
