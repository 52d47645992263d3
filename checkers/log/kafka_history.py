"""Judge Kafka's sends and polls: does each key's log have one value per offset, and did polls show it, in order?

Operations `send`, `poll` and `txn` are lists of `[send key value]`, which returns `[offset value]` (offset nil where it
is not known), and `[poll]`, which returns `{key: [[offset value] ...]}`; `assign` and `subscribe` say what a process
polls. Offsets may have gaps, since transactions leave markers. What is judged, by the names of `jepsen.tests.kafka`:

  inconsistent-offsets   two values at one offset
  duplicate              a value at more offsets than it was sent
  aborted-read           a poll shows what only failed sends sent; `phantom-read`: what nobody sent
  precommitted-read      a transaction polls what it sends itself
  lost-write             an acknowledged send that no poll showed, though polls showed what is before and behind it
  poll-skip, nonmonotonic-poll   from one poll of a process to its next; `int-...`: within one operation
  nonmonotonic-send      of one process; `int-...`: within one operation

A consumer begins at the beginning, or where its group's consumers stopped. From poll to poll a process is held to go on
where it was only while it polls what it was assigned: what is subscribed a group may move at any time. Where an
operation with polls did not end ok, what nobody else was shown may have been shown by it: that is lost only when a
consumer passed over it, else it is unknown.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.positions import is_ok
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, describe
from fencepost.checkers.violations.impossible import (
    Numbers,
    integer,
    is_same,
    judges_answers,
    named,
    something,
    unanswered,
    unreadable,
    wrong,
)
from fencepost.harness.history import History, Operation, Outcome, Value
from fencepost.harness.verdict import Cause, Facts, Verdict

EXPOSURE_OF: Final = "acknowledged sends that a poll showed or went past"
_LACKS: Final = {
    "inconsistent-offsets": "no key has two records whose offsets were told",
    "duplicate": "no key has two records whose offsets were told",
    "aborted-read": "no poll showed a key to which a failed operation sent",
    "phantom-read": "no poll showed anything",
    "precommitted-read": "no transaction polled a key to which it sent itself",
    "lost-write": "no acknowledged send stands between two offsets of its key that polls showed",
    "poll-skip": "no process polled on a key that it was assigned, up to where a send was acknowledged",
    "nonmonotonic-poll": "no process polled on a key that it was assigned",
    "int-poll-skip": "no operation polled two records of one key, up to where a send was acknowledged",
    "int-nonmonotonic-poll": "no operation polled two records of one key",
    "nonmonotonic-send": "no process sent to one key in two operations whose offsets were told",
    "int-nonmonotonic-send": "no operation sent two records to one key whose offsets were told",
}
_RULES: Final = [
    Rule(guarantee="log-consistency", anomaly=name, tested=EXPOSURE_OF, lacks=lacks) for name, lacks in _LACKS.items()
]
_ENDLESS: Final = 2**63
_MOVES: Final = frozenset({"send", "poll", "txn"})


class MovedRecord(msgspec.Struct, frozen=True):
    """A value of a key at the offset that `op` names; `offset` is None if it is unknown."""

    op: Operation
    key: str
    offset: int | None
    value: Value


class Moved(msgspec.Struct):
    """The sends and polls of one operation, in order."""

    op: Operation
    sent: list[MovedRecord]
    polls: list[list[MovedRecord]]
    #: True: the process polls keys that it was assigned, not keys that it subscribed to.
    is_assigned: bool = False

    @property
    def polled(self) -> list[MovedRecord]:
        return [record for poll in self.polls for record in poll]


def all_moved(operations: Sequence[Operation]) -> list[Moved]:
    moved: list[Moved] = []
    assigned = set[int]()
    for op in operations:
        if op.f in _MOVES:
            each = _moved(op)
            each.is_assigned = op.process in assigned
            moved.append(each)
        elif op.f == "assign" and is_ok(op):
            assigned.add(op.process)
        else:
            assigned.discard(op.process)
    return moved


def read_answer(op: Operation) -> None:
    """Check what an operation asked for and was answered; raises MalformedHistory."""
    if op.f not in _MOVES:
        return
    moved, request = _moved(op), _moved(unanswered(op))
    sent, meant = ([(record.key, record.value) for record in each.sent] for each in (moved, request))
    if len(sent) != len(meant) or not all(map(is_same, chain(*sent), chain(*meant))):
        wrong(op, f"{op.f} of {named(op.value)} returned {named(op.result)}; expected the same sends")


def _moved(op: Operation) -> Moved:
    """Return the sends and polls of an operation; if it is not ok, only its intended sends are known."""
    given: Any = op.result if is_ok(op) and op.result is not None else op.value
    if not isinstance(given, list) or not all(isinstance(micro, list) and micro for micro in given):
        wrong(op, f"{op.f} is {given!r:.80}; expected a list of [send key value] and [poll]")
    moved = Moved(op, [], [])
    for micro in given:
        match [str(micro[0]).removeprefix(":"), *micro[1:]]:
            case ["send", key, value]:
                moved.sent.append(_sent(op, _key(key), value))
            case ["poll"]:
                pass
            case ["poll", dict(found)] if is_ok(op):
                moved.polls.append(list(_polled(op, found)))
            case ["poll", None | dict()] if not is_ok(op):
                pass
            case _:
                wrong(op, f"{op.f} has {micro!r:.80}; expected [send key value] or [poll {{key: [[offset value]]}}]")
    return moved


def _sent(op: Operation, key: str, value: Value) -> MovedRecord:
    # The invocation has the value alone; some clients write [offset value] only if the offset is known.
    if is_ok(op) and isinstance(value, list) and len(value) == 2:
        offset = None if value[0] is None else integer(op, value[0], "an offset", least=0, answer=True)
        return MovedRecord(op, key, offset, something(op, value[1], "what was sent"))
    return MovedRecord(op, key, None, something(op, value, "what was sent"))


def _polled(op: Operation, replies: dict[str, Any]) -> Iterator[MovedRecord]:
    for key, pairs in replies.items():
        for pair in pairs if isinstance(pairs, list) else wrong(op, f"a poll of {key} returned {pairs!r:.80}, no list"):
            if not isinstance(pair, list) or len(pair) != 2:
                wrong(op, f"a poll of {key} returned {pair!r:.80}; expected [offset value]")
            yield MovedRecord(
                op,
                key,
                integer(op, pair[0], "an offset", least=0, answer=True),
                something(op, pair[1], "what was polled"),
            )


def _key(key: Value) -> str:
    """Return the key as text, as the key of a map has it."""
    return key if isinstance(key, str) else msgspec.json.encode(key, order="deterministic").decode()


def polls(op: Operation) -> bool:
    return any(isinstance(micro, list) and str(micro[0]).endswith("poll") for micro in op.value or () if micro)


@judges_answers(unreadable(read_answer))
def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all sends and polls, as one verdict."""
    moved = all_moved(history.operations)
    logs = _Logs(moved)
    flaws = [*logs.disagreements(), *logs.unsent(), *_within(moved, logs), *_between(history.operations, moved, logs)]
    lost, untold = logs.lost()
    flaws += lost
    operations = [each.op for each in moved]
    shown_by_none = f"{len(untold)} acknowledged sends were shown by no poll, unless by one that did not end ok"
    return [
        verdict(
            facts,
            *sorted_out(flaws, {rule: logs.chances[rule.anomaly] for rule in _RULES}),
            doubt=Doubt(Cause.UNDECIDED, shown_by_none) if untold else None,
            exposed=rows(record.op for record in logs.passed()),
            untested=f"no {EXPOSURE_OF}",
            figures={
                "operations": number_of(operations),
                "keys": len(logs.keys),
                "info_operations": sum(op.type is Outcome.INFO for op in operations),
                "records_sent": sum(len(each.sent) for each in moved if is_ok(each.op)),
                "records_polled": sum(len(each.polled) for each in moved),
            },
        )
    ]


class _Logs:
    """The logs of all keys, as ok sends and polls show them."""

    def __init__(self, moved: Sequence[Moved]) -> None:
        self._numbers = Numbers()
        self._moved = moved
        self._may_have_shown = any(polls(each.op) and not is_ok(each.op) for each in moved)
        #: How often each rule was applied, by its anomaly.
        self.chances = Counter[str]()
        #: What consumers skipped: key, offset before, offset after.
        self.skips: list[tuple[str, int, int]] = []
        self.sent = [record for each in moved if is_ok(each.op) for record in each.sent]
        self.polled = [record for each in moved for record in each.polled]
        self.keys = {record.key for record in (*self.sent, *self.polled)}
        self._seen = {(record.key, self._number(record)) for record in self.polled}
        #: For each key the offsets of acknowledged sends, in order.
        self.acknowledged: dict[str, list[int]] = {}
        for record in self.sent:
            if record.offset is not None:
                self.acknowledged.setdefault(record.key, []).append(record.offset)
        for offsets in self.acknowledged.values():
            offsets.sort()
        self._span: dict[str, tuple[int, int]] = {}
        for record in self.polled:
            assert record.offset is not None
            low, high = self._span.get(record.key, (record.offset, record.offset))
            self._span[record.key] = min(low, record.offset), max(high, record.offset)

    def _number(self, record: MovedRecord) -> int:
        return self._numbers.number(record.value)

    def between(self, key: str, low: int, high: int) -> int | None:
        """Return the first offset of an acknowledged send strictly between two offsets."""
        offsets = self.acknowledged.get(key, [])
        at = bisect_right(offsets, low)
        return offsets[at] if at < len(offsets) and offsets[at] < high else None

    def disagreements(self) -> Iterator[Finding]:
        """Find two values at one offset, and values at more offsets than the number of times they were sent."""
        at: dict[tuple[str, int], MovedRecord] = {}
        places: dict[tuple[str, int], dict[int, MovedRecord]] = {}
        reported = set[tuple[str, int]]()
        with_offset = [record for record in (*self.sent, *self.polled) if record.offset is not None]
        of_key = Counter(record.key for record in with_offset)
        comparable = sum(count for count in of_key.values() if count > 1)
        self.chances.update({"inconsistent-offsets": comparable, "duplicate": comparable})
        for record in with_offset:
            assert record.offset is not None
            place = record.key, record.offset
            other = at.setdefault(place, record)
            places.setdefault((record.key, self._number(record)), {}).setdefault(record.offset, record)
            if self._number(other) != self._number(record) and place not in reported:
                reported.add(place)
                steps: tuple[str, ...] = (
                    f"{describe(other.op)} has {other.value!r:.80} at offset {record.offset} of {record.key}.",
                    f"{describe(record.op)} has {record.value!r:.80} there.",
                )
                yield Finding(about=0, anomaly="inconsistent-offsets", operations=(record.op, other.op), steps=steps)
        sends = Counter(
            (record.key, self._number(record))
            for each in self._moved
            if each.op.type is not Outcome.FAIL
            for record in each.sent
        )
        for (key, number), offsets in places.items():
            if len(offsets) > max(sends[key, number], 1):
                shows = [offsets[offset] for offset in sorted(offsets)]
                where = ", ".join(map(str, sorted(offsets)[:8]))
                steps = (
                    f"{self._numbers.named[number]!r:.80} was sent {sends[key, number]} times to {key} and stands at "
                    f"{len(offsets)} offsets: {where}.",
                )
                operations = tuple({record.op.invoke_index: record.op for record in reversed(shows[:8])}.values())
                yield Finding(about=0, anomaly="duplicate", operations=operations, steps=steps)

    def unsent(self) -> Iterator[Finding]:
        """Find polled values that nobody sent, or that only failed operations sent."""
        alive, failed = set[tuple[str, int]](), dict[tuple[str, int], Operation]()
        for each in self._moved:
            for record in each.sent:
                what = record.key, self._number(record)
                if each.op.type is Outcome.FAIL:
                    failed.setdefault(what, each.op)
                else:
                    alive.add(what)
        failed_keys = {key for key, _ in failed}
        self.chances["phantom-read"] += len(self.polled)
        self.chances["aborted-read"] += sum(record.key in failed_keys for record in self.polled)
        reported = set[tuple[str, int]]()
        for record in self.polled:
            what = record.key, self._number(record)
            if what in alive or what in reported:
                continue
            reported.add(what)
            maker = failed.get(what)
            shows = f"{describe(record.op)} shows {record.value!r:.80} at offset {record.offset} of {record.key}."
            if maker is None:
                yield Finding(
                    about=0, anomaly="phantom-read", operations=(record.op,), steps=(shows, "Nobody ever sent that.")
                )
            else:
                steps = (shows, f"Only {describe(maker)} sent that, and it failed.")
                yield Finding(about=0, anomaly="aborted-read", operations=(record.op, maker), steps=steps)

    def lost(self) -> tuple[list[Finding], list[MovedRecord]]:
        """Find acknowledged sends that polls skipped and none showed, and those that an unanswered poll may show."""
        flaws, untold = [], []
        for record in self.sent:
            low, high = self._span.get(record.key, (0, -1))
            missing = (record.key, self._number(record)) not in self._seen
            if record.offset is None or not low < record.offset < high:
                continue
            self.chances["lost-write"] += 1
            if not missing:
                continue
            if self._may_have_shown and not self._is_skipped(record.key, record.offset):
                untold.append(record)
                continue
            steps = (
                f"{describe(record.op)} was acknowledged, with {record.value!r:.80} at offset {record.offset}.",
                f"Polls showed offsets from {low} to {high} of it; none showed this value.",
            )
            flaws.append(Finding(about=0, anomaly="lost-write", operations=(record.op,), steps=steps))
        return flaws, untold

    def _is_skipped(self, key: str, offset: int) -> bool:
        return any(key == other and low < offset < high for other, low, high in self.skips)

    def passed(self) -> list[MovedRecord]:
        """List the acknowledged sends that a poll showed or skipped."""
        return [
            record
            for record in self.sent
            if (record.key, self._number(record)) in self._seen
            or (record.offset is not None and record.offset < self._span.get(record.key, (0, -1))[1])
        ]


def _within(moved: Sequence[Moved], logs: _Logs) -> Iterator[Finding]:
    """Find values out of order within one operation."""
    numbers = Numbers()
    for each in moved:
        if not is_ok(each.op):
            continue
        own = {(record.key, numbers.number(record.value)) for record in each.sent}
        own_keys = {record.key for record in each.sent}
        at: dict[str, int] = {}
        for poll in each.polls:
            if not each.is_assigned:
                at = {}  # a group may have moved its keys between two polls
            for record in poll:
                yield from _step(record, at.get(record.key), None, logs, "int-")
                at[record.key] = record.offset or 0
                logs.chances["precommitted-read"] += record.key in own_keys
                if (record.key, numbers.number(record.value)) in own:
                    steps = (f"{describe(each.op)} polled {record.value!r:.80} of {record.key}, which it sent itself.",)
                    yield Finding(about=0, anomaly="precommitted-read", operations=(each.op,), steps=steps)
        yield from _sends(each.sent, {}, logs, "int-")


def _between(operations: Sequence[Operation], moved: Sequence[Moved], logs: _Logs) -> Iterator[Finding]:
    """Find values out of order between one operation of a process and its next."""
    of = {id(each.op): each for each in moved}
    position: dict[int, dict[str, MovedRecord]] = {}
    produced: dict[int, dict[str, MovedRecord]] = {}
    for op in operations:
        each = of.get(id(op))
        if each is None or (polls(op) and not is_ok(op)):
            # A new assignment, which may start from an earlier or a later offset.
            position.pop(op.process, None)
        if each is None or not is_ok(op):
            continue
        last = produced.setdefault(op.process, {})
        yield from _sends(list(_first_of_keys(each.sent)), last, logs, "")
        last |= {record.key: record for record in each.sent if record.offset is not None}
        if each.is_assigned:
            at = position.setdefault(op.process, {})
            for record in _first_of_keys(each.polled):
                before = at.get(record.key)
                if before is not None:
                    yield from _step(record, before.offset, before.op, logs, "")
            at |= {record.key: record for record in each.polled}


def _first_of_keys(records: Sequence[MovedRecord]) -> Iterator[MovedRecord]:
    first: dict[str, MovedRecord] = {}
    for record in records:
        if record.offset is not None:
            first.setdefault(record.key, record)
    return iter(first.values())


def _step(
    record: MovedRecord, last: int | None, before: Operation | None, logs: _Logs, prefix: str
) -> Iterator[Finding]:
    """Judge one step of a consumer, from offset `last` of a key to the next one that it polled."""
    if last is None or record.offset is None:
        return
    logs.chances[f"{prefix}nonmonotonic-poll"] += 1
    logs.chances[f"{prefix}poll-skip"] += logs.between(record.key, last, _ENDLESS) is not None
    shown = (record.op,) if before is None else (record.op, before)
    after = f"after {last}" if before is None else f"after {last} by {describe(before)}"
    if record.offset <= last:
        steps = (f"{describe(record.op)} polled offset {record.offset} of {record.key} {after}.",)
        yield Finding(about=0, anomaly=f"{prefix}nonmonotonic-poll", operations=shown, steps=steps)
    elif (skipped := logs.between(record.key, last, record.offset)) is not None:
        logs.skips.append((record.key, last, record.offset))
        steps = (
            f"{describe(record.op)} polled offset {record.offset} of {record.key} {after}, past offset {skipped}, "
            "where a send was acknowledged.",
        )
        yield Finding(about=0, anomaly=f"{prefix}poll-skip", operations=shown, steps=steps)


def _sends(sent: Sequence[MovedRecord], last: dict[str, MovedRecord], logs: _Logs, prefix: str) -> Iterator[Finding]:
    """Find sends of one process to a key whose offsets do not grow, though each was sent after the one before."""
    last = dict(last)
    for record in sent:
        before = last.get(record.key)
        if record.offset is None:
            continue
        comparable = before is not None and before.offset is not None
        logs.chances[f"{prefix}nonmonotonic-send"] += comparable
        if before is not None and before.offset is not None and record.offset <= before.offset:
            steps = (
                f"{describe(record.op)} sent {record.value!r:.80} to {record.key}, to offset {record.offset}.",
                f"Before that the same process had sent {before.value!r:.80}, to offset {before.offset}.",
            )
            operations = (record.op,) if before.op is record.op else (record.op, before.op)
            yield Finding(about=0, anomaly=f"{prefix}nonmonotonic-send", operations=operations, steps=steps)
        last[record.key] = record
