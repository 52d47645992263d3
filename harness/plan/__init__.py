"""Plans: what a person asked of a run. Knows nothing of the results of runs."""

from fencepost.harness.plan.plan import (
    PLAN_FORMAT,
    QUORUMS,
    TIME_LIMIT,
    Phases,
    Plan,
    check_choices,
    dump_plan,
    read_plan,
    write_plan,
)

__all__ = [
    "PLAN_FORMAT",
    "QUORUMS",
    "TIME_LIMIT",
    "Phases",
    "Plan",
    "check_choices",
    "dump_plan",
    "read_plan",
    "write_plan",
]
