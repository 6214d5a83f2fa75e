"""Internal journals have names that nobody chose: no message, log or event shows one."""

from __future__ import annotations

import copy
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast import errors
from holdfast.errors.base import named_journals
from holdfast.evidence import EvidencePack, file_evidence
from holdfast.logs import logger
from holdfast.manager import CheckpointManager
from holdfast.model import (
    HIDDEN,
    STORE_JOURNAL,
    alias_journal,
    permit_journal,
    process_journal,
    request_journal,
    thread_journal,
    verdict_journal,
    vote_journal,
)

JOURNALS = {
    verdict_journal("r-1"): "verdicts of r-1",
    thread_journal("chat"): "index of thread chat",
    alias_journal("mine"): "alias mine",
    process_journal(7): "record of process 7",
    permit_journal("digest", 2): "permit 2 of digest",
    request_journal(3): "request to verify 3",
    vote_journal(3, 7): "vote on request 3 of process 7",
    STORE_JOURNAL: "record of the store",
}


def hides(text: str) -> bool:
    return HIDDEN not in text and "x1f" not in text and "u001f" not in text


@pytest.mark.parametrize("journal", JOURNALS)
def test_an_internal_journal_is_named_in_words(journal: str) -> None:
    for text in (journal, repr(journal)):
        assert hides(named_journals(text))
        assert JOURNALS[journal] in named_journals(f"run {text}@3 is damaged")


def errors_about_runs() -> list[type[errors.HoldfastError]]:
    """Those that say which run they are about, and those that take any text."""
    base = errors.HoldfastError
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    ours = [kind for kind in kinds if issubclass(kind, base) and kind.__init__ is base.__init__]
    return [kind for kind in ours if "run_id" in kind._fields or not kind._fields]


@pytest.mark.parametrize("kind", errors_about_runs(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("journal", list(JOURNALS)[:2])
def test_no_error_shows_an_internal_name(kind: type[errors.HoldfastError], journal: str) -> None:
    said: dict[str, object] = {}
    for name, annotation in kind._fields.items():
        of = str(annotation)
        said[name] = (journal,) if "tuple" in of else 3 if "int" in of or "float" in of else journal
    error = kind(**said) if said else kind(f"{journal} could not be read")
    text = str(error)
    assert hides(text)
    assert hides(repr(error))
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(again) == text
        assert vars(again) == vars(error), "programs find what was meant"


def test_no_log_shows_an_internal_name(caplog: pytest.LogCaptureFixture) -> None:
    for journal in JOURNALS:
        logger().warning("run %s can't be read: %r", journal, journal)
    assert all(map(hides, caplog.messages))


def test_damage_to_verdicts_is_named_in_words(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    url = f"sqlite:///{tmp_path}/runs.db"
    with CheckpointManager(url) as manager:
        begun = manager.begin_step("task", "iteration_end", {})
        manager.commit_step(begun, EvidencePack([file_evidence(tmp_path / "a")]))
    with closing(sqlite3.connect(tmp_path / "runs.db")) as db, db:
        changed = db.execute(
            "UPDATE holdfast_entries SET meta = '{}' WHERE run = ?", (verdict_journal("task"),)
        )
        assert changed.rowcount
    with hf.SyncCheckpointer(url) as cp, pytest.raises(hf.CheckpointCorruptedError) as damaged:
        cp.export_run("task", tmp_path / "task.jsonl")
    assert hides(str(damaged.value))
    assert "verdicts of task@0 is damaged" in str(damaged.value)


@pytest.mark.parametrize(
    ("run", "command"),
    [
        ("r-1", "`holdfast show r-1`"),
        ("a; rm -rf ~", "`holdfast show 'a; rm -rf ~'`"),
        ("--flow=evil:x", "`holdfast show -- --flow=evil:x`"),
    ],
)
def test_advice_about_damage_quotes_the_run(run: str, command: str) -> None:
    assert command in str(hf.CheckpointCorruptedError(run, 3, "it was cut"))
    assert "holdfast show" not in str(
        hf.CheckpointCorruptedError(verdict_journal(run), 3, "it was cut")
    )
