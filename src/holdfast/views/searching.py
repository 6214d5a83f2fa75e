"""Which runs somebody wants to see: filters, a text to search for, and pages that stay in place."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Self

from holdfast.checkpoint import RunInfo, to_micros
from holdfast.checkpointer import SyncCheckpointer
from holdfast.engine.holding.lease import Holder
from holdfast.engine.holding.observing import is_here, standing_of
from holdfast.errors import InvalidIdError
from holdfast.heads import Position, RunHead, label_text
from holdfast.model import Entry, Status, check_id
from holdfast.operations.listing import infos, proved
from holdfast.operations.reading import outages_named
from holdfast.retention import parse_age
from holdfast.store import PAGE, RunFilter
from holdfast.views.commands import Commands
from holdfast.views.runs import ANSWERED, ORPHANED, doing, recorded

STATUSES: Final = tuple(each.value for each in Status if each != Status.DELETED)

SEARCHED: Final = 2000
"""How many of the newest runs are looked through for a text that is no name."""

LOOKED_AT: Final = 1000
"""How many of the newest runs under way are looked at for those that nobody executes. Older ones
are listed and counted as running."""


Listed = tuple[RunHead, Entry]


def age(text: str) -> timedelta | None:
    """A length of time such as 90s, 12h, 30d or 8w; None for any other text."""
    try:
        return parse_age(text)
    except ValueError:
        return None


class Query(NamedTuple):
    """Which runs are wanted: what the URL of a list says. Empty texts want any."""

    status: str = ""  # one of `STATUSES`, `ORPHANED` or `ANSWERED`
    flow: str = ""
    thread: str = ""
    owner: str = ""
    since: str = ""  # an age, or a time in UTC
    label: str = ""  # NAME=VALUE
    q: str = ""
    children: bool = False  # list child runs, too
    asking: bool = False  # only runs that wait for an answer

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """What these parameters of a URL say. What is no filter is passed by."""
        texts = {name: given.get(name, "").strip() for name in cls._fields}
        status = texts["status"] if texts["status"] in (*STATUSES, ORPHANED, ANSWERED) else ""
        name, _, value = texts["label"].partition("=")
        return cls(
            status=status,
            flow=_name(texts["flow"]),
            thread=_name(texts["thread"]),
            owner=_name(texts["owner"]),
            since=texts["since"] if _begin(texts["since"]) else "",
            label=texts["label"] if label_text(name, value) else "",
            q=_name(texts["q"][:_LONGEST]),
            children=texts["children"] not in ("", "0"),
            asking=texts["asking"] not in ("", "0"),
        )

    def parameters(self, **changed: Any) -> dict[str, str]:
        """The parameters of its URL, or of one that differs in this."""
        found = self._asdict() | changed
        return {
            name: "1" if value is True else str(value)
            for name, value in found.items()
            if value not in ("", False, None)
        }

    @property
    def narrows(self) -> dict[str, str]:
        """The filters that can be dropped to see more, by name, but for the status."""
        return {k: v for k, v in self.parameters().items() if k not in ("status", "children")}

    @property
    def begin(self) -> datetime | None:
        """When what is wanted begins, by the clock of this process; None if nothing says it."""
        return _begin(self.since)

    def filter(self, *, any_status: bool = False) -> RunFilter:
        """As the store takes it, without the text to search for."""
        begin = self.begin
        return RunFilter(
            status=None if any_status or not self.status else recorded([self.status])[0],
            flow=self.flow or None,
            thread=self.thread or None,
            owner=self.owner or None,
            labels=(self.label,) if self.label else (),
            since=None if begin is None else to_micros(begin),
            asking=self.asking,
            roots=not self.children,
        )

    def command(self, on: Commands) -> str:
        """The command that lists the same runs of a store."""
        options = [f"--status={self.status}"] if self.status else []
        for name in ("flow", "thread", "owner", "label"):
            value = getattr(self, name)
            options += [f"--{name}={value}"] if value else []
        begin = self.begin
        if age(self.since):
            options.append(f"--since={self.since.strip()}")
        elif begin is not None:
            seconds = max(1, round((datetime.now(UTC) - begin).total_seconds()))
            options.append(f"--since={min(seconds, 999_999)}s")
        options += ["--asking"] if self.asking else []
        options += ["--children"] if self.children else []
        name, _, value = self.q.partition("=")
        if value and label_text(name, value):
            return on.line("runs", None, *options, f"--label={self.q}")
        return on.line("runs", self.q or None, *options)


_LONGEST: Final = 200  # characters that are searched for


def _name(text: str) -> str:
    """The text, if it can be a name in a store; no run has any other."""
    try:
        return check_id("filter", text)
    except InvalidIdError:
        return ""


def _begin(since: str) -> datetime | None:
    length = age(since)
    try:
        if length is not None:
            return datetime.now(UTC) - length
        found = datetime.fromisoformat(since)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # it is no time, or there is none so early
        return None


class Found(NamedTuple):
    """A page of runs, the last started first, and how many there are."""

    runs: list[RunInfo]
    positions: list[Position]  # of these runs
    counts: dict[str, int]  # of all that match but for the status, by what they are shown as
    first: int  # the number of the first run of the page, among all that match; 1 is the newest
    total: int  # that match
    more: bool  # whether there are older ones
    limited: int | None  # only so many of the newest runs were searched; None: all


def find(
    cp: SyncCheckpointer,
    query: Query,
    limit: int,
    *,
    before: Position | None = None,
    after: Position | None = None,
) -> Found:
    """The runs that match: the newest, those before a position, or the nearest after one."""
    with outages_named():
        return _Search(cp, query).find(limit, before, after)


def count(cp: SyncCheckpointer, query: Query) -> dict[str, int]:
    """How many runs match but for the status and the text, by what they are shown as."""
    with outages_named():
        return _Search(cp, query).counts()


class _Search:
    def __init__(self, cp: SyncCheckpointer, query: Query) -> None:
        self._cp = cp
        self._store = cp.store
        self._query = query
        self._limited: int | None = None
        self._left = self._nobodys()

    def find(self, limit: int, before: Position | None, after: Position | None) -> Found:
        query = self._query
        if query.q:
            matching = self._searched()
            counts = dict(Counter(self._word(row) for row, _ in matching))
            if query.status:
                matching = [each for each in matching if self._word(each[0]) == query.status]
        elif query.status in (ORPHANED, ANSWERED):
            matching = [each for word, each in self._left.values() if word == query.status]
            counts = self.counts()
        else:
            counts = self.counts()
            total = sum(n for status, n in counts.items() if query.status in ("", status))
            page, first = self._page(total, limit, before, after)
            return self._found(page[:limit], counts, first, total, len(page) > limit)
        start = _place(matching, limit, before, after)
        page = matching[start : start + limit]
        more = len(matching) > start + limit
        return self._found(page, counts, start + 1, len(matching), more)

    def counts(self) -> dict[str, int]:
        """How many match but for the status, by what they are shown as."""
        counts = self._store.counts(self._query.filter(any_status=True))
        left = Counter(word for word, _ in self._left.values())
        running = counts.pop(Status.RUNNING.value, 0) - left.total()
        return counts | dict(left) | ({Status.RUNNING.value: running} if running > 0 else {})

    def _word(self, row: RunHead) -> str:
        return self._left[row.run][0] if row.run in self._left else row.status

    def _found(
        self, page: Sequence[Listed], counts: dict[str, int], first: int, total: int, more: bool
    ) -> Found:
        return Found(
            proved(self._cp.core, infos(self._cp.core, page)),
            [row.position for row, _ in page],
            counts,
            first if page else 0,
            total,
            more,
            self._limited,
        )

    def _page(
        self, total: int, limit: int, before: Position | None, after: Position | None
    ) -> tuple[list[Listed], int]:
        """A page, with more runs if there are older ones, and the number of its first run."""
        where = self._query.filter()
        hidden = self._left if self._query.status == Status.RUNNING else {}

        def shown(found: list[Listed]) -> list[Listed]:
            return [each for each in found if each[0].run not in hidden]

        most = limit + len(hidden)
        if after is not None:
            newer = shown(_newer(self._store.listed, self._store.counts, where, after, most))
            if len(newer) < limit:
                return shown(self._store.listed(where, limit=most + 1)), 1
            page = newer[-limit:]
            before = (page[0][0].opened, page[0][0].run + "\0")
        if before is None:
            return shown(self._store.listed(where, limit=most + 1)), 1
        page = shown(self._store.listed(where, before=before, limit=most + 1))
        older = sum(self._store.counts(where._replace(until=before[0])).values())
        same = where._replace(since=max(before[0], where.since or 0), until=before[0] + 1)
        older += len(self._store.listed(same, before=before))
        older -= sum(row.position < before for _, (row, _) in hidden.values())
        return page, max(1, total - older + 1)

    def _nobodys(self) -> dict[str, tuple[str, Listed]]:
        """The runs under way that nobody executes, among the newest, and what they are shown as."""
        core = self._cp.core
        where = self._query.filter()._replace(status=Status.RUNNING.value)
        dead: dict[Holder, bool] = {}  # processes elsewhere, each of which is looked up once
        found: dict[str, tuple[str, Listed]] = {}
        for each in self._store.listed(where, limit=LOOKED_AT):
            row, holder = each[0], Holder.parse(each[0].holder)
            if holder is None:  # it was left, or answered: only its journal says it
                word, _ = doing(self._cp, infos(core, [each])[0])
            else:
                if holder not in dead or is_here(core, holder):
                    dead[holder] = standing_of(core, holder, row.run, bury=False).why is not None
                word = ORPHANED if dead[holder] else row.status
            if word in (ORPHANED, ANSWERED):
                found[row.run] = word, each
        return found

    def _searched(self) -> list[Listed]:
        """The runs with the text as a name or the beginning of their id, or anywhere in the newest."""
        text = self._query.q
        where = self._query.filter(any_status=True)
        name, _, value = text.partition("=")
        named: list[dict[str, Any]] = [{"prefix": text}]
        named += [{each: text} for each in ("flow", "thread", "owner") if not getattr(where, each)]
        if value and label_text(name, value) and not where.labels:
            named.append({"labels": (f"{name}={value}",)})
        found: dict[str, Listed] = {}
        for each in named:
            listed = self._store.listed(where._replace(**each), limit=PAGE)
            found.update((row.run, (row, head)) for row, head in listed)
            if len(listed) == PAGE:
                self._limited = SEARCHED
        looked_at = 0
        wanted = text.casefold()
        for page in _pages(self._store.listed, where, SEARCHED):
            looked_at += len(page)
            found.update((row.run, (row, head)) for row, head in page if _has(wanted, row, head))
        if looked_at == SEARCHED:
            self._limited = SEARCHED
        return sorted(found.values(), key=lambda each: each[0].position, reverse=True)


def _has(text: str, row: RunHead, head: Entry) -> bool:
    named = (row.run, row.flow, row.thread, row.owner, head.step, *row.labels)
    return any(text in name.casefold() for name in named if name)


def _pages(
    listed: Callable[..., list[Listed]], where: RunFilter, most: int
) -> Iterator[list[Listed]]:
    before: Position | None = None
    while most > 0:
        page = listed(where, before=before, limit=min(PAGE, most))
        yield page
        if len(page) < PAGE:
            return
        most -= len(page)
        before = page[-1][0].position


def _place(
    found: Sequence[Listed], limit: int, before: Position | None, after: Position | None
) -> int:
    """Where a page begins in a list that is known as a whole."""
    if before is not None:
        return sum(row.position >= before for row, _ in found)
    if after is not None:
        return max(0, sum(row.position > after for row, _ in found) - limit)
    return 0


def _newer(
    listed: Callable[..., list[Listed]],
    counts: Callable[..., dict[str, int]],
    where: RunFilter,
    after: Position,
    limit: int,
) -> list[Listed]:
    """The runs nearest to a position that were started after it, the last first.

    Stores list from the newest run on, so this looks for a time before which there are enough.
    """
    since, span = after[0], 1_000_000
    most = max(PAGE, 2 * limit)
    last = 1 << 62
    near = where._replace(since=max(since, where.since or since))
    low, high = since, last
    while high == last or low < high - 1:
        until = min(since + span, last) if high == last else (low + high) // 2
        number = sum(counts(near._replace(until=until)).values())
        if number > most:
            high = until
        elif number > limit or until == last:
            high = until
            break
        else:
            low, span = until, span * 8
    page = listed(near._replace(until=high), limit=most)
    return [each for each in page if each[0].position > after]


def to_text(position: Position) -> str:
    """A position in a URL."""
    return f"{position[0]}~{position[1]}"


def to_position(text: str | None) -> Position | None:
    """What `to_text` made; None for any other text."""
    opened, mark, run = (text or "").partition("~")
    if not mark or not re.fullmatch(r"-?\d{1,18}", opened):
        return None
    return int(opened), run
