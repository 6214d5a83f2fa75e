"""file_sha256: a file has exactly these bytes.

    expected = {"path": "out/report.md", "sha256": "9f86d0…", "size": 1234}

`size` is optional; with it, a file of another size need not be read.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from holdfast.errors import EvidencePolicyError
from holdfast.evidence import Context, Evidence, Policy, Verdict, failed, inconclusive, verified
from holdfast.evidence.checks.fields import Fields, path_subject
from holdfast.evidence.world.bases import where_claimed
from holdfast.evidence.world.hashing import ChangedError, identity, sha256_of, too_large
from holdfast.evidence.world.paths import Place, locate, look, open_file


class ExpectedFile(NamedTuple):
    """The claim, parsed."""

    place: Place
    sha256: str
    size: int | None


def admit(evidence: Evidence, policy: Policy) -> ExpectedFile:
    """The claim, parsed."""
    fields = Fields(evidence, "path", "sha256", "size")
    size = fields.optional("size", int, None)
    if size is not None and size < 0:
        raise fields.refuse("size can't be negative")
    if size is not None and size > policy.max_file_bytes:
        raise EvidencePolicyError(fields.required("path", str), too_large(size, policy))
    digest = fields.sha256("sha256")
    return ExpectedFile(locate(fields.required("path", str), policy, evidence.base), digest, size)


def subject(evidence: Evidence) -> str:
    """The path."""
    return path_subject(evidence.expected["path"], evidence.base)


def facts(evidence: Evidence) -> dict[str, object]:
    """The digest, which settles the size; and there is a file."""
    digest, size = str(evidence.expected["sha256"]).lower(), evidence.expected.get("size")
    return {"exists": True, "kind": "file", "digest": digest, "size": size}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED for other bytes or no file; INCONCLUSIVE if it changes, is too large or not ours."""
    claim = context.admit(evidence, admit)
    return where_claimed(_found(claim, context), claim.place)


def _found(claim: ExpectedFile, context: Context) -> Verdict:
    path = claim.place.path
    try:
        status = look(claim.place, context.policy)
        if not stat.S_ISREG(status.st_mode):
            return failed(f"{path} is not a regular file")
        if claim.size not in (None, status.st_size):
            return failed(f"{path} has {status.st_size:,} bytes, not {claim.size:,}")
        if status.st_size > context.policy.max_file_bytes:
            return inconclusive(f"{path}: {too_large(status.st_size, context.policy)}")
        found = None if context.hashes is None else context.hashes.get(identity(status))
        if found is None:
            found = _hash(claim, context)
    except ChangedError:
        return inconclusive(f"{path} changed while it was read", transient=True)
    except (FileNotFoundError, NotADirectoryError):
        return failed(f"{path} does not exist")
    except TimeoutError:
        raise
    except OSError as error:
        # It was a regular file a moment ago.
        raced = error.errno in (errno.EINVAL, errno.ELOOP, errno.EAGAIN)
        return inconclusive(f"{path}: {error.strerror or error}", transient=raced)
    if found != claim.sha256:
        return failed(f"{path} has the digest {found}, not {claim.sha256}")
    return verified()


def _hash(claim: ExpectedFile, context: Context) -> str:
    before = None if context.hashes is None else context.hashes.now()
    descriptor = open_file(claim.place, context.policy)
    try:
        size = os.fstat(descriptor).st_size
        if size > context.policy.max_file_bytes:
            raise ChangedError
        context.expects(size)
        key, found = sha256_of(descriptor, context.progressed)
    finally:
        os.close(descriptor)
    if context.hashes is not None and before is not None:
        context.hashes.put(key, found, before)
    return found
