"""The values of a decision: each requirement with its status and reason, and what follows from all of them."""

from enum import StrEnum

import msgspec

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.campaigns.night.night import Attempt


class Kind(StrEnum):
    """What a requirement is about."""

    CELL = "cell"
    GUARANTEE = "guarantee"
    CANARY = "canary"
    BUDGET = "budget"
    EXCEPTION = "exception"
    BUILD = "build"
    SHARD = "shard"


class Status(StrEnum):
    """`FAILED` says no to the candidate; `MISSING` says that nobody knows."""

    MET = "met"
    EXCEPTED = "excepted"
    MISSING = "missing"
    FAILED = "failed"

    @property
    def exit_code(self) -> ExitCode:
        match self:
            case Status.FAILED:
                return ExitCode.INVALID
            case Status.MISSING:
                return ExitCode.UNKNOWN
            case _:
                return ExitCode.VALID


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The figures behind a budget; `effect` from -1 (every pair faster) to 1 (every pair slower)."""

    pairs: tuple[tuple[int, int], ...]
    candidate_ns_median: int
    baseline_ns_median: int
    ratio_median: float
    p: float
    effect: float


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement: what is needed, whether it is met, why, and the attempts that show it.

    `final`: no further run can make it green, and the gate stops.
    """

    kind: Kind
    name: str
    need: str
    status: Status
    reason: str
    final: bool = False
    cell: str = ""
    attempts: tuple[Attempt, ...] = ()
    comparison: Comparison | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Every requirement, and the exit code and sentence that follow from them alone."""

    requirements: tuple[Requirement, ...]

    @property
    def exit_code(self) -> ExitCode:
        codes = {requirement.status.exit_code for requirement in self.requirements} - {ExitCode.VALID}
        return min(codes, default=ExitCode.VALID)

    @property
    def is_green(self) -> bool:
        return self.exit_code is ExitCode.VALID

    @property
    def is_certainly_red(self) -> bool:
        """Whether no further run can make it green."""
        return any(requirement.final for requirement in self.requirements)

    @property
    def sentence(self) -> str:
        """ "1 of 5 requirements failed: ..." """
        count = len(self.requirements)
        open_ones = [r for r in self.requirements if r.status.exit_code is self.exit_code]
        if self.is_green:
            excepted = sum(r.status is Status.EXCEPTED for r in self.requirements)
            beside = f", {excepted} of them under an exception" if excepted else ""
            return f"all {count} requirements are met{beside}"
        first = next((r for r in open_ones if r.final), open_ones[0])
        lack = "lacks evidence" if len(open_ones) == 1 else "lack evidence"
        verb = "failed" if first.status is Status.FAILED else lack
        return f"{len(open_ones)} of {count} requirements {verb}: {first.name}: {first.reason}"
