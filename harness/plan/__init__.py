"""A plan as typed by a person. Knows nothing of the results of runs."""

from fencepost.harness.plan.plan import (
    PLAN_FORMAT,
    QUORUMS,
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
    "Phases",
    "Plan",
    "check_choices",
    "dump_plan",
    "read_plan",
    "write_plan",
]
