"""Which acknowledged changes a run put at risk: a change that nothing disturbed says nothing about durability.

A change can be lost when the controller changes after the change was sent, or when a fault stops a controller or a
voter after that, or cuts a link of one. A run whose plan asks for no fault is judged by all of its changes.
"""

from typing import Final

from fencepost.checkers.facts.reigns import epoch_subject, reigns_of
from fencepost.checkers.facts.servers import last_fault_ns, plans_no_fault
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts

#: What a rule lacks where nothing was at risk.
LACKS: Final = "the controller did not change, and no fault touched one, after a change was sent"


class ControllerRisk:
    """When the last disturbance of the controllers of one run was over."""

    def __init__(self, history: History, facts: Facts) -> None:
        subject = epoch_subject(history)
        reigns = None if subject is None else reigns_of(history, subject)
        begins = [] if reigns is None else [begin.at_ns for begin in reigns.begins]
        controllers = {*facts.voters, *(() if reigns is None else (reign.node for reign in reigns.reigns))}
        changed_ns = max(begins) if len(begins) > 1 else -1
        self._undisturbed: Final = plans_no_fault(facts)
        self._until_ns: Final = max(changed_ns, last_fault_ns(history, controllers))

    def runs(self, change: Operation) -> bool:
        """Whether something that could take this change away came after it was sent."""
        return self._undisturbed or change.invoked_ns < self._until_ns
