"""The policy of a gate, as a person writes it in TOML: what must be tested before a candidate ships.

format = 1
name = "release"
runs_max = 20                     # no cell is run more often, whatever a guarantee still needs

[plan]                            # keys of a plan that every cell has unless it says otherwise
system = "etcd"
time_limit = "20s"

[[cell]]                          # a required cell of the candidate: keys of a plan, `name` and `runs`
name = "leader cut off"
workload = "register"
nemesis = "partition:leader"
runs = 3                          # so many clean runs

[[cell]]                          # a canary: it must be invalid with this anomaly
canary = true
anomaly = "stale-read"
system = "example"
workload = "register"
nemesis = "partition:leader"
system_options = { defect = "stale-reads" }

[[guarantee]]                     # tested at least 500 times in at least 3 clean runs, over all required cells
name = "linearizable"
tested = 500
runs = 3

[[budget]]                        # against the baseline: pairs of runs of one cell with the same seeds
cell = "leader cut off"
measure = "recovery"              # or "unavailability"
factor = 1.5
pairs = 6

[[exception]]                     # a violation (`fingerprint`) or missing evidence of a `cell`, until a day
fingerprint = "etcd:linearizable:stale-read:change+read"
link = "https://issues.example/1"
owner = "storage team"
expires = 2027-01-31
"""

from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.file import RUNS_MAX
from fencepost.harness.base.toml_file import TomlFile, read_toml
from fencepost.harness.findings.known_issues import TrackedIssue, check_issues

FORMAT: Final = 1
_HINT: Final = "a policy is a TOML file; docs/how-to/policy.toml is one to begin with"


class BudgetMeasure(StrEnum):
    """What a budget limits: the longest of a run."""

    RECOVERY = "recovery"
    UNAVAILABILITY = "unavailability"


class GuaranteeNeed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A guarantee that must be tested at least `tested` times in at least `runs` clean runs."""

    name: str
    tested: int
    runs: int = 1


class PolicyBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much slower than the baseline a candidate may be in a cell.

    `factor` bounds the median ratio over `pairs` pairs of runs; `error` is the chance at which the test may call equal
    releases different.
    """

    cell: str
    measure: BudgetMeasure
    factor: float
    pairs: int = 6
    error: float = 0.05


class PolicyException(TrackedIssue, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What somebody has taken on until a day: one violation, or missing evidence of one cell."""

    fingerprint: str = ""
    cell: str = ""

    @property
    def subject(self) -> str:
        return self.fingerprint or f"cell {self.cell}"

    @property
    def issue(self) -> TrackedIssue:
        """The known issue of an exception by fingerprint, by which runs are classed."""
        return TrackedIssue(**{name: getattr(self, name) for name in TrackedIssue.__struct_fields__})


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file's content; tables of plan keys stay plain until the candidate is known."""

    name: str
    format: int = FORMAT
    runs_max: int = 20
    plan: dict[str, Any] = {}
    cell: tuple[dict[str, Any], ...] = ()
    guarantee: tuple[GuaranteeNeed, ...] = ()
    budget: tuple[PolicyBudget, ...] = ()
    exception: tuple[PolicyException, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate must meet; `runs` are the clean runs that each required cell needs, by its id.

    Budgets and exceptions name cells by their ids here.
    """

    name: str
    candidate: str
    baseline: str
    runs: dict[str, int]
    guarantees: tuple[GuaranteeNeed, ...] = ()
    budgets: tuple[PolicyBudget, ...] = ()
    exceptions: tuple[PolicyException, ...] = ()


def read_policy(path: Path) -> tuple[PolicyFile, TomlFile]:
    """Read a policy file; raises UsageError that names file, line, key and remedy."""
    source = read_toml(path, hint=_HINT)
    content = source.convert(PolicyFile)
    if content.format != FORMAT:
        raise source.error(["format"], f"this fencepost reads format {FORMAT}, not {content.format}")
    if not content.name or not all(c.isalnum() or c in "-_." for c in content.name) or content.name[0] == ".":
        raise source.error(["name"], f"{content.name!r} cannot name a folder", "use letters, digits, hyphens and dots")
    if not 1 <= content.runs_max <= RUNS_MAX:
        raise source.error(["runs_max"], f"expected 1 to {RUNS_MAX:,}, got {content.runs_max!s:.20}")
    _check_guarantees(content, source)
    _check_budgets(content, source)
    _check_exceptions(content, source)
    return content, source


def _check_guarantees(content: PolicyFile, source: TomlFile) -> None:
    for number, need in enumerate(content.guarantee):
        where: list[str | int] = ["guarantee", number]
        if need.name in {other.name for other in content.guarantee[:number]}:
            raise source.error([*where, "name"], f"{need.name!r} is required twice", "leave one of them out")
        for key, value in (("tested", need.tested), ("runs", need.runs)):
            if value < 1:
                raise source.error([*where, key], f"expected 1 or more, got {value}")


def _check_budgets(content: PolicyFile, source: TomlFile) -> None:
    for number, budget in enumerate(content.budget):
        where: list[str | int] = ["budget", number]
        if (budget.cell, budget.measure) in {(other.cell, other.measure) for other in content.budget[:number]}:
            raise source.error(where, "the same cell and measure have a budget before", "leave one of them out")
        if not 1 <= budget.factor < float("inf"):
            raise source.error([*where, "factor"], f"expected 1 or more, got {budget.factor}")
        if not 0 < budget.error <= 0.5:
            raise source.error([*where, "error"], f"expected a chance above 0 and at most 0.5, got {budget.error}")
        if budget.pairs < 1 or 0.5**budget.pairs > budget.error:
            raise source.error(
                [*where, "pairs"],
                f"{budget.pairs} pairs can decide nothing: even if every pair were slower, chance alone does that "
                f"more often than {budget.error:g}",
                "give more pairs: 5 are the fewest for an error of 0.05",
            )
        if budget.pairs > content.runs_max:
            raise source.error([*where, "pairs"], f"{budget.pairs} pairs are more than runs_max = {content.runs_max}")


def _check_exceptions(content: PolicyFile, source: TomlFile) -> None:
    for number, each in enumerate(content.exception):
        where: list[str | int] = ["exception", number]
        if bool(each.fingerprint) == bool(each.cell):
            raise source.error(where, "an exception is about a fingerprint or about a cell", "give one of the two")
        if each.cell and each.versions:
            raise source.error([*where, "versions"], "only an exception by fingerprint has versions", "leave it out")
    check_issues(source, "exception", content.exception)
