"""Find what is wrong with one period of listening; each finding has the few operations that show it.

  lost-event                   a change was passed over: a later one was told, or an answer came that is newer
  duplicate-event              one change was told twice, or a one-shot watch fired that was not set
  reordered-event              a change was told after a later one
  event-from-before-the-start  a change was told from before the watch began
  split-transaction            one transaction's changes did not come together (where the system promises it)
  bookmark-ahead               a bookmark came before a change that it covers
  data-before-event            a read showed a change before the event did
  reply-before-event           an answer was newer than a change that was told only after it

A persistent watch must report every change above its start. A one-shot watch must report, for each key, the first
change above the answer that set it. A change that no later event and no newer answer passed over is late, not lost.

Reports may merge changes: each then tells the newest change of a key, as a long poll does. At every bookmark the
listener must have been told the newest change of each key up to that position, or a later one.
Changes in between may be left out, and so may a deletion of a key that was absent when the listener last heard of it.
A key is never told at an older position than before.

Sources: etcd's own robustness tests judge the same six words (tests/robustness/validate/watch.go);
developer.hashicorp.com/consul/api-docs/features/blocking.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import grouped
from fencepost.checkers.violations.finding import Finding, seconds, shown
from fencepost.checkers.watches.changes import KnownChange, KnownChanges, describe, tell
from fencepost.checkers.watches.heard import Event, HeardStretch, Mark
from fencepost.harness.history import Operation

LOST: Final = "lost-event"
DUPLICATE: Final = "duplicate-event"
REORDERED: Final = "reordered-event"
BEFORE_START: Final = "event-from-before-the-start"
SPLIT: Final = "split-transaction"
BOOKMARK: Final = "bookmark-ahead"
DATA: Final = "data-before-event"
REPLY: Final = "reply-before-event"


class Heard(msgspec.Struct, kw_only=True):
    """One judged stretch. `due` are the known changes that it covers; `late` are those that it had not yet reached."""

    stretch: HeardStretch
    findings: list[Finding]
    due: list[KnownChange]
    late: list[KnownChange]
    #: Of a resumed stretch: those of `due` that were made before it began, and the findings of those that were lost.
    missed: list[KnownChange]
    away: list[Finding]
    #: Each event that reports a known change for the first time, with that change.
    reports: list[tuple[Event, KnownChange]]


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What this system promises: a transaction's events together, answers in order with events, one-shot watches."""

    atomic: bool
    answers_ordered: bool
    one_shot: bool


def judge(stretch: HeardStretch, changes: KnownChanges, rules: Rules) -> Heard:
    """Cost: O(n log n) for n changes and reports."""
    return _judge_one_shot(stretch, changes) if rules.one_shot else _judge_persistent(stretch, changes, rules)


def unplaced(stretch: HeardStretch) -> list[Event]:
    """List the events without a position, which cannot be judged."""
    return [event for event in stretch.events if event.position is None]


# Persistent watches


def _judge_persistent(stretch: HeardStretch, changes: KnownChanges, rules: Rules) -> Heard:
    findings: list[Finding] = []
    events: dict[tuple[int, str], Event] = {}
    last: Event | None = None
    split: set[int] = set()
    for event in stretch.events:
        assert event.position is not None
        place = (event.position, event.key)
        if place in events:
            findings.append(_pair(DUPLICATE, events[place], event, "The same change was told twice by one watch."))
            if last is not None and event.position < (last.position or 0):
                findings.append(_pair(REORDERED, last, event, "The later change was told first, and this one again."))
            continue
        events[place] = event
        if event.position <= stretch.after:
            findings.append(_before_start(stretch, event))
            continue
        if last is not None and last.position is not None:
            if event.position < last.position:
                findings.append(_pair(REORDERED, last, event, "The later change was told first."))
            elif (
                rules.atomic
                and event.position == last.position
                and event.message != last.message
                and event.position not in split
            ):
                split.add(event.position)
                findings.append(_pair(SPLIT, last, event, "They are of one transaction, and came apart."))
        if last is None or event.position >= (last.position or 0):
            last = event
    newest, covered = _coverage(stretch, last, rules)
    start = bisect_right(changes.positions, stretch.after)
    due = changes.ordered[start : bisect_right(changes.positions, covered)]
    store = stretch.store if stretch.resumed and stretch.store is not None else -1
    away: list[Finding] = []
    places = sorted(events)
    part_of = {position: event for (position, _), event in events.items()}
    for known in due:
        if (known.position, known.key) in events:
            continue
        if rules.atomic and known.position in part_of:
            findings.append(_torn(stretch, known, part_of[known.position]))
            continue
        findings.append(_lost(stretch, known, events, places, newest))
        if known.position <= store:
            away.append(findings[-1])
    findings += _overtaken(stretch, changes, events, rules)
    return Heard(
        stretch=stretch,
        findings=findings,
        due=due,
        late=[
            known
            for known in changes.ordered[bisect_right(changes.positions, max(covered, stretch.after)) :]
            if (known.position, known.key) not in events
        ],
        missed=[known for known in due if known.position <= store],
        away=away,
        reports=[(e, changes.known[place]) for place, e in events.items() if place in changes.known],
    )


def _coverage(stretch: HeardStretch, last: Event | None, rules: Rules) -> tuple[Mark | None, int]:
    """The newest answer among ordered events, and the position up to which silence is a claim."""
    covered = -1 if last is None or last.position is None else last.position if rules.atomic else last.position - 1
    if not rules.answers_ordered:
        return None, covered
    newest = max(stretch.marks, key=lambda mark: mark.position, default=None)
    return newest, covered if newest is None else max(covered, newest.position)


def _lost(
    stretch: HeardStretch,
    known: KnownChange,
    events: dict[tuple[int, str], Event],
    places: list[tuple[int, str]],
    mark: Mark | None,
) -> Finding:
    at = bisect_left(places, (known.position, known.key))
    before = events[places[at - 1]] if at else None
    after = events[places[at]] if at < len(places) else None
    steps = [f"There was the {describe(known)}.", f"{_began(stretch)}."]
    operations = [known.proof, stretch.watch]
    if before is not None:
        steps.append(f"The last it heard of before it was the {tell(before)}.")
        operations.append(before.op)
    if after is not None:
        steps.append(f"The next it heard of was the {tell(after)}; the change between was never told.")
        operations.append(after.op)
    elif mark is not None:
        steps.append(f"An answer on the same connection was at position {shown(mark.position)} ({_marked(mark)}).")
        steps.append("The change before it was never told.")
        operations.append(mark.op)
    return Finding(anomaly=LOST, operations=_once(operations), steps=tuple(steps))


def _torn(stretch: HeardStretch, known: KnownChange, event: Event) -> Finding:
    steps = (
        f"There was the {describe(known)}.",
        f"{_began(stretch)}.",
        f"It was told of another key of that transaction, by the {tell(event)}, and never of {known.key}.",
    )
    return Finding(anomaly=SPLIT, operations=_once([known.proof, stretch.watch, event.op]), steps=steps)


def _overtaken(
    stretch: HeardStretch, changes: KnownChanges, events: dict[tuple[int, str], Event], rules: Rules
) -> Iterator[Finding]:
    """Find changes that came after a bookmark or an answer that covers them."""
    highest = max((position for position, _ in events), default=-1)
    rising: list[Mark] = []
    for mark in stretch.marks:
        if not rising or mark.position > rising[-1].position:
            rising.append(mark)
    if not rising:
        return
    positions = [mark.position for mark in rising]
    start = bisect_right(changes.positions, stretch.after)
    for known in changes.ordered[start : bisect_right(changes.positions, positions[-1])]:
        mark = rising[bisect_left(positions, known.position)]
        event = events.get((known.position, known.key))
        if event is not None and event.at < mark.at:
            continue
        if event is None and (rules.answers_ordered or known.position <= highest):
            continue  # lost, which is a finding of its own
        yield _overtaking(stretch, known, mark, event)


def _overtaking(stretch: HeardStretch, known: KnownChange, mark: Mark, event: Event | None) -> Finding:
    if mark.key is None:
        anomaly, what = BOOKMARK, f"A bookmark at position {shown(mark.position)} came before its event"
    elif mark.key == known.key and mark.value_position == known.position:
        anomaly, what = DATA, f"A read of {known.key} showed it before its event came"
    else:
        anomaly, what = REPLY, f"An answer at position {shown(mark.position)} came before its event"
    ending = "It was not told at all on this watch." if event is None else f"Then the {tell(event)}."
    steps = (f"There was the {describe(known)}.", f"{_began(stretch)}.", f"{what} ({_marked(mark)}).", ending)
    operations = [known.proof, stretch.watch, mark.op, *([] if event is None else [event.op])]
    return Finding(anomaly=anomaly, operations=_once(operations), steps=steps)


# One-shot watches


class _Armed(msgspec.Struct, kw_only=True):
    """A key's watch, set by the answer `by`; `due` is the first change that it must report, `overtaken` if too late."""

    by: Mark
    due: KnownChange | None
    overtaken: bool = False


def _judge_one_shot(stretch: HeardStretch, changes: KnownChanges) -> Heard:
    """Judge each key's watch: an answer sets it, it fires at the first change after it, and it is set again."""
    judged = Heard(stretch=stretch, findings=[], due=[], late=[], missed=[], away=[], reports=[])
    by_key = grouped(changes.ordered, lambda known: known.key)
    armed: dict[str, _Armed] = {}
    fired: dict[str, Event] = {}
    last: Event | None = None
    newest: Event | Mark | None = None
    for one in stretch.heard:
        if type(one) is Mark:
            _take_mark(stretch, judged, one, armed, by_key)
        elif type(one) is Event and one.position is not None:
            _take_event(stretch, judged, one, armed, fired, changes)
            if last is not None and one.position < (last.position or 0):
                judged.findings.append(_pair(REORDERED, last, one, "The later change was told first."))
            if last is None or one.position >= (last.position or 0):
                last = one
        if newest is None or _covers(one) > _covers(newest):
            newest = one
    for watch in armed.values():
        if watch.due is None:
            continue
        if newest is not None and watch.due.position <= _covers(newest):
            judged.due.append(watch.due)
            judged.findings.append(_not_fired(stretch, watch.due, watch.by, newest))
        else:
            judged.late.append(watch.due)
    return judged


def _covers(one: Event | Mark) -> int:
    """Return the position up to which all events have come; the last transaction may still have another event."""
    if type(one) is Mark:
        return one.position
    return -1 if one.position is None else one.position - 1


def _first_above(known: list[KnownChange], position: int) -> KnownChange | None:
    at = bisect_right(known, position, key=lambda one: one.position)
    return known[at] if at < len(known) else None


def _take_mark(
    stretch: HeardStretch, judged: Heard, mark: Mark, armed: dict[str, _Armed], by_key: dict[str, list[KnownChange]]
) -> None:
    """Find answers that are newer than a change that a watch had yet to report."""
    for watch in armed.values():
        if watch.due is None or watch.due.position > mark.position or watch.overtaken:
            continue
        event = _later(stretch, mark, watch.due)
        if event is not None:
            watch.overtaken = True
            judged.findings.append(_overtaking(stretch, watch.due, mark, event))
        else:
            judged.due.append(watch.due)
            judged.findings.append(_not_fired(stretch, watch.due, watch.by, mark))
            watch.due = None
    if mark.arms and mark.key is not None and mark.key not in armed:
        armed[mark.key] = _Armed(by=mark, due=_first_above(by_key.get(mark.key, []), mark.position))


def _later(stretch: HeardStretch, mark: Mark, due: KnownChange) -> Event | None:
    """Return the later event that reports this change; None if there is none."""
    behind = (one for one in stretch.heard[mark.at + 1 :] if type(one) is Event)
    return next((e for e in behind if e.key == due.key and e.position == due.position), None)


def _take_event(
    stretch: HeardStretch,
    judged: Heard,
    event: Event,
    armed: dict[str, _Armed],
    fired: dict[str, Event],
    changes: KnownChanges,
) -> None:
    position = event.position
    assert position is not None
    watch = armed.pop(event.key, None)
    if watch is None:
        before = fired.get(event.key)
        if before is None:
            judged.findings.append(_before_start(stretch, event))
        else:
            judged.findings.append(_pair(DUPLICATE, before, event, "The watch was not set again in between."))
        return
    fired[event.key] = event
    if position <= watch.by.position:
        steps = (
            f"The watch of {event.key} was set at position {shown(watch.by.position)} ({_marked(watch.by)}).",
            f"The {tell(event)}, which is no change after that.",
        )
        operations = _once([watch.by.op, event.op])
        judged.findings.append(Finding(anomaly=BEFORE_START, operations=operations, steps=steps))
        return
    if watch.due is not None and watch.due.position < position:
        judged.due.append(watch.due)
        judged.findings.append(_not_fired(stretch, watch.due, watch.by, event))
        return
    known = changes.known.get((position, event.key))
    if known is not None:
        judged.due.append(known)
        judged.reports.append((event, known))


def _not_fired(stretch: HeardStretch, due: KnownChange, by: Mark, passed: Event | Mark) -> Finding:
    if type(passed) is Mark:
        after = f"An answer on the same connection was at position {shown(passed.position)} ({_marked(passed)})"
    else:
        assert type(passed) is Event
        after = f"The next that was told was the {tell(passed)}"
    steps = (
        f"The watch of {due.key} was set at position {shown(by.position)} ({_marked(by)}).",
        f"The first change after that was the {describe(due)}.",
        f"{after}; the watch had not told of that change.",
    )
    return Finding(anomaly=LOST, operations=_once([by.op, due.proof, passed.op]), steps=steps)


# Words


def _pair(anomaly: str, first: Event, second: Event, why: str) -> Finding:
    steps = (f"First the {tell(first)}.", f"Then the {tell(second)}.", why)
    return Finding(anomaly=anomaly, operations=_once([first.op, second.op]), steps=steps)


def _before_start(stretch: HeardStretch, event: Event) -> Finding:
    steps = (f"{_began(stretch)}.", f"The {tell(event)}, which is not above that.")
    return Finding(anomaly=BEFORE_START, operations=_once([stretch.watch, event.op]), steps=steps)


def _began(stretch: HeardStretch) -> str:
    watch = stretch.watch
    how = f"to begin at position {shown(watch.value)}" if stretch.resumed else "to begin now"
    return (
        f"The watch of process {watch.process} on {watch.node} (event {watch.invoke_index}), asked {how}, tells of"
        f" changes above position {shown(stretch.after)}"
    )


def _marked(mark: Mark) -> str:
    return f"to process {mark.op.process} on {mark.op.node} at {seconds(mark.at_ns)}, event {mark.op.complete_index}"


def _once(operations: list[Operation]) -> tuple[Operation, ...]:
    return tuple({op.invoke_index: op for op in operations}.values())


def judge_merged(stretch: HeardStretch, changes: KnownChanges) -> Heard:
    """Judge one stretch; cost O(n log n) for n changes and reports, times the number of keys."""
    return _Merged(stretch, changes).judged()


class _Merged:
    """What one listener was told, key by key."""

    def __init__(self, stretch: HeardStretch, changes: KnownChanges) -> None:
        self._stretch = stretch
        self._changes = changes
        self._by_key = grouped((c for c in changes.ordered if c.position > stretch.after), lambda c: c.key)
        self._told: dict[str, Event] = {}
        #: Up to where each key's changes are told.
        self._upto: dict[str, int] = {}
        self._deleted: list[Event] = []
        self._covered = stretch.after
        self._heard = Heard(stretch=stretch, findings=[], due=[], late=[], missed=[], away=[], reports=[])

    def judged(self) -> Heard:
        for one in self._stretch.heard:
            if type(one) is Event:
                self._take_event(one)
            elif type(one) is Mark and one.key is None:
                self._take_bookmark(one)
        for key, known in self._by_key.items():
            if known[-1].position > max(self._covered, self._upto.get(key, self._stretch.after)):
                self._heard.late.append(known[-1])
        return self._heard

    def _take_event(self, event: Event) -> None:
        if event.position is None:
            self._deleted.append(event)
            return
        before = self._told.get(event.key)
        if event.position <= self._upto.get(event.key, self._stretch.after):
            self._heard.findings.append(self._went_back(event, before))
            return
        self._note(event, event.position)
        known = self._changes.known.get((event.position, event.key))
        if known is not None:
            self._heard.reports.append((event, known))

    def _note(self, event: Event, position: int) -> None:
        self._told[event.key] = event
        self._upto[event.key] = position

    def _take_bookmark(self, mark: Mark) -> None:
        for event in self._deleted:
            self._note(event, max(mark.position, self._upto.get(event.key, 0)))
        self._deleted.clear()
        self._covered = max(self._covered, mark.position)
        for key, known in self._by_key.items():
            place = bisect_right(known, mark.position, key=lambda one: one.position)
            if not place:
                continue
            newest, upto = known[place - 1], self._upto.get(key, self._stretch.after)
            latest = self._told.get(key)
            # A key that came and went between two answers is absent in both.
            absent = latest is None or latest.is_delete
            unseen = absent and (newest.deleted or self._changes.may_be_deleted(key, newest.position, mark.at_ns))
            if newest.position > upto and not unseen:
                self._heard.findings.append(self._lost(newest, mark))
                self._upto[key] = newest.position
            if not self._heard.due or self._heard.due[-1] != newest:
                self._heard.due.append(newest)

    def _lost(self, due: KnownChange, mark: Mark) -> Finding:
        before = self._told.get(due.key)
        steps = (
            f"The last that was told of {due.key}: {'nothing' if before is None else tell(before)}.",
            f"A later change was the {describe(due)}.",
            f"The report up to position {shown(mark.position)} had not told of it.",
        )
        return self._finding(LOST, *([] if before is None else [before.op]), due.proof, mark.op, steps=steps)

    def _went_back(self, event: Event, before: Event | None) -> Finding:
        if before is None:
            steps = (f"The watch began after position {shown(self._stretch.after)}.", f"The {tell(event)}.")
            return self._finding(BEFORE_START, self._stretch.watch, event.op, steps=steps)
        steps = (f"The {tell(before)}.", f"The {tell(event)}, which is no later state of that key.")
        return self._finding(REORDERED, before.op, event.op, steps=steps)

    @staticmethod
    def _finding(anomaly: str, *operations: Operation, steps: tuple[str, ...]) -> Finding:
        return Finding(anomaly=anomaly, operations=tuple({o.invoke_index: o for o in operations}.values()), steps=steps)
