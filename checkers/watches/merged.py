"""Judge a period of listening whose reports merge changes: each tells the newest change of a key, as a long poll does.

At every bookmark the listener must have been told the newest change of each key up to that position, or a later one.
Changes in between may be left out, and so may a deletion of a key that was absent when the listener last heard of it.
A key is never told at an older position than before.

Source: developer.hashicorp.com/consul/api-docs/features/blocking.
"""

from bisect import bisect_right

from fencepost.checkers.violations.finding import Finding, shown
from fencepost.checkers.watches.changes import KnownChange, KnownChanges, describe, tell
from fencepost.checkers.watches.heard import Event, HeardStretch, Mark
from fencepost.checkers.watches.listening import BEFORE_START, LOST, REORDERED, Heard
from fencepost.harness.history import Operation


def judge_merged(stretch: HeardStretch, changes: KnownChanges) -> Heard:
    """Judge one stretch; cost O(n log n) for n changes and reports, times the number of keys."""
    return _Merged(stretch, changes).judged()


class _Merged:
    """What one listener was told, key by key."""

    def __init__(self, stretch: HeardStretch, changes: KnownChanges) -> None:
        self._stretch = stretch
        self._changes = changes
        self._by_key: dict[str, list[KnownChange]] = {}
        for known in changes.ordered:
            if known.position > stretch.after:
                self._by_key.setdefault(known.key, []).append(known)
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
