"""Stored bytes are altered: an error or the very state that was saved, never another."""

from __future__ import annotations

import random
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.model import Entry
from tests.conftest import Survived
from tests.crash.harness import first_seed, setting, url_of
from tests.crash.history import state_hash
from tests.effort import some

MUTATIONS = setting("HOLDFAST_MUTATIONS", 600)  # random ones, over all tests here
FLIPS = 24  # bits of each cell, at least, if it has as many; `make crash` flips all
RUN = "run-a"
SMALL, WHOLE, CHANGE = 9, 10, 11  # seqs: a small state, a whole one, and a change to that
KEY = ("run", "seq")
TEXT = ("run", "kind", "step", "type", "status", "flow", "thread", "owner", "meta")
Cell = bytes | int | float | None


class Specimen:
    """A run with small and whole states, changes, stubs, a trim, and a rollback at its head."""

    def __init__(self, kind: str, place: Path, *, goes_back: bool = True) -> None:
        self.url = url_of(kind, place)
        with hf.SyncCheckpointer(self.url) as checkpointer:
            for n in range(12):
                log = [f"line {i} of {n if i == n else 0}" for i in range(400)]
                checkpointer.save(
                    RUN, {"n": n, "log": log} if n % 4 else {"n": n},
                    step=f"step-{n % 3}", step_index=n, duration=0.5, flow="flow", owner="me",
                    thread_id="thread", type="tool_executed", metadata={"n": n},
                )  # fmt: skip
            checkpointer.prune(RUN, keep_latest=9)
            if goes_back:
                checkpointer.rollback(RUN, seq=CHANGE)
            else:
                checkpointer.save(RUN, {"n": "last"})
            listed = checkpointer.list_checkpoints(RUN, limit=100, oldest_first=True)
            newest = checkpointer.store.last(RUN)
        assert newest is not None
        self.head = newest.seq
        self.seqs = [info.seq for info in listed]
        with self.reader() as checkpointer:
            self.truth = {seq: look(checkpointer, seq) for seq in (None, *self.seqs)}
        assert None not in self.truth.values()

    @contextmanager
    def reader(self) -> Iterator[hf.SyncCheckpointer]:
        """One who has just opened the store."""
        with hf.SyncCheckpointer(self.url, deadline=0.1) as checkpointer:
            yield checkpointer

    def wrong(self, checkpointer: hf.SyncCheckpointer, *seqs: int | None) -> list[int | None]:
        """The seqs, None being the current one, for which a reader gets something else than was saved."""
        return [s for s in seqs if look(checkpointer, s) not in (None, self.truth[s])]


def look(checkpointer: hf.SyncCheckpointer, seq: int | None) -> str | None:
    """What a load gives, in short; None for an error of ours."""
    try:
        found = checkpointer.load(RUN, seq=seq)
    except hf.HoldfastError:
        return None
    if found is None:
        return "nothing"
    about = (found.seq, found.step, found.step_index, found.metadata, found.type, found.owner)
    return state_hash((about, found.state))


class Rows:
    """The table under a SQLite store, for altering its cells."""

    def __init__(self, specimen: Specimen) -> None:
        self.store = hf.open_store(specimen.url)
        path = specimen.url.removeprefix("sqlite:///")
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA synchronous = OFF")

    def cell(self, seq: int, column: str) -> Cell:
        """Text comes as its bytes."""
        wanted = f"CAST({column} AS BLOB)" if column in TEXT else column
        query = f"SELECT {wanted} FROM holdfast_entries WHERE run = ? AND seq = ?"
        cell: Cell = self._db.execute(query, (RUN, seq)).fetchone()[0]
        return cell

    @contextmanager
    def altered(self, seq: int, column: str, cell: Cell) -> Iterator[hf.SyncCheckpointer]:
        """A reader who has seen nothing yet, while the cell is another."""
        before = self.cell(seq, column)
        rowid = self._db.execute(
            "SELECT rowid FROM holdfast_entries WHERE run = ? AND seq = ?", (RUN, seq)
        ).fetchone()[0]
        try:
            self._set(rowid, column, cell)
            yield hf.SyncCheckpointer(self.store)
        finally:
            self._set(rowid, column, before)

    def close(self) -> None:
        self._db.close()
        self.store.close()

    def _set(self, rowid: int, column: str, cell: Cell) -> None:
        value = "CAST(? AS TEXT)" if column in TEXT and cell is not None else "?"
        self._db.execute(
            f"UPDATE holdfast_entries SET {column} = {value} WHERE rowid = ?", (cell, rowid)
        )


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    return Specimen("sqlite", tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="module")
def straight_specimen(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    return Specimen("sqlite", tmp_path_factory.mktemp("sqlite"), goes_back=False)


@pytest.fixture
def rows(specimen: Specimen) -> Iterator[Rows]:
    opened = Rows(specimen)
    yield opened
    opened.close()


def flips(cell: Cell) -> Iterator[Cell]:
    """The cell with each of its bits flipped, one at a time."""
    if isinstance(cell, bytes):
        for bit in range(8 * len(cell)):
            altered = bytearray(cell)
            altered[bit // 8] ^= 1 << bit % 8
            yield bytes(altered)
    elif isinstance(cell, int):
        for bit in range(63):
            yield cell ^ 1 << bit
    elif isinstance(cell, float):
        (number,) = struct.unpack("<q", struct.pack("<d", cell))
        for bit in range(63):
            yield struct.unpack("<d", struct.pack("<q", number ^ 1 << bit))[0]
    else:
        yield from (0, b"", b"x")


@pytest.mark.parametrize("column", [name for name in Entry._fields if name not in KEY])
@pytest.mark.parametrize("which", ["rollback", SMALL, WHOLE, CHANGE])
def test_no_bit_of_a_row_can_be_flipped_unseen(
    which: int | str, column: str, specimen: Specimen, rows: Rows, survived: Survived
) -> None:
    seq = which if isinstance(which, int) else specimen.head
    looked_at = [None, *(s for s in (SMALL, WHOLE, CHANGE) if s >= seq)][:2]
    survived("bits", _flip_every_bit(specimen, rows, seq, column, looked_at))


@pytest.mark.parametrize("column", [name for name in Entry._fields if name not in KEY])
def test_no_bit_of_the_newest_checkpoint_can_be_flipped_unseen(
    column: str, straight_specimen: Specimen, survived: Survived
) -> None:
    rows = Rows(straight_specimen)
    head = straight_specimen.head
    survived("bits", _flip_every_bit(straight_specimen, rows, head, column, [None]))
    rows.close()


def _flip_every_bit(
    specimen: Specimen, rows: Rows, seq: int, column: str, looked_at: list[int | None]
) -> int:
    """Returns how many were tried."""
    every = list(flips(rows.cell(seq, column)))
    among = range(0, len(every), 1 if len(every) < 4000 else 7)
    altered = [every[n] for n in some(among, max(1, len(among) // FLIPS), first_seed())]
    problems = []
    for cell in altered:
        with rows.altered(seq, column, cell) as reader:
            wrong = specimen.wrong(reader, *looked_at)
        if wrong:
            problems.append(f"{column} = {cell!r:.80}: wrong at {wrong}")
    assert not problems, f"{len(problems)} of {len(altered)}:\n" + "\n".join(problems[:10])
    return len(altered)


def test_an_entry_that_was_moved_away_is_missed_by_those_that_build_on_it(
    specimen: Specimen, rows: Rows
) -> None:
    """A key altered means that an entry is gone: those after it say so. (Whether the very last one
    is gone, nothing in a journal can tell.)"""
    for column in KEY:
        every = list(flips(rows.cell(WHOLE, column)))
        tried = some(range(len(every)), 4, first_seed())
        for cell in (*(every[n] for n in tried), b"x", 0.5):
            try:
                with rows.altered(WHOLE, column, cell) as reader:
                    assert not specimen.wrong(reader, None, CHANGE), cell
                    assert not reader.verify(RUN).ok, cell
            except sqlite3.IntegrityError:
                continue  # that place is taken


def test_no_random_change_to_rows_makes_a_wrong_state(
    specimen: Specimen, rows: Rows, survived: Survived
) -> None:
    seed = first_seed()
    rng = random.Random(seed)
    seqs = [*specimen.seqs, specimen.head]
    columns = [name for name in Entry._fields if name not in KEY]
    for n in range(MUTATIONS * 7 // 10):
        seq, column = rng.choice(seqs), rng.choice(("body", "body", "meta", "digest", *columns))
        cell = _mutated(rows, rng, seq, column, seqs)
        with rows.altered(seq, column, cell) as reader:
            wrong = specimen.wrong(reader, None, rng.choice(specimen.seqs))
        assert not wrong, f"HOLDFAST_SEED={seed}, mutation {n}: {column} of {seq} = {cell!r:.100}"
    survived("mutations", MUTATIONS * 7 // 10)


def _mutated(rows: Rows, rng: random.Random, seq: int, column: str, seqs: list[int]) -> Cell:
    cell = rows.cell(seq, column)
    match rng.randrange(6):
        case 0:
            return rows.cell(rng.choice(seqs), column)  # another entry's
        case 1 if isinstance(cell, bytes):
            return cell[: rng.randrange(len(cell) + 1)]
        case 2 if isinstance(cell, bytes):
            start = rng.randrange(len(cell) + 1)
            return cell[:start] + rng.randbytes(rng.randrange(9)) + cell[start:]
        case 3 if isinstance(cell, bytes) and cell:
            start = rng.randrange(len(cell))
            return cell[:start] + rng.randbytes(4) + cell[start + 4 :]
        case 4 if isinstance(cell, int):
            return rng.choice((0, 1, -1, cell + 1, cell - 1, rng.getrandbits(63)))
        case _:
            return rng.choice(list(flips(cell)) or [b"x"])


# --- files


@pytest.fixture(scope="module")
def file_specimen(tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    return Specimen("file", tmp_path_factory.mktemp("file"))


def _file(specimen: Specimen, seq: int) -> Path:
    return Path(specimen.url.removeprefix("file://")) / RUN / f"{seq:010}.json"


@pytest.mark.parametrize("which", ["rollback", SMALL, WHOLE])
def test_no_bit_of_a_file_can_be_flipped_unseen(
    which: int | str, file_specimen: Specimen, survived: Survived
) -> None:
    specimen = file_specimen
    seq = which if isinstance(which, int) else specimen.head
    path = _file(specimen, seq)
    content = path.read_bytes()
    seed = first_seed()
    bits = some(range(0, 8 * len(content), 41 if which == WHOLE else 1), 20, seed)
    with specimen.reader() as reader:
        store = reader.store
        try:
            for bit in bits:
                altered = bytearray(content)
                altered[bit // 8] ^= 1 << bit % 8
                path.write_bytes(altered)
                wrong = specimen.wrong(
                    hf.SyncCheckpointer(store), seq if seq in specimen.seqs else None
                )
                flipped = f"bit {bit % 8} of byte {bit // 8}"
                assert not wrong, f"HOLDFAST_SEED={seed} {flipped}: wrong at {wrong}"
        finally:
            path.write_bytes(content)
    survived("bits", len(bits))


def test_no_random_change_to_files_makes_a_wrong_state(
    file_specimen: Specimen, survived: Survived
) -> None:
    specimen = file_specimen
    seed = first_seed()
    rng = random.Random(seed)
    contents = {seq: _file(specimen, seq).read_bytes() for seq in (*specimen.seqs, specimen.head)}
    with specimen.reader() as reader:
        store = reader.store
        for n in range(MUTATIONS * 2 // 10):
            seq = rng.choice(list(contents))
            content = contents[seq]
            start = rng.randrange(len(content))
            altered = rng.choice(
                (
                    content[:start],
                    content[:start] + rng.randbytes(3) + content[start + 3 :],
                    content[:start] + content[start + 1 :],
                    content[:start] + content[start : start + 9] + content[start:],
                    contents[rng.choice(list(contents))],
                )
            )
            _file(specimen, seq).write_bytes(altered)
            wrong = specimen.wrong(
                hf.SyncCheckpointer(store),
                rng.choice((None, seq if seq in specimen.seqs else None)),
            )
            _file(specimen, seq).write_bytes(content)
            assert not wrong, f"HOLDFAST_SEED={seed}, mutation {n} of {seq}: wrong at {wrong}"
    survived("mutations", MUTATIONS * 2 // 10)


# --- the database file


def test_no_byte_of_the_database_makes_a_state_that_nobody_saved(
    specimen: Specimen, tmp_path: Path, survived: Survived
) -> None:
    """SQLite itself checks nothing. A page altered may hide an entry; it can't change one."""
    seed = first_seed()
    rng = random.Random(seed)
    content = Path(specimen.url.removeprefix("sqlite:///")).read_bytes()
    saved = {None, "nothing", *specimen.truth.values()}
    copy = tmp_path / "runs.db"
    for n in range(MUTATIONS // 10):
        altered = bytearray(content)
        for _ in range(rng.choice((1, 1, 4))):
            altered[rng.randrange(len(altered))] ^= 1 << rng.randrange(8)
        copy.write_bytes(altered)
        try:
            store = hf.open_store(f"sqlite:///{copy}")
        except hf.HoldfastError:
            continue
        reader = hf.SyncCheckpointer(store)
        found = {seq: look(reader, seq) for seq in (None, WHOLE)}
        store.close()
        assert found[None] in saved, f"HOLDFAST_SEED={seed}, mutation {n}"
        assert found[WHOLE] in (None, "nothing", specimen.truth[WHOLE]), (
            f"HOLDFAST_SEED={seed}, {n}"
        )
        for leftover in tmp_path.glob("runs.db-*"):
            leftover.unlink()
    survived("mutations", MUTATIONS // 10)
