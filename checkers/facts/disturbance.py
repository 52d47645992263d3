"""What a run disturbed: durability is put to the test only by what something could have taken away."""

from collections.abc import Set

from fencepost.harness.history import Effects, FaultOutcome, FaultSpan, History
from fencepost.harness.verdict import Facts


def plans_no_fault(facts: Facts) -> bool:
    """Whether the plan asks for no fault at all: such a run is judged by everything that it has."""
    return all(kind.split(":")[0].strip() in ("", "none") for kind in facts.nemesis)


def last_fault_ns(history: History, nodes: Set[str]) -> int:
    """Return when the last fault that stopped one of `nodes`, or cut one of their links, was over; -1 without any."""
    return max(
        (
            history.possible(fault)[1]
            for fault in history.faults
            if fault.outcome is FaultOutcome.INSTALLED and _touches(fault, nodes)
        ),
        default=-1,
    )


def touches_others(fault: FaultSpan, node: str) -> bool:
    """Whether it was tried, and may have cut a link or done anything to another node than this one."""
    return fault.outcome is not FaultOutcome.SKIPPED and _touches(fault, {*_touched(fault)} - {node})


def _touches(fault: FaultSpan, nodes: Set[str]) -> bool:
    """Whether it did anything to one of the nodes but set its clock."""
    if fault.effects in (Effects(), Effects(skews=True)):
        return False
    return not nodes.isdisjoint(_touched(fault))


def _touched(fault: FaultSpan) -> Set[str]:
    return {end for link in fault.severed for end in link.split(">")} or {*fault.nodes}
