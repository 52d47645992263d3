"""What the logs of a system's servers tell: a table of patterns for each kind of event, read line by line.

How a node catches up that was down or cut off (by the changes it lacks, by a snapshot, or by cutting off its own)
depends on the store's thresholds, on the rate of the load and on how long a node was away. Each way has code of its
own, and bugs of its own, so a run says which of them it had.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from fencepost.harness.history import CatchUp, Logged


class BecameLeader(NamedTuple):
    """The node became the leader in this epoch."""

    epoch: int


class TookOver(NamedTuple):
    """The node took over the leader's role in this epoch, which not every subject has."""

    epoch: int


class Failed(NamedTuple):
    """The server stays alive and cannot serve: it never will if it is starting, else it may drop work silently."""

    why: str


class CaughtUp(NamedTuple):
    """How the node caught up with the others."""

    way: CatchUp


class LogMoment(StrEnum):
    """What a server's log tells beside that, and faults may wait for."""

    #: The node stands for leader, or has begun to look for one.
    ELECTION = "election"
    #: It gave up the older part of its log or of its history of values.
    COMPACTION = "compaction"


class Reached(NamedTuple):
    """The server is at this moment now."""

    moment: LogMoment


class LoggedChange(NamedTuple):
    """One change in a log, as `harness.history.operation.LogEvent` records it.

    `number` is the number of the node that it is about (`Place.number`); None stands for the node whose log it is.
    """

    change: Logged
    number: int | None = None
    subject: str | None = None
    key: str | None = None
    epoch: int | None = None
    position: int | None = None
    detail: str | None = None
    topic: str | None = None


class Attempt(NamedTuple):
    """One refused attempt to act as a leader, as `harness.history.operation.AttemptEvent` records it.

    `node` is the node that made the attempt; None stands for the node whose log it is.
    """

    f: str
    error: str
    node: str | None = None
    epoch: int | None = None
    key: str | None = None
    detail: str | None = None


LineEvent: TypeAlias = BecameLeader | TookOver | Failed | CaughtUp | Reached | LoggedChange | Attempt
T = TypeVar("T")
#: By pattern: what a line says in which it is found; None: nothing after all.
Rows: TypeAlias = Mapping[str, Callable[[re.Match[str]], T | None]]


@dataclass(frozen=True, kw_only=True)
class LogTable:
    """What the logs of a system's servers tell; a kind of event without rows is one of which they do not tell.

    A pattern with a line break is looked for in the first line of an entry and one line below it, once for each entry.
    """

    became_leader: Rows[int] = field(default_factory=dict)
    took_over: Rows[int] = field(default_factory=dict)
    failed: Rows[str] = field(default_factory=dict)
    #: The ways that its logs tell apart.
    caught_up: Mapping[str, CatchUp] = field(default_factory=dict)
    reached: Mapping[str, LogMoment] = field(default_factory=dict)
    changed: Rows[Sequence[LoggedChange]] = field(default_factory=dict)
    attempted: Rows[Attempt] = field(default_factory=dict)
    #: How the first line of an entry begins, where entries have several.
    entry: str = ""

    @property
    def tells_leaders(self) -> bool:
        """Whether a node that comes to lead logs that."""
        return bool(self.became_leader or self.took_over)

    def events(self, lines: Iterable[str]) -> Iterator[LineEvent]:
        """The events of which one node's log tells, whose lines are these."""
        reader = LogReader(self)
        return (event for line in lines for event in reader.read(line))

    @functools.cached_property
    def rows(self) -> tuple["_Row", ...]:
        """Each pattern, compiled, with what makes events of its match."""
        ways: Rows[CatchUp] = {pattern: functools.partial(_constant, way) for pattern, way in self.caught_up.items()}
        moments: Rows[LogMoment] = {line: functools.partial(_constant, what) for line, what in self.reached.items()}
        kinds: tuple[tuple[Rows[Any], Callable[[Any], Iterable[LineEvent]]], ...] = (
            (self.attempted, lambda attempt: (attempt,)),
            (self.failed, lambda why: (Failed(why),)),
            (ways, lambda way: (CaughtUp(way),)),
            (moments, lambda moment: (Reached(moment),)),
            (self.became_leader, lambda epoch: (BecameLeader(epoch),)),
            (self.took_over, lambda epoch: (TookOver(epoch),)),
            (self.changed, tuple),
        )
        return tuple(
            _Row(re.compile(pattern), r"\n" in pattern, make, events)
            for rows, events in kinds
            for pattern, make in rows.items()
        )


class _Row(NamedTuple):
    pattern: re.Pattern[str]
    is_below: bool
    make: Callable[[re.Match[str]], Any]
    events: Callable[[Any], Iterable[LineEvent]]


class LogReader:
    """Reads one node's log from its beginning."""

    def __init__(self, table: LogTable) -> None:
        self._rows = table.rows
        self._is_entry = re.compile(table.entry).match
        #: The first line of the present entry, until something was found below it.
        self._entry = ""

    def read(self, line: str) -> Iterator[LineEvent]:
        """The events of which the next line tells."""
        is_entry = self._is_entry(line) is not None
        for row in self._rows:
            if row.is_below and (is_entry or not self._entry):
                continue
            match = row.pattern.search(f"{self._entry}\n{line}" if row.is_below else line)
            value = None if match is None else row.make(match)
            if value is not None:
                if row.is_below:
                    self._entry = ""
                yield from row.events(value)
        if is_entry:
            self._entry = line.rstrip()


def epoch(match: re.Match[str]) -> int:
    """The first group of a match, as a number."""
    return int(match[1])


def _constant(value: T, _: re.Match[str]) -> T:
    return value
