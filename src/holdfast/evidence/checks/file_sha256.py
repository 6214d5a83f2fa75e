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
from holdfast.evidence.world.hashing import (
    ChangedError,
    HashCache,
    identity,
    sha256_of,
    too_large,
)
from holdfast.evidence.world.paths import NotRegularError, Place, locate, look, open_file


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
    """The digest, which settles the size; and there is a file, not a link that was there before."""
    digest, size = str(evidence.expected["sha256"]).lower(), evidence.expected.get("size")
    return {"exists": True, "kind": "file", "digest": digest, "size": size, "target": None}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED for other bytes or no file; INCONCLUSIVE if it changes, is too large or not ours."""
    claim = context.admit(evidence, admit)
    return where_claimed(_found(claim, context), claim.place)


def _found(claim: ExpectedFile, context: Context) -> Verdict:
    path = claim.place.path
    try:
        found = None if context.hashes is None else _remembered(claim, context.hashes, context)
        if found is None:
            found = _hash(claim, context)
    except _TooLargeError as large:
        return inconclusive(f"{path}: {too_large(large.size, context.policy)}")
    except _OtherSizeError as other:
        return failed(f"{path} has {other.size:,} bytes, not {claim.size:,}")
    except ChangedError:
        return inconclusive(f"{path} changed while it was read", transient=True)
    except (FileNotFoundError, NotADirectoryError):
        return failed(f"{path} does not exist")
    except NotRegularError:
        return failed(f"{path} is not a regular file")
    except TimeoutError:
        raise
    except OSError as error:
        # Something else was put in its place meanwhile.
        raced = error.errno in (errno.ELOOP, errno.EAGAIN)
        return inconclusive(f"{path}: {error.strerror or error}", transient=raced)
    if found != claim.sha256:
        return failed(f"{path} has the digest {found[:12]}…, not {claim.sha256[:12]}…")
    return verified()


class _OtherSizeError(Exception):
    def __init__(self, size: int) -> None:
        self.size = size


class _TooLargeError(_OtherSizeError):
    pass


def _remembered(claim: ExpectedFile, hashes: HashCache, context: Context) -> str | None:
    status = look(claim.place, context.policy)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(errno.EINVAL, "not a regular file", claim.place.path)
    if claim.size not in (None, status.st_size):
        raise _OtherSizeError(status.st_size)
    return hashes.get(identity(status))


def _hash(claim: ExpectedFile, context: Context) -> str:
    before = None if context.hashes is None else context.hashes.now()

    def expected(size: int) -> None:
        if claim.size not in (None, size):
            raise _OtherSizeError(size)
        if size > context.policy.max_file_bytes:
            raise _TooLargeError(size)
        context.expects(size)

    descriptor = open_file(claim.place, context.policy)
    try:
        key, found = sha256_of(descriptor, context.progressed, expected)
    finally:
        os.close(descriptor)
    if context.hashes is not None and before is not None:
        context.hashes.put(key, found, before)
    return found
