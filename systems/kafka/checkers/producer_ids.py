"""Producer ids: no id is given out twice in a run, by any node, across restarts and changes of leader.

If two producers have the same id and epoch, brokers treat them as one: they drop records as duplicates, or refuse them.
Source: KIP-98 ("producer id ... unique"), KIP-730 (blocks are allotted by the controller).
"""

from typing import Final

from fencepost.checkers.derived.evidence import number_of, row, rows
from fencepost.checkers.rules import GivenOnce, says, verdict
from fencepost.checkers.violations.finding import seconds
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import Traced, tallies

TWICE: Final = GivenOnce(
    guarantee="unique-producer-ids",
    anomaly="producer-id-given-twice",
    tested="ids given out",
    lacks="no second id was given out",
    steps=lambda *given: [
        f"{id.by.node} gave process {id.by.process} the id {id.of} at {seconds(id.known_ns)} (event {id.low})."
        for id in given
    ],
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all allocations of one history.

    Returns:
        One verdict; each id after the first one was a chance to give an id twice.

    Cost: O(n) for n allocations.
    """
    given = [o for o in history.operations if o.f == "allocate" and o.type is Outcome.OK]
    first: dict[int, Operation] = {}
    for allocation in given:
        first.setdefault(allocation.result, allocation)
    ids = [Traced(number, (row(first[number]),)) for number in sorted(first)]
    return [
        verdict(
            facts,
            TWICE.judge(says(o, o.invoke_index, of=o.result) for o in given),
            exposed=rows(given),
            untested=f"{len(given)} ids given out",
            kept=f"{len(given)} ids given out, all different",
            figures={
                "ids": number_of(given),
                "ids_of_node": tallies((allocation.node, row(allocation)) for allocation in given),
                "id_min": ids[0] if ids else None,
                "id_max": ids[-1] if ids else None,
            },
        )
    ]
