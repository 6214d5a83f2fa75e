"""Type checkers infer what the API returns: each sample says what they must find.

`make lint` checks the samples with mypy, like all of our own code.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_pyright_infers_what_the_samples_say() -> None:
    config = Path(__file__).with_name("pyrightconfig.json")
    command = [sys.executable, "-m", "basedpyright", "-p", str(config)]
    command += ["--pythonpath", sys.executable]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 errors, 0 warnings" in checked.stdout
