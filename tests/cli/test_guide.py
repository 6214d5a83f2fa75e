"""The guide to the command line is run: every command, and what it prints."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests import forks
from tests.test_docs import ROOT, blocks
from tests.waiting import run_process

GUIDE = ROOT / "docs/operate/cli.md"


@pytest.mark.on_disk
def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    program = forks.program(tmp_path / "bin" / "holdfast", "-m", "holdfast")
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    environment.pop("HOLDFAST_STORE", None)
    last = 0

    def run(command: str) -> str:
        nonlocal last
        if command.startswith("holdfast resume"):
            time.sleep(0.2)  # nobody types faster, and `show` tells of such gaps
        done = run_process(
            ["bash", "-c", f"(exit {last}); {command}"],
            cwd=tmp_path, env=environment, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        last = done.returncode
        return done.stdout

    for block in blocks(GUIDE.read_text()):
        if block.mark and block.mark[0] == "file":
            (tmp_path / block.mark[1]).write_text(block.text)
        if block.language != "console":
            continue
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, wanted = part.partition("\n")
            printed = run(command)
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            if not doctest.OutputChecker().check_output(wanted, printed, flags):
                pytest.fail(f"{GUIDE}:{block.line}: $ {command}\nprinted\n{printed}", pytrace=False)
