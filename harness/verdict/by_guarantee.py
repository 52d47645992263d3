"""What all checkers together say of each guarantee: the one line that terminal, page, JUnit and gate show.

Several checkers may judge one guarantee, each by rules of its own. A violation that one of them finds counts. If a
complete checker (one that finds every violation) calls the guarantee valid, the two contradict each other. Then the
violation counts only if its proof holds by the history alone. If it does not, one of the checkers is wrong, and the run
ends as a defect of fencepost.

How often each anomaly was found, each violation counted once.

Two rules may name the same operation: a stale read that a superseded leader answered is one violation with two names.
So anomalies are counted by their rows of the history. An anomaly whose rows all belong to another one, too, is shown
behind that one, as a part of it.

Which verdicts decide a run: the one rule for exit code, headline, JUnit and page.

A violation of a guarantee that is promised, or that the plan requires by name, makes a run `invalid`, whichever checker
found it. For `valid` these must be known: the guarantee that the run is about, those that the plan requires, the
coverage, and the verdict of every checker that failed.

How others read the figures of verdicts: rows by their struct, or all of them by name.

A verdict is told first by three lines: what happened, whom it concerns, the next command. Terminal and page begin with
them, so that a reader who is called at night need not read on to act.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from fencepost.harness.base.errors import ExitCode, command_line
from fencepost.harness.verdict import Cause, Facts, Validity, Verdict, merge_verdicts, violations_of
from fencepost.harness.verdict.guarantee import Guarantee, Standing, anomaly_count, anomaly_noun

R = TypeVar("R", bound=msgspec.Struct)


def listed(verdicts: Iterable[Verdict], kind: type[R]) -> list[R]:
    """Return the rows of this kind among the figures of the verdicts."""
    lists = (figure for v in verdicts for figure in v.figures.values() if isinstance(figure, tuple))
    return [row for rows in lists for row in rows if isinstance(row, kind)]


def all_figures(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict's figures as verdict.json has them: the format also keeps three of its fields among them."""
    return {
        **({} if verdict.subject is None else {"subject": verdict.subject}),
        **verdict.figures,
        **({"allowed": list(verdict.allowed)} if verdict.allowed else {}),
        **({"cut_short": verdict.cut_short} if verdict.cut_short else {}),
    }


def plain_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return a whole verdict as plain data, with its figures as `all_figures` has them."""
    plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(verdict, figures=all_figures(verdict)))
    return {name: value for name, value in plain.items() if name not in ("subject", "allowed", "cut_short")}


#: The checker that says whether the run put anything to the test.
COVERAGE: Final = "coverage"


def decides(verdict: Verdict, facts: Facts) -> bool:
    """Decide whether this verdict keeps the run from being valid.

    Args:
        verdict: one checker's word on one guarantee.
        facts: which guarantees are promised, and which the plan requires by name.

    Returns:
        True for `invalid` on a guarantee that is promised or required, and for `unknown` on one that must be known;
        False for `valid`.
    """
    match verdict.validity:
        case Validity.INVALID:
            return facts.decides(verdict.guarantee)
        case Validity.UNKNOWN:
            return must_be_known(verdict, facts)
        case Validity.VALID:
            return False


def must_be_known(verdict: Verdict, facts: Facts) -> bool:
    """Decide whether this verdict, if unknown, keeps the run from being valid.

    Returns:
        True where it weighs and is about the run's own guarantee, a required one or the coverage, or where its checker
        failed.
    """
    return verdict.weighs and (
        verdict.guarantee in (facts.read_guarantee, *facts.required)
        or verdict.checker == COVERAGE
        or verdict.cause is Cause.FAILED
    )


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """One anomaly over all the verdicts that name it.

    `rows` has one row for each violation, where every checker names its rows. `among` is the anomaly that these
    violations are counted under, too; `allowed_by` is the guarantee that allows them.
    """

    anomaly: str
    count: int
    rows: tuple[int, ...] = ()
    among: str | None = None
    allowed_by: str | None = None


def counts(verdicts: Sequence[Verdict]) -> list[Count]:
    """Count every anomaly of these verdicts, each violation once.

    Returns:
        The most frequent first; behind each one those that are a part of it (`among`).
    """
    violations = violations_of(verdicts)
    allowed = {name: v.guarantee for v in verdicts for name in v.allowed if name not in violations}
    by_frequency = sorted(
        (_count(name, verdicts, allowed.get(name)) for name in dict.fromkeys(n for v in verdicts for n in v.anomalies)),
        key=lambda count: -count.count,
    )
    ordered: list[Count] = []
    for count in by_frequency:
        above = next((c for c in ordered if c.among is None and _includes(c, count)), None)
        if above is None:
            ordered.append(count)
        else:
            place = max(i for i, c in enumerate(ordered) if above.anomaly in (c.anomaly, c.among))
            ordered.insert(place + 1, msgspec.structs.replace(count, among=above.anomaly))
    return ordered


def counts_in_words(verdicts: Sequence[Verdict]) -> str:
    """Say all violations, as "8 stale reads (all of them stale answers by a superseded leader)"."""
    return one_line([count for count in counts(verdicts) if count.allowed_by is None])


def one_line(all_counts: Sequence[Count]) -> str:
    """Say these counts in one line."""
    parts = []
    for count in all_counts:
        if count.among is not None and any(c.anomaly == count.among for c in all_counts):
            continue
        within = ", ".join(share(inner, count) for inner in all_counts if inner.among == count.anomaly)
        parts.append(anomaly_count(count.count, count.anomaly) + (f" ({within})" if within else ""))
    return ", ".join(parts)


def share(inner: Count, outer: Count) -> str:
    """Say which part of `outer` has the other name, too."""
    return f"{'all' if inner.count == outer.count else inner.count} of them {anomaly_noun(inner.count, inner.anomaly)}"


def _count(name: str, verdicts: Sequence[Verdict], allowed: str | None) -> Count:
    own = [v.anomalies[name] for v in verdicts if name in v.anomalies]
    rows = tuple(sorted({row for number in own for row in number.rows}))
    each_named = all(len(set(number.rows)) == number.value for number in own)
    return Count(
        anomaly=name,
        count=len(rows) if each_named else sum(number.value for number in own),
        rows=rows,
        allowed_by=allowed,
    )


def _includes(outer: Count, inner: Count) -> bool:
    known = len(outer.rows) == outer.count and len(inner.rows) == inner.count
    return known and outer.allowed_by == inner.allowed_by and set(inner.rows) <= set(outer.rows)


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
        known = [v.tested for v in self.verdicts if v.tested is not None]
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
        facts: what decides, as in `harness.verdict.by_guarantee.decides`.

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
