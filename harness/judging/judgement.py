"""Merges the verdicts of all checkers into that of a run or a file, and says it in one sentence.

`harness.verdict.by_guarantee` says which verdicts decide; the others are reported with their counts.
"""

from collections.abc import Sequence

import msgspec

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.history import History
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Facts, Validity, Verdict, merge
from fencepost.harness.verdict.by_guarantee import OfGuarantee, by_guarantee, counts_in_words, decides, exit_code


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A judged run: the merged verdict, one sentence on why, each checker's word, and how long the checkers took."""

    validity: Validity
    headline: str
    verdicts: tuple[Verdict, ...]
    facts: Facts
    took_ns: int = 0

    @property
    def exit_code(self) -> ExitCode:
        return exit_code(self.validity, self.verdicts, self.facts)


def conclude(history: History, facts: Facts, verdicts: tuple[Verdict, ...]) -> Judgement:
    """Merge verdicts into that of the run, and say it in one sentence.

    Args:
        history: what was judged; the headline of a valid run counts its operations.
        facts: what the system promises and the plan requires, by which verdicts decide.
        verdicts: every checker's, in the order in which the checkers ran.

    Returns:
        `invalid` if a violation decides; else `unknown` if checkers contradict each other without a proof, or if
        something that must be known is not; else `valid`. A run that was cut short is never `valid`. The verdicts of
        the judgement may differ from those given: `confirmed` and `weighs` are filled in.
    """
    verdicts = _answered_for(_settled(history, facts, verdicts))
    lines = by_guarantee(verdicts, facts)
    violated = [line for line in lines if line.effect is Validity.INVALID]
    contradicted = [line.contradiction for line in lines if line.contradiction and line.effect is Validity.UNKNOWN]
    doubtful = [v for v in verdicts if v.validity is Validity.UNKNOWN and decides(v, facts)]
    cut_short = next((v.cut_short for v in doubtful if v.cut_short), "")
    unjudged = {facts.read_guarantee, *facts.required} - {v.guarantee for v in verdicts}
    if violated:
        validity = Validity.INVALID
        headline = _violated_headline(violated[0], facts)
        headline += f"; {cut_short}" if cut_short else ""
    elif contradicted:
        validity, headline = Validity.UNKNOWN, contradicted[0]
    elif doubtful or unjudged:
        validity = Validity.UNKNOWN
        headline = cut_short or doubtful[0].reason if doubtful else f"no checker judged {', '.join(sorted(unjudged))}"
    else:
        validity = merge(v.validity for v in verdicts if v.validity is Validity.VALID)
        headline = _valid_headline(len(history.operations), facts, lines)
    # First what the run is, then what a reader must know beside it: a server that ended, a fault that was not proven.
    headline = "; ".join(dict.fromkeys([headline, *(remark for v in verdicts for remark in v.remarks)]))
    return Judgement(validity=validity, headline=headline, verdicts=verdicts, facts=facts)


def _settled(history: History, facts: Facts, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Mark violations whose proofs hold by the history alone, where checkers contradict each other."""
    contested = {line.name for line in by_guarantee(verdicts, facts) if line.contradiction}
    return tuple(
        msgspec.structs.replace(v, confirmed=registry.confirmed(history, v))
        if v.guarantee in contested and v.validity is Validity.INVALID
        else v
        for v in verdicts
    )


def _answered_for(verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Let "not tested" of one checker not weigh where a complete checker calls the guarantee valid."""
    kept = {v.guarantee for v in verdicts if v.complete and v.validity is Validity.VALID}
    return tuple(
        msgspec.structs.replace(v, weighs=False) if v.guarantee in kept and v.cause is Cause.NO_EXPOSURE else v
        for v in verdicts
    )


def _violated_headline(line: OfGuarantee, facts: Facts) -> str:
    return f"{line.name}{_standing(line.name, facts)} is violated: {_what(line)}"


def _standing(name: str, facts: Facts) -> str:
    guarantee = facts.guarantee(name)
    return f" ({guarantee.standing.value})" if guarantee else ""


def _what(line: OfGuarantee) -> str:
    return counts_in_words(line.verdicts) or line.verdicts[0].reason


def _valid_headline(operations: int, facts: Facts, lines: Sequence[OfGuarantee]) -> str:
    """Name first what was seen and violates no promise, so that nobody reads `valid` as "nothing was seen"."""
    seen = [
        f"{_what(line)} against {line.name}{_standing(line.name, facts)}"
        for line in lines
        if line.validity is Validity.INVALID
    ]
    if not seen:
        return f"{operations} operations: no violation of {facts.read_guarantee} was found"
    kept = [line.name for line in lines if line.name == facts.read_guarantee and line.validity is Validity.VALID]
    rest = f"no violation of {kept[0]} was found" if kept else "no guarantee that decides the verdict was violated"
    return f"seen, but it violates no promise: {'; '.join(seen)}. {operations} operations: {rest}"
