"""Journals on a Redis or Valkey server or cluster.

**Keys.** A run belongs to one of 64 shards, by a hash of its id. All keys of a shard carry its
hash tag, so a cluster keeps them in one slot, and what concerns a run is done by one script:

    PREFIX:{SHARD}:r       sorted set of the ids of the shard's runs
    PREFIX:{SHARD}:e:RUN   sorted set of a run's entries: seq in 19 digits, the digest behind its
                           length in 4 hexadecimal digits, then the other index fields
    PREFIX:{SHARD}:b:RUN   hash from a seq to its body
    PREFIX:{SHARD}:h       hash from a run to its row of the heads index
    PREFIX:{SHARD}:i       sorted set of the places of these rows: a letter for the kind of
                           question, a text, when the run was opened, and its id
    PREFIX:{SHARD}:c       hash from flow and status to the number of runs; and the days
    PREFIX:{SHARD}:t:DAY   hash of a day's statistics
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

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from holdfast.changes import Notifying, Watch
from holdfast.errors import (
    HoldfastError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.extras import missing_extra
from holdfast.logs import logger
from holdfast.model import HIDDEN, Entry, Status, follows
from holdfast.store import (
    ANY_HEAD,
    PAGE,
    Behind,
    RunFilter,
    StoreStats,
    Survives,
    trimmed,
)
from holdfast.stores._shared.journals import append_in_parts, totals
from holdfast.stores._shared.pool import Limits

try:
    from redis.cluster import RedisCluster
except ModuleNotFoundError as error:
    raise missing_extra("redis", error, "this store") from error
from holdfast.stores.redis import index_scripts, scripts
from holdfast.stores.redis.durability import probe
from holdfast.stores.redis.index import TRIES, Found, IndexedStore, packed_change, row_of
from holdfast.stores.redis.keys import (
    SHARDS,
    VERDICTS,
    WIDTH,
    Keys,
    packed,
    seq_text,
    shard_of,
    together,
    unpacked,
)
from holdfast.stores.redis.link import ANSWER_SECONDS, CONNECTIONS, POOL_SECONDS, Link, connect
from holdfast.stores.redis.url import Client, check, shown
from holdfast.stores.redis.watch import RedisWatch

log: Final = logger()

FORMAT: Final = b"2"
_WITHOUT_INDEX: Final = b"1"
_LASTING: Final = (Status.PAUSED.value, Status.RUNNING.value, Status.SUBMITTED.value)


class RedisStore(IndexedStore, Notifying):
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
        self._keys = Keys(prefix.encode())
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
        self.expires = ttl is not None
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
            then=self._complete,
        )

    def append(self, entries: Sequence[Entry], behind: Behind = ANY_HEAD) -> list[bool]:
        self._link.check_open()
        parts = together([entry.run for entry in entries], clustered=self._link.clustered)
        return append_in_parts(entries, behind, parts, self._append)

    def _append(self, entries: Sequence[Entry], behind: Behind) -> list[bool]:
        runs: dict[str, int] = {}  # and the place of its first key
        for entry in entries:
            runs.setdefault(entry.run, len(runs) * scripts.KEYS_OF_A_RUN + 1)
        keys = [key for run in runs for key in self._keys.of_run(run)]
        days: dict[bytes, int] = {}
        arguments: list[object] = [self._keys.channel, self._ttl, len(runs)]
        for run in runs:
            arguments += (run.encode(), b"=" + behind[run] if run in behind else b"*")
        for entry in entries:
            arguments += (runs[entry.run], *packed(entry), self._fate(entry))
            arguments += (seq_text(entry.seq - 1) if entry.seq else b"", int(follows(entry, -1)))
            change, day = packed_change(entry), 0
            if change:
                key = self._keys.of_day(shard_of(entry.run), entry.at)
                day = days.setdefault(key, len(keys) + len(days) + 1)
            arguments += (change, day)
        won = self._link.write(scripts.APPEND, [*keys, *days], arguments, entries[0].run)
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
            bounds = (b"+" if after is None else b"(" + seq_text(after), b"-")
        else:
            bounds = (b"-" if after is None else b"[" + seq_text(after + 1), b"+")
        name = "ZREVRANGEBYLEX" if newest_first else "ZRANGEBYLEX"
        _, entries, its_bodies = self._keys.of_run(run)[:3]
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
            found += [head for head, _ in self._look(names) if where.matches(head)]
            if len(found) >= limit:
                break
        else:
            self._link.check_open()
        return found[:limit]

    def trim(self, marker: Entry, changes: Mapping[int, bytes | None]) -> bool:
        run = marker.run
        for _ in range(TRIES):
            # Every change of a run gives it a new head, so this is valid while the head is the same.
            head = self.read(run, newest_first=True, limit=1, bodies=False)
            if not follows(marker, head[0].seq if head else -1):
                return False
            arguments = [*self._told(marker), seq_text(head[0].seq) if head else b""]
            seqs = sorted(seq for seq in changes if seq < marker.seq)
            for seq, found in zip(seqs, self._at(run, seqs), strict=True):
                for member in found:
                    entry, _ = self._entry(run, member)
                    arguments += packed(trimmed(entry, changes[seq]))
            done = self._link.write(scripts.TRIM, self._keys_of(marker), arguments, run)
            if done >= 0:
                return bool(done)
        raise StoreUnavailableError(f"{self.url}: other writers kept getting ahead on run {run!r}")

    def erase(self, tombstone: Entry) -> bool:
        keys, told = self._keys_of(tombstone), self._told(tombstone)
        return bool(self._link.write(scripts.ERASE, keys, told, tombstone.run))

    def _keys_of(self, marker: Entry) -> list[bytes]:
        day = self._keys.of_day(shard_of(marker.run), marker.at)
        return [*self._keys.of_run(marker.run), day]

    def _told(self, marker: Entry) -> list[object]:
        """What the scripts that append a marker are told of it."""
        change = packed_change(marker)
        known = [self._keys.channel, self._ttl, marker.run.encode(), self._fate(marker), change]
        return [*known, *packed(marker)]

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
        return self._link.glance("GET", self._keys.format) is not None

    def watch(self) -> Watch:
        """Watch all runs. Uses one of the store's connections."""
        return RedisWatch(self._link, self._keys.channel)

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
                    ("ZRANGEBYLEX", self._keys.of_shard(n, b"r"), low, high, "LIMIT", 0, chunk)
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

    def _look(self, names: Sequence[str]) -> list[Found]:
        found: dict[int, Found] = {}
        for places in together(names, clustered=self._link.clustered):
            keys = [key for place in places for key in self._keys.of_run(names[place])]
            reply = self._link.ask(
                index_scripts.HEADS, keys, [names[place].encode() for place in places]
            )
            for place, member, row in zip(places, reply[::2], reply[1::2], strict=True):
                if member is not None:
                    run = names[place]
                    head, _ = self._entry(run, member)
                    found[place] = head, None if row is None else row_of(run, row)
        return [found[place] for place in sorted(found)]

    def _sizes(self, names: Sequence[str]) -> Iterator[Iterator[tuple[Entry, int]]]:
        first = self._link.commands([self._range(name, 0) for name in names])
        return (self._pages(name, page) for name, page in zip(names, first, strict=True))

    def _at(self, run: str, seqs: Sequence[int]) -> list[list[bytes]]:
        """The entries at these seqs, in one round trip."""
        key = self._keys.of_run(run)[1]
        bounds = [(b"[" + seq_text(seq), b"(" + seq_text(seq) + b"\xff") for seq in seqs]
        return self._link.commands([("ZRANGEBYLEX", key, *both) for both in bounds])

    def _pages(self, run: str, page: list[bytes]) -> Iterator[tuple[Entry, int]]:
        while page:
            yield from (self._entry(run, member) for member in page)
            after = int(page[-1][:WIDTH])
            page = self._link.command(*self._range(run, after + 1)) if len(page) == PAGE else []

    def _range(self, run: str, seq: int) -> tuple[object, ...]:
        return (
            "ZRANGEBYLEX",
            self._keys.of_run(run)[1],
            b"[" + seq_text(seq),
            b"+",
            "LIMIT",
            0,
            PAGE,
        )

    def _fate(self, entry: Entry) -> bytes:
        """How long the run stays, and its status for those who watch."""
        lasting = not self._ttl or entry.run.startswith(HIDDEN) or entry.status in _LASTING
        fate = scripts.STAYS if lasting else scripts.EXPIRES
        if entry.run.startswith(VERDICTS):
            fate = scripts.FOLLOWS
        return fate + entry.status.encode()

    def _entry(self, run: str, member: bytes, body: bytes = b"") -> tuple[Entry, int]:
        return unpacked(self.url, run, member, body)

    def _check_format(self, client: Any) -> None:
        key = self._keys.format
        found = client.execute_command("GET", key, NEVER_DECODE=True)
        if found is None:
            client.execute_command("SET", key, FORMAT, "NX")
            found = client.execute_command("GET", key, NEVER_DECODE=True)
        self._complete_index = found == _WITHOUT_INDEX
        if found not in (_WITHOUT_INDEX, FORMAT):
            raise SchemaError(
                self.url, f"its keys have the unknown format {found!r}; upgrade holdfast"
            )

    def _complete(self) -> None:
        """Make the index of a store that has none. Several may do so at once."""
        if self._complete_index:
            self.rebuild()
            self._link.command("SET", self._keys.format, FORMAT)
