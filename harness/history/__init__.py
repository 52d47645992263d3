"""What a run leaves: operations, events, and the history that orders them. Knows no files, clocks or systems.

The history of one run: its events in order, checked against the rules, and the views that checkers share.

The rules (a breach names the line or event and the rule):
  - `index` counts from 0 without gaps; `time_ns` is not negative and never decreases.
  - a process has at most one open operation; a completion has the process, `f`, key and node of its invocation.
  - a process that ended `info` never acts again.
  - a fault's `end` follows its `begin`, and its heal its inject; a `begin` is `pending`, an `end` is not.

History and plan alone decide whether a run was played as planned, so that a later check says the same. A run is
complete when its main phase lasted as long as planned and all later phases were played. A note says what cut it short.
A harness that was killed leaves no note, but then phases are missing, and the outer process writes into the run's facts
what ended it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Final, Self, TypeVar

import msgspec

from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history.effects import (
    AttemptEvent as AttemptEvent,
    CatchUp as CatchUp,
    CatchUpEvent as CatchUpEvent,
    DiskEffect as DiskEffect,
    Effects as Effects,
    EpochEvent as EpochEvent,
    LogEvent as LogEvent,
    Logged as Logged,
    ReplicaEvent as ReplicaEvent,
    Stops as Stops,
    log_of as log_of,
    recorded_effects,
)
from fencepost.harness.history.operation import (
    BROKEN_SERVER as BROKEN_SERVER,
    CAS_MISMATCH as CAS_MISMATCH,
    CLIENT_DEFECT as CLIENT_DEFECT,
    DISK_FULL as DISK_FULL,
    HARNESS_ERROR as HARNESS_ERROR,
    NEMESIS_PROCESS as NEMESIS_PROCESS,
    NEW_DISK as NEW_DISK,
    PART_OF as PART_OF,
    STOPPED_EARLY as STOPPED_EARLY,
    UNNAMED_NODE as UNNAMED_NODE,
    WATCHED as WATCHED,
    BeliefEvent as BeliefEvent,
    Claim as Claim,
    Clock as Clock,
    ClockEvent as ClockEvent,
    Completion as Completion,
    Event as Event,
    FaultAction as FaultAction,
    FaultEvent as FaultEvent,
    FaultOutcome as FaultOutcome,
    FaultStage as FaultStage,
    MigrationDelayEvent as MigrationDelayEvent,
    MigrationEvent as MigrationEvent,
    NodeChange as NodeChange,
    NodeEvent as NodeEvent,
    NoteEvent as NoteEvent,
    Operation as Operation,
    OpEvent as OpEvent,
    Outcome as Outcome,
    PhaseEvent as PhaseEvent,
    PhaseName as PhaseName,
    SampleEvent as SampleEvent,
    Value as Value,
    pair as pair,
)

E = TypeVar("E")

#: Version of the event records, written in every Parquet file and in `run.json`.
SCHEMA_VERSION: Final = 3


class FaultSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One fault from injection to healing.

    It was certainly in force in [`certain_from_ns`, `certain_to_ns`]: after the proof, before the heal was issued; None
    when it was not proven. It was possibly in force in [`began_ns`, `ended_ns`]; `ended_ns` is None when it was never
    healed in this history.
    """

    fault_id: int
    fault: str
    target: str
    nodes: tuple[str, ...]
    severed: tuple[str, ...]
    outcome: FaultOutcome
    began_ns: int
    certain_from_ns: int | None
    certain_to_ns: int | None
    ended_ns: int | None
    leader: str | None
    epoch: int | None
    proof: str | None
    why: str | None
    details: dict[str, str | int | float | bool]
    effects: Effects
    events: tuple[int, ...]


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One entry of a replicated log, as a node's disk has it; `epoch` is that of the leader that appended it.

    `fields` has the values that differ from their defaults. In the log of a key-value store, `content` is a checksum of
    the entry, and `wrote` are the keys with the values to write: in an entry of type "write" they took effect, of type
    "refused" they did not, of type "maybe" the log does not tell.
    """

    offset: int
    epoch: int
    type: str
    fields: dict[str, Any] = {}


class NodeLog(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node's replicated log after the run, from `start_offset` on; `torn`: its last write was incomplete.

    `torn_bytes`: the length of that write, where it is counted. `damaged`: where the log stopped making sense, although
    more of it follows; no later entries are known. `commit`: up to which offset the node knew its log as committed.
    Earlier entries may exist as a `snapshot`: the state below `snapshot_end`, the offset behind its last entry.
    A system with several replicated logs names each by `of`; only logs with one name are copies of each other.
    """

    node: str
    start_offset: int
    entries: tuple[LogEntry, ...] = ()
    snapshot_end: int = 0
    snapshot: tuple[LogEntry, ...] = ()
    torn: bool = False
    torn_bytes: int = 0
    damaged: str = ""
    commit: int = 0
    of: str = ""


class History:
    """Events that passed `validate`, and the views made of them once."""

    def __init__(
        self,
        events: Sequence[Event],
        *,
        source: str = "history",
        torn: bool = False,
        lines: bool = False,
        checked: bool = False,
    ) -> None:
        """Check the events, unless they are. `torn`: an incomplete last line of `source` was dropped.

        `lines`: event i is line i + 1.
        """
        if not checked:
            validate(events, source=source, lines=lines)
        self.events: Final[Sequence[Event]] = events
        self.torn: Final = torn
        #: The nodes' replicated logs after the run, by node; empty where they were not kept.
        self.logs: Mapping[str, NodeLog] = {}
        #: Results derived from this history, kept for later callers; the key is what derived them.
        self.derived: Final[dict[Any, list[Any]]] = {}

    @cached_property
    def operations(self) -> list[Operation]:
        """Paired operations in the order of invocation."""
        return pair(self.of(OpEvent))

    def with_operations(self, operations: list[Operation]) -> Self:
        """Return the history with these operations in place of its own; its events stay."""
        other = copy(self)
        other.__dict__.pop("transactions", None)
        other.__dict__.update(operations=operations, derived={})
        return other

    @cached_property
    def transactions(self) -> Mapping[int, Operation]:
        """Operations `txn` by the number that names them in sentences: T0 is the first."""
        return dict(enumerate(op for op in self.operations if op.f == "txn"))

    @cached_property
    def end_ns(self) -> int:
        """The time of the last event; 0 for an empty history."""
        return self.events[-1].time_ns if self.events else 0

    @cached_property
    def phases(self) -> dict[PhaseName, tuple[int, int]]:
        """The interval [from, to) of every phase that began, in ns."""
        starts = [(e.phase, e.time_ns) for e in self.of(PhaseEvent)]
        if not starts:
            return {}
        ends = [start for _, start in starts[1:]] + [self.end_ns + 1]
        return {phase: (start, end) for (phase, start), end in zip(starts, ends, strict=True)}

    @cached_property
    def faults(self) -> list[FaultSpan]:
        """Every fault that was attempted, in the order of its beginning."""
        grouped: dict[int, list[FaultEvent]] = {}
        for event in self.of(FaultEvent):
            grouped.setdefault(event.fault_id, []).append(event)
        return [self._whole_healed(_span(events)) for events in grouped.values()]

    def _whole_healed(self, span: FaultSpan) -> FaultSpan:
        """A part of a fault whose own healing has no end was healed by the end of the healing of the whole."""
        if span.ended_ns is None and (whole := self.healing_of_whole(span.details)) is not None:
            return msgspec.structs.replace(span, ended_ns=max(whole.time_ns, span.began_ns))
        return span

    def healing_of_whole(self, details: Mapping[str, Any]) -> FaultEvent | None:
        """Return the proven healing of the whole fault that a part with these details belongs to; None without one."""
        return self._healings.get(details.get(PART_OF))

    @cached_property
    def _healings(self) -> dict[Any, FaultEvent]:
        return {event.fault_id: event for event in self.of(FaultEvent) if event.outcome is FaultOutcome.HEALED}

    def of(self, kind: type[E]) -> list[E]:
        """The events of one type, in order; the list is the history's own."""
        return self._by_kind.get(kind, [])

    @cached_property
    def _by_kind(self) -> dict[type, list[Any]]:
        # Everybody wants the few events that are no operations: looked for once.
        by_kind: dict[type, list[Any]] = defaultdict(list)
        for event in self.events:
            by_kind[type(event)].append(event)
        return by_kind

    @property
    def samples(self) -> list[SampleEvent]:
        return self.of(SampleEvent)

    @cached_property
    def healed_ns(self) -> int | None:
        """When all faults were healed: the beginning of the settle phase; None when the run never came so far."""
        settle = self.phases.get(PhaseName.SETTLE)
        return settle[0] if settle else None

    def stopped(self, node: str) -> list[tuple[int, int]]:
        """Return the intervals in ns in which `node` provably did not run (paused or dead); they may be too short."""
        stopping = (f for f in self.faults if f.effects.stops is Stops.CERTAIN and node in f.nodes)
        spans = [span for fault in stopping if (span := self.certain(fault)) is not None]
        return sorted([*spans, *((start, end) for start, end, _ in self.dead(node))])

    def certain(self, fault: FaultSpan) -> tuple[int, int] | None:
        """Return [from, to] in ns in which `fault` was certainly in force; None if that was never proven."""
        if fault.certain_from_ns is None:
            return None
        return fault.certain_from_ns, self.end_ns if fault.certain_to_ns is None else fault.certain_to_ns

    def possible(self, fault: FaultSpan) -> tuple[int, int]:
        """Return [from, to] in ns in which `fault` may have been in force."""
        return fault.began_ns, self.end_ns if fault.ended_ns is None else fault.ended_ns

    def in_force(self, at_ns: int) -> list[FaultSpan]:
        """List the faults that were certainly in force at `at_ns`."""
        spans = ((fault, self.certain(fault)) for fault in self.faults)
        return [fault for fault, span in spans if span is not None and span[0] <= at_ns <= span[1]]

    def paused(self, fault: FaultSpan, node: str) -> bool:
        """Decide whether `fault` stopped `node`'s server and let it continue, without its process ending meanwhile."""
        if fault.effects.stops is not Stops.CERTAIN or node not in fault.nodes:
            return False
        began_ns, ended_ns = self.possible(fault)
        return not any(start <= ended_ns and end >= began_ns for start, end, _ in self.dead(node))

    def dead(self, node: str) -> list[tuple[int, int, int]]:
        """Return (from, to, incarnation) of every time that the server's process was gone; times in ns."""
        out: list[tuple[int, int, int]] = []
        since: tuple[int, int] | None = None
        for event in self.of(NodeEvent):
            if event.node != node:
                continue
            if event.change is NodeChange.EXITED:
                since = (event.time_ns, event.incarnation)
            elif event.change is NodeChange.STARTED and since is not None:
                out.append((since[0], event.time_ns, since[1]))
                since = None
        if since is not None:
            out.append((since[0], self.end_ns, since[1]))
        return out


def _span(events: list[FaultEvent]) -> FaultSpan:
    by = {(e.action, e.stage): e for e in events}
    first = events[0]
    proof = by.get((FaultAction.INJECT, FaultStage.END))
    # The first attempt to heal may have succeeded, however many attempts were recorded.
    heal_begin = next((e for e in events if (e.action, e.stage) == (FaultAction.HEAL, FaultStage.BEGIN)), None)
    heal_end = by.get((FaultAction.HEAL, FaultStage.END))
    outcome = proof.outcome if proof else FaultOutcome.INDETERMINATE
    proven = proof is not None and outcome is FaultOutcome.INSTALLED
    latest = proof or first
    return FaultSpan(
        fault_id=first.fault_id,
        fault=first.fault,
        target=first.target,
        nodes=latest.nodes or first.nodes,
        severed=latest.severed or first.severed,
        outcome=outcome,
        began_ns=first.time_ns,
        certain_from_ns=proof.time_ns if proven and proof else None,
        certain_to_ns=heal_begin.time_ns if proven and heal_begin else None,
        ended_ns=heal_end.time_ns
        if heal_end
        else (proof.time_ns if proof and outcome is FaultOutcome.SKIPPED else None),
        leader=first.leader if first.leader is not None else latest.leader,
        epoch=first.epoch if first.epoch is not None else latest.epoch,
        proof=proof.proof if proof else None,
        why=latest.why,
        details=latest.details or first.details,
        effects=recorded_effects(first.fault, first.effects),
        events=tuple(e.index for e in events),
    )


def validate(events: Iterable[Event], *, source: str = "history", lines: bool = False) -> None:
    """Raise `MalformedHistory` at the first event that breaks a rule of the module's docstring."""
    if (broken := broken_rule(events, whole=True)) is not None:
        place, rule = broken
        where = f"line {place + 1}" if lines else f"event {place}"
        raise MalformedHistory(f"{source}: {where}: {rule}", hint="the file was not changed; correct or remove it")


def broken_rule(events: Iterable[Event], *, whole: bool = False) -> tuple[int, str] | None:
    """Return the index of the first event that breaks a rule, and that rule; None if all keep them.

    Unless the history is `whole`, events of other processes may be missing: so gaps between the indexes break no rule.
    """
    open_ops: dict[int, OpEvent] = {}
    retired: set[int] = set()
    acts: dict[tuple[int, FaultAction], FaultStage] = {}
    previous_ns = 0
    for place, event in enumerate(events):
        rule: str | None = None
        if whole and event.index != place:
            rule = f"index {event.index} where {place} was expected: lines are missing or out of order"
        elif event.time_ns < previous_ns:
            before = "the event before it" if whole else "an event before it"
            rule = f"time_ns {event.time_ns} is earlier than {previous_ns}, the time of {before}"
        elif type(event) is OpEvent:
            rule = _broken_op_rule(event, open_ops, retired)
        elif whole and type(event) is FaultEvent:
            rule = _broken_fault_rule(event, acts)
        if rule is not None:
            return place if whole else event.index, rule
        previous_ns = event.time_ns
    return None


def _broken_op_rule(event: OpEvent, open_ops: dict[int, OpEvent], retired: set[int]) -> str | None:
    process = event.process
    if event.type is Outcome.INVOKE:
        if process in open_ops:
            before = open_ops[process]
            return f"process {process} invokes {event.f!r} while its {before.f!r} of event {before.index} is still open"
        if process in retired:
            return f"process {process} acts again after it ended `info`"
        open_ops[process] = event
        return None
    invoke = open_ops.pop(process, None)
    if invoke is None:
        return f"process {process} completes {event.f!r}, which it never invoked"
    if invoke.f != event.f or invoke.key != event.key or invoke.node != event.node:
        return (
            f"the completion says ({event.f}, {event.key}, {event.node}), its invocation of event {invoke.index} "
            f"({invoke.f}, {invoke.key}, {invoke.node})"
        )
    if event.type is Outcome.INFO:
        retired.add(process)
    return None


def _broken_fault_rule(event: FaultEvent, acts: dict[tuple[int, FaultAction], FaultStage]) -> str | None:
    """Check one event; `acts` has the last stage of each fault's actions. A heal may be repeated, an inject may not."""
    fault, action = event.fault_id, event.action
    last = acts.get((fault, action))
    if event.stage is FaultStage.BEGIN:
        if event.outcome is not FaultOutcome.PENDING:
            return f"the {action} of fault {fault} begins as `{event.outcome}`; a `begin` must be `pending`"
        if last is FaultStage.BEGIN or (last is FaultStage.END and action is FaultAction.INJECT):
            return f"the {action} of fault {fault} begins a second time"
        if action is FaultAction.HEAL and (fault, FaultAction.INJECT) not in acts:
            return f"fault {fault} is healed, but was never injected"
    else:
        if last is not FaultStage.BEGIN:
            return f"the {action} of fault {fault} ends without having begun"
        if event.outcome is FaultOutcome.PENDING:
            return f"the {action} of fault {fault} ends as `pending`; an `end` must have the outcome of the proof"
    acts[(fault, action)] = event.stage
    return None


#: After one of these notes no load is begun, except the final reads.
_STOPS: Final = frozenset({STOPPED_EARLY, DISK_FULL})
#: The main phase ends with the last operation that fits, so it may be shorter than planned by a pause of the load.
_SLACK_NS: Final = 1_000_000_000
_ENDS_THERE: Final = "the history ends there, as when the harness is killed or its machine goes down"
_UNTOLD: Final = "nothing that was recorded says why"


class MainPhase(msgspec.Struct, frozen=True, kw_only=True):
    """How long the main phase lasted, and was planned to last, in ns; `planned_ns` is None without a plan.

    `cut_short` says in one sentence when and why the run was cut short; None for a complete run.
    """

    planned_ns: int | None
    played_ns: int
    cut_short: str | None


def ending_of(history: History, planned_ns: int | None, failure: str | None = None) -> MainPhase:
    """Decide how a run ended.

    Args:
        planned_ns: the planned length of the main phase; None without a plan. Then only a note or a failure can show
            that the run was cut short.
        failure: what ended the harness before the history was complete, as the outer process recorded it.
    """
    start_ns, end_ns = history.phases.get(PhaseName.MAIN, (0, 0))
    # The history's last phase reaches one nanosecond beyond its last event.
    played_ns = min(end_ns, history.end_ns) - start_ns if end_ns else 0
    cut = _where_and_why(history, played_ns, planned_ns, failure)
    if cut is None:
        return MainPhase(planned_ns=planned_ns, played_ns=played_ns, cut_short=None)
    phase, why = cut
    if phase is PhaseName.MAIN:
        planned = f"the planned {planned_ns / 1e9:g} s of " if planned_ns is not None else ""
        where = f"after {played_ns / 1e9:.1f} s of {planned}its main phase"
    elif PhaseName.MAIN in history.phases:
        where = f"in its {phase} phase"
    else:
        where = "before its main phase"
    return MainPhase(planned_ns=planned_ns, played_ns=played_ns, cut_short=f"the run was cut short {where}: {why}")


def _where_and_why(
    history: History, played_ns: int, planned_ns: int | None, failure: str | None
) -> tuple[PhaseName | None, str] | None:
    note = _cutting_note(history)
    if note is not None:
        phases = [name for name, (start_ns, _) in history.phases.items() if start_ns <= note.time_ns]
        return phases[-1] if phases else None, note.text
    if failure is not None:
        return next(reversed(history.phases), None), failure
    if planned_ns is None:
        return None
    if PhaseName.FINAL not in history.phases:
        return next(reversed(history.phases), None), _ENDS_THERE
    if played_ns < planned_ns - _SLACK_NS:
        return PhaseName.MAIN, _UNTOLD
    return None


def _cutting_note(history: History) -> NoteEvent | None:
    """Return the first note that explains a short run: a stop before the final reads, or a failure."""
    final_ns, _ = history.phases.get(PhaseName.FINAL, (history.end_ns + 1, 0))
    for event in history.of(NoteEvent):
        if event.topic == HARNESS_ERROR or (event.topic in _STOPS and event.time_ns < final_ns):
            return event
    return None
