"""What all checkers together say of each guarantee: the one line that terminal, page, JUnit and gate show.

Several checkers may judge one guarantee, each by rules of its own. A violation that one of them finds counts. If a
complete checker (one that finds every violation) calls the guarantee valid, the two contradict each other. Then the
violation counts only if its proof holds by the history alone. If it does not, one of the checkers is wrong, and the run
ends as a defect of fencepost.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.verdict.decision import decides, must_be_known
from fencepost.harness.verdict.verdict import Facts, Validity, Verdict, merge_verdicts

_ORDER: Final = (Validity.INVALID, Validity.UNKNOWN, Validity.VALID)
_CODES: Final = {
    Validity.VALID: ExitCode.VALID,
    Validity.INVALID: ExitCode.INVALID,
    Validity.UNKNOWN: ExitCode.UNKNOWN,
}


class OfGuarantee(msgspec.Struct, frozen=True, kw_only=True):
    """One guarantee: `verdicts`, the gravest first, and the validity that they merge to.

    `contradiction` says in a sentence which checkers contradict each other, where neither can be believed.
    `effect` is what it makes of the run: `invalid` for a violation that decides, `unknown` where something must be
    known for `valid` and is not, else `valid`.
    """

    name: str
    validity: Validity
    verdicts: tuple[Verdict, ...]
    effect: Validity
    contradiction: str | None = None

    @property
    def exposure(self) -> int | None:
        """How often it was tested, over its checkers; None where none of them counts that."""
        known = [v.exposure for v in self.verdicts if v.exposure is not None]
        return sum(known) if known else None

    @property
    def reasons(self) -> list[tuple[Verdict, str]]:
        """The verdicts that have a reason, with it: first what the line rests on, then who tested nothing."""
        agreeing = [v for v in self.verdicts if v.validity is self.validity]
        others = [v for v in self.verdicts if v.validity is not self.validity]
        reasons = [(v, v.reason) for v in (*agreeing, *others) if v.reason]
        if self.validity is not Validity.VALID or {v.checker for v in others} <= {v.checker for v in agreeing}:
            return reasons
        # Else the line would give a reason of a checker that saw nothing for the word of one that did.
        kept = [(v, v.reason or "no violation found") for v in agreeing]
        return [*kept, *((v, f"the checker {v.checker} had nothing to judge: {v.reason}") for v in others)]

    @property
    def checkers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(v.checker for v in self.verdicts))


def by_guarantee(verdicts: Sequence[Verdict], facts: Facts) -> list[OfGuarantee]:
    """Merge verdicts by guarantee.

    Args:
        verdicts: all of a run, `confirmed` filled in where checkers contradict each other.
        facts: what decides, as in `harness.verdict.decision.decides`.

    Returns:
        One entry for each guarantee, in the order in which checkers named them.
    """
    return [
        _of([v for v in verdicts if v.guarantee == name], facts)
        for name in dict.fromkeys(v.guarantee for v in verdicts)
    ]


def exit_code(validity: Validity, verdicts: Sequence[Verdict], facts: Facts) -> ExitCode:
    """Choose the exit code of a judged run.

    Args:
        validity: the run's merged verdict.
        verdicts: every checker's.
        facts: what decides.

    Returns:
        0 valid, 1 invalid, 2 unknown; 255 where the run is unknown because checkers contradict each other, which is a
        defect of fencepost.
    """
    if validity is Validity.UNKNOWN and any(
        line.contradiction and line.effect is Validity.UNKNOWN for line in by_guarantee(verdicts, facts)
    ):
        return ExitCode.INTERNAL
    return _CODES[validity]


def _of(verdicts: Sequence[Verdict], facts: Facts) -> OfGuarantee:
    ordered = tuple(sorted(verdicts, key=lambda v: _ORDER.index(v.validity)))
    contradiction = _contradiction(ordered)
    validity = merge_verdicts(ordered) if contradiction is None else Validity.UNKNOWN
    return OfGuarantee(
        name=ordered[0].guarantee,
        validity=validity,
        verdicts=ordered,
        effect=_effect(ordered, facts, contradiction),
        contradiction=contradiction,
    )


def _effect(verdicts: Sequence[Verdict], facts: Facts, contradiction: str | None) -> Validity:
    deciding = {v.validity for v in verdicts if decides(v, facts)}
    if contradiction is None:
        return next((validity for validity in _ORDER if validity in deciding), Validity.VALID)
    in_question = deciding or any(must_be_known(v, facts) for v in verdicts)
    return Validity.UNKNOWN if in_question else Validity.VALID


def _contradiction(verdicts: Sequence[Verdict]) -> str | None:
    violated = [v for v in verdicts if v.validity is Validity.INVALID]
    kept = [v for v in verdicts if v.validity is Validity.VALID and v.complete]
    if not violated or not kept or any(v.confirmed for v in violated):
        return None
    first, other = violated[0], kept[0]
    return (
        f"the checkers {first.checker} and {other.checker} contradict each other on {first.guarantee}, and no proof "
        f"settles it: {first.checker} calls it invalid ({first.reason}), {other.checker} calls it valid "
        f"({other.reason or 'no violation was found'}); this is a defect of fencepost"
    )
