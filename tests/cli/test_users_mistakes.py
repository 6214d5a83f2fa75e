"""What a new user's first mistakes look like on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli._exits import Exit
from tests.cli.conftest import Cli

FLOWS = """
from holdfast.workflow import ask, step, workflow


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


@workflow("sure")
async def sure() -> bool:
    return await ask("really?", returns=bool, name="sure")
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
