"""How a verdict is told first: what happened, whom it concerns, the next command.

Terminal and page begin with these three lines, so that a reader who is called at night need not read on to act.
"""

from collections.abc import Sequence

import msgspec

from fencepost.harness.base.errors import command_line
from fencepost.harness.verdict.by_guarantee import COVERAGE, OfGuarantee, decides
from fencepost.harness.verdict.guarantee import Guarantee, Standing
from fencepost.harness.verdict.verdict import Cause, Facts, Validity, Verdict


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Three lines. `next_command` is None where the run is kept nowhere; `next_why` says what it is good for."""

    headline: str
    concerns: str
    next_command: str | None
    next_why: str


def opening(
    validity: Validity, headline: str, lines: Sequence[OfGuarantee], facts: Facts, folder: str | None
) -> Opening:
    """Say what happened, whom it concerns and what to do next.

    Args:
        validity: the run's merged verdict.
        headline: the verdict in one sentence, as `harness.judging.judge.conclude` says it.
        lines: one entry for each guarantee, from `harness.verdict.by_guarantee`.
        facts: what the system promises and what the plan requires.
        folder: the run's folder as a person would type it; None for a history that is not in one.

    Returns:
        Complete sentences without a line break; the command can be pasted into a shell.
    """
    command, why = _next(validity, lines, facts, folder)
    return Opening(headline=headline, concerns=_concerns(validity, lines, facts), next_command=command, next_why=why)


def counted(number: int, noun: str) -> str:
    """ "1 run", "2 runs"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def times(count: int) -> str:
    """Say how often something happened: "once", "3,011 times"."""
    return "once" if count == 1 else f"{count:,} times"


def _concerns(validity: Validity, lines: Sequence[OfGuarantee], facts: Facts) -> str:
    match validity:
        case Validity.INVALID:
            line = next((line for line in lines if line.effect is Validity.INVALID), None)
            return "" if line is None else _who_relies_on(line.name, facts)
        case Validity.UNKNOWN:
            # Coverage is a condition of the run, not a guarantee that anybody relies on.
            unknown = [line.name for line in lines if line.effect is Validity.UNKNOWN and line.name != COVERAGE]
            judged = {line.name: line.validity for line in lines if line.validity is not Validity.UNKNOWN}
            if not unknown and facts.read_guarantee in judged:
                # The run lacks something else; of this guarantee it did show whether it was kept.
                violated = [name for name in judged if judged[name] is Validity.INVALID]
                named, how = (violated, Validity.INVALID) if violated else ([facts.read_guarantee], Validity.VALID)
                return f"This run is not a pass: it is unknown as a whole, though it is {how} for {_listed(named)}."
            names = unknown or [facts.read_guarantee]
            return f"This run is not a pass: it does not show whether {_listed(names)} was kept."
        case Validity.VALID:
            violated = [line.name for line in lines if line.validity is Validity.INVALID]
            if violated:
                return " ".join(_who_relies_on(name, facts) for name in violated)
            tested = [
                f"{line.name} ({times(line.exposure)})"
                for line in lines
                if line.validity is Validity.VALID and line.exposure and facts.guarantee(line.name)
            ]
            return f"Tested: {', '.join(tested)}." if tested else ""


def _who_relies_on(name: str, facts: Facts) -> str:
    guarantee = facts.guarantee(name)
    if guarantee is None:
        return f"This concerns everybody who relies on {name}."
    return f"This concerns everybody who relies on {name}: {guarantee.text} {_standing(guarantee)}"


def _standing(guarantee: Guarantee) -> str:
    if guarantee.unmet is not None:
        return f"Nobody promises it of this run: it is {guarantee.unmet.text}."
    match guarantee.standing:
        case Standing.PROMISED:
            return "The maker promises it."
        case Standing.RELIED_UPON:
            return "Users rely on it, the maker does not promise it."
        case Standing.MEASURED:
            return "Nobody promises it."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _next(validity: Validity, lines: Sequence[OfGuarantee], facts: Facts, folder: str | None) -> tuple[str | None, str]:
    if folder is None:
        return None, ""
    match validity:
        case Validity.INVALID:
            again = command_line("replay", folder, "--times", "10")
            return again, "runs the same faults again and counts how often it happens"
        case Validity.VALID:
            again = command_line("run", f"{folder}/plan.toml", "--times", "10")
            return again, "looks for a rarer violation with ten more seeds"
        case Validity.UNKNOWN:
            return _next_of_unknown([v for line in lines for v in line.verdicts if decides(v, facts)], folder)


def _next_of_unknown(doubtful: Sequence[Verdict], folder: str) -> tuple[str, str]:
    causes = {v.cause for v in doubtful if v.validity is Validity.UNKNOWN}
    check, plan = command_line("check", folder), command_line("run", f"{folder}/plan.toml")
    if Cause.FAILED in causes:
        return check, "judges the history again; the traceback is in checkers.log there"
    if Cause.CUT_SHORT in causes:
        return plan, "runs it again, to the end this time"
    if Cause.OUT_OF_BUDGET in causes:
        return check, "judges it again, after a larger [budget] in its plan.toml"
    if Cause.NO_EXPOSURE in causes:
        return f"{plan} --time-limit 2m", "a longer run puts the guarantee to the test more often"
    return f"{plan} --times 5", "runs it again with five seeds"
