"""The rows of a timeline: what each says, and where its bars are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.views import words
from holdfast.views.axis import Axis
from holdfast.views.step_groups import Group
from holdfast.views.steps import Execution, Steps

CHIPS: Final = {
    "completed": "ok",
    "answered": "ok",
    "failed": "bad",
    "damaged": "bad",
    "running": "run",
    "begun": "run",
    "asks": "ask",
    "waits": "wait",
    "cut off": "orp",
    "not started": "new",
    "void": "can",
}
"""The class of the status of a step."""

_OUTCOMES: Final = {"failed": "bad", "cut off": "cut", "running": "run"}
_NARROWEST: Final = 0.4  # percent, of a bar
_GRID: Final = 0.25  # percent: bars of a group that are nearer than this are one
_RESTORED: Final = 1.6  # percent: how wide the bar of a restored step is
_MOST_RESTORED: Final = 4  # times that a step is drawn as restored


class Bar(NamedTuple):
    """A bar, in percent of the width."""

    chip: str
    x: float
    width: float


class Badge(NamedTuple):
    """A few words beside the name of a step."""

    text: str
    chip: str = ""


class Row(NamedTuple):
    """A row of the table."""

    id: str
    name: str
    status: str
    chip: str
    took: str
    tries: int
    badges: tuple[Badge, ...]
    bars: tuple[Bar, ...]
    line: tuple[float, float] | None  # between attempts
    step: str  # what its address names
    at: int | None
    group: str = ""  # what is folded here
    is_open: bool = False
    level: int = 0
    selected: bool = False
    left_behind: bool = False
    child: str | None = None  # the run that it was
    run: str = ""  # the child run whose step it is


class Line(NamedTuple):
    """What a row is made of: a group, or one of its members; maybe of a child run."""

    group: Group
    member: Execution | None = None
    level: int = 0
    run: str = ""  # the child run
    is_open: bool = False

    @property
    def one(self) -> Execution | None:
        """The execution, if it is about exactly one."""
        if self.member is not None:
            return self.member
        return self.group.only if self.group.kind == "one" else None


class Drawing:
    """Makes rows on an axis."""

    def __init__(self, axis: Axis, steps: Steps, now: int) -> None:
        self._axis = axis
        self._now = now
        self._spells = [spell for spell in steps.spells[1:] if spell.why][-_MOST_RESTORED:]

    def row(self, line: Line, selected: tuple[str, int | None] | None) -> Row:
        """The row of a line."""
        one = line.one
        made = self._of_group(line) if one is None else self._of_one(line, one)
        chosen = selected is not None and not line.run and made.step == selected[0]
        if chosen and selected is not None and selected[1] is not None:
            chosen = made.at == selected[1]
        return made._replace(selected=chosen, level=line.level, run=line.run)

    def _of_one(self, line: Line, one: Execution) -> Row:
        name = one.name
        if line.member is not None and not line.run:
            name = _short(one, line.group)
        return Row(
            f"s{line.run}-{one.seq if one.seq is not None else one.key}",
            name,
            one.status,
            CHIPS.get(one.status, "can"),
            self._took(one),
            max(1, len(one.tried)),
            tuple(_badges(one)),
            tuple(self._bars(one)),
            self._line(one),
            one.key or one.name,
            one.seq,
            group=f"run:{one.child}" if one.child else "",
            is_open=line.is_open,
            left_behind=not one.current,
            child=one.child,
        )

    def _took(self, one: Execution) -> str:
        """How long it took, or takes so far."""
        if one.took is not None:
            return words.span(one.took)
        since = _under_way_since(one)
        return "" if since is None else words.span((self._now - since) / 1e6)

    def _took_together(self, group: Group) -> str:
        """How long its members took, with those that are under way so far."""
        took = group.took
        since = [at for one in group.members if (at := _under_way_since(one)) is not None]
        if since and group.kind == "items":
            known = (one.start or one.end for one in group.members)
            took = (self._now - min(at for at in known if at)) / 1e6
        elif since:
            took = (took or 0.0) + sum(self._now - at for at in since) / 1e6
        return "" if took is None else words.span(took)

    def _of_group(self, line: Line) -> Row:
        group = line.group
        many = [_count(group)]
        bad = sum(1 for one in group.members if one.status == "failed")
        if bad:
            many.append(Badge(f"{bad:,} failed", "bad" if group.status == "failed" else ""))
        elif retried := sum(_failures(one) for one in group.members):
            many.append(Badge(words.plural(retried, "retry"), "bad"))
        many += _interruptions(group.members)
        return Row(
            f"g{line.run}-{group.name}",
            group.name,
            group.status,
            CHIPS.get(group.status, "can"),
            self._took_together(group),
            len(group.members) + group.tries,
            tuple(many),
            tuple(self._bars_of(group)),
            None,
            group.name,
            None,
            group=group.name if not line.run else "",
            is_open=line.is_open,
            left_behind=not group.current,
        )

    # --- bars

    def _bar(self, chip: str, start: int, end: int) -> Bar:
        x = self._axis.x(start)
        width = max(_NARROWEST, self._axis.x(end) - x)
        return Bar(chip, min(x, 100 - width), width)

    def _bars(self, one: Execution) -> Iterator[Bar]:
        yield from (self._bar(*span) for span in self._spans(one))
        if one.status == "not started":
            yield Bar("todo", 93.5, 6)
        yield from self._restored([one])

    def _spans(self, one: Execution) -> Iterator[tuple[str, int, int]]:
        """What is drawn of it, in time."""
        if one.kind == "damage":
            if one.end:
                yield "bad", one.end, one.end
            return
        if one.kind in ("question", "sleep") and one.start is not None:
            chip = "ask" if one.kind == "question" else "wait"
            yield "can" if one.status == "void" else chip, one.start, one.end or self._now
            return
        if not one.tried and one.status == "completed" and one.end is not None:
            yield "ok", one.start or one.end, one.end
        for outcome, start, ended, _ in one.tried:
            end = ended or self._now
            yield _OUTCOMES.get(outcome, "ok"), start or end, end
        if one.status in ("running", "begun") and one.start is not None:
            yield "run", one.start, self._now
        if one.status == "waits" and one.start is not None:
            last = max((attempt.end or 0 for attempt in one.tried), default=one.start)
            yield "wait", last, self._now

    def _restored(self, members: Iterable[Execution]) -> Iterator[Bar]:
        """Where a process that took the run over found these finished."""
        if not self._spells:
            return
        done = [
            one.seq
            for one in members
            if one.current and one.seq is not None and one.end and one.status != "failed"
        ]
        if not done:
            return
        first = min(done)
        for spell in self._spells:
            if first < spell.seq:
                x = self._axis.x(spell.start) - _RESTORED / 2
                yield Bar("old", min(max(0.0, x), 100 - _RESTORED), _RESTORED)

    def _bars_of(self, group: Group) -> Iterator[Bar]:
        """The bars of all members; those that touch are one."""
        near = round(_GRID * self._axis.per_percent)
        spans: dict[str, list[tuple[int, int]]] = {}
        for one in group.members:
            for span in self._spans(one):
                spans.setdefault(span[0], []).append(span[1:])
        for chip, found in spans.items():
            for start, end in _merged(found, near):
                yield self._bar(chip, start, end)
        yield from self._restored(group.members)

    def _line(self, one: Execution) -> tuple[float, float] | None:
        if len(one.tried) < 2 and one.status != "waits":
            return None
        times = [at for each in one.tried for at in (each.start, each.end) if at]
        if one.status == "waits":
            times.append(self._now)
        return (self._axis.x(min(times)), self._axis.x(max(times))) if times else None


def _under_way_since(one: Execution) -> int | None:
    return one.start if one.status in ("running", "asks", "waits", "begun") else None


def _short(one: Execution, group: Group) -> str:
    """The name of a member below its group: what it has of its own."""
    if one.name != group.name and one.name.startswith(group.name):
        return one.name.removeprefix(group.name).strip(" /") or one.name
    return f"@{one.seq}" if one.seq is not None else one.name


def _badges(one: Execution) -> Iterator[Badge]:
    if len(one.tried) > 1 and _failures(one):
        yield Badge(f"{len(one.tried)} tries", "bad")
    yield from _interruptions([one])
    if one.child:
        yield Badge("child run")
    if not one.current and one.status != "void":
        yield Badge("left behind", "can")
    if one.note and one.kind != "damage":
        text = "answered" if one.status == "answered" else one.note.partition(":")[0]
        yield Badge(text, "bad" if one.status == "damaged" else "")
    if one.kind == "damage":
        yield Badge("damaged", "bad")


def _failures(one: Execution) -> int:
    return sum(1 for attempt in one.tried if attempt.outcome == "failed")


def _interruptions(members: Iterable[Execution]) -> Iterator[Badge]:
    """How often a process died meanwhile: one crash may cut off several items."""
    tried = (attempt for one in members for attempt in one.tried)
    crashes = len({attempt.seq for attempt in tried if attempt.outcome == "cut off"})
    if crashes:
        yield Badge(f"{crashes:,} crash{'es' * (crashes > 1)}", "orp")


def _count(group: Group) -> Badge:
    if group.kind == "items":
        if group.total is not None:
            return Badge(f"{group.items:,} of {group.total:,}")
        return Badge(words.plural(group.items, "item"))
    if group.kind == "parts":
        return Badge(words.plural(len(group.members), "part"))
    return Badge(words.plural(len(group.members), "round"))


def _merged(spans: list[tuple[int, int]], near: int) -> Iterator[tuple[int, int]]:
    """The spans, of which those that are nearer to each other than this are one."""
    spans.sort()
    first, last = spans[0]
    for start, end in spans:
        if start - last > near:
            yield first, last
            first, last = start, end
        elif end > last:
            last = end
    yield first, last
