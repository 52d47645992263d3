"""Who was Kafka's controller on ZooKeeper, and what each node asked for when, by the ZooKeepers' disks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import once
from fencepost.harness.base.quorum import majority
from fencepost.harness.history import History, LogEntry
from fencepost.harness.verdict import Facts

#: The subject of controllers, where they are not simply the leaders.
CONTROLLER: Final = "controller"
#: Begins the types of entries that repeat the other store of a migration.
COPIED: Final = "copied-"
_ELECTION: Final = "election"


class ControllerReign(msgspec.Struct, frozen=True, kw_only=True):
    """From zxid `at` on `node` is the controller, in `epoch`, while /controller_epoch has `version`.

    `kraft_epoch` is that of KRaft's quorum if a KRaft controller claimed the role.
    """

    at: int
    node: str
    epoch: int
    version: int
    kraft_epoch: int | None


class Deed(msgspec.Struct, frozen=True):
    """What `node` asked for: `own` is its last reign (None: it never was the controller), `current` the last of all."""

    entry: LogEntry
    node: str
    own: ControllerReign | None
    current: ControllerReign


def electorates(history: History, facts: Facts) -> dict[str, tuple[str, ...]]:
    """The voters of each replicated log, by its name; a voter whose log was not kept may be one of any of them."""
    logs = history.logs
    kinds = dict.fromkeys(log.of for log in logs.values()) or {"": None}
    if len(kinds) == 1:
        return dict.fromkeys(kinds, facts.voters)
    return {kind: tuple(v for v in facts.voters if v not in logs or logs[v].of == kind) for kind in kinds}


@once
def committed(history: History, facts: Facts) -> list[LogEntry]:
    """List the transactions that a majority of the ZooKeepers' disks hold, in their order; none without an election.

    Servers that diverged hold different entries at one zxid: each has holders of its own.
    """
    groups = electorates(history, facts).values() if facts.voters else (tuple(history.logs),)
    by_log = [_committed_by(history, voters) for voters in groups]
    return next((own for own in by_log if any(entry.type == _ELECTION for entry in own)), [])


def _committed_by(history: History, voters: Sequence[str]) -> list[LogEntry]:
    copies: dict[int, list[LogEntry]] = {}
    for node in voters:
        for entry in history.logs[node].entries if node in history.logs else ():
            copies.setdefault(entry.offset, []).append(entry)
    least = majority(voters)
    held = (next((e for e in own if own.count(e) >= least), None) for _, own in sorted(copies.items()))
    return [entry for entry in held if entry is not None]


def controller_reigns(entries: Sequence[LogEntry]) -> list[ControllerReign]:
    """List the elections and claims of controllers, in order."""
    return [_reign(entry) for entry in entries if entry.type == _ELECTION]


def _reign(entry: LogEntry) -> ControllerReign:
    fields = entry.fields
    return ControllerReign(
        at=entry.offset,
        node=fields["node"],
        epoch=fields["controller_epoch"],
        version=fields["version"],
        kraft_epoch=fields.get("kraft_epoch"),
    )


def written_by(entry: LogEntry) -> tuple[str, Mapping[str, Any]]:
    """What a transaction wrote: its kind, and its fields. KRaft's also set /migration, and may repeat KRaft's log."""
    wrote = entry.fields.get("wrote")
    return (wrote["type"], wrote) if wrote else (entry.type.removeprefix(COPIED), entry.fields)


def deeds_of_nodes(entries: Sequence[LogEntry]) -> Iterator[Deed]:
    """Yield the transactions whose node is known, from the first election on, without elections."""
    owners = {e.fields["session"]: e.fields["node"] for e in entries if e.type in ("registration", _ELECTION)}
    led: dict[str, ControllerReign] = {}
    current: ControllerReign | None = None
    for entry in entries:
        if entry.type == _ELECTION:
            current = _reign(entry)
            led[current.node] = current
            continue
        node = owners.get(entry.fields.get("session", ""))
        if current is not None and node is not None:
            yield Deed(entry, node, led.get(node), current)
