"""Whether a candidate meets a policy: one pure function from evidence to requirements with reasons.

    0    every requirement is met, or an exception in force covers it
    1    a violation that no exception covers, an exception that has expired, or a budget that was exceeded
    2    evidence is missing: a run that was not made, lost, disturbed, failed or tested nothing; too few runs or tests
         of a guarantee; a canary that passed or was not seen; a budget that the pairs do not decide, or whose runs were
         late; several builds; no effective fault in any clean run

The gate is never greener than any required cell. An exception for a cell covers missing evidence, never a violation;
an exception for a fingerprint covers that violation, never a second one; nothing covers a canary.
"""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from fencepost.campaigns.gate.evidence import GateEvidence, Measures
from fencepost.campaigns.gate.outlook import outlook
from fencepost.campaigns.gate.policy import BudgetMeasure, GuaranteeNeed, PolicyBudget, PolicyException
from fencepost.campaigns.gate.requirement import Comparison, Decision, Requirement, RequirementKind, RequirementStatus
from fencepost.campaigns.gate.signed_rank import signed_rank
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import CellOutcome, RunAttempt
from fencepost.campaigns.night.outcome import BLIND
from fencepost.campaigns.night.run_class import DISTURBED_LAG_NS, RunClass, nemesis_of
from fencepost.harness.base.quantities import counted
from fencepost.harness.faults.schedule import nemesis_words


def decide(evidence: GateEvidence) -> Decision:
    """Decide every requirement of the policy; of a night that runs: what it would be if it ended now."""
    policy, night = evidence.policy, evidence.night
    required = required_cells(evidence)
    rows: list[Requirement] = []
    rows += _expired(evidence)
    rows += [_cell(each, policy.runs[each.cell.id], _cell_exception(evidence, each)) for each in required]
    missing = policy.runs.keys() - {each.cell.id for each in required}
    rows += [_absent(cell, policy.runs[cell]) for cell in sorted(missing)]
    rows += [_guarantee(need, evidence, required) for need in policy.guarantees]
    canaries = [each for each in night.cells if each.cell.canary]
    rows += [_canary(each, required) for each in canaries]
    if not canaries:
        text = f"the policy's canary is not part of the night: {BLIND}"
        rows.append(_missing(RequirementKind.CANARY, "canary", "shows its anomaly", text))
    rows += [_budget(evidence, budget) for budget in policy.budgets]
    rows += _builds(required)
    rows += _without_fault(evidence, required, rows)
    for shard in night.missing_shards:
        rows.append(_missing(RequirementKind.SHARD, f"shard {shard}", "is part of the night", "it is not"))
    return Decision(requirements=tuple(rows), reach=tuple(_reach(required, canaries)))


def required_cells(evidence: GateEvidence) -> list[CellOutcome]:
    """The candidate's cells, which the policy requires."""
    return [each for each in evidence.night.cells if each.cell.id in evidence.policy.runs]


def last_attempts(attempts: Iterable[RunAttempt]) -> list[RunAttempt]:
    """Of each run the attempt that counts: the last one."""
    last: dict[tuple[int, int], RunAttempt] = {}
    for attempt in sorted(attempts, key=lambda a: a.number):
        last[attempt.shard, attempt.run] = attempt
    return sorted(last.values(), key=lambda a: (a.shard, a.run))


def clean_attempts(each: CellOutcome, guarantee: str = "") -> list[RunAttempt]:
    """The valid runs of a cell that put a guarantee to the test while a fault took hold; without a name: any guarantee.

    A cell that asks for no fault has clean runs of its own, but what they tested says nothing of faults.
    """
    valid = [a for a in last_attempts(each.attempts) if a.run_class is RunClass.VALID]
    if guarantee:
        return [a for a in valid if a.took_hold and a.exposures.get(guarantee, 0) > 0]
    return [a for a in valid if any(a.exposures.values()) and (a.took_hold or not nemesis_of(each.cell))]


def measured_pairs(evidence: GateEvidence, budget: PolicyBudget) -> list[tuple[int, int]]:
    """Nanoseconds of candidate and baseline by run, for each run that both judged and measured; the first `pairs`."""
    candidate = _measured(_candidate_of(evidence, budget), evidence.measures, budget.measure)
    baseline = _measured(_baseline_of(evidence, budget), evidence.measures, budget.measure)
    runs = sorted(candidate.keys() & baseline.keys())
    return [(candidate[run], baseline[run]) for run in runs][: budget.pairs]


def _measured(each: CellOutcome | None, measures: dict[str, Measures], measure: BudgetMeasure) -> dict[int, int]:
    attempts = last_attempts(each.attempts) if each else []
    return {a.run: ns for a in attempts if (ns := time_ns(a, measures, measure)) is not None}


def time_ns(attempt: RunAttempt, measures: dict[str, Measures], measure: BudgetMeasure) -> int | None:
    """What a run measured; None where it has no verdict, measured nothing, or its own timer was late."""
    if attempt.run_class is None or not attempt.run_class.is_judged or _is_late(attempt):
        return None
    return measures.get(attempt.folder, {}).get(measure)


def _is_late(attempt: RunAttempt) -> bool:
    """Whether the harness itself was late in this run, so that its times are not the candidate's."""
    return attempt.lag_ms * 1_000_000 >= DISTURBED_LAG_NS


def _candidate_of(evidence: GateEvidence, budget: PolicyBudget) -> CellOutcome | None:
    return next((each for each in evidence.night.cells if each.cell.id == budget.cell), None)


def _baseline_of(evidence: GateEvidence, budget: PolicyBudget) -> CellOutcome | None:
    return next((each for each in evidence.night.cells if each.cell.seeds_of == budget.cell), None)


def _missing(kind: RequirementKind, name: str, need: str, reason: str) -> Requirement:
    return Requirement(kind=kind, name=name, need=need, status=RequirementStatus.MISSING, reason=reason)


def _expired(evidence: GateEvidence) -> Iterator[Requirement]:
    for each in evidence.policy.exceptions:
        if each.is_expired(evidence.night.today):
            yield Requirement(
                kind=RequirementKind.EXCEPTION,
                name=f"exception for {each.subject}",
                need="has not expired",
                status=RequirementStatus.FAILED,
                reason=f"it expired on {each.expires}; {each.owner} renews or removes it: {each.link}",
                final=True,
                cell=each.cell,
            )


def _cell_exception(evidence: GateEvidence, each: CellOutcome) -> PolicyException | None:
    in_force = (e for e in evidence.policy.exceptions if not e.is_expired(evidence.night.today))
    return next((e for e in in_force if e.cell == each.cell.id), None)


def _cell(each: CellOutcome, runs: int, exception: PolicyException | None) -> Requirement:
    """Decide a required cell: enough clean runs, and none that is not."""
    status, reason = _cell_status(each, runs)
    if status is RequirementStatus.MISSING and exception is not None:
        status, reason = (
            RequirementStatus.EXCEPTED,
            f"{reason}; {exception.owner} until {exception.expires}: {exception.link}",
        )
    return Requirement(
        kind=RequirementKind.CELL,
        name=each.cell.name,
        need=f"{counted(runs, 'clean run')}, and none that is not clean",
        status=status,
        reason=reason,
        final=status is RequirementStatus.FAILED,
        cell=each.cell.id,
        attempts=each.attempts,
    )


def _cell_status(each: CellOutcome, runs: int) -> tuple[RequirementStatus, str]:
    violations = [a for a in each.attempts if a.run_class is RunClass.INVALID]
    if violations or each.run_class is RunClass.INVALID:
        return RequirementStatus.FAILED, f"a violation: {violations[0].reason if violations else each.reason}"
    last = last_attempts(each.attempts)
    known = [a for a in last if a.run_class is RunClass.KNOWN]
    clean = clean_attempts(each)
    for attempt in last:
        if attempt in known or attempt in clean:
            continue
        if attempt.run_class is RunClass.VALID:
            lacks = "put no guarantee to the test" if not any(attempt.exposures.values()) else "had no effective fault"
            return RequirementStatus.MISSING, f"run {attempt.run} {lacks}"
        if attempt.run_class is not None:
            return RequirementStatus.MISSING, f"run {attempt.run} is {attempt.run_class}: {attempt.reason}"
    if not each.run_class.is_green and each.run_class is not RunClass.NOT_RUN:
        return RequirementStatus.MISSING, f"it is {each.run_class}: {each.reason}"
    if len(clean) + len(known) < runs:
        why = f": {each.reason}" if not last and each.reason else ""
        return RequirementStatus.MISSING, f"{len(clean) + len(known)} of {counted(runs, 'clean run')}{why}"
    covered = sorted({fingerprint for a in each.attempts for fingerprint in a.known})
    if covered or known:
        return (
            RequirementStatus.EXCEPTED,
            f"{counted(len(known), 'run')} showed only {', '.join(covered) or 'known violations'}",
        )
    without = "" if any(a.took_hold for a in clean) else ", without any fault"
    return RequirementStatus.MET, counted(len(clean), "clean run") + without


def _absent(cell: str, runs: int) -> Requirement:
    return Requirement(
        kind=RequirementKind.CELL,
        name=f"cell {cell}",
        need=counted(runs, "clean run"),
        status=RequirementStatus.MISSING,
        reason="the night has no such cell",
        cell=cell,
    )


def _guarantee(need: GuaranteeNeed, evidence: GateEvidence, required: list[CellOutcome]) -> Requirement:
    clean = [a for each in required for a in clean_attempts(each, need.name)]
    tested = sum(a.exposures[need.name] for a in clean)
    is_met = tested >= need.tested and len(clean) >= need.runs
    reason = f"tested {counted(tested, 'time')} in {counted(len(clean), 'clean run')}"
    if not clean:
        others = sum(len(clean_attempts(each)) for each in required)
        reason = f"no cell tests it under a fault: {counted(others, 'other clean run')}" if others else "no clean run"
    elif not is_met:
        ahead = outlook(need, evidence.night, required, clean)
        reason += f"; {ahead.text}" if ahead else ""
    return Requirement(
        kind=RequirementKind.GUARANTEE,
        name=need.name,
        need=f"tested at least {counted(need.tested, 'time')} in at least {counted(need.runs, 'clean run')}",
        status=RequirementStatus.MET if is_met else RequirementStatus.MISSING,
        reason=reason,
        attempts=tuple(clean),
    )


def _canary(each: CellOutcome, required: Sequence[CellOutcome]) -> Requirement:
    passed = [a for a in each.attempts if a.run_class is RunClass.VALID]
    others = [a for a in each.attempts if a.run_class is RunClass.INVALID and each.cell.anomaly not in a.anomalies]
    status = RequirementStatus.MISSING
    if each.is_caught:
        own, systems = each.cell.plan.system, {o.cell.plan.system for o in required}
        others_only = bool(systems) and own not in systems
        status, reason = RequirementStatus.ELSEWHERE if others_only else RequirementStatus.MET, f"caught in {own}"
        silent = ", ".join(sorted(systems - {own}))
        reason += f", which says nothing of {silent}" if silent else ""
        reason = f"not shown for {silent}: {reason}" if others_only else reason
    elif passed:
        reason = f"it passed: {BLIND}"
    elif others:
        reason = f"it showed {', '.join(others[0].anomalies) or 'no anomaly by name'}: {BLIND}"
    else:
        reason = f"it is {each.run_class}: {each.reason}"
    return Requirement(
        kind=RequirementKind.CANARY,
        name=each.cell.name,
        need=f"shows {each.cell.anomaly}; {_about(each)}",
        status=status,
        reason=reason,
        final=bool(passed or (others and not each.is_caught)),
        cell=each.cell.id,
        attempts=each.attempts,
    )


def _budget(evidence: GateEvidence, budget: PolicyBudget) -> Requirement:
    """Decide a budget: exceeded when the test says slower and the median ratio is beyond the factor."""
    candidate, baseline = _candidate_of(evidence, budget), _baseline_of(evidence, budget)
    pairs = measured_pairs(evidence, budget)
    status, comparison = RequirementStatus.MISSING, None
    reason = f"{len(pairs)} of {budget.pairs} pairs were measured{_lateness(candidate, baseline)}"
    if len(pairs) >= budget.pairs:
        comparison = compare(pairs)
        is_slower, is_beyond = comparison.p <= budget.error, comparison.ratio_median > budget.factor
        status = (
            RequirementStatus.FAILED
            if is_slower and is_beyond
            else RequirementStatus.MISSING
            if is_beyond
            else RequirementStatus.MET
        )
        reason = (
            f"the median of the pairs' ratios is {comparison.ratio_median:.2f}, {'beyond' if is_beyond else 'within'} "
            f"{budget.factor:g}; medians of the times {comparison.candidate_ns_median / 1e9:.2f} s (candidate) and "
            f"{comparison.baseline_ns_median / 1e9:.2f} s (baseline); p = {comparison.p:.3f}, "
            f"effect {comparison.effect:+.2f}"
        )
        if status is RequirementStatus.MISSING:
            reason += "; not decided: beyond the factor, but chance alone may do that"
    return Requirement(
        kind=RequirementKind.BUDGET,
        name=f"{budget.measure} of {candidate.cell.name if candidate else budget.cell}",
        need=f"at most {budget.factor:g} times the baseline, over {budget.pairs} pairs",
        status=status,
        reason=reason,
        final=status is RequirementStatus.FAILED,
        cell=budget.cell,
        attempts=tuple(a for each in (candidate, baseline) if each for a in last_attempts(each.attempts)),
        comparison=comparison,
    )


def _lateness(*sides: CellOutcome | None) -> str:
    """What runs that came too late to be compared say: by how much, and whether others were beside them."""
    late = [a for each in sides if each for a in last_attempts(each.attempts) if _is_late(a)]
    if not late:
        return ""
    lags = [a.lag_ms for a in late]
    beside = max(a.company for a in late)
    by = f"{counted(beside, 'run')} beside them" if beside else "none beside them: what else runs on this machine?"
    return f"; {counted(len(late), 'run')} late by {min(lags):,} to {max(lags):,} ms not compared, {by}"


def compare(pairs: Sequence[tuple[int, int]]) -> Comparison:
    """Compare candidate and baseline, pair by pair."""
    test = signed_rank([candidate - baseline for candidate, baseline in pairs])
    return Comparison(
        pairs=tuple(pairs),
        candidate_ns_median=int(median(candidate for candidate, _ in pairs)),
        baseline_ns_median=int(median(baseline for _, baseline in pairs)),
        ratio_median=median(candidate / max(1, baseline) for candidate, baseline in pairs),
        p=test.p,
        effect=test.effect,
    )


def _builds(required: Sequence[CellOutcome]) -> Iterator[Requirement]:
    """A candidate that is not one build: a file that is replaced in the night makes two candidates."""
    builds = builds_of(required)
    if len(builds) > 1:
        yield Requirement(
            kind=RequirementKind.BUILD,
            name="candidate",
            need="is one build",
            status=RequirementStatus.MISSING,
            reason=f"{len(builds)} builds were tested: {', '.join(builds)}",
            final=True,
        )


def builds_of(required: Sequence[CellOutcome]) -> list[str]:
    """The builds that ran in these cells."""
    return sorted({a.build for each in required for a in each.attempts if a.build})


def _without_fault(
    evidence: GateEvidence, required: Sequence[CellOutcome], rows: Sequence[Requirement]
) -> Iterator[Requirement]:
    """A gate whose clean runs had no effective fault: nothing disturbed the candidate, whatever else is met.

    Only said where the cells have their runs. Where an exception covers missing evidence of each cell, somebody has
    taken that on.
    """
    statuses = {row.status for row in rows if row.kind is RequirementKind.CELL}
    answers = RequirementStatus.MET in statuses or any(_cell_exception(evidence, each) is None for each in required)
    good = [a for each in required for a in last_attempts(each.attempts) if a.run_class and a.run_class.is_green]
    if (
        answers
        and statuses <= {RequirementStatus.MET, RequirementStatus.EXCEPTED}
        and not any(a.took_hold for a in good)
    ):
        yield _missing(
            RequirementKind.FAULT,
            "candidate under faults",
            "a fault takes hold in at least one clean run of a required cell",
            "no clean run had an effective fault",
        )


def _reach(required: Sequence[CellOutcome], canaries: Sequence[CellOutcome]) -> Iterator[str]:
    """What a gate does not show though it is green: a canary counts for its own system, workload and faults only."""
    for system in sorted({each.cell.plan.system for each in required}):
        own = [each for each in canaries if each.cell.plan.system == system and each.is_caught]
        if not own:
            yield f"no canary of {system}: whether this gate could see a violation of {system} was not shown"
            continue
        blind = [each.cell.name for each in required if not any(_counts_for(c, each) for c in own)]
        if blind:
            yield f"no canary with the workload and faults of: {', '.join(blind)}"
    quiet = [each.cell.name for each in required if not nemesis_of(each.cell)]
    if quiet:
        yield f"no fault is asked for in: {', '.join(quiet)}"


def _counts_for(canary: CellOutcome, each: CellOutcome) -> bool:
    own, of = canary.cell.plan, each.cell.plan
    return own.workload == of.workload and fault_kinds(each.cell) <= fault_kinds(canary.cell)


def fault_kinds(cell: NightCell) -> set[str]:
    """The kinds of faults that a cell asks for; of a schedule the file."""
    return {word.partition(":")[0].strip() for word in nemesis_words(nemesis_of(cell))}


def _about(each: CellOutcome) -> str:
    plan = each.cell.plan
    return f"{plan.system}, {plan.workload}, {nemesis_of(each.cell) or 'no fault'}"
