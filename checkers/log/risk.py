"""Which appends a run put at risk: an append that nothing disturbed says nothing about durability.

An acknowledged append can be lost, moved or repeated when its partition's leader changes after it was sent, or when a
fault touches a broker after that: it stops one, or cuts a link of one. A run whose plan asks for no fault is judged by
all of its appends.
"""

from typing import Final

from fencepost.checkers.facts.partitions import PartitionView
from fencepost.checkers.facts.servers import last_fault_ns, plans_no_fault
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts

#: What a rule lacked where nothing was at risk.
LACKS: Final = "no partition's leader changed and no fault touched a broker after an append was sent"


class LogRisk:
    """By when the last disturbance was over, for every partition."""

    def __init__(self, history: History, facts: Facts, views: list[PartitionView]) -> None:
        self._undisturbed: Final = plans_no_fault(facts)
        nodes = {o.node for view in views for o in (*view.appends, *view.attempts)}
        self._fault_ns: Final = last_fault_ns(history, nodes)

    def runs(self, view: PartitionView, append: Operation) -> bool:
        """Whether something that could take this append away came after it was sent."""
        changed_ns = view.begun[-1].at_ns if len(view.begun) > 1 else -1
        return self._undisturbed or append.invoked_ns < max(changed_ns, self._fault_ns)
