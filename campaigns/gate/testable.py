"""Which guarantees a cell can test at all: those that its checkers answer for, known before anything runs."""

from collections.abc import Iterator

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import History
from fencepost.harness.judging.judge import checkers_of, facts_of
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry


def guarantees_of(checked: CheckedPlan) -> frozenset[str] | None:
    """Ask the checkers of a plan what they say of a history without an event: each names its guarantees.

    None where a checker cannot say it of such a history: then nobody knows before a run.
    """
    names: set[str] = set()
    try:
        facts = facts_of(checked, checked.plan.version or checked.system.releases.default)
        for checker in checkers_of(checked):
            names |= {verdict.guarantee for verdict in registry.checker(checker)(History([]), facts)}
    except Exception:
        return None
    return frozenset(names)


def workloads_that_test(guarantee: str, like: Plan) -> Iterator[str]:
    """The workloads of this plan's system that test a guarantee."""
    for name in sorted(registry.WORKLOADS):
        plan = msgspec.structs.replace(like, workload=name, workload_options={}, schedule="", nemesis="kill")
        try:
            tested = guarantees_of(check_plan(plan))
        except UsageError:
            continue
        if tested is not None and guarantee in tested:
            yield name
