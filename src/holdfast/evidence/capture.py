"""Makes claims from the present state of files, commands and processes."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from holdfast.errors import EvidencePolicyError, InvalidEvidenceError
from holdfast.evidence.checks import EvidenceType
from holdfast.evidence.claims import Evidence
from holdfast.evidence.policy import Policy
from holdfast.evidence.world.commands import CommandResult
from holdfast.evidence.world.directories import contents
from holdfast.evidence.world.hashing import ChangedError, sha256_of, too_large
from holdfast.evidence.world.paths import locate, look, look_at_name, open_file
from holdfast.evidence.world.programs import program_of
from holdfast.kernel.processes import start_of

_ATTEMPTS: Final = 3
_MAX_FILES: Final = 1000

PathLike = str | os.PathLike[str]


def file_evidence(
    path: PathLike,
    description: str | None = None,
    *,
    policy: Policy | None = None,
    metadata: Mapping[str, Any] | None = None,
    host: str | None = None,
) -> Evidence:
    """The claim that the file keeps the bytes it has now.

    A relative path starts where the policy says, or else in the working directory: give the
    policy of the verifier that will check it, such as `policy=manager.verifier.policy`. With
    `host`, only the machine of that name can check it: `this_host()` if the disk is its own.

    Raises `OSError` if it can't be read, `EvidencePolicyError` if it is outside the roots or too
    large to be checked, and `InvalidEvidenceError` if it changes while it is read.
    """
    policy = policy or Policy()
    place = locate(os.fspath(path), policy)

    def refuse_large(size: int) -> None:
        if size > policy.max_file_bytes:  # it could never be checked
            raise EvidencePolicyError(place.path, too_large(size, policy))

    for _ in range(_ATTEMPTS):
        descriptor = open_file(place, policy)
        try:
            found, digest = sha256_of(descriptor, on_size=refuse_large)
        except ChangedError:
            continue
        finally:
            os.close(descriptor)
        return Evidence(
            EvidenceType.FILE_SHA256,
            description or f"{place.path} is unchanged",
            {"path": place.path, "sha256": digest, "size": found.size},
            metadata,
            host=host,
        )
    raise InvalidEvidenceError(
        place.path, "it changed while it was read; claim it when it is complete"
    )


def files_evidence(path: PathLike, *, policy: Policy | None = None) -> list[Evidence]:
    """The claims that the file, or the directory and every file in it, stays as it is now.

    Directories that are linked inside it count, too; a link to what is claimed already, or to
    nothing, is claimed as a link. Files added later do not matter. Raises as `file_evidence` does,
    and `InvalidEvidenceError` for a directory of more than a thousand files.
    """
    policy = policy or Policy()
    there = artifact_evidence(path, policy=policy)
    name = there.expected["path"]
    if there.expected["type"] != "directory":
        return [file_evidence(name, policy=policy)]
    inside = contents(name, policy, _MAX_FILES)
    files = [file_evidence(one, policy=policy) for one in inside.files]
    return [there, *files, *(_link_evidence(one, policy) for one in inside.links)]


def artifact_evidence(
    path: PathLike,
    description: str | None = None,
    *,
    policy: Policy | None = None,
    metadata: Mapping[str, Any] | None = None,
    host: str | None = None,
) -> Evidence:
    """The claim that a file or directory exists at the path, as it does now.

    Raises `OSError` if nothing is, `EvidencePolicyError` if it is outside the roots.
    """
    policy = policy or Policy()
    place = locate(os.fspath(path), policy)
    mode = look(place, policy).st_mode
    kind = "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else "any"
    return Evidence(
        EvidenceType.ARTIFACT_EXISTS,
        description or f"{place.path} exists",
        {"path": place.path, "type": kind},
        metadata,
        host=host,
    )


def command_evidence(
    result: CommandResult | subprocess.CompletedProcess[Any],
    description: str | None = None,
    *,
    exit_code: int = 0,
) -> Evidence:
    """The claim that the command exited with `exit_code`.

    How it did end is recorded beside the claim, for this command and no other: as `run_command`
    saw it, or as the program says that ran it with `subprocess.run`.
    """
    if isinstance(result, CommandResult):
        argv: str | list[str] = list(result.argv)
        recorded = result.recorded()
    elif not isinstance(result, subprocess.CompletedProcess):
        raise TypeError(
            "command_evidence needs what run_command or subprocess.run returned, "
            f"not {type(result).__name__}"
        )
    else:
        given = result.args
        is_line = isinstance(given, str | bytes | os.PathLike)
        argv = os.fsdecode(given) if is_line else [os.fsdecode(word) for word in given]
        recorded = {"exit_code": result.returncode, "by": "the program"}
    shown = argv if isinstance(argv, str) else shlex.join(argv)
    claim = Evidence(
        EvidenceType.COMMAND_EXIT,
        description or f"{shown} exits with {exit_code}",
        {"exit_code": exit_code},
        {"command": argv},
    )
    return claim.noted(observed={"command": argv, **recorded})


def process_evidence(pid: int, description: str | None = None) -> Evidence:
    """The claim that the process with this pid keeps running the program that it runs now.

    Raises `ProcessLookupError` if there is none.
    """
    start = start_of(pid)
    if start is None:
        raise ProcessLookupError(f"there is no process {pid}")
    program = program_of(pid)
    expected = {"pid": pid, "start_time": start, "command": program.command}
    if program.image is not None:
        expected["image"] = program.image
    if start_of(pid) != start:
        raise ProcessLookupError(f"there is no process {pid}")
    return Evidence(
        EvidenceType.PROCESS_EXISTS, description or f"process {pid} is running", expected
    )


def _link_evidence(path: str, policy: Policy) -> Evidence:
    """The claim that a link keeps its text, wherever that leads."""
    _, target = look_at_name(locate(path, policy), policy)
    if target is None:
        raise InvalidEvidenceError(
            path, "it changed while it was read; claim it when it is complete"
        )
    return Evidence(
        EvidenceType.ARTIFACT_EXISTS,
        f"{path} is the same link",
        {"path": path, "type": "link", "target": target},
    )
