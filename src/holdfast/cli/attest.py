"""`holdfast attest`: what a run claims and what was found, as signed statements for others."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from holdfast.cli import _show
from holdfast.cli._exits import FailedError
from holdfast.cli._options import option
from holdfast.cli._runs import find_run, is_signed, run_argument, with_children
from holdfast.cli._session import Session, as_command
from holdfast.errors import KeyFileError
from holdfast.keys import dsse
from holdfast.operations.attesting import Attested, check_attestation
from holdfast.operations.private_files import replacing
from holdfast.operations.retention import archive_name
from holdfast.views import threads, words
from holdfast.views.claims import said


@as_command(
    "holdfast attest nightly-31 --sign-key ci.key --out nightly-31.intoto.jsonl",
    "holdfast attest --check nightly-31.intoto.jsonl --trusted ci.key.pub",
)
@run_argument(required=False)
@option(
    "--out FILE", "Where to write it; by default RUN.intoto.jsonl.", type=click.Path(dir_okay=False)
)
@option(
    "--check FILE",
    "Check the attestations in this file instead.",
    type=click.Path(exists=True, dir_okay=False),
)
def command(
    session: Session,
    run: str | None,
    out: str | None,
    check: str | None,
) -> None:
    """Write what RUN claims and what was found of it, signed, for people without the store.

    The file has an in-toto statement in a DSSE envelope for RUN and for each of its child runs: the
    files that they claim with their digests, every claim with its newest recorded verdict, the
    checkpoints and the digest that all entries lead to. Every byte of a run is checked first;
    claims are not: call `holdfast verify RUN` before. What looks like a secret is left out.

    --check needs no store: only the file, and with --trusted the public keys of those who may have
    signed it.
    """
    if check is not None:
        if run or out:
            raise click.UsageError("--check takes a file and --trusted, and nothing else")
        if not session.keys.trusted:
            raise click.UsageError("say who may have signed: --trusted FILE")
        _check(session, check)
        return
    key = session.keys.signing_key()
    if run is None or key is None:
        raise click.UsageError("give a run and a key: RUN --sign-key FILE, or --check FILE")
    with session.opened(signing=is_signed(session, run)) as cp:
        info = find_run(cp, run)
        threads.refuse(info)
        names = list(with_children(cp, [info]))
        lines = [_show.to_json(cp.attest(name, sign=key)) for name in names]
    target = out or Path(archive_name(info.run_id)).with_suffix(".intoto.jsonl").name
    with replacing(target) as file:
        file.write_text("".join(f"{line}\n" for line in lines))
    session.show(
        {"file": target, "runs": names, "signed_by": key.key_id},
        lambda: _show.say(
            f"{words.plural(len(names), 'run')} attested by {key.key_id} in {_show.clean(target)}"
        ),
    )


def _check(session: Session, path: str) -> None:
    trusted = session.keys.opened(signing=False)["trusted"]
    if Path(path).stat().st_size > dsse.MAX_BYTES:
        raise KeyFileError(path, f"is larger than {dsse.MAX_BYTES >> 20} MiB")
    lines = [line for line in Path(path).read_bytes().split(b"\n") if line.strip()]
    found: list[Attested] = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(check_attestation(line, trusted))
        except ValueError as error:
            where = f"{path}, line {number}: {error}"
            raise FailedError(where) from None
    if not found:
        raise FailedError(f"{path} holds no attestation")
    session.show([_document(one) for one in found], lambda: _draw(found))


def _document(one: Attested) -> dict[str, object]:
    return {"run_id": one.run_id, "signed_by": one.signed_by, "statement": one.statement}


def _draw(found: list[Attested]) -> None:
    for one in found:
        _show.say(f"{one.run_id}  signed by {', '.join(one.signed_by)}", "bold")
        counts = Counter(claim["verdict"]["status"] for claim in _in_force(one))
        told = ", ".join(f"{count:,} {said(status)}" for status, count in sorted(counts.items()))
        _show.say(f"  claims in force: {told or 'none'}")
        rows = [(digest, name) for name, digest in one.subjects.items()]
        _show.table(("SHA-256", "SUBJECT"), rows)


def _in_force(one: Attested) -> list[dict[str, Any]]:
    return [claim for claim in one.statement["predicate"]["claims"] if claim["inForce"]]
