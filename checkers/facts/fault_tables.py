"""Faults with their effects, and what they certainly did: nodes that stood still, links that carried nothing."""

from typing import Any

import msgspec

from fencepost.checkers.facts.servers import stopped
from fencepost.harness.history import FaultSpan, History
from fencepost.harness.verdict.fact_tables import CUTS, FAULTS, STOPS

Row = dict[str, Any]


def faults_table(history: History) -> Any:
    """Lay out every fault that was tried (-> FAULTS)."""
    return FAULTS.of_rows([_fault(fault) for fault in history.faults])


def _fault(fault: FaultSpan) -> Row:
    plain = msgspec.structs.asdict(fault)
    effects = msgspec.structs.asdict(plain.pop("effects"))
    details = msgspec.json.encode(plain.pop("details")).decode()
    outcome = plain.pop("outcome").value
    return {
        **plain,
        **effects,
        "stops": effects["stops"].value,
        "disk": effects["disk"].value,
        "details": details,
        "outcome": outcome,
    }


def stops_table(history: History, nodes: tuple[str, ...]) -> Any:
    """Lay out when each node was proven not to run (-> STOPS)."""
    return STOPS.of_rows(
        [{"node": node, "from_ns": start, "to_ns": end} for node in nodes for start, end in stopped(history, node)]
    )


def cuts_table(history: History) -> Any:
    """Lay out which links were proven to be cut (-> CUTS)."""
    return CUTS.of_rows(
        [
            {
                "fault_id": fault.fault_id,
                "source": link.partition(">")[0],
                "target": link.partition(">")[2],
                "from_ns": span[0],
                "to_ns": span[1],
            }
            for fault in history.faults
            if (span := history.certain(fault)) is not None and fault.effects.cuts
            for link in fault.severed
        ]
    )
