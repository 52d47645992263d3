"""Which servers began from a snapshot, by their own logs."""

from typing import Final

import msgspec

from fencepost.harness.history import CatchUp, CatchUpEvent, History


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A start of a server that had saved a snapshot before (event `saved`).

    `began` is the first event that says how it began: it `loaded` a snapshot, or read the log to its end.
    """

    node: str
    saved: int
    saved_ns: int
    began: int
    began_ns: int
    loaded: bool


def starts_after_snapshots(history: History) -> list[Start]:
    """List the starts of servers that had saved a snapshot in an earlier run of theirs, in order."""
    saved: dict[str, CatchUpEvent] = {}
    starts: dict[tuple[str, int], Start] = {}
    for event in history.of(CatchUpEvent):
        if event.change is CatchUp.SAVED:
            saved[event.node] = event
        elif event.change in (CatchUp.LOADED, CatchUp.DIFFERENCE):
            before = saved.get(event.node)
            which = event.node, event.incarnation
            if before is not None and before.incarnation < event.incarnation and which not in starts:
                starts[which] = Start(
                    node=event.node,
                    saved=before.index,
                    saved_ns=before.time_ns,
                    began=event.index,
                    began_ns=event.time_ns,
                    loaded=event.change is CatchUp.LOADED,
                )
    return list(starts.values())


#: By either of these a node gets a state that it did not make of the records itself.
_BY_SNAPSHOT: Final = frozenset({CatchUp.LOADED, CatchUp.SNAPSHOT})


def nodes_with_loaded_snapshots(history: History) -> frozenset[str]:
    """The nodes that began from a snapshot at some time, or were sent one."""
    return frozenset(event.node for event in history.of(CatchUpEvent) if event.change in _BY_SNAPSHOT)
