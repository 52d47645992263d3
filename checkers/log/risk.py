"""Which appends a run put at risk: what nothing disturbed says nothing of durability.

An acknowledged append can be lost, moved or repeated when its partition's leader changes after it was sent, or when a
fault touches a broker after that: it stops one, or cuts a link of one. A run that asks for no fault at all is judged by
every append, as it was meant.
"""

from typing import Final

from fencepost.checkers.log.view import PartitionView
from fencepost.harness.history import Effects, FaultOutcome, FaultSpan, History, Operation
from fencepost.harness.verdict import Facts

#: What a rule lacked where nothing was at risk.
LACKS: Final = "no partition's leader changed and no fault touched a broker after an append was sent"


class Risk:
    """By when the last disturbance was over, for every partition."""

    def __init__(self, history: History, facts: Facts, views: list[PartitionView]) -> None:
        self._undisturbed: Final = all(kind.split(":")[0].strip() in ("", "none") for kind in facts.nemesis)
        brokers = {o.node for view in views for o in (*view.appends, *view.attempts)}
        self._fault_ns: Final = max(
            (
                history.end_ns if fault.ended_ns is None else fault.ended_ns
                for fault in history.faults
                if fault.outcome is FaultOutcome.INSTALLED and _touches(fault, brokers)
            ),
            default=-1,
        )

    def runs(self, view: PartitionView, append: Operation) -> bool:
        """Whether something that could take this append away came after it was sent."""
        changed_ns = view.begun[-1].at_ns if len(view.begun) > 1 else -1
        return self._undisturbed or append.invoked_ns < max(changed_ns, self._fault_ns)


def _touches(fault: FaultSpan, brokers: set[str]) -> bool:
    """Whether it did anything to a broker but set its clock."""
    if fault.effects in (Effects(), Effects(skews=True)):
        return False
    cut = {end for link in fault.severed for end in link.split(">")}
    return bool(brokers.intersection(cut or fault.nodes))
