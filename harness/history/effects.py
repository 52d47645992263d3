"""What a fault does to nodes and links while it is in force. Histories, checkers and tables know nothing else of it.

A fault declares its effects (`FaultKind.effects`), and each of its events carries them. Events of schema version 1 have
only the fault's name, those of version 2 say nothing of disks: `recorded_effects` is the only place where names matter.

What every event of a history has.

Events that are read in the logs of servers: elections, resignations, refusals, how a node caught up.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


# Events hold JSON values without cycles, so the garbage collector need not visit a million of them (gc=False).
class BaseEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """Every event: `index` counts from 0 without gaps and is the order; `time_ns` never decreases with it."""

    index: int
    time_ns: int


class Stops(StrEnum):
    """Whether the servers of the fault's nodes stop."""

    #: From the proof to the beginning of the healing none of them runs: each is frozen or dead.
    CERTAIN = "certain"
    #: At any moment from the fault's beginning to the end of its healing, one of them may be stopped.
    POSSIBLE = "possible"
    NO = "no"


class DiskEffect(StrEnum):
    """What a fault leaves on the disks of its nodes when it is over."""

    #: Everything that the server wrote.
    KEPT = "kept"
    #: What the server had synced; what it had only written may be gone (detail `lost` of the fault names it).
    UNSYNCED = "unsynced"
    #: What the server wrote may read as something else, synced or not.
    DAMAGED = "damaged"


class Effects(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effects of one fault on its `nodes` and links; by default none."""

    stops: Stops = Stops.NO
    #: Links carry no packets, or their connections are ended.
    cuts: bool = False
    #: Threads of a running server may be held in a system call for as long as the fault lasts.
    holds: bool = False
    #: Links are slow, lossy, narrow or disordered.
    delays: bool = False
    #: Clocks do not show true time; `ClockEvent`s say what they show instead.
    skews: bool = False
    #: Members are removed and added.
    changes_members: bool = False
    #: A server may end by itself: it cannot write. Until then it runs.
    ends: bool = False
    disk: DiskEffect = DiskEffect.KEPT

    @property
    def may_stop(self) -> bool:
        """Whether a server of the fault's nodes may be inactive for a while, proven or not."""
        return self.stops is not Stops.NO or self.holds


_DEAD: Final = Effects(stops=Stops.CERTAIN)
_AT_TIMES: Final = Effects(stops=Stops.POSSIBLE)
_CUTS: Final = Effects(cuts=True)

_VERSION_1: Final[Mapping[str, Effects]] = {
    "churn": _AT_TIMES,
    "clock-skew": Effects(skews=True),
    "damage": Effects(stops=Stops.POSSIBLE, disk=DiskEffect.DAMAGED),
    "depose": _DEAD,
    "disk": Effects(holds=True, ends=True),
    "flapping": _CUTS,
    "gray": _AT_TIMES,
    "kill": _DEAD,
    "link": Effects(cuts=True, delays=True),
    "lost-write": Effects(stops=Stops.CERTAIN, holds=True),
    "membership": Effects(stops=Stops.POSSIBLE, changes_members=True),
    "partition": _CUTS,
    "pause": _DEAD,
    "power-loss": Effects(stops=Stops.CERTAIN, disk=DiskEffect.UNSYNCED),
    "rolling": _AT_TIMES,
    "toxic": Effects(cuts=True, delays=True),
}


def recorded_effects(fault: str, effects: Effects | None) -> Effects:
    """Complete the effects of an event of an earlier schema version by what its fault's name meant then."""
    if effects is None:
        return effects_of_version_1(fault)
    if effects.disk is DiskEffect.KEPT:
        return msgspec.structs.replace(effects, disk=effects_of_version_1(fault).disk)
    return effects


def effects_of_version_1(fault: str) -> Effects:
    """Return the effects of a fault whose events carry none; none for a kind that no release of version 1 had."""
    return _VERSION_1.get(fault, Effects())


class EpochEvent(BaseEvent, frozen=True, tag="epoch"):
    """A node's own log says that it became leader of `epoch`; `time_ns` is when the line was read."""

    node: str
    incarnation: int
    epoch: int
    source: str


class CatchUp(StrEnum):
    """How a node came to have what others had: which of these a store takes depends on its thresholds."""

    #: It was sent the changes that it lacked; or the whole state, since the sender no longer had those changes.
    DIFFERENCE = "difference"
    SNAPSHOT = "snapshot"
    #: It had more than the leader, and cut that off.
    TRUNCATION = "truncation"
    #: It read a snapshot: its own at its start, or one that it had just been sent. And it saved one of its own.
    LOADED = "loaded"
    SAVED = "saved"


class CatchUpEvent(BaseEvent, frozen=True, tag="catch-up"):
    """A node's own log says how it caught up; `time_ns` is when the line was read."""

    node: str
    incarnation: int
    change: CatchUp
    source: str


class Logged(StrEnum):
    """A change of which servers' logs tell."""

    #: The node ceased to lead in the layer `subject`; `epoch` is the reign's, where the line has it. Its state is again
    #: that of `position`, where the line has it: it gave up what it had not committed.
    RESIGNED = "resigned"
    #: The in-sync replicas of the topic partition `key` became `detail`, by the log of its leader; `position` is the
    #: version of the partition's state that has them, where the line names it.
    IN_SYNC = "in-sync"
    #: The broker was registered, with the broker epoch `position`.
    REGISTERED = "registered"
    #: The broker may serve clients, or may not.
    UNFENCED = "unfenced"
    FENCED = "fenced"
    #: The broker began its controlled shutdown, or all of its leaders were moved and it may end.
    STOPPING = "stopping"
    MAY_STOP = "may-stop"
    #: The node, as the controller, refused a broker: its epoch is not the newest, or its id is a living broker's.
    STALE_BROKER_EPOCH = "stale-broker-epoch"
    DUPLICATE_ID = "duplicate-id"


def log_of(node: str) -> str:
    """What `source` is where the log of one node tells of another."""
    return f"{node}'s log"


class LogEvent(BaseEvent, frozen=True, tag="log"):
    """A log says that something about `node` changed: the node's own log, or that of `source`.

    The line was written after `asked_ns`, when the log was read and did not have it, and by `time_ns`, when it had.
    """

    node: str
    incarnation: int
    change: Logged
    asked_ns: int
    source: str
    subject: str | None = None
    key: str | None = None
    epoch: int | None = None
    position: int | None = None
    detail: str | None = None
    #: The id of the topic, where a broker begins to lead a partition: a later topic of that name has another one.
    topic: str | None = None


class ReplicaEvent(BaseEvent, frozen=True, tag="replica"):
    """What one node alone holds of `subject`, read after the load; it was the same from `asked_ns` until `time_ns`.

    Without a key `value` is a digest of everything, None where it could not be read (`detail` says why). Where nodes
    differ, a row for each differing key has the digest of what the node holds there, None where it lacks the key.
    `position` is how far the node says that it has applied its log; only nodes at one position must hold the same.
    """

    node: str
    incarnation: int
    asked_ns: int
    subject: str
    key: str | None = None
    value: str | None = None
    position: int | None = None
    detail: str | None = None


class AttemptEvent(BaseEvent, frozen=True, tag="attempt"):
    """A log says that a node tried to act as a leader and was refused; `time_ns` is when the line was read.

    `node` tried `f`, on `key` where there is one. `error` is the refusal, or "request-timed-out" where there was none
    and the act may still happen. `epoch` is the epoch in which it acted, where the log says so. `source` is the log:
    the node's own, or that of the node that refused.
    """

    node: str
    f: str
    error: str
    source: str
    epoch: int | None = None
    key: str | None = None
    detail: str | None = None
