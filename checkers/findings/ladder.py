"""The ladder from findings to a verdict, the same for every checker.

Something was found: `invalid`. Else something keeps it from being said: `unknown`, by that cause. Else the guarantee
was put to the test too seldom: `unknown`. Else it was kept: `valid`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from fencepost.checkers.facts.evidence import Rows
from fencepost.checkers.findings.finding import Finding, violations
from fencepost.harness.verdict import Cause, Facts, Proof, Rule, Validity, Verdict, in_words

#: Findings of one verdict that become witnesses; all are counted.
WITNESSES_MAX: Final = 5
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Doubt(NamedTuple):
    """What keeps a verdict from being `valid` though nothing was found."""

    cause: Cause
    reason: str


class Conclusion(NamedTuple):
    """Where the ladder ends; `cause` is that of an `unknown`."""

    validity: Validity
    reason: str
    cause: Cause | None = None


def conclude(*, broken: str, doubt: Doubt | None = None, untested: str = "", kept: str = "") -> Conclusion:
    """Go up the ladder; each text is the reason at its rung, and an empty one (or None) leaves the rung out."""
    if broken:
        return Conclusion(Validity.INVALID, broken)
    if doubt is not None:
        return Conclusion(Validity.UNKNOWN, doubt.reason, doubt.cause)
    if untested:
        return Conclusion(Validity.UNKNOWN, untested, Cause.NO_EXPOSURE)
    return Conclusion(Validity.VALID, kept)


def too_few(exposure: int, exposure_of: str, facts: Facts, instead: str = "") -> str:
    """Why so little exposure makes a pass vacuous, in words of the checker's own if it has any; empty: it suffices."""
    least = facts.thresholds.exposure_min
    return "" if exposure >= least else instead or f"{exposure} {exposure_of}; at least {least} are asked for"


def no_chance(rules: Sequence[Rule], facts: Facts) -> str:
    """Why none of the rules could have fired; empty where one could, where there are none, or where nobody asks."""
    if not rules or any(rule.chances for rule in rules) or not facts.thresholds.exposure_min:
        return ""
    return "no rule could have fired: " + "; ".join(f"{rule.name}: {rule.lacks}" for rule in rules)


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What one checker found about one guarantee, and what must be known to say it.

    `broken`, `untested` and `kept` are the reasons of an invalid verdict, of one that rests on too little exposure, and
    of a valid one; without `broken` the anomalies are counted by name. `exposed` has a row for each time that the
    guarantee was put to the test; `exposure` is their number where the rows are not those. `shown` become witnesses:
    the first of `found` where it is None. `rules` say how often each rule could have fired; where none could, the
    verdict is `unknown`, whatever the exposure. `counted` are figures that count rows; other `figures` have their rows
    in `evidence`. `complete`: as in `Verdict`.
    """

    checker: str
    guarantee: str
    found: Sequence[Finding] = ()
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
    figures: Mapping[str, Any] = _NOTHING
    evidence: Mapping[str, Rows] = _NOTHING
    proofs: tuple[Proof, ...] = ()
    complete: bool = False

    def verdict(self, facts: Facts) -> Verdict:
        """The verdict, by the plan's threshold of exposure."""
        anomalies = dict(Counter(finding.anomaly for finding in self.found))
        exposure = len(self.exposed) if self.exposure is None else self.exposure
        validity, reason, cause = conclude(
            broken=(self.broken or in_words(anomalies)) if self.found else "",
            doubt=self.doubt,
            untested=too_few(exposure, self.exposure_of, facts, self.untested) or no_chance(self.rules, facts),
            kept=self.kept,
        )
        shown = self.found[:WITNESSES_MAX] if self.shown is None else self.shown
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
            figures={**{name: len(own) for name, own in self.counted.items()}, **self.figures},
            evidence={"exposure": self.exposed, **violations(self.found), **self.counted, **self.evidence},
            proofs=self.proofs,
            complete=self.complete,
        )
