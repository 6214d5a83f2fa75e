"""Commands have none of a program's codecs, and need none."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import holdfast as hf
from tests.cli.conftest import Cli
from tests.own_codecs import no_codecs, own_codecs


@pytest.fixture(autouse=True)
def saved(cp: hf.SyncCheckpointer) -> Iterator[None]:
    with own_codecs():
        hf.register_codec(
            Fraction, "fraction", lambda f: [f.numerator, f.denominator], lambda d: Fraction(*d)
        )
        for n in (1, 2):
            cp.save("run", {"part": Fraction(n, 3), "n": 1}, step=f"s{n}")
            cp.save("set", {"parts": {Fraction(n, 3), Fraction(5)}, Fraction(n, 7): "key"})
        with no_codecs():
            yield
        found = cp.load("fork")
        assert found is None or found.state == {"part": Fraction(2, 3), "n": 5}


def test_show_and_diff_show_the_data(cli: Cli) -> None:
    assert '"part": "<fraction [2, 3]>"' in cli("show", "run").out
    assert cli("show", "run", "--json").json["state"]["part"] == {
        "$codec": {"name": "fraction", "data": [2, 3]}
    }
    assert "~ part: fraction [1, 3] → fraction [2, 3]" in cli("diff", "run", "1", "2").out
    assert cli("verify").code == 0


def test_a_fork_keeps_what_it_can_not_read(cli: Cli) -> None:
    assert cli("fork", "run", "--set", "n=5", "--run-id", "fork").code == 0


def test_what_a_codec_stored_is_shown_in_a_set_and_as_a_key_too(cli: Cli, tmp_path: Path) -> None:
    shown = cli("show", "set").out
    assert '"<fraction [2, 3]>"' in shown
    assert '"<fraction [2, 7]>"' in shown
    assert "fraction [2, 3]" in cli("diff", "set", "1", "2").out
    target = tmp_path / "set.jsonl"
    assert cli("export", "set", "--to", str(target)).code == 0
