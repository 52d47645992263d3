"""How nodes caught up with the others, by their own logs: as a table, and start by start."""

from typing import Any, Final

import msgspec

from fencepost.harness.history import CatchUp, CatchUpEvent, History, PhaseName
from fencepost.harness.verdict.fact_tables import CATCH_UPS


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


def catch_ups_table(history: History) -> Any:
    """How nodes caught up from the main phase on (-> CATCH_UPS): at a cluster's start there is nothing to catch up."""
    since_ns, _ = history.phases.get(PhaseName.MAIN, (0, 0))
    return CATCH_UPS.of_rows(
        [
            {
                "node": e.node,
                "incarnation": e.incarnation,
                "how": e.change.value,
                "read_ns": e.time_ns,
                "event": e.index,
            }
            for e in history.of(CatchUpEvent)
            if e.time_ns >= since_ns
        ]
    )
