"""Producer ids: no id is given out twice in a run, by any node, across restarts and changes of leader.

If two producers have the same id and epoch, brokers treat them as one: they drop records as duplicates, or refuse them.
Source: KIP-98 ("producer id ... unique"), KIP-730 (blocks are allotted by the controller).
"""

from typing import Final

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.findings.finding import Finding, Findings, rule, seconds
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict

CHECKER: Final = "producer-ids"
GUARANTEE: Final = "unique-producer-ids"
EXPOSURE_OF: Final = "ids given out"
TWICE: Final = "producer-id-given-twice"


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all allocations of one history.

    Returns:
        One verdict; each id after the first one was a chance to give an id twice.

    Cost: O(n) for n allocations.
    """
    given = [o for o in history.operations if o.f == "allocate" and o.type is Outcome.OK]
    first: dict[int, Operation] = {}
    twice: list[Finding] = []
    for allocation in given:
        other = first.setdefault(allocation.result, allocation)
        if other is not allocation:
            twice.append(_twice(other, allocation))
    of_node: dict[str, list[Operation]] = {}
    for allocation in given:
        of_node.setdefault(allocation.node, []).append(allocation)
    numbers = sorted(first)
    return [
        Findings(
            checker=CHECKER,
            guarantee=GUARANTEE,
            findings=twice,
            broken=f"{len(twice)} ids were given out again",
            exposed=rows(given),
            exposure_of=EXPOSURE_OF,
            untested=f"{len(given)} {EXPOSURE_OF}",
            kept=f"{len(given)} {EXPOSURE_OF}, all different",
            # The first id meets no other one.
            rules=(rule(TWICE, len(given[1:]), "no second id was given out"),),
            counted={"ids": rows(given)},
            figures={
                "ids_of_node": {node: len(own) for node, own in of_node.items()},
                "id_min": numbers[0] if numbers else None,
                "id_max": numbers[-1] if numbers else None,
            },
            evidence={
                **{f"ids_of_node.{node}": rows(own) for node, own in of_node.items()},
                "id_min": rows(first[number] for number in numbers[:1]),
                "id_max": rows(first[number] for number in numbers[-1:]),
            },
        ).verdict(facts)
    ]


def _twice(first: Operation, second: Operation) -> Finding:
    steps = tuple(
        f"{o.node} gave process {o.process} the id {o.result} at {seconds(o.completed_ns or o.invoked_ns)} "
        f"(event {o.invoke_index})."
        for o in (first, second)
    )
    return Finding(anomaly=TWICE, operations=(first, second), steps=steps)
