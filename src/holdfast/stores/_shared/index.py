"""The heads index in any SQL database: its columns, and the questions that it answers.

The tables are `run_heads`, a row a run; `run_labels`, a row a label of a run; and `run_tally`, the
statistics. Where writers must not wait for each other, `run_tally` is a view of sums.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar, Final, NamedTuple

from holdfast.heads import NOW, Position, RunHead, Tally, hours
from holdfast.model import MAX_ID_BYTES, Entry
from holdfast.store import PAGE, RunFilter
from holdfast.stores._shared.table import NO_BODY, Row, TableStore

HEAD_COLUMNS: Final = ", ".join(RunHead._fields)
_ROW: Final = ", ".join(f"h.{name}" for name in RunHead._fields)
_FIELDS: Final = ("holder", "thread", "owner", "flow")  # the most selective one first
_NEWEST: Final = "ORDER BY h.opened DESC, h.run DESC"
FEW: Final = 5000
"""So many rows can be looked through at once."""

_AT_ONCE: Final = 100
_NO_LABELS: Final = "[]"
_NO_LABEL: Final = ("=",)  # without a name
_NO_TIME: Final = (1 << 63) - 1  # later than any: a page after it begins with the latest

_PLAIN: Final = frozenset({"status", "flow", "statuses"})


class Query(NamedTuple):
    """SQL and its parameters."""

    text: str
    parameters: list[object]


class IndexedTableStore(TableStore):
    """A store with the tables of the index. Subclasses keep them and answer `rebuild`."""

    _index: str = ""
    """What stands before the tables' names: a schema and a dot, if they are in one."""

    _find: ClassVar[str] = "instr"
    """The function that finds a text in another."""

    _hints: ClassVar[bool] = False
    """Whether the planner has no statistics of its own: `+column` keeps it from an index."""

    @abstractmethod
    def rebuild(self, *, write: bool = True) -> int: ...

    def listed(
        self,
        where: RunFilter = RunFilter(),
        *,
        before: Position | None = None,
        limit: int = PAGE,
    ) -> list[tuple[RunHead, Entry]]:
        page = self._page(where, before, limit)
        query = (
            f"SELECT {_ROW}, {NO_BODY}, {self._empty} FROM ({page.text}) AS h "  # noqa: S608
            f"JOIN {self._entries} AS e ON e.run = h.run AND e.seq = "
            f"(SELECT max(own.seq) FROM {self._entries} AS own WHERE own.run = h.run) {_NEWEST}"
        )
        width = len(RunHead._fields)
        return [
            (as_head(row[:width]), Entry._make(row[width:]))
            for row in self._rows(query, page.parameters)
        ]

    def row(self, run: str) -> RunHead | None:
        query = f"SELECT {_ROW} FROM {self._index}run_heads AS h WHERE h.run = {self._mark}"  # noqa: S608
        found = self._rows(query, (run,))
        return as_head(found[0]) if found else None

    def entries_at(self, places: Sequence[tuple[str, int]], *, bodies: bool = False) -> list[Entry]:
        found: list[Entry] = []
        body, mark = "e.body" if bodies else self._empty, self._mark
        for at in range(0, len(places), _AT_ONCE):
            runs: dict[str, list[int]] = {}
            for run, seq in places[at : at + _AT_ONCE]:
                runs.setdefault(run, []).append(seq)
            each = " OR ".join(
                f"(e.run = {mark} AND e.seq IN ({', '.join([mark] * len(seqs))}))"
                for seqs in runs.values()
            )
            query = f"SELECT {NO_BODY}, {body} FROM {self._entries} AS e WHERE {each}"  # noqa: S608
            found += self._found(query, [v for run, seqs in runs.items() for v in (run, *seqs)])
        return found

    def due(
        self, now: int, *, flows: Collection[str] | None = None, limit: int = PAGE
    ) -> list[RunHead]:
        mark = self._mark
        chosen = [Query("", [])]
        if flows is not None:  # child runs are due for workers of every flow
            of_flow = f"h.parent IS NULL AND h.flow = {mark} AND "
            chosen = [Query("h.parent IS NOT NULL AND ", [])]
            chosen += [Query(of_flow, [flow]) for flow in sorted(set(flows))]
        order = "ORDER BY h.due, h.run"
        parts = [
            Query(
                f"SELECT {_ROW} FROM {self._index}run_heads AS h "  # noqa: S608
                f"WHERE {each.text}h.due <= {mark} {order} LIMIT {mark}",
                [*each.parameters, now, limit],
            )
            for each in chosen
        ]
        return [as_head(row) for row in self._rows(*united(parts, order, mark, limit))]

    def holders(self) -> dict[str, int]:
        query = (
            f"SELECT h.holder, count(*) FROM {self._index}run_heads AS h "  # noqa: S608
            "WHERE h.holder IS NOT NULL GROUP BY h.holder"
        )
        return dict(self._rows(query, ()))

    def counts(self, where: RunFilter = RunFilter()) -> dict[str, int]:
        query = self._counting(where)
        wanted = where.wanted_statuses
        return {
            status: int(n)
            for status, n in self._rows(*query)
            if n and (wanted is None or status in wanted)
        }

    def tally(self, since: int, until: int, *, flow: str | None = None) -> list[Tally]:
        of_flow = "" if flow is None else f" AND t.flow = {self._mark}"
        query = (
            "SELECT t.hour, t.what, t.bucket, sum(t.n), sum(t.total) "  # noqa: S608
            f"FROM {self._index}run_tally AS t WHERE t.hour >= {self._mark} "
            f"AND t.hour < {self._mark}{of_flow} GROUP BY t.hour, t.what, t.bucket "
            "ORDER BY t.hour, t.what, t.bucket"
        )
        values = [*hours(since, until), *([] if flow is None else [flow])]
        return [
            Tally(hour, flow or "", what, bucket, int(n), int(total))
            for hour, what, bucket, n, total in self._rows(query, values)
            if n
        ]

    def _page(self, where: RunFilter, before: Position | None, limit: int) -> Query:
        """The rows of one page: for several statuses, the newest of each, and the newest of those.

        So each part reads one index in its order, and stops.
        """
        table, mark = "l" if where.labels else "h", self._mark
        beyond: list[Query] = []
        if before is not None:
            opened, run = before
            text = f"{table}.opened <= {mark} AND ({table}.opened < {mark} OR {table}.run < {mark})"
            beyond = [Query(text, [opened, opened, run])]
        statuses = where.wanted_statuses
        parts = []
        for status in [None] if statuses is None else statuses:
            source, found = self._chosen(where, self._driver(where, status), status)
            conditions = found + beyond
            values = [value for each in conditions for value in each.parameters]
            text = (
                f"SELECT {_ROW} FROM {source} WHERE {_all(conditions)} "  # noqa: S608
                f"ORDER BY {table}.opened DESC, {table}.run DESC LIMIT {mark}"
            )
            parts.append(Query(text, [*values, limit]))
        if not parts:
            return Query(f"SELECT {_ROW} FROM {self._index}run_heads AS h WHERE 1 = 0", [])  # noqa: S608
        return united(parts, _NEWEST, mark, limit)

    def _driver(self, where: RunFilter, status: str | None) -> str | None:
        """The field whose index finds what is wanted soonest; None leaves it to the database.

        That of the status also has the flows, so only a small flow is looked through by itself.
        """
        given = [name for name in _FIELDS if getattr(where, name) is not None]
        if not self._hints or where.labels or not given:
            return None
        if status is None or given[0] == "holder":
            return given[0]
        few_of_status = self._number_of(where.flow, status) <= FEW
        if given[0] == "flow":
            return "flow" if not few_of_status and self._number_of(where.flow) <= FEW else "status"
        return "status" if few_of_status and where.flow is None else given[0]

    def _number_of(self, flow: str | None, status: str | None = None) -> int:
        """How many runs there are of a flow and status, by the statistics."""
        wanted = [
            Query(f"t.{name} = {self._mark}", [value])
            for name, value in (("flow", flow), ("what", status))
            if value is not None
        ]
        query = f"SELECT sum(t.n) FROM {self._index}run_tally AS t WHERE {_all(wanted)}"  # noqa: S608
        values = [value for each in wanted for value in each.parameters]
        return int(self._rows(f"{query} AND t.hour = {NOW}", values)[0][0] or 0)

    def _counting(self, where: RunFilter) -> Query:
        """How many there are of each status, perhaps of more statuses than are wanted."""
        given = {
            name for name, value in where._asdict().items() if value not in (None, "", (), False)
        }
        if given <= _PLAIN and where.flow != "":  # the tally has no other name for no flow
            of_flow = "" if where.flow is None else f" AND t.flow = {self._mark}"
            text = (
                f"SELECT t.what, sum(t.n) FROM {self._index}run_tally AS t "  # noqa: S608
                f"WHERE t.hour = {NOW}{of_flow} GROUP BY t.what"
            )
            return Query(text, [] if where.flow is None else [where.flow])
        source, conditions = self._chosen(where)
        statuses = where.wanted_statuses
        if statuses is not None:
            marks = ", ".join([self._mark] * len(statuses))
            conditions.append(Query(f"h.status IN ({marks or 'NULL'})", list(statuses)))
        # By the conditions' index, even if that of the status has the groups in order.
        group = "+h.status" if self._hints and conditions else "h.status"
        text = f"SELECT h.status, count(*) FROM {source} WHERE {_all(conditions)} GROUP BY {group}"  # noqa: S608
        return Query(text, [value for each in conditions for value in each.parameters])

    def _chosen(
        self, where: RunFilter, driver: str | None = None, status: str | None = None
    ) -> tuple[str, list[Query]]:
        """What a filter selects from, and its conditions; of statuses only the one that is given."""
        mark, found = self._mark, []
        source = f"{self._index}run_heads AS h"
        table = "h"
        if where.labels:
            table = "l"
            first, *others = where.labels
            source = f"{self._index}run_labels AS l JOIN {source} ON h.run = l.run"
            found.append(Query(f"l.label = {mark}", [first]))
            # As JSON: no other label can hold one with both of its quotes.
            text = f"{self._find}(h.labels, {mark}) > 0"
            found += [Query(text, [json.dumps(label)]) for label in others]
        wanted = {name: getattr(where, name) for name in _FIELDS} | {"status": status}
        for name, value in wanted.items():
            if value is not None:
                column = f"h.{name}" if driver in (None, name) else f"+h.{name}"
                found.append(Query(f"{column} = {mark}", [value]))
        if where.type is not None:
            text = (
                f"(SELECT e.type FROM {self._entries} AS e WHERE e.run = h.run "  # noqa: S608
                f"ORDER BY e.seq DESC LIMIT 1) = {mark}"
            )
            found.append(Query(text, [where.type]))
        if where.prefix:
            last = where.prefix + chr(0x10FFFF) * MAX_ID_BYTES
            found.append(Query(f"h.run >= {mark} AND h.run < {mark}", [where.prefix, last]))
        if where.since is not None:
            found.append(Query(f"{table}.opened >= {mark}", [where.since]))
        if where.until is not None:
            found.append(Query(f"{table}.opened < {mark}", [where.until]))
        if where.asking:
            found.append(Query("h.questions > 0", []))
        if where.roots:
            found.append(Query("h.parent IS NULL", []))
        return source, found


def as_row(row: RunHead) -> Row:
    """A row as the table has it."""
    *fields, labels, seq = row
    return *fields, labels_text(labels), seq


def as_head(row: Sequence[object]) -> RunHead:
    """A row of the table, with its labels as a tuple.

    What can't be, as it was altered, becomes what no run has: lists go on, and a repair finds it.
    """
    *fields, labels, seq = row
    some = _labels(labels) if isinstance(labels, str) and labels != _NO_LABELS else ()
    head = RunHead._make((*fields, some, seq))
    if type(head.opened) is not int:
        head = head._replace(opened=_NO_TIME)
    if head.due is not None and type(head.due) is not int:
        head = head._replace(due=_NO_TIME)
    return head


def _labels(text: str) -> tuple[str, ...]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return _NO_LABEL
    valid = isinstance(found, list) and all(isinstance(one, str) and "=" in one for one in found)
    return tuple(found) if valid else _NO_LABEL


def labels_text(labels: Sequence[str]) -> str:
    """The labels as a column has them."""
    return json.dumps(labels) if labels else _NO_LABELS


def united(parts: Sequence[Query], order: str, mark: str, limit: int) -> Query:
    """The first rows of several ordered queries."""
    if len(parts) == 1:
        return parts[0]
    each = " UNION ALL ".join(
        f"SELECT * FROM ({part.text}) AS p{n}"  # noqa: S608
        for n, part in enumerate(parts)
    )
    values = [value for part in parts for value in part.parameters]
    return Query(f"SELECT * FROM ({each}) AS h {order} LIMIT {mark}", [*values, limit])  # noqa: S608


def _all(conditions: Sequence[Query]) -> str:
    return " AND ".join(each.text for each in conditions) or "1 = 1"
