"""How nodes caught up with the others, by their own logs."""

from typing import Any

from fencepost.harness.history import CatchUpEvent, History, PhaseName
from fencepost.harness.verdict.fact_tables import CATCH_UPS


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
