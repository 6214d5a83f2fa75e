"""What is written through a memory map shows in no time of the file, until the system gets to it."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.evidence import EvidencePack, EvidenceVerifier, HashCache, file_evidence
from holdfast.manager import CheckpointManager
from holdfast.workflow import step, workflow

from .support import FAILED, VERIFIED, status
from .test_files import Later

Write = Callable[[bytes], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes to the file `a` in the working directory, and leaves its times as they are."""
    monkeypatch.chdir(tmp_path)
    path = Path("a")
    path.write_bytes(b"x" * 4096)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:1] = b"y"  # from here on the page is dirty, and further writes change no time

        def change(data: bytes) -> None:
            before = path.stat()
            mapped[: len(data)] = data
            after = path.stat()
            if (before.st_mtime_ns, before.st_ctime_ns) != (after.st_mtime_ns, after.st_ctime_ns):
                pytest.skip("this file system updates the times at once")

        yield change


def remembering() -> EvidenceVerifier:
    """Remembers all it has read."""
    return EvidenceVerifier(hashes=HashCache(clock=Later()))


def test_a_task_does_not_go_back_to_a_file_that_was_changed(write: Write) -> None:
    with CheckpointManager("memory://", verifier=remembering()) as manager:
        step_id = manager.begin_step("t", "iteration_end", {"n": 1})
        done = manager.commit_step(step_id, EvidencePack([file_evidence("a")]))
        assert manager.verify_checkpoint(done.checkpoint_id)
        write(b"changed")
        assert not manager.verify_checkpoint(done.checkpoint_id)
        assert manager.get_last_verified_checkpoint("t") is None
        with pytest.raises(hf.VerificationError):
            manager.rollback_to_checkpoint(done.checkpoint_id)


def test_a_run_does_not_resume_with_a_file_that_was_changed(write: Write) -> None:
    made: list[str] = []

    @step(outputs="a")
    def make() -> None:
        made.append("made")

    @workflow
    async def flow() -> None:
        await make()

    verifier = remembering()
    with hf.Engine("memory://", verifier=verifier) as engine:
        engine.run_sync(flow(), run_id="r")
        verifier.verify_evidence(file_evidence("a"))  # now it is remembered
        engine.run_sync(flow(), run_id="r", resume=True)
        assert made == ["made"]
        write(b"changed")
        engine.run_sync(flow(), run_id="r", resume=True)
        assert made == ["made", "made"]


def test_a_verifier_remembers_nothing_unless_it_is_told_to(write: Write) -> None:
    evidence = file_evidence("a")
    verifier = EvidenceVerifier(clock=Later())
    assert status(verifier, evidence) == VERIFIED
    write(b"changed")
    assert status(verifier, evidence) == FAILED
