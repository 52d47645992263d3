"""Which writes a run put at risk: a write that nothing disturbed says nothing about durability.

A store can lose an acknowledged write when its leader changes after the write was sent, or when a fault touches a
voting node after that. A run whose plan asks for no fault is judged by all of its writes.
"""

from typing import Final

from fencepost.checkers.facts.reigns import first_subject, reigns_of
from fencepost.checkers.facts.servers import last_fault_ns, plans_no_fault
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts

#: What a rule lacked where nothing was at risk.
LACKS: Final = "no leader changed and no fault touched a voting node after it was sent"


class StoreRisk:
    """By when the last disturbance was over."""

    def __init__(self, history: History, facts: Facts) -> None:
        self._undisturbed: Final = plans_no_fault(facts)
        later_epochs = reigns_of(history, first_subject(history, facts)).begins[1:]
        changed_ns = max((begin.at_ns for begin in later_epochs), default=-1)
        self._over_ns: Final = max(changed_ns, last_fault_ns(history, frozenset(facts.voters)))

    def runs(self, operation: Operation) -> bool:
        """Whether something that could take the operation's effect away came after it was sent."""
        return self._undisturbed or operation.invoked_ns < self._over_ns
