"""A model of which claims count, written as one would say it, and a machine that compares.

It knows files and directories, nothing of how holdfast finds out. Every checkpoint keeps all packs
and its parent for ever, so that forks and deletions need no thought.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack
from holdfast.manager import CheckpointManager

PATHS = ("a", "d", "d/x", "d/x/y")
TEXTS = ("one", "two")


class Said(NamedTuple):
    """A claim on a path: that it is `any`thing, a `file`, a `directory`, `absent`, or these bytes."""

    path: str
    kind: str
    text: str = ""

    def is_true(self, root: Path) -> bool:
        place = root / self.path
        if self.kind == "absent":
            return not place.exists()
        if self.kind == "bytes":
            return place.is_file() and place.read_text() == self.text
        return {"any": place.exists, "file": place.is_file, "directory": place.is_dir}[self.kind]()

    @property
    def facts(self) -> set[str]:
        """What it settles of its path."""
        more = {"any": "", "file": "kind", "directory": "kind bytes", "bytes": "kind bytes"}
        return {"is there", *more.get(self.kind, "kind bytes").split()}

    @property
    def ends(self) -> bool:
        """Whether nothing can be below it."""
        return self.kind in ("absent", "file", "bytes")

    def settles(self, fact: str, older: Said) -> bool:
        """Whether it is the newer word on a fact of an older claim."""
        if self.path == older.path:
            return fact in self.facts or (older.kind == "absent" and self.kind != "absent")
        if older.path.startswith(f"{self.path}/"):
            return self.ends and older.kind != "absent"
        return self.path.startswith(f"{older.path}/") and older.ends and self.kind != "absent"

    def evidence(self, root: Path) -> Evidence:
        path = str(root / self.path)
        if self.kind == "bytes":
            digest = hashlib.sha256(self.text.encode()).hexdigest()
            return Evidence("file_sha256", str(self), {"path": path, "sha256": digest})
        return Evidence("artifact_exists", str(self), {"path": path, "type": self.kind})


@dataclass(eq=False)
class Pack:
    claims: list[Said]
    least: int
    held: list[bool] | None  # by claim, when it was saved; None: nobody looked

    @property
    def was_satisfied(self) -> bool:
        return self.held is None or sum(self.held) >= self.least

    def believed(self, index: int) -> bool:
        """Whether one of its claims had to be true when the pack was saved."""
        if self.least == len(self.claims):
            return True
        return self.held is not None and self.held[index]


@dataclass(eq=False)
class Checkpoint:
    pack: Pack
    parent: Checkpoint | None
    name: str = ""

    def line(self) -> list[Checkpoint]:
        """From the first one up to this one."""
        return [*(self.parent.line() if self.parent else []), self]

    def verifies(self, root: Path) -> bool:
        line = self.line()
        counting = [one for one in line if one is self or one.pack.was_satisfied]
        for at, one in enumerate(counting):
            newer = [
                claim
                for later in counting[at + 1 :]
                for index, claim in enumerate(later.pack.claims)
                if later.pack.believed(index)
            ]
            left = [
                claim
                for claim in one.pack.claims
                if any(not any(new.settles(fact, claim) for new in newer) for fact in claim.facts)
            ]
            needed = one.pack.least - (len(one.pack.claims) - len(left))
            if sum(claim.is_true(root) for claim in left) < needed:
                return False
        return True


@dataclass(eq=False)
class Run:
    name: str
    current: Checkpoint | None = None
    saved: list[Checkpoint] = field(default_factory=list)  # and not deleted


claims = st.builds(
    Said,
    st.sampled_from(PATHS),
    st.sampled_from(["any", "file", "directory", "absent", "bytes", "bytes"]),
    st.sampled_from(TEXTS),
)


class ClaimsMachine(RuleBasedStateMachine):
    """Files change, tasks claim, fork, go back and are pruned; who verifies is always known."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="claims"))
        self.cp = hf.SyncCheckpointer("memory://")
        self.manager = CheckpointManager(self.cp)
        self.runs = [Run("task")]

    @initialize(text=st.sampled_from(TEXTS))
    def begin(self, text: str) -> None:
        (self.root / "a").write_text(text)

    def teardown(self) -> None:
        try:
            for run in self.runs:
                self.compare_all(run)
        finally:
            self.cp.close()
            shutil.rmtree(self.root)

    # --- the world

    @rule(path=st.sampled_from(PATHS), text=st.sampled_from(TEXTS))
    def write(self, path: str, text: str) -> None:
        self.remove(path)
        place = self.root / path
        if place.parent.is_dir():
            place.write_text(text)

    @rule(path=st.sampled_from(PATHS))
    def make_directory(self, path: str) -> None:
        self.remove(path)
        place = self.root / path
        if place.parent.is_dir():
            place.mkdir()

    @rule(path=st.sampled_from(PATHS))
    def remove(self, path: str) -> None:
        place = self.root / path
        if place.is_dir():
            shutil.rmtree(place)
        elif place.exists():
            place.unlink()

    @rule(which=st.integers(0, 3), at=st.integers(0, 5), index=st.integers(0, 2))
    def spoil(self, which: int, at: int, index: int) -> None:
        """Make a claim false that some checkpoint of a run builds on."""
        run = self.runs[which % len(self.runs)]
        if run.current is None:
            return
        line = run.current.line()
        claims = line[at % len(line)].pack.claims
        claim = claims[index % len(claims)]
        if claim.kind in ("absent", "bytes"):
            self.write(claim.path, f"not {claim.text}")
        else:
            self.remove(claim.path)
        self.compare(run)

    # --- tasks

    @rule(
        which=st.integers(0, 3),
        said=st.lists(claims, min_size=1, max_size=3, unique=True),
        share=st.none() | st.integers(0, 2),
        looks=st.sampled_from([True, True, False]),
        truly=st.booleans(),
    )
    def commit(
        self, which: int, said: list[Said], share: int | None, looks: bool, truly: bool
    ) -> None:
        """Claim something; `truly`, only what is true now."""
        if truly:
            said = [claim for claim in said if claim.is_true(self.root)] or said
        least = len(said) if share is None else 1 + share % len(said)
        given: dict[str, Any] = {}
        if least < len(said):
            given = {"require_all": False, "allow_partial": True, "min_verified": least}
        try:
            pack = EvidencePack([claim.evidence(self.root) for claim in said], **given)
        except hf.InvalidEvidenceError:  # it contradicts itself
            return
        run = self.runs[which % len(self.runs)]
        held = [claim.is_true(self.root) for claim in said] if looks else None
        made = Checkpoint(Pack(said, least, held), run.current)
        self.manager.auto_verify = looks
        step = self.manager.begin_step(run.name, "iteration_end", {"n": len(run.saved)})
        made.name = self.manager.commit_step(step, pack).checkpoint_id
        run.current = made
        run.saved.append(made)
        self.compare(run)

    @precondition(lambda self: len(self.runs) < 4)
    @rule(which=st.integers(0, 3))
    def fork(self, which: int) -> None:
        run = self.runs[which % len(self.runs)]
        if run.current is None:
            return
        name = f"fork {len(self.runs)}"
        copy = Checkpoint(run.current.pack, run.current.parent)
        copy.name = self.cp.fork(run.name, run_id=name).checkpoint_id
        self.runs.append(Run(name, copy, [copy]))
        self.compare(self.runs[-1])

    @rule(which=st.integers(0, 3), keep=st.sampled_from([1, 1, 2]))
    def prune(self, which: int, keep: int) -> None:
        run = self.runs[which % len(self.runs)]
        if run.current is None:
            return
        self.cp.prune(run.name, keep_latest=keep)
        there = [one for one in run.current.line() if one in run.saved]
        run.saved = there[-keep:]
        self.compare(run)

    @rule(which=st.integers(0, 3), to=st.integers(0, 9))
    def go_back(self, which: int, to: int) -> None:
        run = self.runs[which % len(self.runs)]
        if not run.saved:
            return
        target = run.saved[to % len(run.saved)]
        if not target.verifies(self.root):
            try:
                self.manager.rollback_to_checkpoint(target.name)
            except hf.VerificationError:
                return
            raise AssertionError(f"{target.name} verifies")
        self.cp.rollback(run.name, checkpoint_id=target.name)
        run.current = target

    @rule(which=st.integers(0, 3))
    def look(self, which: int) -> None:
        self.compare_all(self.runs[which % len(self.runs)])

    def compare(self, run: Run) -> None:
        """The newest checkpoint that verifies is the one that it should be."""
        line = run.current.line() if run.current else []
        good = [one.name for one in line if one in run.saved and one.verifies(self.root)]
        found = self.manager.get_last_verified_checkpoint(run.name)
        assert (found and found.checkpoint_id) == (good[-1] if good else None)

    def compare_all(self, run: Run) -> None:
        """Every checkpoint verifies, or does not, as it should."""
        self.compare(run)
        for one in run.saved:
            assert self.manager.verify_checkpoint(one.name) is one.verifies(self.root), one.name
