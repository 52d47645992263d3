"""What the nodes' disks hold after the run, against what clients were told, and against each other.

The runner reads the replicated log of every node once its server has ended (`System.read_log`). A write of a value that
nobody else wrote to its key names its entry. Three rules of one guarantee, "log-agrees":

"write-on-no-majority"
  So few logs hold an acknowledged write that no majority of the voters can. A log may have held it that begins behind
  the entry, was damaged or not read, or whose node a fault removed from the cluster.
"uninvoked-write"
  Below what is certainly committed stands a value, of a key that clients write, that nobody asked to be written.
"logs-differ"
  Two logs differ below what is certainly committed in both or below an entry that both hold, or hold different contents
  of one epoch at one offset, which a leader writes once.

An offset is certainly committed where the node itself knew it, and below every entry of an acknowledged write, since
logs with the same entry are equal up to it.

An operation of unknown outcome is settled: it happened if its entry is committed and took effect. It never did if all
voters' logs reach back to its invocation and none holds it, or if its committed entry took no effect; the servers have
ended, so nothing can happen any more. The numbers stand in the verdict, and no other checker rests on them.

Source: Ongaro & Ousterhout (2014), figure 3 (Log Matching, Leader Completeness).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import Final, NamedTuple

from fencepost.checkers.derived.evidence import numbers_of, rows
from fencepost.checkers.derived.positions import completed_ns
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import WITNESSES_MAX, Doubt, Finding, describe, seconds, shown
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.base.quorum import majority
from fencepost.harness.history import (
    DiskEffect,
    FaultOutcome,
    History,
    LogEntry,
    NodeLog,
    Operation,
    Outcome,
)
from fencepost.harness.verdict import Cause, Facts, Verdict, in_words
from fencepost.harness.verdict.figures import Traced

GUARANTEE: Final = "log-agrees"
LOST: Final = Rule(
    guarantee=GUARANTEE,
    anomaly="write-on-no-majority",
    tested="acknowledged writes whose absence the logs could show",
    lacks="no acknowledged write of a value of its own, or too few logs that could show its absence",
)
NEVER_INVOKED: Final = Rule(
    guarantee=GUARANTEE, anomaly="uninvoked-write", tested="committed values of keys that clients write"
)
DIFFER: Final = Rule(guarantee=GUARANTEE, anomaly="logs-differ", tested="committed entries that two logs hold")
#: A key and its value, as a log has them.
_Effect = tuple[str, str]
_WRITE, _REFUSED = "write", "refused"
#: Names of figures: what became of operations of unknown outcome.
_HAPPENED, _NEVER, _UNDECIDED = "unknown_happened", "unknown_never_happened", "unknown_undecided"


class _Place(NamedTuple):
    """Where a log holds a write."""

    offset: int
    kind: str


class _Log:
    """One node's log."""

    def __init__(self, log: NodeLog, *, why: str) -> None:
        self.node, self.log = log.node, log
        #: Why what it lacks says nothing; empty where it says something.
        self.why = why
        self.at = {entry.offset: entry for entry in log.entries}
        #: Up to which offset its entries are certainly committed.
        self.committed = log.commit
        #: The acknowledged writes in it, in the order of their offsets.
        self.acknowledged: list[tuple[int, Operation]] = []

    def could_hold(self, operation: Operation, offset: int | None) -> bool:
        """Whether it may have held this write though it does not show it; `offset`: where other logs hold it."""
        if self.why:
            return True
        return operation.invoked_ns < self._known_ns if offset is None else offset < self.log.start_offset

    @cached_property
    def _known_ns(self) -> int:
        """From when on an operation that is invoked stands behind the beginning of this log, if it stands anywhere."""
        start = self.log.start_offset
        return min((completed_ns(o) for at, o in self.acknowledged if at >= start), default=NEVER_NS) if start else 0


class _Logs:
    """The logs with the writes of the history placed in them."""

    def __init__(self, history: History, facts: Facts) -> None:
        why: dict[str, str] = {}
        for fault in history.faults:
            if fault.outcome is not FaultOutcome.SKIPPED and fault.effects.changes_members:
                why |= dict.fromkeys(fault.nodes, "a fault removed it from the cluster")
            if fault.outcome is not FaultOutcome.SKIPPED and fault.effects.disk is DiskEffect.DAMAGED:
                why |= dict.fromkeys(fault.nodes, "a fault damaged its disk")
        self.voters = facts.voters
        self.of_node: dict[str, _Log] = {}
        for node, log in history.logs.items():
            if node in facts.voters:
                damage = [f"it is damaged, and was read up to there ({log.damaged})"] if log.damaged else []
                self.of_node[node] = _Log(log, why="; ".join([*filter(None, [why.get(node)]), *damage]))
        effects = _effects(history, facts)
        times = Counter(effect for _, effect in effects)
        self.asked = set(times)
        self.not_unique = [o for o, effect in effects if times[effect] > 1]
        self.writes = {effect: o for o, effect in effects if times[effect] == 1}
        #: By operation (its invocation), where each node's log holds it.
        self.places: dict[int, dict[str, _Place]] = {o.invoke_index: {} for o in self.writes.values()}
        for own in self.of_node.values():
            self._place(own)

    def _place(self, log: _Log) -> None:
        for entry in log.log.entries:
            for effect in _wrote(entry):
                operation = self.writes.get(effect)
                if operation is None:
                    continue
                self.places[operation.invoke_index][log.node] = _Place(entry.offset, entry.type)
                if operation.type is Outcome.OK and entry.type != _REFUSED:
                    log.acknowledged.append((entry.offset, operation))
                    log.committed = max(log.committed, entry.offset)

    def lacking(self, operation: Operation) -> list[_Log]:
        """The logs that certainly never held this write."""
        places = self.places[operation.invoke_index]
        offset = min((place.offset for place in places.values()), default=None)
        return [
            log for node, log in self.of_node.items() if node not in places and not log.could_hold(operation, offset)
        ]

    def can_be_on_majority(self, lacking: int) -> bool:
        return len(self.voters) - lacking >= majority(self.voters)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the logs; no verdict where the system does not state the guarantee.

    Cost: O(n) in entries for each pair of logs, O(n log n) in operations.
    """
    if facts.guarantee(GUARANTEE) is None:
        return []
    logs = _Logs(history, facts)
    if not logs.of_node:
        return [verdict(facts, LOST.tally((), 0), doubt=Doubt(Cause.NO_EXPOSURE, "no log of a node was read"))]
    lost, losable = _lost(history, logs)
    invented, values = _never_invoked(history, logs, facts)
    differ, compared = _differing(history, logs)
    settled = _settled(logs)
    findings = [*lost, *invented, *differ]
    remarks = list(_remarks(logs))
    happened, never, undecided = settled.values()
    if any(settled.values()):
        of_all = f"{len(happened) + len(never)} of {len(happened) + len(never) + len(undecided)}"
        remarks.insert(
            0,
            f"{of_all} operations of unknown outcome settled: {len(happened)} happened, {len(never)} did not",
        )
    return [
        verdict(
            facts,
            LOST.tally(lost, rows(losable)),
            NEVER_INVOKED.tally(invented, values),
            DIFFER.tally(differ, compared),
            broken="; ".join(["by the logs on disk: " + in_words(Counter(f.anomaly for f in findings)), *remarks]),
            exposed=rows(losable) if losable else Traced(compared),
            exposure_of=LOST.tested if losable else DIFFER.tested,
            untested="; ".join([LOST.lacking, *remarks]),
            kept="; ".join([*_agreeing(logs, losable, compared), *remarks]),
            figures={
                "logs": {
                    node: {
                        "start_offset": log.log.start_offset,
                        "end_offset": max(log.at, default=-1),
                        "committed": log.committed,
                        "torn_bytes": log.log.torn_bytes,
                        "damaged": log.log.damaged,
                    }
                    for node, log in logs.of_node.items()
                },
                **numbers_of(settled | {"values_not_unique": logs.not_unique}),
            },
        )
    ]


def _effects(history: History, facts: Facts) -> list[tuple[Operation, _Effect]]:
    """Every write with its key and value, of keys that are only read and written in ways known here."""
    free = facts.effect_free or ()
    other = {o.key for o in history.operations if o.f not in free and o.f not in ("write", "cas", "add")}
    return [(o, effect) for o in history.operations if o.key not in other and (effect := _effect(o)) is not None]


def _effect(operation: Operation) -> _Effect | None:
    """What a log holds of this operation: an element of a set is a key below its name."""
    key, value = operation.key, operation.value
    match operation.f, value:
        case "write", int():
            return str(key), str(value)
        case "cas", [_, int(new)]:
            return str(key), str(new)
        case "add", int():
            return f"{key}/{value}", ""
    return None


def _wrote(entry: LogEntry) -> Iterator[_Effect]:
    return ((key, value) for key, value in entry.fields.get("wrote", ()))


# -- acknowledged, and on no majority -----------------------------------------------------------------------------


def _lost(history: History, logs: _Logs) -> tuple[list[Finding], list[Operation]]:
    acknowledged = [o for o in logs.writes.values() if o.type is Outcome.OK]
    findings, chances = list[Finding](), list[Operation]()
    for operation in acknowledged:
        lacking = logs.lacking(operation)
        places = logs.places[operation.invoke_index]
        able = sum(node in places or log in lacking for node, log in logs.of_node.items())
        if not logs.can_be_on_majority(able):
            chances.append(operation)
        if logs.can_be_on_majority(len(lacking)):
            continue
        # Only the first ones become witnesses.
        steps = _lost_steps(history, logs, operation, lacking) if len(findings) < WITNESSES_MAX else ()
        nodes = tuple(log.node for log in lacking)
        findings.append(LOST.finding(operation, nodes=nodes, steps=steps, to_ns=history.end_ns))
    return findings, chances


def _lost_steps(history: History, logs: _Logs, operation: Operation, lacking: Sequence[_Log]) -> Iterator[str]:
    at_ns = completed_ns(operation)
    spans = [(fault, history.possible(fault)) for fault in history.faults]
    faults = [f"{fault.fault} of {', '.join(fault.nodes)}" for fault, (begin, end) in spans if begin <= at_ns <= end]
    during = f", during {'; '.join(faults)}" if faults else ""
    yield f"{describe(operation)} was acknowledged at {seconds(at_ns)}{during}."
    places = logs.places[operation.invoke_index]
    for node, place in places.items():
        log, offset = logs.of_node[node], place.offset
        yield f"{node} holds it at {shown(offset)}, of epoch {log.at[offset].epoch}{_between(log, offset)}."
    if not places:
        yield "No log that was read holds it."
    for log in lacking:
        there = log.at.get(next((place.offset for place in places.values()), -1))
        instead = f", and has {_shown(there)} there" if there else ""
        yield f"{log.node} lacks it: {_reach(log)}{instead}{_around(log, operation)}."
    yield f"So at most {len(logs.voters) - len(lacking)} of {len(logs.voters)} voters hold it."


def _reach(log: _Log) -> str:
    if not log.at:
        return "its log is empty"
    return f"its log reaches from {shown(min(log.at))} to {shown(max(log.at))}"


def _between(log: _Log, offset: int) -> str:
    """Since when: the acknowledged writes around an entry in its log."""
    place = bisect_left(log.acknowledged, offset, key=lambda pair: pair[0])
    before = log.acknowledged[place - 1][1] if place else None
    behind = next((o for at, o in log.acknowledged[place:] if at > offset), None)
    return _and(before, behind, "behind", "before")


def _around(log: _Log, operation: Operation) -> str:
    """The newest acknowledged write in the log that ended before this one began, and the first that began after it."""
    operations = [o for _, o in log.acknowledged]
    before = max((o for o in operations if completed_ns(o) <= operation.invoked_ns), key=completed_ns, default=None)
    behind = min(
        (o for o in operations if o.invoked_ns >= completed_ns(operation)), key=lambda o: o.invoked_ns, default=None
    )
    return _and(before, behind, "with the earlier", "and with the later")


def _and(before: Operation | None, behind: Operation | None, one: str, other: str) -> str:
    parts = [
        *([f"{one} {describe(before)}, acknowledged at {seconds(completed_ns(before))}"] if before else []),
        *([f"{other} {describe(behind)}, invoked at {seconds(behind.invoked_ns)}"] if behind else []),
    ]
    return ", " + ", ".join(parts) if parts else ""


# -- on disk, and never invoked -----------------------------------------------------------------------------------


def _never_invoked(history: History, logs: _Logs, facts: Facts) -> tuple[list[Finding], int]:
    """Find committed values that nobody wrote; the beginning of every request stands in a history that is whole."""
    if history.torn or facts.failure:
        return [], 0
    keys = {key for key, value in logs.asked if value}
    sets = {key.rpartition("/")[0] for key, value in logs.asked if not value}
    invented: dict[_Effect, list[tuple[_Log, LogEntry]]] = {}
    values = 0
    for log in logs.of_node.values():
        for entry in log.log.entries:
            if log.why or entry.offset > log.committed or entry.type == _REFUSED:
                continue
            for key, value in _wrote(entry):
                below, _, _ = key.rpartition("/")
                if (value and key in keys) or (not value and below in sets):
                    values += 1
                    if (key, value) not in logs.asked:
                        invented.setdefault((key, value), []).append((log, entry))
    return [_never(history, effect, places) for effect, places in invented.items()], values


def _never(history: History, effect: _Effect, places: Sequence[tuple[_Log, LogEntry]]) -> Finding:
    key, value = effect
    what = f"the value {value!r:.80} of {key}" if value else f"the element {key}"
    steps = [
        f"{log.node} holds {what} at {shown(entry.offset)}, of epoch {entry.epoch}, where its log is committed"
        f"{_between(log, entry.offset)}."
        for log, entry in places
    ]
    return NEVER_INVOKED.on_disk(
        history, *(log.node for log, _ in places), steps=(*steps, "No operation asked for it."), key=key
    )


# -- logs against each other --------------------------------------------------------------------------------------


def _differing(history: History, logs: _Logs) -> tuple[list[Finding], int]:
    findings, compared = [], set[int]()
    for one, other in combinations(logs.of_node.values(), 2):
        if one.why or other.why:
            continue
        first = max(one.log.start_offset, other.log.start_offset)
        both = [at for at in one.at.keys() & other.at.keys() if first <= at]
        shared = max((at for at in both if _content(one.at[at]) == _content(other.at[at])), default=0)
        # Logs with the same entry are equal up to it.
        last = max(min(one.committed, other.committed), shared)
        compared |= {at for at in both if at <= last}
        offsets = sorted(at for at in one.at.keys() | other.at.keys() if first <= at)
        unlike = [at for at in offsets if _unlike(one.at.get(at), other.at.get(at), committed=at <= last)]
        if unlike:
            findings.append(_differ(history, one, other, unlike, last))
    return findings, len(compared)


def _unlike(one: LogEntry | None, other: LogEntry | None, *, committed: bool) -> bool:
    """Whether one of two logs is wrong at an offset: below what is committed, or by two entries of one epoch."""
    if one is None or other is None:
        return committed
    return (committed or one.epoch == other.epoch) and _content(one) != _content(other)


def _content(entry: LogEntry) -> tuple[object, ...]:
    return entry.epoch, entry.fields.get("content"), entry.fields.get("errors")


def _differ(history: History, one: _Log, other: _Log, unlike: Sequence[int], last: int) -> Finding:
    offset = unlike[0]
    agreed = max((at for at in one.at.keys() & other.at.keys() if at < offset), default=None)
    why = "One leader writes an offset once, and an epoch has one leader."
    if offset <= last:
        why = f"Up to {shown(last)} they cannot differ: it is committed in both logs, or both hold the entry there."
    steps = [
        f"At {shown(offset)} {log.node} holds {_shown(log.at.get(offset))}{_between(log, offset)}."
        for log in (one, other)
    ]
    before = "There is no entry before it" if agreed is None else f"They agree up to {shown(agreed)}"
    more = f"; in all they differ at {len(unlike)} offsets" if len(unlike) > 1 else ""
    return DIFFER.on_disk(history, one.node, other.node, steps=(*steps, why, f"{before}{more}."))


def _shown(entry: LogEntry | None) -> str:
    if entry is None:
        return "nothing"
    wrote = ", ".join(f"{key} = {value!r:.40}" if value else key for key, value in _wrote(entry))
    return f"an entry of epoch {entry.epoch} ({entry.type}{f': {wrote}' if wrote else ''})"


# -- operations of unknown outcome --------------------------------------------------------------------------------


def _settled(logs: _Logs) -> dict[str, list[Operation]]:
    """Sort the operations of unknown outcome by what became of them."""
    settled: dict[str, list[Operation]] = {name: [] for name in (_HAPPENED, _NEVER, _UNDECIDED)}
    for operation in logs.writes.values():
        if operation.type is Outcome.INFO:
            settled[_fate(logs, operation)].append(operation)
    return settled


def _fate(logs: _Logs, operation: Operation) -> str:
    places = logs.places[operation.invoke_index]
    kinds = {place.kind for node, place in places.items() if place.offset <= logs.of_node[node].committed}
    if kinds == {_WRITE}:
        return _HAPPENED
    if kinds == {_REFUSED} or (not places and len(logs.lacking(operation)) == len(logs.voters)):
        return _NEVER
    return _UNDECIDED


def _agreeing(logs: _Logs, writes: Sequence[Operation], entries: int) -> Iterable[str]:
    """What the logs showed; a write that too few of them hold may be in those that say nothing of it."""
    if writes:
        seen = sum(len(logs.places[o.invoke_index]) >= majority(logs.voters) for o in writes)
        yield f"{seen} of {len(writes)} acknowledged writes stand in the logs of a majority of {len(logs.voters)}"
    if entries:
        yield f"{entries} committed entries are the same in all logs that hold them"


def _remarks(logs: _Logs) -> Iterable[str]:
    """What a reader must know of the logs: those that are missing, end in a torn write, or are damaged."""
    for node in logs.voters:
        log = logs.of_node.get(node)
        if log is None:
            yield f"the log of {node} was not read"
        elif log.why:
            yield f"what the log of {node} lacks says nothing: {log.why}"
        elif log.log.torn:
            yield f"the log of {node} ends in an incomplete write of {log.log.torn_bytes} bytes"
