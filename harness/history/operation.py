"""Operations and all other events of a history, as typed records.

One run leaves one ordered stream of events. An *operation* is an `invoke` event and at most one completion of the
same process: `ok` took effect, `fail` did not and never will, `info` unknown (it may still happen). Faults, beliefs
about who leads, server starts and deaths, clocks, phases and samples of the harness's own health stand in the same
stream. Times are nanoseconds of one monotonic clock since the run's zero. msgspec Structs, since a frozen dataclass
per event costs ten times as much.

The error of an operation has a kind, and stands in a history as

timeout                        no answer came in time
unforeseen: ValueError: ...    an exception that the client does not handle: a defect of the client
<code>...                      a row of the client's table of errors
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec

from fencepost.harness.history.effects import (
    AttemptEvent,
    BaseEvent,
    CatchUpEvent,
    Effects,
    EpochEvent,
    LogEvent,
    ReplicaEvent,
)

#: Processes below zero are the harness's own; clients count from 0.
NEMESIS_PROCESS: Final = -1

#: The value of an operation: JSON, compared by `==`. Registers and sets hold ints, a cas has [old, new].
Value = Any


#: The error of a compare-and-set whose store says that the value is another one; a detail may follow.
CAS_MISMATCH: Final = "cas-mismatch"


class Outcome(StrEnum):
    """The `type` of an operation's event."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Claim(StrEnum):
    """A node's answer to the question whether it leads."""

    YES = "yes"
    NO = "no"
    SILENT = "silent"


class FaultAction(StrEnum):
    INJECT = "inject"
    HEAL = "heal"


class FaultStage(StrEnum):
    """The two events of a fault's action; it happens between them."""

    BEGIN = "begin"
    END = "end"


class FaultOutcome(StrEnum):
    """The result of the proof; every BEGIN event has `PENDING`."""

    PENDING = "pending"
    INSTALLED = "installed"
    SKIPPED = "skipped"
    INDETERMINATE = "indeterminate"
    HEALED = "healed"


class NodeChange(StrEnum):
    STARTED = "started"
    READY = "ready"
    EXITED = "exited"


class PhaseName(StrEnum):
    """The phases of a run, in order. Only `MAIN` injects faults; operations of `FINAL` come after healing."""

    WARM_UP = "warm-up"
    MAIN = "main"
    HEAL = "heal"
    SETTLE = "settle"
    WATCH = "watch"
    FINAL = "final"


class OpEvent(BaseEvent, frozen=True, tag="op"):
    """One event of an operation.

    `position` is the store's position that the reply carries (etcd: header revision; ZooKeeper: the reply's zxid);
    `value_position` is the position of the write that made the value read or written (mod_revision, mzxid); `epoch`
    is the leader's reign that the reply is stamped with (term, zxid >> 32); `session` the server's session id.
    `error` names a row of the client's error table, or an exception that the table does not have.
    """

    type: Outcome
    process: int
    f: str
    node: str
    key: str | None = None
    value: Value = None
    error: str | None = None
    position: int | None = None
    value_position: int | None = None
    epoch: int | None = None
    session: int | None = None


class FaultEvent(BaseEvent, frozen=True, tag="fault"):
    """An act of the nemesis: recorded before it acts (`begin`, with the resolved target) and after the proof (`end`).

    The fault is certainly in force from the `end` of its inject to the `begin` of its heal. `severed` are the
    directed links that carry no packets, as "n1>n2"; "client" is the harness's side. `details` are the figures that
    the fault acts with (an offset, a delay), units in their names. `effects` is None in histories of version 1 only;
    `FaultSpan.effects` always has them.
    """

    fault_id: int
    fault: str
    action: FaultAction
    stage: FaultStage
    outcome: FaultOutcome
    target: str
    nodes: tuple[str, ...] = ()
    severed: tuple[str, ...] = ()
    leader: str | None = None
    epoch: int | None = None
    proof: str | None = None
    why: str | None = None
    details: dict[str, str | int | float | bool] = {}  # noqa: RUF012  # msgspec copies it
    effects: Effects | None = None


class BeliefEvent(BaseEvent, frozen=True, tag="belief"):
    """A single node's answer to the question whether it leads; `time_ns` equals `answered_ns`.

    `incarnation` counts the node's starts from 0. `epoch` is exact when `epoch_exact`, else a lower bound.
    `claims` is `silent` when no answer came before the deadline.
    """

    subject: str
    node: str
    incarnation: int
    claims: Claim
    asked_ns: int
    answered_ns: int
    source: str
    epoch: int | None = None
    epoch_exact: bool = True
    leader: str | None = None
    detail: str | None = None


class NodeEvent(BaseEvent, frozen=True, tag="node"):
    """A server process started, became ready or ended. `expected` is False when it ended by itself."""

    node: str
    change: NodeChange
    incarnation: int
    pid: int | None = None
    exit_status: int | None = None
    expected: bool = True


class Clock(StrEnum):
    """Which clock of a node: the time of day (CLOCK_REALTIME) or the clock of intervals (CLOCK_MONOTONIC)."""

    WALL = "wall"
    MONOTONIC = "monotonic"


class ClockEvent(BaseEvent, frozen=True, tag="clock"):
    """From now until its next event, a node's clock is this function of true time; before its first event, true time.

        skew(t) = offset_ns + (t - since_ns) * (rate - 1) + (delta_ns if strobing)
        strobing: 0 <= t - since_ns < length_ns, and (t - since_ns) // period_ns is even; never where period_ns is 0

    t is the history's time. The change was made between `asked_ns` and `time_ns`; by then it had been read back from
    every process of the node. If it could not be read back, `certain` is False: since `asked_ns` the clock may show
    anything.
    """

    node: str
    incarnation: int
    clock: Clock
    asked_ns: int
    since_ns: int
    offset_ns: int = 0
    rate: float = 1.0
    period_ns: int = 0
    delta_ns: int = 0
    length_ns: int = 0
    certain: bool = True
    fault_id: int | None = None
    proof: str | None = None

    def skew_ns(self, at_ns: int) -> int:
        """Return how far the clock is ahead of true time at `at_ns` of the history, in ns."""
        since = at_ns - self.since_ns
        strobing = self.period_ns and 0 <= since < self.length_ns and since // self.period_ns % 2 == 0
        # A rate is a multiple of 2**-32, as in the clock's own computation.
        drift = since * round((self.rate - 1) * 2**32) >> 32
        return self.offset_ns + drift + (self.delta_ns if strobing else 0)


class PhaseEvent(BaseEvent, frozen=True, tag="phase"):
    """A phase begins; the one before it ends."""

    phase: PhaseName


class SampleEvent(BaseEvent, frozen=True, tag="sample"):
    """The harness's own health since the last sample.

    `loop_lag_ns_max` is the largest delay of a periodic timer, `cpu_stall_ns` the time in which some task waited for a
    processor (/proc/pressure/cpu), `loop_waited_ns` that in which the timer's own thread did
    (/proc/thread-self/schedstat), `node_cpu_ns` the processor time of each node, all since the last sample.
    """

    loop_lag_ns_max: int
    cpu_stall_ns: int | None = None
    loop_waited_ns: int | None = None
    node_cpu_ns: dict[str, int] = {}  # noqa: RUF012  # msgspec copies it


#: The node of operations in a history of another tool that names none.
UNNAMED_NODE: Final = "an unnamed node"
#: Topic of a note: a running server lacks something that it needs ("b1: a class is missing: ..."), and may drop work.
BROKEN_SERVER: Final = "broken-server"
#: A detail of a part of a fault: the number of the whole.
PART_OF: Final = "part_of"
#: A detail of a fault that starts a node on an empty disk: what the node held before is in no log of its own.
NEW_DISK: Final = "new_disk"
#: Topic of the note that says how long nodes were watched after the last healing, and why no longer.
WATCHED: Final = "watched"
#: Topics of notes that say what cut a run short: somebody asked it to stop, its disk was full, the harness failed.
STOPPED_EARLY: Final = "stopped-early"
DISK_FULL: Final = "disk-full"
HARNESS_ERROR: Final = "harness-error"
#: Topic of a note: a client broke a rule outside of its operations; no outcome depends on it.
CLIENT_DEFECT: Final = "client-defect"


class NoteEvent(BaseEvent, frozen=True, tag="note"):
    """Something that a reader of the run must know: an early stop, a full disk, a condition that was not met."""

    topic: str
    text: str


class MigrationEvent(BaseEvent, frozen=True, tag="migration"):
    """A phase of a migration holds from now on, until the next one; `text` is what the servers said of it.

    `length_ns` is the time since the last step, so that a phase without steps of its own shows how long it took.
    `nodes` are those that a roll-back ended for good: they are not part of the cluster in this phase.
    """

    phase: str
    length_ns: int
    text: str
    nodes: tuple[str, ...] = ()


class MigrationDelayEvent(BaseEvent, frozen=True, tag="migration-delay"):
    """A migration was given up, or its time was over: this phase had not begun; `text` is what was missing.

    `length_ns` counts from the last step, or from when the next step was due and the cluster was not healthy.
    """

    phase: str
    length_ns: int
    text: str


Event = (
    OpEvent
    | FaultEvent
    | BeliefEvent
    | NodeEvent
    | EpochEvent
    | CatchUpEvent
    | LogEvent
    | AttemptEvent
    | ReplicaEvent
    | ClockEvent
    | PhaseEvent
    | SampleEvent
    | MigrationEvent
    | MigrationDelayEvent
    | NoteEvent
)


class Completion(msgspec.Struct, frozen=True, gc=False):
    """A client's result of one request: the type of the completion, and what the reply carried."""

    type: Outcome
    value: Value = None
    error: str | None = None
    position: int | None = None
    value_position: int | None = None
    epoch: int | None = None
    session: int | None = None


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One operation, an invocation with its completion: the row that checkers read.

    `value` is the value of the invocation, `result` that of an `ok` completion (for a read, the value read). An
    operation that never completed, or ended `info`, has `type` info and `completed_ns` None: it may take effect at any
    time after `invoked_ns`. `ended_ns` is when the caller stopped waiting, whatever the outcome.
    """

    invoke_index: int
    complete_index: int | None
    process: int
    f: str
    node: str
    type: Outcome
    invoked_ns: int
    completed_ns: int | None
    ended_ns: int | None = None
    key: str | None = None
    value: Value = None
    result: Value = None
    error: str | None = None
    position: int | None = None
    value_position: int | None = None
    epoch: int | None = None
    session: int | None = None

    @property
    def lost_compare(self) -> bool:
        """Whether the store answered a compare-and-set with "another value": it served the request, so no error."""
        return self.type is Outcome.FAIL and (self.error or "").startswith(CAS_MISMATCH)


def pair(events: Iterable[Event]) -> list[Operation]:
    """Join each invocation with its completion, in the order of invocation.

    The events must have passed `harness.history.validate` (one open operation per process).
    """
    slots: list[Any] = []
    open_slots: dict[int, int] = {}
    invoke = Outcome.INVOKE
    for event in events:
        if type(event) is not OpEvent:
            continue
        if event.type is invoke:
            open_slots[event.process] = len(slots)
            slots.append(event)
        else:
            slot = open_slots.pop(event.process)
            slots[slot] = _join(slots[slot], event)
    for slot in open_slots.values():
        slots[slot] = _join(slots[slot], None)
    return slots


def _join(invoke: OpEvent, completion: OpEvent | None) -> Operation:
    if completion is None:
        return Operation(
            invoke_index=invoke.index,
            complete_index=None,
            process=invoke.process,
            f=invoke.f,
            node=invoke.node,
            type=Outcome.INFO,
            invoked_ns=invoke.time_ns,
            completed_ns=None,
            key=invoke.key,
            value=invoke.value,
            error="never completed",
        )
    known = completion.type is not Outcome.INFO
    return Operation(
        invoke_index=invoke.index,
        complete_index=completion.index,
        process=invoke.process,
        f=invoke.f,
        node=invoke.node,
        type=completion.type,
        invoked_ns=invoke.time_ns,
        completed_ns=completion.time_ns if known else None,
        ended_ns=completion.time_ns,
        key=invoke.key,
        value=invoke.value,
        result=completion.value,
        error=completion.error,
        position=completion.position,
        value_position=completion.value_position,
        epoch=completion.epoch,
        session=completion.session,
    )


#: A leader's refusal of an append since too few replicas are in sync.
NOT_ENOUGH_REPLICAS: Final = "not-enough-replicas"
_TIMEOUT: Final = "timeout"
_UNFORESEEN: Final = "unforeseen: "


class ErrorKind(StrEnum):
    """Whether the error proves that nothing was done, leaves that open, is a defect of the client, or a time-out."""

    DEFINITE = "definite"
    INDEFINITE = "indefinite"
    UNFORESEEN = "unforeseen"
    TIMEOUT = "timeout"


class GaveUp(StrEnum):
    """The codes with which a server says that it ended its own work on a request whose outcome it does not know."""

    WRITE_TIMEOUT = "write-timeout"
    READ_TIMEOUT = "read-timeout"
    CAS_UNKNOWN = "cas-unknown"


class OpError(msgspec.Struct, frozen=True):
    """One error. `text` is that of the history; `code` is a row of the client's table, or the exception's name."""

    kind: ErrorKind
    code: str
    text: str


def unforeseen(error: BaseException) -> str:
    """Return the text for an exception that the client does not handle."""
    return f"{_UNFORESEEN}{type(error).__name__}: {error}"


def error_of(operation: Operation) -> OpError | None:
    """Read an operation's error; None where it has none."""
    text = operation.error
    if text is None:
        return None
    if text.startswith(_UNFORESEEN):
        return OpError(ErrorKind.UNFORESEEN, text.removeprefix(_UNFORESEEN).partition(":")[0], text)
    if text == _TIMEOUT:
        return OpError(ErrorKind.TIMEOUT, text, text)
    kind = ErrorKind.DEFINITE if operation.type is Outcome.FAIL else ErrorKind.INDEFINITE
    return OpError(kind, text.partition(":")[0], text)
