"""What becomes of topics that are dropped and made again under their names.

Judged by the final phase, ten seconds after a drop was acknowledged and after the last fault:

"topics-stay-dropped"
  dropped-topic-is-back    every node knows a topic whose drop was acknowledged, and nobody may have made another since
  dropped-record-served    a node shows a record that had been acknowledged before the topic was dropped

"topics-keep-records"
  made-topic-is-gone       no node knows a topic whose making was acknowledged, and nobody may have dropped it since
  lost-record              the leader shows a topic to its end, and a record is missing that was acknowledged after the
                           last drop

A request of unknown outcome may take effect at any later time, so a name with one is judged by nothing that such a
request explains.

An append names no topic id. A broker that has not heard yet that a topic was dropped and made again puts a record into
the earlier topic. So a missing record is not judged unless its broker's log tells before that it leads the later one.
"""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.derived.evidence import grouped, number_of, rows
from fencepost.checkers.derived.positions import by_name, completed_ns, in_final
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration
from fencepost.harness.history import History, LogEvent, Logged, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.facts.forwarding import HANDED_OVER_ONCE_NS
from fencepost.systems.kafka.facts.settled import acting, undisturbed_since

STAY: Final = "topics-stay-dropped"
KEEP: Final = "topics-keep-records"
BACK: Final = Rule(
    guarantee=STAY,
    anomaly="dropped-topic-is-back",
    tested="names that were dropped for good, and that every node was asked for",
    lacks="no name was dropped for good ten seconds before every node was asked",
)
SERVED: Final = Rule(
    guarantee=STAY,
    anomaly="dropped-record-served",
    tested="records of topics that were dropped, and whose names were read again",
    lacks="no topic was read whose name another topic had had",
)
GONE: Final = Rule(
    guarantee=KEEP,
    anomaly="made-topic-is-gone",
    tested="topics that were made for good, and that every node was asked for",
    lacks="no topic was left ten seconds before every node was asked",
)
LOST: Final = Rule(
    guarantee=KEEP,
    anomaly="lost-record",
    tested="acknowledged records that no drop can have taken away, of topics that were read to their end",
    lacks="no topic with a record that had to be there was read to its end",
)
#: Brokers delete a topic's log, and forget it, some time after the answer.
_BOUND_NS: Final = 10_000_000_000


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every name by the final phase.

    Returns:
        Two verdicts, on what was dropped and on what was not.

    Source: KIP-516: a topic's id tells it from an earlier one of its name; Kafka documentation, Design, 4.7.

    Cost: O(n) for n operations, and for the records that the final phase read.
    """
    views = _Views(history, facts)
    names = [_Name(own, views) for own in by_name(history, {"make-topic", "drop-topic", "put-record"}).values()]
    return [_stay(names, views, facts), _keep(names, views, facts)]


class _Views:
    """The final phase: each node's last list of topics, and the answered reads of each topic."""

    def __init__(self, history: History, facts: Facts) -> None:
        final = [o for o in history.operations if o.type is Outcome.OK and in_final(history, o)]
        faults = acting(history)
        late = [o for o in final if o.invoked_ns - undisturbed_since(faults, o.invoked_ns) >= _BOUND_NS]
        self._faults: Final = [history.possible(fault) for fault in faults]
        self.lists: Final = {o.node: o for o in late if o.f == "list-topics"}
        nodes = {o.node for o in history.operations if o.f == "list-topics"}
        #: Whether every node answered: a silent one may know a topic that the others do not.
        self.whole: Final = bool(nodes) and nodes <= self.lists.keys()
        self.reads: Final = grouped((o for o in late if o.f == "read-topic"), lambda read: read.key)
        reigns = (e for e in history.of(LogEvent) if e.change is Logged.IN_SYNC and e.epoch is not None)
        self._began: Final = grouped(reigns, lambda e: (e.node, e.key))

    def may_be_earlier(self, record: Operation, made: Sequence[Operation]) -> bool:
        """Whether the broker that took this record may have put it into an earlier topic of that name.

        By its own log it led a topic of that name, but not certainly the one that was made last before the record's
        answer: it may begin to lead the earlier one only after the later one was made.
        """
        makes = [make for make in made if make.invoked_ns < completed_ns(record)]
        began = self._began.get((record.node, f"{record.key}-0"), [])
        if len(makes) <= 1 or not began:
            return False
        last = max(makes, key=lambda make: make.invoked_ns)
        return not any(
            last.invoked_ns <= event.time_ns <= completed_ns(record) and event.topic in (None, last.result)
            for event in began
        )

    def before(self, first: Operation, second: Operation) -> bool:
        """Whether `first` certainly took effect before `second` began, and has no effect afterwards.

        A broker may hand a request over a second time when it loses the controller, so a request that a fault may have
        disturbed counts only if there was no time for that.
        """
        if first.type is not Outcome.OK or completed_ns(first) >= second.invoked_ns:
            return False
        if completed_ns(first) - first.invoked_ns < HANDED_OVER_ONCE_NS:
            return True
        return not any(start <= completed_ns(first) and first.invoked_ns <= end for start, end in self._faults)

    def everywhere(self, name: str) -> bool:
        return self.whole and all(name in read.result for read in self.lists.values())

    def nowhere(self, name: str) -> bool:
        return self.whole and all(name not in read.result for read in self.lists.values())

    @property
    def asked_ns(self) -> int:
        """When the first of the last lists was asked for."""
        return min((o.invoked_ns for o in self.lists.values()), default=0)


class _Name:
    """The operations on one name, and what is certain of them."""

    def __init__(self, operations: list[Operation], views: _Views) -> None:
        self.name: Final = str(operations[0].key)
        made = [o for o in operations if o.f == "make-topic" and o.type is not Outcome.FAIL]
        dropped = [o for o in operations if o.f == "drop-topic" and o.type is not Outcome.FAIL]
        puts = [o for o in operations if o.f == "put-record" and o.type is Outcome.OK]
        self.reads: Final = views.reads.get(self.name, [])
        self.shown: Final = {value for read in self.reads for _, value in read.result}
        drop = max((o for o in dropped if o.type is Outcome.OK), key=completed_ns, default=None)
        make = max((o for o in made if o.type is Outcome.OK), key=completed_ns, default=None)
        #: The last acknowledged drop, if nothing was made that could have come after it.
        self.stays_dropped: Final = drop if drop is not None and all(views.before(o, drop) for o in made) else None
        #: The last acknowledged making, if nothing was dropped that could have come after it.
        self.stays: Final = make if make is not None and all(views.before(o, make) for o in dropped) else None
        #: Records that were acknowledged before a drop began that was acknowledged: value -> (record, drop).
        self.dropped_with: Final = {
            o.value: (o, drop) for o in puts if drop is not None and completed_ns(o) < drop.invoked_ns
        }
        #: Records that no drop can have taken away.
        self.kept: Final = [
            o
            for o in puts
            if all(views.before(other, o) for other in dropped)
            and (o.value in self.shown or not views.may_be_earlier(o, made))
        ]

    @property
    def whole(self) -> Operation | None:
        """A read that shows the topic from its beginning to its end."""
        for read in self.reads:
            if read.value == 0 and (read.result[-1][0] + 1 if read.result else 0) >= (read.position or 0):
                return read
        return None


def _stay(names: list[_Name], views: _Views, facts: Facts) -> Verdict:
    due = [(n, n.stays_dropped) for n in names if n.stays_dropped is not None and _long_ago(n.stays_dropped, views)]
    back = [_back(name, drop, views) for name, drop in due if views.everywhere(name.name)]
    read = [(name, read) for name in names for read in name.reads if name.dropped_with]
    served = [
        _served(*name.dropped_with[value], read)
        for name, read in read
        for _, value in read.result
        if value in name.dropped_with and read.invoked_ns - completed_ns(name.dropped_with[value][1]) >= _BOUND_NS
    ]
    judged = due if views.whole else []
    exposed_records = sum(len(name.dropped_with) for name, _ in read)
    return verdict(
        facts,
        BACK.tally(back, rows(drop for _, drop in judged)),
        SERVED.tally(served, exposed_records),
        broken=f"{len(back)} dropped topics are back, and {len(served)} records of dropped topics are shown",
        doubt=_silent(views),
        kept=f"{len(judged)} dropped topics stayed away, and {len(read)} reads of topics whose names had been used"
        " before show nothing of the earlier ones",
        figures={"reads_of_used_names": number_of(operation for _, operation in read)},
    )


def _keep(names: list[_Name], views: _Views, facts: Facts) -> Verdict:
    there = [(n, n.stays) for n in names if n.stays is not None and _long_ago(n.stays, views)] if views.whole else []
    gone = [_gone(name, make, views) for name, make in there if views.nowhere(name.name)]
    due = [
        (o, read, name)
        for name in names
        if (read := name.whole) is not None
        for o in name.kept
        if completed_ns(o) < read.invoked_ns
    ]
    lost = [_lost(record, read) for record, read, name in due if record.value not in name.shown]
    return verdict(
        facts,
        LOST.tally(lost, rows(record for record, _, _ in due)),
        GONE.tally(gone, len(there)),
        broken=f"{len(gone)} topics are gone that nobody dropped, and {len(lost)} acknowledged records are missing",
        doubt=_silent(views),
        kept=f"{len(there)} topics are there, with all {len(due)} records that had to be",
        figures={"topics": number_of(make for _, make in there)},
    )


def _silent(views: _Views) -> Doubt | None:
    return None if views.whole else Doubt(Cause.NO_EXPOSURE, "not every node said in the end which topics it knows")


def _long_ago(operation: Operation, views: _Views) -> bool:
    return views.asked_ns - completed_ns(operation) >= _BOUND_NS


def _lists(views: _Views) -> tuple[Operation, ...]:
    return tuple(views.lists[node] for node in sorted(views.lists))


def _back(name: _Name, drop: Operation, views: _Views) -> Finding:
    steps = (
        f"Process {drop.process} dropped {name.name} through {drop.node}: acknowledged. Nobody made it again.",
        f"{duration(views.asked_ns - completed_ns(drop))} later {', '.join(sorted(views.lists))} know it.",
    )
    return BACK.finding(*_lists(views), drop, steps=steps, key=name.name)


def _served(record: Operation, drop: Operation, read: Operation) -> Finding:
    steps = (
        f"Process {record.process} appended {record.value} to {record.key} through {record.node}: acknowledged.",
        f"After that process {drop.process} dropped {drop.key} through {drop.node}: acknowledged.",
        f"{duration(read.invoked_ns - completed_ns(drop))} later {read.node} shows {record.value} in a topic of that"
        " name.",
    )
    return SERVED.finding(record, drop, read, steps=steps)


def _gone(name: _Name, make: Operation, views: _Views) -> Finding:
    steps = (
        f"Process {make.process} made {name.name} through {make.node}: acknowledged. Nobody dropped it since.",
        f"{duration(views.asked_ns - completed_ns(make))} later none of {', '.join(sorted(views.lists))} knows it.",
    )
    return GONE.finding(*_lists(views), make, steps=steps, key=name.name)


def _lost(record: Operation, read: Operation) -> Finding:
    steps = (
        f"Process {record.process} appended {record.value} to {record.key} through {record.node}: acknowledged, at"
        f" offset {record.position}. Nobody dropped the topic since.",
        f"{read.node} shows the topic up to its end, offset {read.position}, without it.",
    )
    return LOST.finding(read, record, steps=steps)
