"""Where a Redis store keeps what, and how an entry is written there. See `store` for the keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

from holdfast.errors import CheckpointCorruptedError
from holdfast.heads import HOUR
from holdfast.model import HIDDEN, Entry, verdict_journal
from holdfast.stores._shared.fields import digits, pack, unpack

SHARDS: Final = 64
VERDICTS: Final = verdict_journal("")
WIDTH: Final = 19  # digits of a seq
_DAY: Final = 24 * HOUR
_INDEX: Final = (b"h", b"i", b"c")  # rows, places and counts


class Keys:
    """The keys of the store with a prefix."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.channel = prefix + b":new"
        self.format = prefix + b":format"

    def of_shard(self, shard: int, kind: bytes) -> bytes:
        """A key that all runs of a shard share."""
        return b"%s:{%02d}:%s" % (self.prefix, shard, kind)

    def of_run(self, run: str) -> list[bytes]:
        """In the order that scripts expect. Only runs and their verdicts have a companion."""
        companion = run
        if run.startswith(VERDICTS):
            companion = run.removeprefix(VERDICTS)
        elif not run.startswith(HIDDEN):
            companion = verdict_journal(run)
        base = self.of_shard(shard_of(run), b"")
        return [
            base + b"r",
            *(base + kind + name.encode() for name in (run, companion) for kind in (b"e:", b"b:")),
            *(base + kind for kind in _INDEX),
        ]

    def of_shard_alone(self, shard: int) -> list[bytes]:
        """As those of a run, for scripts that concern none."""
        runs = self.of_shard(shard, b"r")
        return [runs] * 5 + [self.of_shard(shard, kind) for kind in _INDEX]

    def of_day(self, shard: int, at: int) -> bytes:
        """The key of a shard's statistics of the day that holds a time."""
        return self.of_shard(shard, b"t:%d" % day_of(at))


def day_of(at: int) -> int:
    """The days since the epoch."""
    return max(0, at // _DAY)


def shard_of(run: str) -> int:
    """A run's shard, which is that of its verdicts."""
    return crc32(run.removeprefix(VERDICTS).encode()) % SHARDS


def together(runs: Sequence[str], *, clustered: bool) -> Iterable[list[int]]:
    """Places in `runs` that one script can handle: on a cluster, those of one shard."""
    shards: dict[int, list[int]] = {}
    for place, run in enumerate(runs):
        shards.setdefault(shard_of(run) if clustered else 0, []).append(place)
    return shards.values()


def seq_text(seq: int) -> bytes:
    """A seq as text that sorts as it does."""
    return digits(seq).encode()


def packed(entry: Entry) -> tuple[bytes, bytes, bytes]:
    """The entry's seq, member and body."""
    seq, digest = seq_text(entry.seq), entry.digest
    fields = pack(entry._replace(digest=b""), len(entry.body))
    return seq, b"%s%04x%s%s" % (seq, len(digest), digest, fields), entry.body


def unpacked(url: str, run: str, member: bytes, body: bytes = b"") -> tuple[Entry, int]:
    """The entry and the length of its body."""
    if not member[:WIDTH].isdigit():
        raise CheckpointCorruptedError(run, None, f"{url}: an entry has no number")
    begin = WIDTH + 4
    try:
        end = begin + int(member[WIDTH:begin], 16)
    except ValueError:
        raise CheckpointCorruptedError(
            run, int(member[:WIDTH]), f"{url}: it has no digest"
        ) from None
    entry, length = unpack(run, int(member[:WIDTH]), member[end:], body)
    return entry._replace(digest=member[begin:end]), length
