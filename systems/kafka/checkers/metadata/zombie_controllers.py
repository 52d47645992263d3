"""What superseded controllers of Kafka on ZooKeeper tried, by the ZooKeepers' disks and the servers' logs.

ZooKeeper orders everything: the transaction that elects a controller says from which zxid on every earlier one is
superseded, and each transaction says in which session, so by which broker, it was asked for. No clock takes part. Of
what a broker asked for after it was superseded,
  - a multi that failed at its first operation with "bad version" was fenced: a controller's first operation checks the
    version of /controller_epoch;
  - a write that checked the version of an earlier election, or that set the state of a topic partition under an earlier
    controller epoch without any check (KAFKA-6082), took effect: "stamped-effect", the act that the promise rules out;
  - a topic made or deleted on behalf of a client carries no epoch, so nothing fences it: "unfenced-change", which
    breaks a guarantee of its own. That one is never kept: where no such change was made, nothing had kept it away.
Logs tell of what never came so far: requests that brokers ignored for their controller epoch, and topics that could not
be made since the session had expired. The latter count when a client had asked this node for the topic, a later epoch
had certainly begun, and no ZooKeeper holds it by that broker's hand. They carry no epoch either, so they say nothing of
the first guarantee.

Only what a majority of ZooKeepers logged is taken for committed. The state of a partition is written by its leader as
well in releases before 2.7, under the epoch that it was told; so a stamp counts only in the hand of that epoch's
controller.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.acts import STAMPED
from fencepost.checkers.derived.positions import events_of
from fencepost.checkers.derived.reigns import logged_elections
from fencepost.checkers.leadership import NO_ACT
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding
from fencepost.harness.history import AttemptEvent, History, LogEntry, Operation, OpEvent, Outcome
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import ACTED, FENCED, Figures, Rows, Traced
from fencepost.systems.kafka.facts.controllers import (
    CONTROLLER,
    ControllerReign,
    committed,
    controller_reigns,
    deeds_of_nodes,
)

STAMP: Final = Rule(
    guarantee=NO_ACT,
    anomaly=STAMPED,
    tested="attempts of superseded controllers to act as controllers",
    lacks="no write of a superseded controller that checks its epoch came as far as ZooKeeper",
)
UNFENCED: Final = Rule(
    guarantee="client-changes-are-fenced",
    anomaly="unfenced-change",
    tested="changes that superseded controllers made for clients",
    lacks="no superseded controller made a change for a client",
)
#: What refused it: ZooKeeper by the version of /controller_epoch, a broker by the epoch, ZooKeeper for its session.
BY_EPOCH: Final = "controller-epoch"
BY_BROKER: Final = "stale-controller-epoch"
BY_SESSION: Final = "session-expired"

_BAD_VERSION: Final = -103
_CLIENTS: Final = {"topic": "make topic", "remove-topic": "delete topic"}
_SHOWN_MAX: Final = 50


class _Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """`node`, controller of `epoch`, did `what` when `superseded_by` had begun: `refused_by` something, or it stands.

    `zxid` is where ZooKeeper's log has it; `indexes` are the rows of the history that tell of it.
    """

    indexes: Rows
    node: str
    epoch: int
    superseded_by: int
    what: str
    refused_by: str | None = None
    zxid: str | None = None

    @property
    def figures(self) -> Figures:
        """The attempt as a row; what is not known is left out."""
        own = {"node": self.node, "epoch": self.epoch, "superseded_by": self.superseded_by}
        more = {"refused_by": self.refused_by, "zxid": self.zxid}
        return {
            **own,
            "what": Traced(self.what, self.indexes),
            **{name: value for name, value in more.items() if value is not None},
        }


class _Deeds(msgspec.Struct, kw_only=True):
    """What superseded controllers tried: as controllers (`fenced`, `stamped`), or for clients (the other lists)."""

    reigns: list[ControllerReign]
    fenced: list[_Attempt] = []
    stamped: list[_Attempt] = []
    expired: list[_Attempt] = []
    unfenced: list[_Attempt] = []


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge what superseded controllers tried, by the logs that were kept.

    Returns:
        Two verdicts, on what they tried as controllers and for clients; none if the logs show no election of one.

    Source: Zab orders all transactions, so an election separates what a controller wrote before and after it was
    superseded (Junqueira, Reed, Serafini, 2011).

    Cost: O(n log n) for n entries and lines.
    """
    entries = committed(history, facts)
    reigns = controller_reigns(entries)
    if not reigns:
        return []
    deeds = _Deeds(reigns=reigns, fenced=[], stamped=[], expired=[], unfenced=[])
    _by_disk(deeds, entries, history.operations)
    _by_logs(deeds, history, entries)
    return [_as_controllers(history, facts, deeds), _for_clients(history, facts, deeds)]


def _by_disk(deeds: _Deeds, entries: Sequence[LogEntry], operations: Sequence[Operation]) -> None:
    """Go through the transactions in order, and sort what earlier controllers wrote after they were superseded."""
    by_version = {reign.version: reign for reign in deeds.reigns}
    by_epoch = {reign.epoch: reign for reign in deeds.reigns}
    for deed in deeds_of_nodes(entries):
        entry, node, current = deed.entry, deed.node, deed.current
        stamp = _stamp(entry, node, by_version, by_epoch)
        if stamp is not None and stamp.epoch < current.epoch:
            deeds.stamped.append(_deed(entry, stamp.node, stamp, current, _summary(entry)))
            continue
        own = deed.own
        if own is None or own is current:
            continue
        if entry.type == "refused" and entry.fields["multi"] and entry.fields["errors"][0] == _BAD_VERSION:
            deeds.fenced.append(_deed(entry, node, own, current, "write metadata", BY_EPOCH))
        elif entry.type in _CLIENTS:
            unfenced = _deed(entry, node, own, current, _summary(entry))
            deeds.unfenced.append(msgspec.structs.replace(unfenced, indexes=_client(operations, entry, node)))


def _stamp(
    entry: LogEntry, node: str, by_version: Mapping[int, ControllerReign], by_epoch: Mapping[int, ControllerReign]
) -> ControllerReign | None:
    """Return the reign of a committed write, if the write is stamped with one."""
    if entry.type == "refused":
        return None
    if "checked_version" in entry.fields:
        return by_version.get(entry.fields["checked_version"])
    if entry.type != "partition-state":
        return None
    reign = by_epoch.get(entry.fields["controller_epoch"])
    return reign if reign is not None and reign.node == node else None


def _client(operations: Iterable[Operation], entry: LogEntry, node: str) -> tuple[int, ...]:
    """Return the rows of the request that made this topic; none if several clients asked this node for it."""
    wanted = ("create", entry.fields["name"], node)
    requests = [o for o in operations if (o.f, o.key, o.node) == wanted and o.type is not Outcome.FAIL]
    return events_of(requests[0]) if entry.type == "topic" and len(requests) == 1 else ()


def _deed(
    entry: LogEntry, node: str, own: ControllerReign, current: ControllerReign, what: str, refused_by: str | None = None
) -> _Attempt:
    return _Attempt(
        node=node,
        epoch=own.epoch,
        superseded_by=current.epoch,
        what=what,
        refused_by=refused_by,
        zxid=f"{entry.offset:#x}",
        indexes=(),
    )


def _summary(entry: LogEntry) -> str:
    fields = entry.fields
    if entry.type == "partition-state":
        return f"set the state of {fields['topic']}-{fields['partition']}"
    if entry.type in _CLIENTS:
        return f"{_CLIENTS[entry.type]} {fields['name']}"
    return f"{entry.type} {fields.get('path', fields.get('resource_name', ''))}".strip()


def _by_logs(deeds: _Deeds, history: History, entries: list[LogEntry]) -> None:
    """Add the log lines to each attempt that stands on disk, and the attempts that only log lines show."""
    attempts = history.of(AttemptEvent)
    if not attempts:
        return
    lines = logged_elections(history)
    epochs = sorted(reign.epoch for reign in deeds.reigns)
    on_disk = {(deed.node, deed.epoch) for deed in deeds.fenced}
    of_reign: dict[tuple[str, int], list[int]] = {}
    changes: set[int] = set()
    for event in attempts:
        epoch = event.epoch if event.epoch is not None else lines.own_epoch(event.node, event.index)
        later = None if epoch is None else next((other for other in epochs if other > epoch), None)
        if epoch is None or later is None:
            continue
        deed = _Attempt(
            node=event.node,
            epoch=epoch,
            superseded_by=later,
            what=event.f if event.key is None else f"{event.f} {event.key}",
            refused_by=event.error,
            indexes=(event.index,),
        )
        if event.error == BY_EPOCH:
            of_reign.setdefault((event.node, epoch), []).append(event.index)
            if (event.node, epoch) not in on_disk:
                deeds.fenced.append(deed)
        elif event.error == BY_BROKER:
            deeds.fenced.append(deed)
        elif event.error == BY_SESSION and lines.had_begun(later, event.time_ns):
            request = _request_behind(history.operations, event)
            # A look at the same topic fails alike: of several lines one is the change's.
            if request is not None and request.invoke_index not in changes and not _made(entries, event):
                changes.add(request.invoke_index)
                rows = (request.invoke_index, event.index)
                deeds.expired.append(msgspec.structs.replace(deed, indexes=rows))
    deeds.fenced = [
        msgspec.structs.replace(deed, indexes=tuple(of_reign.get((deed.node, deed.epoch), ())))
        if deed.zxid is not None
        else deed
        for deed in deeds.fenced
    ]


def _request_behind(operations: Iterable[Operation], event: AttemptEvent) -> Operation | None:
    """Return the client's request behind a log line: the last one that this node did not answer with ok."""
    unanswered = [
        o
        for o in operations
        if (o.f, o.key, o.node) == (event.f, event.key, event.node)
        and o.invoked_ns <= event.time_ns
        and o.type is not Outcome.OK
    ]
    return unanswered[-1] if unanswered else None


def _made(entries: list[LogEntry], event: AttemptEvent) -> bool:
    """Whether this broker made the topic, in any session."""
    own = {e.fields["session"] for e in entries if e.type == "registration" and e.fields["node"] == event.node}
    return any(e.type == "topic" and e.fields["name"] == event.key and e.fields["session"] in own for e in entries)


def _as_controllers(history: History, facts: Facts, deeds: _Deeds) -> Verdict:
    lines = logged_elections(history)
    by = {name: sum(d.refused_by == name for d in deeds.fenced) for name in (BY_EPOCH, BY_BROKER)}
    judged = verdict(
        facts,
        STAMP.tally([_stamped_finding(history, deeds, d) for d in deeds.stamped], by[BY_EPOCH] + len(deeds.stamped)),
        broken=f"{len(deeds.stamped)} writes of superseded controllers took effect under an earlier controller epoch",
        exposed=Traced(len(deeds.fenced) + len(deeds.stamped)),
        untested=f"of {len(deeds.reigns)} controllers none tried to act as one once superseded",
        kept=f"superseded controllers tried to act {len(deeds.fenced)} times and were refused each time "
        f"({_counts(by)})",
        figures={
            "controllers": len(deeds.reigns),
            "elections": tuple(
                {"node": r.node, "epoch": r.epoch, "zxid": Traced(f"{r.at:#x}", lines.rows(r.node, r.epoch))}
                for r in deeds.reigns[:_SHOWN_MAX]
            ),
            FENCED: _fenced(deeds.fenced),
            "fenced_by": {name: number for name, number in by.items() if number},
            ACTED: Traced(len(deeds.stamped)),
            "attempts": tuple(deed.figures for deed in (*deeds.stamped, *deeds.fenced)[:_SHOWN_MAX]),
        },
    )
    # The clients' view of the same guarantee is judged by another checker.
    return msgspec.structs.replace(judged, weighs=judged.cause is None, subject=CONTROLLER)


def _for_clients(history: History, facts: Facts, deeds: _Deeds) -> Verdict:
    unfenced, expired = len(deeds.unfenced), len(deeds.expired)
    refused = f"; {expired} failed since its session had expired" if expired else ""
    judged = verdict(
        facts,
        UNFENCED.tally([_unfenced_finding(history, deeds, deed) for deed in deeds.unfenced], unfenced),
        broken=f"{unfenced} {'change' if unfenced == 1 else 'changes'} that superseded controllers made for clients "
        f"took effect: nothing fences them{refused}",
        untested=f"no change that a superseded controller made for a client took effect{refused}",
        kept="",
        figures={
            FENCED: _fenced(deeds.expired),
            "unfenced_changes_for_clients": unfenced,
            "attempts": tuple(deed.figures for deed in (*deeds.unfenced, *deeds.expired)[:_SHOWN_MAX]),
        },
    )
    return msgspec.structs.replace(judged, subject=CONTROLLER)


def _fenced(deeds: Sequence[_Attempt]) -> Traced[int]:
    return Traced(len(deeds), tuple(sorted({i for deed in deeds for i in deed.indexes})))


def _counts(by: Mapping[str, int]) -> str:
    return ", ".join(f"{number} by {name}" for name, number in by.items() if number) or "none"


def _stamped_finding(history: History, deeds: _Deeds, deed: _Attempt) -> Finding:
    effect = f"Transaction {deed.zxid} came after it: {deed.node} {deed.what} under epoch {deed.epoch}."
    return _finding(
        history,
        deeds,
        deed,
        STAMP,
        (effect, "A majority of the ZooKeepers has it on disk, so it took effect."),
    )


def _unfenced_finding(history: History, deeds: _Deeds, deed: _Attempt) -> Finding:
    rows = [history.events[index] for index in deed.indexes]
    answers = [e for e in rows if type(e) is OpEvent and e.type is not Outcome.INVOKE]
    steps = (
        f"Transaction {deed.zxid} came after it: {deed.node}, no longer the controller, did this for a client: "
        f"{deed.what}.",
        *(f"The client's {e.f} of {e.key} through {e.node} ended {e.type.value} (event {e.index})." for e in answers),
        "A majority of the ZooKeepers has it on disk, so it took effect; it carries no epoch that could fence it.",
    )
    return _finding(history, deeds, deed, UNFENCED, steps)


def _finding(history: History, deeds: _Deeds, deed: _Attempt, rule: Rule, steps: tuple[str, ...]) -> Finding:
    """Make the finding about one deed, with the elections of its controller and of the successor."""
    old, new = (next(r for r in deeds.reigns if r.epoch == epoch) for epoch in (deed.epoch, deed.superseded_by))
    lines = logged_elections(history)
    indexes = (*lines.rows(old.node, old.epoch), *lines.rows(new.node, new.epoch), *deed.indexes)
    return rule.finding(
        events=indexes,
        steps=(
            f"ZooKeeper's transaction {old.at:#x} elected {old.node} in controller epoch {old.epoch}.",
            f"Transaction {new.at:#x} elected {new.node} in epoch {new.epoch}.",
            *steps,
        ),
        from_ns=min((history.events[index].time_ns for index in indexes), default=0),
        to_ns=history.end_ns,
        nodes=(deed.node, new.node),
    )
