"""Producer ids: no id is given out twice in a run, by whatever nodes, before or after restarts and changes of leader.

A producer with the id and epoch of another is taken for it: its records are dropped as duplicates, or refused.
Source: KIP-98 ("producer id ... unique"), KIP-730 (blocks are allotted by the controller).
"""

from collections import Counter
from typing import Final

from fencepost.checkers.facts.evidence import Rows, rows, violations
from fencepost.checkers.storage.register_anomalies import seconds
from fencepost.checkers.storage.sets import Finding, witness
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Validity, Verdict

CHECKER: Final = "producer-ids"
GUARANTEE: Final = "unique-producer-ids"
EXPOSURE_OF: Final = "ids given out"
_WITNESSES_MAX: Final = 5


def check(history: History, facts: Facts) -> list[Verdict]:
    """One verdict on all allocations. Cost: O(n)."""
    given = [o for o in history.operations if o.f == "allocate" and o.type is Outcome.OK]
    first: dict[int, Operation] = {}
    twice: list[Finding] = []
    for allocation in given:
        other = first.setdefault(allocation.result, allocation)
        if other is not allocation:
            twice.append(_twice(other, allocation))
    if twice:
        validity, reason = Validity.INVALID, f"{len(twice)} ids were given out again"
    elif len(given) < facts.thresholds.exposure_min:
        validity, reason = Validity.UNKNOWN, f"{len(given)} {EXPOSURE_OF}"
    else:
        validity, reason = Validity.VALID, f"{len(given)} {EXPOSURE_OF}, all different"
    nodes = Counter(o.node for o in given)
    numbers = sorted(first)
    return [
        Verdict(
            checker=CHECKER,
            guarantee=GUARANTEE,
            validity=validity,
            reason=reason,
            exposure=len(given),
            exposure_of=EXPOSURE_OF,
            anomalies={"producer-id-given-twice": len(twice)} if twice else {},
            witnesses=tuple(witness(finding) for finding in twice[:_WITNESSES_MAX]),
            figures={
                "ids": len(given),
                "ids_of_node": dict(nodes),
                "id_min": numbers[0] if numbers else None,
                "id_max": numbers[-1] if numbers else None,
            },
            evidence={
                **violations((finding.anomaly, finding.counted) for finding in twice),
                **_evidence(given),
                "id_min": rows(first[number] for number in numbers[:1]),
                "id_max": rows(first[number] for number in numbers[-1:]),
            },
        )
    ]


def _evidence(given: list[Operation]) -> dict[str, Rows]:
    """Every id by the answer that gave it, all of them and those of each node."""
    of_node: dict[str, list[Operation]] = {}
    for allocation in given:
        of_node.setdefault(allocation.node, []).append(allocation)
    all_of_them = rows(given)
    by_node = {f"ids_of_node.{node}": rows(own) for node, own in of_node.items()}
    return {"exposure": all_of_them, "ids": all_of_them, **by_node}


def _twice(first: Operation, second: Operation) -> Finding:
    steps = tuple(
        f"{o.node} gave process {o.process} the id {o.result} at {seconds(o.completed_ns or o.invoked_ns)} "
        f"(event {o.invoke_index})."
        for o in (first, second)
    )
    return Finding(anomaly="producer-id-given-twice", operations=(first, second), steps=steps)
