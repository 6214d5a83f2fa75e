"""Journals on a Redis or Valkey server or cluster.

**Keys.** A run belongs to one of 64 shards, by a hash of its id. All keys of a shard carry its
hash tag, so a cluster keeps them in one slot, and what concerns a run is done by one script:

    PREFIX:{SHARD}:r       sorted set of the ids of the shard's runs
    PREFIX:{SHARD}:e:RUN   sorted set of a run's entries: seq in 19 digits, the digest behind its
                           length in 4 hexadecimal digits, then the other index fields
    PREFIX:{SHARD}:b:RUN   hash from a seq to its body
    PREFIX:format          the version of all this

The list of runs is spread over the shards so that it always agrees with the data: a script can't
write to two slots. Listing merges 64 short ranges. All scores are 0, so members sort by their bytes:
entries by seq, ids by code point. A run's verdicts are in its shard and expire with it.

A later format will change the type of PREFIX:{SHARD}:r. Every script that writes looks there first, so
programs with an older holdfast fail before they write, and then see the version.

**One save** is one script on a server, whatever runs it writes to; on a cluster it is one script
for each shard, so runs of different shards are not saved atomically. A lost reply, or an error at the
second of two shards, is an `OutcomeUnknownError`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from zlib import crc32

from holdfast.changes import Notifying, Watch
from holdfast.errors import (
    CheckpointCorruptedError,
    HoldfastError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.model import HIDDEN, Entry, Status, follows, verdict_journal
from holdfast.store import (
    ANY_HEAD,
    PAGE,
    Behind,
    RunFilter,
    Store,
    StoreStats,
    Survives,
    trimmed,
)
from holdfast.stores._shared.address import missing_extra
from holdfast.stores._shared.fields import digits, pack, unpack
from holdfast.stores._shared.journals import append_in_parts, totals
from holdfast.stores._shared.pool import Limits

try:
    from redis.cluster import RedisCluster
except ModuleNotFoundError as error:
    raise missing_extra("redis", error) from error
from holdfast.stores.redis import scripts
from holdfast.stores.redis.durability import probe
from holdfast.stores.redis.link import ANSWER_SECONDS, CONNECTIONS, POOL_SECONDS, Link, connect
from holdfast.stores.redis.url import Client, check, shown
from holdfast.stores.redis.watch import RedisWatch

log: Final = logging.getLogger("holdfast")

FORMAT: Final = b"1"
SHARDS: Final = 64
_WIDTH: Final = 19  # digits of a seq
_LASTING: Final = (Status.PAUSED.value, Status.RUNNING.value, Status.SUBMITTED.value)
_TRIES: Final = 100
_VERDICTS: Final = verdict_journal("")


class RedisStore(Store, Notifying):
    """Journals on a Redis or Valkey server, for any number of threads, processes and machines.

    Give it a URL (`redis://`, `rediss://`, `valkey://`, `valkeys://`, `redis+unix:///path`), or a
    client of your own, which stays yours to close. Nothing is connected before the first call.

    With `ttl`, a run expires when nothing was saved to it for that many seconds, unless it is running
    or paused. `replicas` is the number of replicas that must have a save before it is acknowledged.
    Stores with different prefixes share a server without seeing each other. Further options, such as
    `ssl_ca_certs`, are passed to redis-py.
    """

    lasting = (
        "set `appendonly yes` and `appendfsync always` (and, if they are set otherwise, "
        "`no-appendfsync-on-rewrite no` and `maxmemory-policy noeviction`) in redis.conf or by "
        "CONFIG SET, and allow CONFIG GET"
    )

    def __init__(
        self,
        where: str | Client,
        *,
        prefix: str = "holdfast",
        ttl: float | None = None,
        replicas: int = 0,
        cluster: bool = False,
        connections: int = CONNECTIONS,
        pool_seconds: float = POOL_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        **driver: Any,
    ) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            raise ValueError(
                "prefix must not be empty or contain braces, which choose cluster slots"
            )
        self._prefix = prefix.encode()
        self._channel = self._prefix + b":new"
        self._ttl = 0 if ttl is None else int(float(ttl) * 1000)
        if ttl is not None and self._ttl <= 0:
            raise ValueError(
                "ttl must be a positive number of seconds, or None to keep runs forever"
            )
        self._probed = False  # whether we looked what the server survives
        self._owned = isinstance(where, str)
        clustered = cluster if isinstance(where, str) else isinstance(where, RedisCluster)
        if clustered and replicas:
            raise ValueError("replicas= is for one server; on a cluster use min-replicas-to-write")
        if isinstance(where, str):
            check(where, driver, clustered=clustered)
        self.url = shown(where, prefix, ttl)
        limits = Limits(connections, pool_seconds, answer_seconds)

        def client() -> Client:
            if isinstance(where, str):
                return connect(where, limits, driver, cluster=clustered)
            return where

        self._link = Link(
            self.url,
            client,
            clustered=clustered,
            replicas=replicas,
            first_use=self._check_format,
        )

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self._link.check_open()
        parts = self._together([entry.run for entry in entries])
        return append_in_parts(entries, behind, parts, self._append)

    def _append(self, entries: Sequence[Entry], behind: Behind) -> list[bool]:
        runs: dict[str, int] = {}  # and the place of its first key
        for entry in entries:
            runs.setdefault(entry.run, len(runs) * scripts.KEYS_OF_A_RUN + 1)
        arguments: list[object] = [self._channel, self._ttl]
        for run in runs:
            arguments += (run.encode(), b"=" + behind[run] if run in behind else b"*")
        for entry in entries:
            arguments += (runs[entry.run], *self._packed(entry), self._fate(entry))
            arguments += (_digits(entry.seq - 1) if entry.seq else b"", int(follows(entry, -1)))
        keys = [key for run in runs for key in self._keys(run)]
        won = self._link.write(scripts.APPEND, keys, arguments, entries[0].run)
        if isinstance(won, bytes):
            raise StoreError(
                f"{self.url}: run {won.decode()!r} has expired; start a new run under another id"
            )
        if not self._probed:
            self._probed = True
            self._warn_of_loss()
        return [outcome == 1 for outcome in won]

    def read(
        self,
        run: str,
        *,
        after: int | None = None,
        limit: int = PAGE,
        newest_first: bool = False,
        bodies: bool = True,
    ) -> list[Entry]:
        if newest_first:
            bounds = (b"+" if after is None else b"(" + _digits(after), b"-")
        else:
            bounds = (b"-" if after is None else b"[" + _digits(after + 1), b"+")
        name = "ZREVRANGEBYLEX" if newest_first else "ZRANGEBYLEX"
        _, entries, its_bodies = self._keys(run)[:3]
        if not bodies:
            found = self._link.command(name, entries, *bounds, "LIMIT", 0, limit)
            return [self._entry(run, member)[0] for member in found]
        found = self._link.ask(scripts.READ, [entries, its_bodies], [name, *bounds, limit])
        return [
            self._entry(run, member, body or b"")[0]
            for member, body in zip(found[::2], found[1::2], strict=True)
        ]

    def runs(
        self, where: RunFilter = RunFilter(), *, after: str = "", limit: int = PAGE
    ) -> list[Entry]:
        found: list[Entry] = []
        for names in self._names(where.prefix, after, limit) if limit > 0 else ():
            found += [head for head in self._heads(names) if where.matches(head)]
            if len(found) >= limit:
                break
        else:
            self._link.check_open()
        return found[:limit]

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        run = marker.run
        for _ in range(_TRIES):
            # Every change of a run gives it a new head, so this is valid while the head is the same.
            head = self.read(run, newest_first=True, limit=1, bodies=False)
            if not follows(marker, head[0].seq if head else -1):
                return False
            arguments = [self._channel, self._ttl, run.encode(), self._fate(marker)]
            arguments += [_digits(head[0].seq) if head else b"", *self._packed(marker)]
            seqs = sorted(seq for seq in changes if seq < marker.seq)
            for seq, found in zip(seqs, self._at(run, seqs), strict=True):
                for member in found:
                    entry, _ = self._entry(run, member)
                    arguments += self._packed(trimmed(entry, changes[seq]))
            done = self._link.write(scripts.TRIM, self._keys(run), arguments, run)
            if done >= 0:
                return bool(done)
        raise StoreUnavailableError(f"{self.url}: other writers kept getting ahead on run {run!r}")

    def erase(self, tombstone: Entry) -> bool:
        run = tombstone.run
        arguments = [self._channel, self._ttl, run.encode(), self._fate(tombstone)]
        arguments += self._packed(tombstone)
        return bool(self._link.write(scripts.ERASE, self._keys(run), arguments, run))

    def stats(self, run: str | None = None) -> StoreStats:
        if run is not None:
            return totals(self._sizes([run]))
        return totals(sizes for names in self._names("", "", PAGE) for sizes in self._sizes(names))

    def survives(self) -> Survives:
        return probe(self._link, expiring=bool(self._ttl))

    def _warn_of_loss(self) -> None:
        """Warn once if the server loses everything; this must not fail a save."""
        with suppress(HoldfastError):
            if self.survives() == "nothing":
                log.warning(
                    "%s: what is saved here is lost when the server restarts; %s",
                    self.url, self.lasting,
                )  # fmt: skip

    def exists(self) -> bool:
        return self._link.glance("GET", self._prefix + b":format") is not None

    def watch(self) -> Watch:
        """Watch all runs. Uses one of the store's connections."""
        return RedisWatch(self._link, self._channel)

    def close(self) -> None:
        self._link.close(owned=self._owned)

    # the list of runs

    def _names(self, prefix: str, after: str, limit: int) -> Iterator[list[str]]:
        """The ids of all shards in order, in pages.

        A page ends where the first of the shards that have more ends.
        """
        chunk = 2 * limit // SHARDS + 8
        hidden = prefix.startswith(HIDDEN)
        low = b"[" + (prefix if hidden else max(prefix, " ")).encode()
        high = b"(" + prefix.encode() + b"\xff"  # no UTF-8 holds this byte
        if after and after.encode() >= low[1:]:
            low = b"(" + after.encode()
        while True:
            ranges = self._link.commands(
                [
                    ("ZRANGEBYLEX", self._index(n), low, high, "LIMIT", 0, chunk)
                    for n in range(SHARDS)
                ]
            )
            reached = min((found[-1] for found in ranges if len(found) == chunk), default=None)
            names = sorted(
                name for found in ranges for name in found if reached is None or name <= reached
            )
            yield [name.decode() for name in names]
            if reached is None:
                return
            low = b"(" + reached

    def _heads(self, names: Sequence[str]) -> list[Entry]:
        """The heads of the runs that have not expired, in the order of their names."""
        heads: dict[int, Entry] = {}
        for places in self._together(names):
            keys = [key for place in places for key in self._keys(names[place])[:2]]
            members = self._link.ask(
                scripts.HEADS, keys, [names[place].encode() for place in places]
            )
            for place, member in zip(places, members, strict=True):
                if member is not None:
                    heads[place] = self._entry(names[place], member)[0]
        return [heads[place] for place in sorted(heads)]

    def _sizes(self, names: Sequence[str]) -> Iterator[Iterator[tuple[Entry, int]]]:
        """For each run, its entries and the lengths of their bodies."""
        first = self._link.commands([self._range(name, 0) for name in names])
        return (self._pages(name, page) for name, page in zip(names, first, strict=True))

    def _at(self, run: str, seqs: Sequence[int]) -> list[list[bytes]]:
        """The entries at these seqs, in one round trip."""
        key = self._keys(run)[1]
        bounds = [(b"[" + _digits(seq), b"(" + _digits(seq) + b"\xff") for seq in seqs]
        return self._link.commands([("ZRANGEBYLEX", key, *both) for both in bounds])

    def _pages(self, run: str, page: list[bytes]) -> Iterator[tuple[Entry, int]]:
        while page:
            yield from (self._entry(run, member) for member in page)
            after = int(page[-1][:_WIDTH])
            page = self._link.command(*self._range(run, after + 1)) if len(page) == PAGE else []

    def _range(self, run: str, seq: int) -> tuple[object, ...]:
        return ("ZRANGEBYLEX", self._keys(run)[1], b"[" + _digits(seq), b"+", "LIMIT", 0, PAGE)

    # keys and values

    def _together(self, runs: Sequence[str]) -> Iterable[list[int]]:
        """Places in `runs` that one script can handle: on a cluster, those of one shard."""
        shards: dict[int, list[int]] = {}
        for place, run in enumerate(runs):
            shard = _shard(run) if self._link.clustered else 0
            shards.setdefault(shard, []).append(place)
        return shards.values()

    def _index(self, shard: int) -> bytes:
        return b"%s:{%02d}:r" % (self._prefix, shard)

    def _keys(self, run: str) -> list[bytes]:
        """In the order that scripts expect. Only runs and their verdicts have a companion."""
        companion = run
        if run.startswith(_VERDICTS):
            companion = run.removeprefix(_VERDICTS)
        elif not run.startswith(HIDDEN):
            companion = verdict_journal(run)
        shard = _shard(run)
        base = b"%s:{%02d}:" % (self._prefix, shard)
        return [
            self._index(shard),
            *(base + kind + name.encode() for name in (run, companion) for kind in (b"e:", b"b:")),
        ]

    def _fate(self, entry: Entry) -> bytes:
        if entry.run.startswith(_VERDICTS):
            return scripts.FOLLOWS
        lasting = not self._ttl or entry.run.startswith(HIDDEN) or entry.status in _LASTING
        return scripts.STAYS if lasting else scripts.EXPIRES

    def _packed(self, entry: Entry) -> tuple[bytes, bytes, bytes]:
        """The entry's seq, member and body."""
        seq, digest = _digits(entry.seq), entry.digest
        fields = pack(entry._replace(digest=b""), len(entry.body))
        return seq, b"%s%04x%s%s" % (seq, len(digest), digest, fields), entry.body

    def _entry(self, run: str, member: bytes, body: bytes = b"") -> tuple[Entry, int]:
        """The entry and the length of its body."""
        if not member[:_WIDTH].isdigit():
            raise CheckpointCorruptedError(run, None, f"{self.url}: an entry has no number")
        begin = _WIDTH + 4
        try:
            end = begin + int(member[_WIDTH:begin], 16)
        except ValueError:
            raise CheckpointCorruptedError(
                run, int(member[:_WIDTH]), f"{self.url}: it has no digest"
            ) from None
        entry, length = unpack(run, int(member[:_WIDTH]), member[end:], body)
        return entry._replace(digest=member[begin:end]), length

    def _check_format(self, client: Any) -> None:
        key = self._prefix + b":format"
        found = client.execute_command("GET", key, NEVER_DECODE=True)
        if found is None:
            client.execute_command("SET", key, FORMAT, "NX")
            found = client.execute_command("GET", key, NEVER_DECODE=True)
        if found != FORMAT:
            raise SchemaError(
                self.url, f"its keys have the unknown format {found!r}; upgrade holdfast"
            )


def _shard(run: str) -> int:
    return crc32(run.removeprefix(_VERDICTS).encode()) % SHARDS


def _digits(seq: int) -> bytes:
    return digits(seq).encode()
