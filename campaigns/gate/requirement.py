"""The values of a decision: each requirement with its status and reason, and what follows from all of them."""

from enum import StrEnum

import msgspec

from fencepost.campaigns.night.night import RunAttempt
from fencepost.harness.base.errors import ExitCode


class RequirementKind(StrEnum):
    """What a requirement is about."""

    CELL = "cell"
    GUARANTEE = "guarantee"
    CANARY = "canary"
    BUDGET = "budget"
    FAULT = "fault"
    EXCEPTION = "exception"
    BUILD = "build"
    SHARD = "shard"


class RequirementStatus(StrEnum):
    """`FAILED` says no to the candidate; `MISSING` says that nobody knows.

    `ELSEWHERE` is a canary of another system: the policy asks for no more, and it shows nothing of the candidate's.
    """

    MET = "met"
    ELSEWHERE = "elsewhere"
    EXCEPTED = "excepted"
    MISSING = "missing"
    FAILED = "failed"

    @property
    def sign(self) -> str:
        """What stands before the requirement on pages and in the terminal."""
        return {"met": "✓", "elsewhere": "–", "excepted": "≈", "missing": "?", "failed": "✗"}[self]

    @property
    def tone(self) -> str:
        """The colour of its badge."""
        return {"met": "valid", "excepted": "valid", "failed": "invalid"}.get(self, "unknown")

    @property
    def exit_code(self) -> ExitCode:
        match self:
            case RequirementStatus.FAILED:
                return ExitCode.INVALID
            case RequirementStatus.MISSING:
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

    kind: RequirementKind
    name: str
    need: str
    status: RequirementStatus
    reason: str
    final: bool = False
    cell: str = ""
    attempts: tuple[RunAttempt, ...] = ()
    comparison: Comparison | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Every requirement, and the exit code and sentence that follow from them alone.

    `reach`: what a green gate would still not have shown, in sentences.
    """

    requirements: tuple[Requirement, ...]
    reach: tuple[str, ...] = ()

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
        """ "1 of 5 requirements failed: ...; 2 lack evidence: ...", each with its need; of a green one its reach."""
        count = len(self.requirements)
        if self.is_green:
            excepted = sum(r.status is RequirementStatus.EXCEPTED for r in self.requirements)
            beside = f", {excepted} of them under an exception" if excepted else ""
            met = count - sum(r.status is RequirementStatus.ELSEWHERE for r in self.requirements)
            which = f"all {count}" if met == count else f"{met} of {count}"
            return "; ".join([f"{which} requirements are met{beside}", *self.reach[:1]])
        failed = [r for r in self.requirements if r.status is RequirementStatus.FAILED]
        missing = [r for r in self.requirements if r.status is RequirementStatus.MISSING]
        parts = []
        if failed:
            parts.append(f"{len(failed)} of {count} requirements failed: {_named(failed)}")
        if missing:
            verb = "lacks" if len(missing) == 1 else "lack"
            of = "" if failed else f" of {count} requirements"
            parts.append(f"{len(missing)}{of} {verb} evidence: {_named(missing)}")
        return "; ".join(parts)


def _named(requirements: list[Requirement]) -> str:
    """Each with its reason, and those that lack evidence with what they need; the certain ones first."""
    ordered = sorted(requirements, key=lambda r: not r.final)
    return "; ".join(
        f"{r.name}: {r.reason}" + (f" (needs: {r.need})" if r.status is RequirementStatus.MISSING else "")
        for r in ordered
    )
