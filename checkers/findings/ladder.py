"""The ladder from findings to a verdict, the same for every checker.

A violation was found: `invalid`. Else there is a doubt: `unknown`, with the cause of the doubt. Else the guarantee was
tested too seldom: `unknown`. Else it was kept: `valid`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from fencepost.checkers.facts.evidence import Rows
from fencepost.checkers.findings.finding import Finding, violations
from fencepost.harness.verdict import Cause, Facts, Proof, Rule, Stop, Validity, Verdict, in_words
from fencepost.harness.verdict.figures import Figures

#: Of histories with more operations the orders that prove them valid are not kept in the verdict.
ORDERED_MAX: Final = 5_000
#: Findings of one verdict that become witnesses; all are counted.
WITNESSES_MAX: Final = 5
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Doubt(NamedTuple):
    """A reason why a verdict without a violation is `unknown` and not `valid`."""

    cause: Cause
    reason: str


def contradicted(contradictions: Sequence[str]) -> Doubt | None:
    """Return the doubt where two parts of a checker contradict each other, which says nothing about the system."""
    if not contradictions:
        return None
    more = f"; and {len(contradictions) - 1} more" if len(contradictions) > 1 else ""
    return Doubt(Cause.FAILED, f"{contradictions[0]}{more}; one of the two is a defect of fencepost")


def stopped(stops: Sequence[str | None], reason: str) -> Doubt | None:
    """Return the doubt where searches ended without an answer: by their budget, or by a defect of fencepost."""
    if not stops:
        return None
    return Doubt(Cause.FAILED if Stop.CONTRADICTED in stops else Cause.OUT_OF_BUDGET, reason)


class Conclusion(NamedTuple):
    """The rung at which the ladder ends; `cause` is given for `unknown`."""

    validity: Validity
    reason: str
    cause: Cause | None = None


def conclude(*, broken: str, doubt: Doubt | None = None, untested: str = "", kept: str = "") -> Conclusion:
    """Go up the ladder. Each text is the reason at its rung; a rung with an empty text (or None) is left out."""
    if broken:
        return Conclusion(Validity.INVALID, broken)
    if doubt is not None:
        return Conclusion(Validity.UNKNOWN, doubt.reason, doubt.cause)
    if untested:
        return Conclusion(Validity.UNKNOWN, untested, Cause.NO_EXPOSURE)
    return Conclusion(Validity.VALID, kept)


def too_few(exposure: int, exposure_of: str, facts: Facts, instead: str = "") -> str:
    """Say why this little exposure makes a pass vacuous, by the checker's own text if it has one; empty: enough."""
    least = facts.thresholds.exposure_min
    return "" if exposure >= least else instead or f"{exposure} {exposure_of}; at least {least} are asked for"


def no_chance(rules: Sequence[Rule], facts: Facts) -> str:
    """Say why none of the rules could have fired; empty if one could, if there is none, or if no exposure is needed."""
    if not rules or any(rule.chances for rule in rules) or not facts.thresholds.exposure_min:
        return ""
    return "no rule could have fired: " + "; ".join(f"{rule.name}: {rule.lacks}" for rule in rules)


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """All that one checker has to say about one guarantee.

    `broken`, `untested` and `kept` are the reasons of an invalid verdict, of one with too little exposure, and of a
    valid one; without `broken`, the reason counts the anomalies by name. `exposed` has a row for each time that the
    guarantee was tested; `exposure` is the number of times where rows cannot say it. `shown` become witnesses; None:
    the first `findings`. `rules` say how often each rule could have fired; if none could, the verdict is `unknown`,
    whatever the exposure. `counted` are figures that count rows; the rows of other `figures` stand in `evidence`.
    A mapping of `figures` is for those that nobody reads by name (`Figures.others`); a struct holds the counts, too.
    `complete` means the same as in `Verdict`.
    """

    checker: str
    guarantee: str
    findings: Sequence[Finding] = ()
    broken: str = ""
    doubt: Doubt | None = None
    exposed: Rows = ()
    exposure: int | None = None
    exposure_of: str
    untested: str = ""
    kept: str = ""
    shown: Sequence[Finding] | None = None
    rules: tuple[Rule, ...] = ()
    counted: Mapping[str, Rows] = _NOTHING
    figures: Mapping[str, Any] | Figures = _NOTHING
    evidence: Mapping[str, Rows] = _NOTHING
    proofs: tuple[Proof, ...] = ()
    complete: bool = False

    def verdict(self, facts: Facts) -> Verdict:
        """Return the verdict, by the plan's threshold of exposure."""
        anomalies = dict(Counter(finding.anomaly for finding in self.findings))
        exposure = len(self.exposed) if self.exposure is None else self.exposure
        validity, reason, cause = conclude(
            broken=(self.broken or in_words(anomalies)) if self.findings else "",
            doubt=self.doubt,
            untested=too_few(exposure, self.exposure_of, facts, self.untested) or no_chance(self.rules, facts),
            kept=self.kept,
        )
        shown = self.findings[:WITNESSES_MAX] if self.shown is None else self.shown
        return Verdict(
            checker=self.checker,
            guarantee=self.guarantee,
            validity=validity,
            reason=reason,
            cause=cause,
            exposure=exposure,
            exposure_of=self.exposure_of,
            rules=self.rules,
            anomalies=anomalies,
            witnesses=tuple(finding.witness() for finding in shown),
            figures=self._figures(),
            evidence={"exposure": self.exposed, **violations(self.findings), **self.counted, **self.evidence},
            proofs=self.proofs,
            complete=self.complete,
        )

    def _figures(self) -> Figures:
        if isinstance(self.figures, Figures):
            return self.figures
        return Figures(others={**{name: len(own) for name, own in self.counted.items()}, **self.figures})
