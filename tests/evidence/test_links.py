"""Links in what is claimed: followed inside the roots, or claimed themselves, never passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.evidence import Evidence, EvidencePack, EvidenceVerifier, Policy, files_evidence

from .support import ERROR, FAILED, VERIFIED, claim, status


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path / "root"
    (inside / "out" / "sub").mkdir(parents=True)
    (inside / "out" / "sub" / "a").write_text("a")
    (inside / "common").mkdir()
    (inside / "common" / "model").write_text("weights")
    (inside / "out" / "model").symlink_to("../common")
    return inside


def claims_of(root: Path, path: str = "out") -> list[Evidence]:
    return files_evidence(path, policy=Policy(base_path=root))


def paths(claims: list[Evidence]) -> dict[str, str]:
    return {one.expected["path"]: str(one.expected.get("type", "sha256")) for one in claims}


def verify(root: Path, claims: list[Evidence]) -> bool:
    return EvidenceVerifier(root).verify_evidence_pack(EvidencePack(claims))


def test_the_files_of_a_linked_directory_are_claimed(root: Path) -> None:
    claims = claims_of(root)
    assert paths(claims) == {
        "out": "directory", "out/sub/a": "sha256", "out/model/model": "sha256",
    }  # fmt: skip
    assert verify(root, claims)
    (root / "common" / "model").write_text("other!!")
    assert not verify(root, claims)


def test_a_step_does_not_resume_from_a_linked_directory_that_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    claims = files_evidence("out")
    assert "out/model/model" in paths(claims)
    assert "out/model/model" in "".join(paths(files_evidence(root / "out")))


def test_a_link_that_is_turned_elsewhere_is_noticed(root: Path) -> None:
    claims = claims_of(root)
    (root / "other").mkdir()
    (root / "out" / "model").unlink()
    (root / "out" / "model").symlink_to("../other")
    assert not verify(root, claims)


def test_links_in_a_circle_end_and_are_claimed_as_links(root: Path) -> None:
    (root / "out" / "up").symlink_to("..")
    (root / "out" / "again").symlink_to("sub")
    (root / "out" / "sub" / "itself").symlink_to(".")
    (root / "out" / "circle").symlink_to("circle")
    claims = claims_of(root)
    links = {one.expected["path"] for one in claims if one.expected.get("type") == "link"}
    assert {"out/again", "out/sub/itself", "out/circle"} <= links
    assert verify(root, claims)
    (root / "out" / "again").unlink()
    (root / "out" / "again").symlink_to("sub/itself")
    assert not verify(root, claims)


def test_a_link_that_leads_nowhere_is_claimed_as_a_link(root: Path) -> None:
    (root / "out" / "lock").symlink_to("host:4711")
    (root / "out" / "below").symlink_to("sub/a/below")
    claims = claims_of(root)
    assert paths(claims)["out/lock"] == paths(claims)["out/below"] == "link"
    assert verify(root, claims)
    (root / "out" / "lock").unlink()
    assert not verify(root, claims)


def test_a_link_out_of_the_root_is_refused_rather_than_left_out(root: Path) -> None:
    (root.parent / "elsewhere").mkdir()
    (root / "out" / "away").symlink_to(root.parent / "elsewhere")
    with pytest.raises(hf.EvidencePolicyError, match="out/away"):
        claims_of(root)


def test_a_directory_behind_many_links_is_walked_once(root: Path) -> None:
    """Ten links at each of ten levels would be ten thousand million ways."""
    for level in range(10):
        below = root / f"level{level + 1}"
        below.mkdir()
        (root / f"level{level}").mkdir(exist_ok=True)
        for number in range(10):
            (root / f"level{level}" / f"link{number}").symlink_to(below)
    claims = claims_of(root, "level0")
    assert len(claims) == 1 + 9 * 10
    assert verify(root, claims)


def test_sockets_and_pipes_are_left_out(root: Path) -> None:
    os.mkfifo(root / "out" / "fifo")
    assert "out/fifo" not in paths(claims_of(root))


# --- absence


def test_what_a_dangling_link_names_is_not_absent(root: Path) -> None:
    (root / "dangling").symlink_to("gone")
    (root / "circle").symlink_to("circle")
    (root / "out-of-root").symlink_to("/etc/passwd")
    checker = EvidenceVerifier(root)
    for path in ("dangling", "circle", "out-of-root", "out/model"):
        evidence = claim("artifact_exists", path=path, type="absent")
        assert status(checker, evidence) == FAILED, path
    for path in ("gone", "dangling/below", "out/gone"):
        assert status(checker, claim("artifact_exists", path=path, type="absent")) == VERIFIED, path
    assert status(checker, claim("artifact_exists", path="dangling")) == FAILED
    own_word = EvidenceVerifier()
    for spelled in (f"{root}/dangling", f"{root}/dangling/"):
        evidence = claim("artifact_exists", path=spelled, type="absent")
        assert status(own_word, evidence) == FAILED


def test_a_link_is_compared_by_its_text(root: Path) -> None:
    for checker, prefix in ((EvidenceVerifier(root), ""), (EvidenceVerifier(), f"{root}/")):
        for path, target, found in (
            ("out/model", "../common", VERIFIED),
            ("out/model", "../common/", FAILED),
            ("out/sub", "../common", FAILED),
            ("out/gone", "../common", FAILED),
        ):
            link = claim("artifact_exists", path=prefix + path, type="link", target=target)
            assert status(checker, link) == found, path
    for expected in ({"type": "link"}, {"type": "file", "target": "x"}, {"target": "x"},
                     {"type": "link", "target": 7}):  # fmt: skip
        assert status(checker, claim("artifact_exists", path="out/model", **expected)) == ERROR
