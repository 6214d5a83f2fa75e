"""What `make demo` shows: a job killed with SIGKILL halfway, what survived, and its resumption."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import holdfast as hf

PROGRAM = Path(__file__).with_name("first_program.py")
KILL_AT = "charging order 5"


def main() -> None:
    """Run the program twice, in a directory of its own, and kill it once."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        say("1. Start a job of eight steps; it saves a checkpoint after each.")
        charged = run(directory, kill_at=KILL_AT)
        say("2. It was killed with SIGKILL in the middle of order 5. What survived:")
        with hf.SyncCheckpointer(directory / "orders.db") as cp:
            show(cp)
        say("3. Start the same program again.")
        started = time.perf_counter()
        charged += run(directory)
        seconds = time.perf_counter() - started
        with hf.SyncCheckpointer(directory / "orders.db") as cp:
            report, stats = cp.verify("orders"), cp.stats("orders")
        say(f"4. Finished {seconds:.1f} s later. Order 5 was never charged, so it was tried again;")
        print(f"   orders 1 to 4 were not touched. Work begun, in order: {charged}")
        print(
            f"   {stats.checkpoints} checkpoints, {report.proved} entries proved by their digests."
        )
        if charged != [1, 2, 3, 4, 5, 5, 6, 7, 8] or not report.ok:
            sys.exit("this is not what should have happened; please report it")
    finally:
        shutil.rmtree(directory)


def run(directory: Path, kill_at: str | None = None) -> list[int]:
    """Run the program; returns the orders it began to charge."""
    began = []
    command = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if "charging" in line:
                began.append(int(line.split()[2]))
            if kill_at is not None and kill_at in line:
                time.sleep(0.1)  # in the middle of the step
                os.kill(process.pid, signal.SIGKILL)
    return began


def show(cp: hf.SyncCheckpointer) -> None:
    """The checkpoints of the run, newest first."""
    for info in cp.list_checkpoints("orders"):
        print(
            f"  {info.checkpoint_id:10} {info.step:8} {info.status} {info.created_at:%H:%M:%S.%f}"
        )


def say(text: str) -> None:
    """A headline."""
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    main()
