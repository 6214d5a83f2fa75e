from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.evidence import (
    Evidence,
    EvidencePack,
    EvidenceType,
    EvidenceVerifier,
    HashCache,
    Policy,
    artifact_evidence,
    capture,
    file_evidence,
    files_evidence,
    refuse_unverifiable,
)
from holdfast.evidence.checks import file_sha256
from holdfast.evidence.world import directories
from tests.waiting import in_time, join

from .support import (
    ERROR,
    FAILED,
    INCONCLUSIVE,
    VERIFIED,
    claim,
    open_files,
    sha256,
    status,
    verifier,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file and a directory in it, and secrets beside it."""
    inside = tmp_path / "root"
    (inside / "sub").mkdir(parents=True)
    (inside / "a.txt").write_bytes(b"a")
    (inside / "sub" / "b.txt").write_bytes(b"b")
    (tmp_path / "secret").write_bytes(b"s")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.txt").write_bytes(b"b")
    return inside


@pytest.fixture
def checker(root: Path) -> EvidenceVerifier:
    return EvidenceVerifier(root, backoff=0.001)


@pytest.mark.parametrize(
    ("path", "kind", "found"),
    [
        ("a.txt", "file", VERIFIED),
        ("a.txt", "any", VERIFIED),
        ("a.txt", None, VERIFIED),
        ("a.txt", "directory", FAILED),
        ("sub", "directory", VERIFIED),
        ("sub", "file", FAILED),
        ("sub/b.txt", "file", VERIFIED),
        ("./sub//b.txt", "file", VERIFIED),
        (".", "directory", VERIFIED),
        ("gone", "any", FAILED),
        ("a.txt/below", "any", FAILED),
        ("sub/gone/below", "any", FAILED),
        ("a.txt", "link", ERROR),  # to what?
        ("a.txt", "pipe", ERROR),
        ("", "any", ERROR),
        ("a\0b", "any", ERROR),
        (7, "any", ERROR),
        ("x" * 5000, "any", ERROR),
        ("x" * 300, "any", INCONCLUSIVE),  # longer than a name can be: it was not looked for
    ],
)
def test_an_artifact_is_there_or_not(
    checker: EvidenceVerifier, path: object, kind: str | None, found: str
) -> None:
    expected = {"path": path} if kind is None else {"path": path, "type": kind}
    assert status(checker, claim("artifact_exists", **expected)) == found


@pytest.mark.parametrize(
    ("path", "digest", "found"),
    [
        ("a.txt", sha256(b"a"), VERIFIED),
        ("a.txt", sha256(b"a").upper(), VERIFIED),
        ("sub/b.txt", sha256(b"b"), VERIFIED),
        ("a.txt", sha256(b"b"), FAILED),
        ("gone", sha256(b"a"), FAILED),
        ("sub", sha256(b"a"), FAILED),
        ("a.txt", "", ERROR),
        ("a.txt", "0" * 63, ERROR),
        ("a.txt", "g" * 64, ERROR),
        ("a.txt", f"{sha256(b'a')}\n", ERROR),
        ("a.txt", "٠" * 64, ERROR),
        ("a.txt", None, ERROR),
    ],
)
def test_a_file_holds_these_bytes_or_not(
    checker: EvidenceVerifier, path: str, digest: object, found: str
) -> None:
    assert status(checker, claim("file_sha256", path=path, sha256=digest)) == found


def test_the_size_saves_reading_and_is_checked(checker: EvidenceVerifier) -> None:
    assert (
        status(checker, claim("file_sha256", path="a.txt", sha256=sha256(b"a"), size=1)) == VERIFIED
    )
    assert (
        status(checker, claim("file_sha256", path="a.txt", sha256=sha256(b"a"), size=2)) == FAILED
    )
    assert (
        status(checker, claim("file_sha256", path="a.txt", sha256=sha256(b"a"), size=True)) == ERROR
    )


@pytest.mark.parametrize(
    "path", ["../secret", "sub/../../secret", "sub/..", "..", "/etc/passwd", "/", "//etc/passwd",
             "/proc/self/root/etc/passwd"],
)  # fmt: skip
def test_a_path_outside_the_root_is_not_even_looked_at(root: Path, path: str) -> None:
    policy = Policy(base_path=root)
    for kind, more in (("artifact_exists", {}), ("file_sha256", {"sha256": sha256(b"s")})):
        evidence = claim(kind, path=path, **more)
        assert status(EvidenceVerifier(policy=policy), evidence) == ERROR
        with pytest.raises(hf.EvidencePolicyError):
            refuse_unverifiable(EvidencePack([evidence]), policy)


def test_an_absolute_path_inside_a_root_is_allowed(root: Path, tmp_path: Path) -> None:
    inside = claim("artifact_exists", path=str(root / "a.txt"))
    beside = claim("artifact_exists", path=str(tmp_path / "secret"))
    prefix = claim("artifact_exists", path=str(root) + "-not")
    (tmp_path / "root-not").write_bytes(b"")
    for options in ({"base_path": root}, {"roots": (root,)}, {"roots": (root / "sub", root)}):
        checker = verifier(**options)
        assert status(checker, inside) == VERIFIED
        assert status(checker, beside) == ERROR
        assert status(checker, prefix) == ERROR
    link = tmp_path / "link"
    link.symlink_to(root)
    assert status(verifier(base_path=link), inside) == VERIFIED


def test_without_roots_absolute_paths_are_our_own_word(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    checker = EvidenceVerifier()
    assert status(checker, claim("artifact_exists", path=str(tmp_path / "secret"))) == VERIFIED
    assert status(checker, claim("artifact_exists", path="a.txt")) == VERIFIED
    assert status(checker, claim("artifact_exists", path="../secret")) == ERROR
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "in").symlink_to(root / "a.txt")
    assert status(checker, claim("artifact_exists", path="out")) == ERROR
    assert status(checker, claim("artifact_exists", path="in")) == VERIFIED


def test_who_checks_for_others_has_no_default_root(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    checker = verifier(own_word=False)
    assert status(checker, claim("artifact_exists", path="a.txt")) == ERROR
    assert status(checker, claim("artifact_exists", path=str(root / "a.txt"))) == ERROR
    assert (
        status(verifier(own_word=False, roots=(root,)), claim("artifact_exists", path="a.txt"))
        == VERIFIED
    )


Link = Callable[[Path], str]


@pytest.mark.parametrize(
    ("link", "found"),
    [
        (lambda root: "a.txt", VERIFIED),
        (lambda root: "sub/../a.txt", VERIFIED),
        (lambda root: str(root / "a.txt"), VERIFIED),
        (lambda root: "sub/up", VERIFIED),
        (lambda root: "gone", FAILED),
        (lambda root: "link", INCONCLUSIVE),  # to itself
        (lambda root: "../secret", ERROR),
        (lambda root: "sub/../../secret", ERROR),
        (lambda root: str(root.parent / "secret"), ERROR),
        (lambda root: str(root / ".." / "secret"), ERROR),
        (lambda root: "/proc/self/root/etc/passwd", ERROR),
        (lambda root: "../root/a.txt", ERROR),  # out of the root and in again
    ],
)
def test_links_are_followed_inside_the_root_only(
    root: Path, checker: EvidenceVerifier, link: Link, found: str
) -> None:
    (root / "sub" / "up").symlink_to("../a.txt")
    (root / "link").symlink_to(link(root))
    evidence = claim("artifact_exists", path="link")
    assert status(checker, evidence) == found
    hashed = claim("file_sha256", path="link", sha256=sha256(b"a"))
    assert status(checker, hashed) == found


def test_a_link_to_a_directory_outside_is_refused_on_the_way(
    root: Path, checker: EvidenceVerifier
) -> None:
    (root / "away").symlink_to(root.parent / "outside")
    (root / "here").symlink_to("sub")
    assert status(checker, claim("file_sha256", path="away/b.txt", sha256=sha256(b"b"))) == ERROR
    assert status(checker, claim("file_sha256", path="here/b.txt", sha256=sha256(b"b"))) == VERIFIED


@pytest.mark.parametrize("what", ["directory", "file"])
def test_no_swap_of_links_leads_outside(root: Path, what: str) -> None:
    """While we check, another thread puts a link to the outside in place and takes it away."""
    (root / "real").mkdir()
    (root / "real" / "b.txt").write_bytes(b"inside")
    (root.parent / "outside" / "b.txt").write_bytes(b"stolen")
    spot = root / "spot" if what == "directory" else root / "real" / "spot"
    good, bad = ("real", root.parent / "outside") if what == "directory" else (
        "b.txt", root.parent / "outside" / "b.txt")  # fmt: skip
    path = "spot/b.txt" if what == "directory" else "real/spot"
    stop = threading.Event()

    def swap() -> None:
        for number in range(10**9):
            if stop.is_set():
                return
            fresh = spot.with_name(f"fresh{number % 2}")
            fresh.symlink_to(good if number % 2 else bad)
            fresh.rename(spot)

    spot.symlink_to(good)
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        checker = EvidenceVerifier(root, attempts=1)
        found = set()
        for tried in range(100_000):
            if tried >= 200 and VERIFIED in found:
                break
            theirs = claim("file_sha256", path=path, sha256=sha256(b"stolen"))
            ours = claim("file_sha256", path=path, sha256=sha256(b"inside"))
            found |= {status(checker, ours), status(checker, claim("artifact_exists", path=path))}
            assert status(checker, theirs) in (FAILED, ERROR, INCONCLUSIVE)
            assert sha256(b"stolen") not in (theirs.verification_error or "")[:60]
    finally:
        stop.set()
        join(thread)
    assert VERIFIED in found


def test_what_is_no_regular_file_neither_hangs_nor_counts(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(root / "s"))
        checker = verifier(base_path=root, check_seconds=60)
        for name in ("fifo", "s", "sub"):
            assert status(checker, claim("file_sha256", path=name, sha256=sha256(b""))) == FAILED
            assert status(checker, claim("artifact_exists", path=name, type="file")) == FAILED
            assert status(checker, claim("artifact_exists", path=name)) == VERIFIED
        own_word = verifier(check_seconds=60)
        for path in ("/dev/zero", "/dev/tty", "/dev/null", str(root / "fifo")):
            assert status(own_word, claim("file_sha256", path=path, sha256=sha256(b""))) == FAILED
        with pytest.raises(OSError, match="regular"):
            file_evidence(root / "fifo")


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/cpuinfo", "/proc/kmsg", "/proc/self/mem"]
)
def test_files_that_the_system_makes_up_are_never_verified(path: str) -> None:
    """They say they are empty; reading them gives something else each time, or waits."""
    checker = verifier(check_seconds=2)
    found = status(checker, claim("file_sha256", path=path, sha256=sha256(b"")))
    assert found in (INCONCLUSIVE, FAILED)
    assert found == INCONCLUSIVE or not Path(path).exists()


def test_a_file_above_the_limit_is_not_read(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    evidence = claim("file_sha256", path="huge", sha256=sha256(b""))
    with in_time():
        assert status(EvidenceVerifier(root), evidence) == INCONCLUSIVE
    assert status(verifier(base_path=root, max_file_bytes=0.5), claim(
        "file_sha256", path="a.txt", sha256=sha256(b"a"))) == INCONCLUSIVE  # fmt: skip


def test_a_file_that_changes_while_it_is_read_is_tried_again_and_then_inconclusive(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "busy"
    path.write_bytes(b"x")
    readv = os.readv

    def read_and_append(descriptor: int, buffers: Any) -> int:
        count = readv(descriptor, buffers)
        with path.open("ab") as file:
            file.write(b"y")
        return count

    monkeypatch.setattr(os, "readv", read_and_append)
    evidence = claim("file_sha256", path="busy", sha256=sha256(b"x"))
    assert status(EvidenceVerifier(root, backoff=0.001), evidence) == INCONCLUSIVE
    assert evidence.verdict is not None
    assert evidence.verdict.attempts == 3
    with pytest.raises(hf.InvalidEvidenceError, match="changes"):
        file_evidence(path)


def test_a_file_we_may_not_read_is_inconclusive(
    root: Path, checker: EvidenceVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(file_sha256, "open_file", refuse)
    assert status(checker, claim("file_sha256", path="a.txt", sha256=sha256(b"a"))) == INCONCLUSIVE


class Later:
    """A clock in which everything on the disk was written long ago."""

    def now(self) -> int:
        return time.time_ns() // 1000 + 10_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def test_a_digest_is_remembered_while_the_file_stays_the_same(root: Path) -> None:
    hashes = HashCache(clock=Later())
    checker = EvidenceVerifier(root, hashes=hashes)
    path = root / "a.txt"
    evidence = claim("file_sha256", path="a.txt", sha256=sha256(b"a"))
    assert [status(checker, evidence) for _ in range(3)] == [VERIFIED] * 3
    assert (hashes.hits, hashes.misses) == (2, 1)
    # The same size and the same mtime, as `touch -r` would have it; the ctime tells.
    times = path.stat()
    while path.stat().st_ctime_ns == times.st_ctime_ns:  # until the file system's clock ticks
        path.write_bytes(b"b")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert status(checker, evidence) == FAILED
    path.unlink()
    assert status(checker, evidence) == FAILED


def test_a_file_that_was_just_written_is_not_remembered(root: Path) -> None:
    """It could change again within the same tick of the file system's clock."""
    hashes = HashCache()
    checker = EvidenceVerifier(root, hashes=hashes)
    (root / "a.txt").write_bytes(b"a")
    evidence = claim("file_sha256", path="a.txt", sha256=sha256(b"a"))
    assert [status(checker, evidence) for _ in range(3)] == [VERIFIED] * 3
    assert hashes.hits == 0


def test_the_cache_forgets_the_oldest(root: Path) -> None:
    hashes = HashCache(2, clock=Later())
    checker = EvidenceVerifier(root, hashes=hashes)
    for name in "xyz":
        (root / name).write_bytes(name.encode())
        assert (
            status(checker, claim("file_sha256", path=name, sha256=sha256(name.encode())))
            == VERIFIED
        )
    assert len(hashes._digests) == 2
    hashes.clear()
    assert len(hashes._digests) == 0


def test_claims_are_captured_from_what_is_there(root: Path) -> None:
    policy = Policy(base_path=root)
    evidence = file_evidence("sub/b.txt", policy=policy)
    assert evidence.expected == {"path": "sub/b.txt", "sha256": sha256(b"b"), "size": 1}
    checker = EvidenceVerifier(policy=policy)
    assert status(checker, evidence) == VERIFIED
    assert artifact_evidence("sub", policy=policy).expected["type"] == "directory"
    assert artifact_evidence(root / "a.txt").expected == {
        "path": str(root / "a.txt"),
        "type": "file",
    }
    (root / "sub" / "b.txt").write_bytes(b"c")
    assert status(checker, evidence) == FAILED
    with pytest.raises(FileNotFoundError):
        file_evidence("gone", policy=policy)
    with pytest.raises(hf.EvidencePolicyError):
        file_evidence("../secret", policy=policy)


def test_nothing_is_left_open(root: Path, checker: EvidenceVerifier) -> None:
    (root / "out").symlink_to("../secret")
    (root / "deep").symlink_to("sub/../sub/../sub")
    before = open_files()
    for path in (
        "a.txt",
        "sub/b.txt",
        "out",
        "out/x",
        "gone/x",
        "deep/b.txt",
        "sub",
        "../x",
        "a.txt/x",
    ):
        status(checker, claim("file_sha256", path=path, sha256=sha256(b"b")))
        status(checker, claim("artifact_exists", path=path))
    assert open_files() == before


def test_a_directory_of_too_many_files_is_refused_before_all_of_them_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text("x")
    assert len(files_evidence(tmp_path)) == 21
    looked: list[str] = []
    sort = directories._sort

    def noted(name: str, *more: Any) -> None:
        looked.append(name)
        sort(name, *more)

    monkeypatch.setattr(directories, "_sort", noted)
    monkeypatch.setattr(capture, "_MAX_FILES", 3)
    with pytest.raises(hf.InvalidEvidenceError, match="more than 3 files"):
        files_evidence(tmp_path)
    assert len(looked) == 3


# --- what is gone, and where it was claimed


def test_absence_is_verified_only_where_nothing_is(root: Path, checker: EvidenceVerifier) -> None:
    (root / "link").symlink_to("sub")
    (root / "out").symlink_to("../secret")
    for path, found in {
        "gone": VERIFIED, "gone/deeper": VERIFIED, "a.txt/x": VERIFIED,
        "a.txt": FAILED, "sub": FAILED, "link": FAILED,
        "out": FAILED, "../gone": ERROR, "/etc/gone": ERROR,
    }.items():  # fmt: skip
        assert status(checker, claim("artifact_exists", path=path, type="absent")) == found, path


def test_absence_and_presence_are_about_the_same_and_exclude_each_other() -> None:
    gone = claim("artifact_exists", path="a", type="absent")
    held = claim("file_sha256", path="./a", sha256=sha256(b""))
    assert gone.subject == held.subject
    with pytest.raises(hf.InvalidEvidenceError, match="never be satisfied"):
        EvidencePack([gone, held])


@pytest.mark.parametrize("made", [
    {"path": "gone", "type": "file"}, {"path": "a.txt", "type": "directory"},
    {"path": "a.txt", "type": "absent"}, {"path": "a.txt", "sha256": "0" * 64},
    {"path": "a.txt", "sha256": "0" * 64, "size": 9},
], ids=str)  # fmt: skip
def test_what_is_not_so_can_not_be_told_from_another_directory(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: dict[str, Any]
) -> None:
    kind = "file_sha256" if "sha256" in made else "artifact_exists"

    def found(checker: EvidenceVerifier, base: Any) -> str:
        return status(checker, Evidence(kind, "it", made).noted(base=base))

    monkeypatch.chdir(root)
    here = EvidenceVerifier()
    assert found(here, str(root)) == found(EvidenceVerifier(root), str(root)) == FAILED
    assert found(here, "/nowhere") == found(EvidenceVerifier(root), "/nowhere") == INCONCLUSIVE
    absolute = Evidence(kind, "it", {**made, "path": str(root / made["path"])})
    assert status(here, absolute.noted(base="/nowhere")) == FAILED


def test_a_claim_is_looked_up_where_it_was_made(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "b").write_bytes(b"b")
    (elsewhere / "link").symlink_to(elsewhere / "b")
    for path in ("b", "link"):
        made = claim("file_sha256", path=path, sha256=sha256(b"b"))
        assert status(EvidenceVerifier(), made) == FAILED, "it is not here"
        made = made.noted(base=str(elsewhere))
        assert status(EvidenceVerifier(), made) == VERIFIED
        assert status(EvidenceVerifier(tmp_path), made) == VERIFIED
        assert status(EvidenceVerifier(root), made) == INCONCLUSIVE, "not within its roots"
    (elsewhere / "b").write_bytes(b"c")
    assert status(EvidenceVerifier(), made) == FAILED


def test_a_directory_may_be_moved(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    for base in ("/nowhere", str(tmp_path / "was"), "x" * 5000):
        fine = claim("artifact_exists", path="a.txt").noted(base=base)
        assert status(EvidenceVerifier(), fine) == VERIFIED
        assert status(EvidenceVerifier(root), fine) == VERIFIED
        gone = claim("artifact_exists", path="gone").noted(base=base)
        assert status(EvidenceVerifier(), gone) == INCONCLUSIVE
        assert len(gone.verification_error or "") <= 500


def test_what_a_claim_says_of_its_directory_is_not_heard(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    for base in ("/nowhere", 7, None, ["/"], {"x": 1}):
        told = Evidence("artifact_exists", "it", {"path": "gone"}, {"base": base})
        assert status(EvidenceVerifier(), told) == FAILED


def test_one_path_is_one_subject_however_it_is_spelled(tmp_path: Path) -> None:
    def subject(path: str, base: Path | None = None) -> str:
        made = claim("artifact_exists", path=path)
        return made.noted(base=None if base is None else str(base)).subject

    assert subject("a/b", tmp_path) == subject("./a//b/", tmp_path) == subject(f"{tmp_path}/a/b")
    assert subject("b", tmp_path / "a") == subject("a/b", tmp_path)
    assert subject("b", tmp_path / "a") != subject("b", tmp_path), "in another directory"


def test_a_link_that_leads_out_is_refused_in_words_that_fit_the_policy(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").touch()
    (root / "data").symlink_to(tmp_path / "data")
    (root / "up").symlink_to("../data")
    monkeypatch.chdir(root)
    for path in ("data/x", "up/x"):
        with pytest.raises(hf.EvidencePolicyError, match="out of the working directory; give"):
            file_evidence(path)
        with pytest.raises(hf.EvidencePolicyError, match="leads out of the roots"):
            file_evidence(path, policy=Policy(roots=(root,)))
    assert file_evidence(tmp_path / "data" / "x").expected["size"] == 0


@pytest.mark.parametrize("kind", list(EvidenceType))
def test_what_no_check_would_look_at_is_refused(kind: EvidenceType) -> None:
    with pytest.raises(hf.InvalidEvidenceError, match="'pth' is not among"):
        EvidenceVerifier().refuse_unverifiable(EvidencePack([claim(kind, pth="x")]))
