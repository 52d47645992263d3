"""Events that are read in the logs of servers: elections, resignations, refusals, how a node caught up."""

from enum import StrEnum

from fencepost.harness.history.effects import BaseEvent


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
