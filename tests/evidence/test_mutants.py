"""Every mistake of the list is made on purpose; a probe must notice it."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.evidence import Evidence, EvidencePack, parallel, verified
from holdfast.evidence import verifier as verifying
from holdfast.evidence.checks import (
    api_response,
    command_exit,
    db_row,
    file_sha256,
    network_reachable,
    process_exists,
)
from holdfast.evidence.checks.fields import Fields
from holdfast.evidence.world import addresses, hashing
from holdfast.evidence.world.databases import Dialect, run
from holdfast.evidence.world.hashing import HashCache, Identity
from holdfast.evidence.world.paths import Place

from .probes import PROBES, Probe

Mutant = Callable[[pytest.MonkeyPatch], None]


def exit_code_is_only_a_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(command_exit, "check", lambda evidence, context: verified())


def no_pack_is_refused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EvidencePack, "_problem", lambda self: None)


def min_verified_means_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EvidencePack, "required", property(lambda self: len(self.evidence_list)))


def unsatisfiable_packs_are_accepted(patch: pytest.MonkeyPatch) -> None:
    sound = EvidencePack._problem
    patch.setattr(
        EvidencePack,
        "_problem",
        lambda self: None if "never" in (sound(self) or "") else sound(self),
    )


def a_stored_verdict_is_trusted(patch: pytest.MonkeyPatch) -> None:
    sound = Evidence.from_dict

    def from_dict(data: Any) -> Evidence:
        evidence = sound(data)
        if data.get("verified"):
            evidence.judge(verified()._replace(evidence=evidence.digest))
        return evidence

    patch.setattr(Evidence, "from_dict", from_dict)


def the_verdict_is_written_into_the_claim(patch: pytest.MonkeyPatch) -> None:
    sound = Evidence.claim_dict
    patch.setattr(Evidence, "claim_dict", lambda self: sound(self) | self._verdict_dict())


def names_go_into_sql_as_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        db_row, "columns_of", lambda connection, dialect, table, schema: (table, ["id", "v"])
    )
    patch.setattr(Dialect, "quoted", lambda self, name: name)


def columns_are_quoted_but_not_looked_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        db_row,
        "columns_of",
        lambda connection, dialect, table, schema: (table, ["id", "v", "done"]),
    )


def null_is_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        db_row,
        "run",
        lambda connection, sql, values, limit: run(
            connection, sql.replace("IS NULL", "= NULL"), values, limit
        ),
    )


def the_first_of_many_rows_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        db_row, "run", lambda connection, sql, values, limit: run(connection, sql, values, 1)
    )


def evidence_names_the_database(patch: pytest.MonkeyPatch) -> None:
    sound = db_row._source

    def source(fields: Any, evidence: Evidence, policy: Any) -> Any:
        if "db_path" in evidence.metadata:
            return Place(evidence.metadata["db_path"], None, ())
        return sound(fields, evidence, policy)

    patch.setattr(db_row, "_source", source)


def paths_are_joined(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        file_sha256,
        "locate",
        lambda path, policy, base: Place(str((policy.base_path or Path()) / path), None, ()),
    )


def links_are_followed(patch: pytest.MonkeyPatch) -> None:
    def full(place: Place) -> Path:
        return Path(place.path) if place.root is None else Path(place.root, *place.parts)

    patch.setattr(file_sha256, "look", lambda place, policy: full(place).stat())
    patch.setattr(file_sha256, "open_file", lambda place, policy: os.open(full(place), os.O_RDONLY))


def fifos_are_opened(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_sha256, "stat", SimpleNamespace(S_ISREG=lambda mode: True))
    patch.setattr(file_sha256, "open_file", lambda place, policy: os.open(place.path, os.O_RDONLY))


def files_are_not_looked_at_again(patch: pytest.MonkeyPatch) -> None:
    def plain(
        descriptor: int, on_chunk: Callable[[], object], on_size: object
    ) -> tuple[Identity, str]:
        digest = hashlib.sha256()
        before = hashing.identity(os.fstat(descriptor))
        while part := os.read(descriptor, 1 << 16):
            digest.update(part)
            on_chunk()
        return before, digest.hexdigest()

    patch.setattr(file_sha256, "sha256_of", plain)


def digests_are_compared_as_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fields, "sha256", lambda fields, name: fields.required(name, str))


def the_cache_trusts_mtimes(patch: pytest.MonkeyPatch) -> None:
    def weak(status: os.stat_result) -> Identity:
        return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, 0)

    patch.setattr(hashing, "identity", weak)
    patch.setattr(file_sha256, "identity", weak)


def the_cache_remembers_at_once(patch: pytest.MonkeyPatch) -> None:
    sound = HashCache.put
    patch.setattr(
        HashCache, "put", lambda self, key, digest, before: sound(self, key, digest, 1 << 62)
    )


def redirects_are_followed_anywhere(patch: pytest.MonkeyPatch) -> None:
    def connect(host: str, port: int, context: Any) -> socket.socket:
        (address, *_) = context.policy.resolver(host, port)
        return socket.create_connection((address, port), timeout=1)

    patch.setattr(api_response, "connect", connect)


def names_are_resolved_again(patch: pytest.MonkeyPatch) -> None:
    def connect(host: str, port: int, context: Any) -> socket.socket:
        for address in context.policy.resolver(host, port):
            addresses.admit_host(address, port, context.policy)
        again = context.policy.resolver(host, port)[0]
        return socket.create_connection((again, port), timeout=1)

    patch.setattr(network_reachable, "connect", connect)


def private_addresses_are_called(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(addresses, "_refuse_private", lambda host, address, policy: None)


def pids_are_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(process_exists, "check", lambda evidence, context: verified())


def a_timeout_counts_as_verified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parallel, "inconclusive", lambda reason: verified())


def a_crash_counts_as_verified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verifying, "error", lambda reason: verified())


def all_that_did_not_fail_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Evidence, "verified", property(lambda self: self.verification_status.value != "failed")
    )


MUTANTS: list[Mutant] = [
    found
    for found in list(globals().values())
    if getattr(found, "__module__", "") == __name__ and callable(found)
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mistake_is_noticed(
    mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(_fails(probe, tmp_path / probe.__name__) for probe in PROBES)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_what_is_sound_passes(probe: Probe, tmp_path: Path) -> None:
    probe(tmp_path)


def _fails(probe: Probe, directory: Path) -> bool:
    directory.mkdir()
    try:
        probe(directory)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - any failure is a catch
        return True
    return False
