"""Options of the workload as checkers read them: the plan keeps them as text."""

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.verdict import Facts


def option_ns(facts: Facts, name: str, default: str) -> int:
    """The duration that this option names, in nanoseconds."""
    return parse_duration_ns(str(facts.options.get(name, default)), what=name)
