"""Who gave an answer: the signatures of people, and which answers count where keys are trusted.

A signature is of the question, as it was asked at one moment of one run, and of the answer. So it
fits no other question, no other run, and not the same question when it is asked again. A copy of a
question, behind a rollback or in a fork, keeps the id of the entry that it was first asked with.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import ormsgpack

from holdfast.codec.meta import ASKED, SIGNED, Meta, dump_meta
from holdfast.errors import HoldfastError
from holdfast.evidence.claims import canonical
from holdfast.kernel.core import Core
from holdfast.kernel.journal import Journals
from holdfast.kernel.pages import pass_by
from holdfast.keys.sealing import Signs, Trusts
from holdfast.logs import about, logger
from holdfast.model import Entry, Kind

DEADLINE: Final = "deadline"
"""Who answered where nobody did in time."""

SIGNED_AS: Final = b"holdfast answer\0"
"""What a signature of an answer is made of begins with: it fits nothing else."""

_log: Final = logger()


def signer(core: Core) -> Signs | None:
    """The key that signs what this process saves."""
    return None if core.journals.sealer is None else core.journals.sealer.signer


def trusts(core: Core) -> Trusts | None:
    """The keys that are trusted here; None if answers need no signature."""
    return None if core.journals.sealer is None else core.journals.sealer.trusts


def signed(core: Core, question: Entry, encoding: bytes, key: Signs) -> list[str]:
    """What an answer's metadata says of its signature: the id of the key, and the signature.

    Raises a `HoldfastError` if the key is not one of those that are trusted here. Blocks.
    """
    given = core.journals.decode_data(encoding)
    data = _to_sign(core.journals, question, given, key.key_id)
    signature = key.sign(data)
    trusted = trusts(core)
    if trusted is not None:
        trusted.verify(key.key_id, data, signature)
    return [key.key_id, base64.b64encode(signature).decode()]


def authentic(core: Core, entries: Iterable[Entry]) -> list[Entry]:
    """The entries of a run without the answers that do not count. Blocks."""
    if trusts(core) is None:
        return list(entries)
    return [entry for entry in entries if entry.kind != Kind.ANSWER or counts(core, entry)]


def counts(core: Core, answer: Entry) -> bool:
    """Whether the person that an answer names gave it, as far as that matters here. Blocks."""
    problem = doubt(core, answer)
    if problem:
        _tell(answer.run, answer.seq, answer.step, problem)
    return not problem


def doubt(core: Core, answer: Entry) -> str:
    """Why an answer does not count; empty if it does, or if no keys are trusted here. Blocks."""
    trusted, journals = trusts(core), core.journals
    if trusted is None:
        return ""
    found = answer if answer.body else journals.entry(answer.run, answer.seq)
    if found is None or journals.cut_over.allows(found):
        return ""  # still on its way from here, or older than the first key
    meta = Meta(found)
    if meta.skipped_to is not None and not found.size:
        return ""
    question = _asked(journals, found)
    if question is None:
        return "nothing was asked"
    if meta.by == DEADLINE:
        return _too_early(core, question)
    match meta.fields.get(SIGNED):
        case [str(key_id), str(text)] if key_id == meta.by:
            return _wrong(journals, question, found, key_id, text, trusted)
        case [str(key_id), str()]:
            return f"it is signed by {key_id!r}, but says that {meta.by!r} gave it"
    return "it is not signed"


def is_authentic(core: Core, answer: Entry) -> bool:
    """Whether an answer that counts is signed by a person, with a key that is trusted here."""
    return trusts(core) is not None and bool(Meta(answer).fields.get(SIGNED))


def original(entry: Entry) -> dict[str, str]:
    """What the copy of a question says besides: the entry that it was first asked with."""
    if entry.kind != Kind.QUESTION:
        return {}
    return {ASKED: Meta(entry).asked or entry.entry_id.hex()}


def copied_meta(entry: Entry) -> str:
    """The metadata of a copy of this entry, in a fork or behind a rollback."""
    return dump_meta({**Meta(entry).fields, **original(entry)})


@lru_cache(1000)  # once for each
def _tell(run: str, seq: int, step: str | None, problem: str) -> None:
    said = (step, run, seq, problem)
    _log.warning("the answer to %r at %s@%d is ignored: %s", *said, extra=about(run, step))


def _wrong(
    journals: Journals, question: Entry, answer: Entry, key_id: str, text: str, trusted: Trusts
) -> str:
    given = journals.value(answer.run, answer.seq, answer, as_data=True) if answer.size else None
    try:
        signature = base64.b64decode(text, validate=True)
        trusted.verify(key_id, _to_sign(journals, question, given, key_id), signature)
    except binascii.Error:
        return "its signature is not base64"
    except HoldfastError as error:
        return str(error)
    return ""


def _to_sign(journals: Journals, question: Entry, given: Any, key_id: str) -> bytes:
    asked = journals.value(question.run, question.seq, question, as_data=True)
    first = Meta(question).asked or question.entry_id.hex()
    said = [first, str(question.step), _digest(asked), _digest(given), key_id]
    return SIGNED_AS + ormsgpack.packb(said)


def _digest(value: Any) -> bytes:
    return hashlib.sha256(canonical(value).encode()).digest()


def _asked(journals: Journals, answer: Entry) -> Entry | None:
    """The question that an answer is to: the newest one before it with its key."""
    before = journals.entries(answer.run, newest_first=True, after=answer.seq, damage=pass_by)
    for entry in before:
        if entry.kind == Kind.QUESTION and entry.step == answer.step:
            return journals.entry(entry.run, entry.seq)
    return None


def _too_early(core: Core, question: Entry) -> str:
    stored = core.journals.value(question.run, question.seq, question, as_data=True)
    match stored:
        case {"within": int() | float() as within}:
            due = question.at + int(max(0, min(within, 1e12)) * 1e6)  # or forged
        case {"deadline": int() as due}:
            pass
        case _:
            return "it has no deadline that could have passed"
    is_copy = Meta(question).asked is not None  # its time is that of the copy
    return "" if is_copy or due <= core.journals.clock.now() else "its deadline has not passed"
