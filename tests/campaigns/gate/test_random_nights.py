"""Ten thousand random nights: a gate is never greener than any required cell, canary, guarantee or budget.

What green needs is computed here a second time, from the attempts alone and in other words than the decision's.
"""

import random
from statistics import median

from fencepost.campaigns.gate.decision import decide
from fencepost.campaigns.gate.evidence import GateEvidence, Measures
from fencepost.campaigns.gate.policy import BudgetMeasure, Policy
from fencepost.campaigns.night.night import NightState, RunAttempt
from fencepost.campaigns.night.run_class import RunClass
from tests.campaigns.gate.made import TODAY, YESTERDAY, baseline_cell, budget, exception, linearizable, policy
from tests.campaigns.night.made import FINGERPRINT, OTHER, attempt, caught, cell, night

NIGHTS = 10_000
CLASSES = [*RunClass, None]


def drawn(rng: random.Random) -> GateEvidence:
    """A night that is clean but for what chance breaks, so that green and red are both common."""
    names = [f"c{n}" for n in range(rng.randint(1, 3))]
    spoiled = rng.choice([0.0, 0.0, 0.02, 0.2])
    with_budget = rng.random() < 0.3
    runs = {name: rng.choice([1, 1, 2]) for name in names}
    cells = [cell("canary", canary=True), *(cell(name, required=True) for name in names)]
    attempts: list[RunAttempt] = []
    measures: dict[str, Measures] = {}
    if with_budget:
        cells.append(baseline_cell())
    for each in cells[1:]:
        wanted = 5 if with_budget and "c0" in each.id else runs.get(each.id, 1)
        for run in range(1, wanted + rng.choice([0, 0, 0, 1, -1 if rng.random() < spoiled else 0]) + 1):
            attempts += _attempts(rng, each.id, run, spoiled)
            if rng.random() >= spoiled:
                slow = 3 if rng.random() < spoiled else 1
                measures[attempts[-1].folder] = {BudgetMeasure.RECOVERY: slow * rng.randint(90, 110)}
    canary = [caught()]
    if rng.random() < spoiled:
        canary = [attempt("canary", rng.choice(CLASSES), anomalies=(rng.choice(["stale-read", "lost-write"]),))]
    exceptions = [exception(fingerprint=FINGERPRINT, expires=YESTERDAY if rng.random() < spoiled else TODAY)]
    if rng.random() < 0.2:
        exceptions.append(exception(cell=rng.choice(names), expires=YESTERDAY if rng.random() < spoiled else TODAY))
    made = policy(
        runs=runs,
        guarantees=(linearizable(rng.choice([1, 20, 60]), rng.choice([1, 1, 2])),) if rng.random() < 0.5 else (),
        budgets=(budget(),) if with_budget else (),
        exceptions=tuple(e for e in exceptions if rng.random() < 0.8),
    )
    state = rng.choice(
        [NightState.FINISHED, NightState.FINISHED, NightState.STOPPED, NightState.INTERRUPTED, NightState.RUNNING]
    )
    return GateEvidence(policy=made, night=night(cells, [*canary, *attempts], state=state), measures=measures)


def _attempts(rng: random.Random, name: str, run: int, spoiled: float) -> list[RunAttempt]:
    first: list[RunAttempt] = []
    if rng.random() < spoiled:
        first = [attempt(name, rng.choice(list(RunClass)), run=run)]
    run_class = rng.choice(CLASSES) if rng.random() < spoiled else RunClass.VALID
    known = (FINGERPRINT,) if run_class is RunClass.KNOWN else ()
    shown = {RunClass.KNOWN: (FINGERPRINT,), RunClass.INVALID: (FINGERPRINT, OTHER)}.get(run_class or RunClass.LOST, ())
    return [
        *first,
        attempt(
            name,
            run_class,
            run=run,
            number=len(first) + 1,
            exposures={"linearizable": 0 if rng.random() < spoiled else rng.randint(10, 60)},
            faults={"kill": 0 if rng.random() < spoiled else 2},
            lag_ms=rng.choice([300, 1057]) if rng.random() < spoiled else rng.choice([0, 249]),
            known=known,
            fingerprints=shown,
            build="1.0 bb" if rng.random() < spoiled / 20 else "1.0 aa",
        ),
    ]


def may_be_green(made: GateEvidence) -> bool:
    """Whether green is allowed, by the rules for people rather than by the program's."""
    rules: Policy = made.policy
    if any(e.expires < TODAY for e in rules.exceptions):
        return False
    waived = {e.cell for e in rules.exceptions if e.cell}
    tested, clean_runs, builds, is_disturbed = 0, 0, set(), False
    for outcome in made.night.cells:
        every = outcome.attempts
        if outcome.cell.canary:
            caught_by = [a for a in every if a.run_class == "invalid" and "stale-read" in a.anomalies]
            if not caught_by or any(a.run_class == "valid" for a in every):
                return False
            continue
        if outcome.cell.id not in rules.runs:
            continue
        builds |= {a.build for a in every if a.build}
        if any(a.run_class == "invalid" for a in every):
            return False
        final = [a for a in every if not any(b.run == a.run and b.number > a.number for b in every)]
        good = [a for a in final if a.run_class == "known" or _is_clean(a)]
        is_disturbed |= any(a.faults["kill"] for a in good)
        enough = len(good) >= rules.runs[outcome.cell.id]
        if outcome.cell.id not in waived:
            open_runs = [a for a in final if a not in good and a.run_class is not None]
            if open_runs or not enough or not outcome.run_class.is_green:
                return False
        for a in final:
            if _is_clean(a):
                tested, clean_runs = tested + a.exposures["linearizable"], clean_runs + 1
    if any(tested < need.tested or clean_runs < need.runs for need in rules.guarantees):
        return False
    if not is_disturbed and rules.runs.keys() - waived:
        return False
    return len(builds) <= 1 and (not rules.budgets or _within(made))


def _is_clean(a: RunAttempt) -> bool:
    """Valid, and tested while a fault took hold."""
    return a.run_class == "valid" and a.exposures["linearizable"] > 0 and a.faults["kill"] > 0


def _within(made: GateEvidence) -> bool:
    """Whether five judged and measured pairs have a median ratio of at most 1.5."""
    times: dict[str, dict[int, int]] = {"c0": {}, "c0-baseline": {}}
    for outcome in made.night.cells:
        for a in outcome.attempts:
            is_last = not any(b.run == a.run and b.number > a.number for b in outcome.attempts)
            judged = a.run_class in ("valid", "invalid", "known") and a.lag_ms < 250
            if outcome.cell.id in times and is_last and judged and a.folder in made.measures:
                times[outcome.cell.id][a.run] = made.measures[a.folder][BudgetMeasure.RECOVERY]
    runs = sorted(times["c0"].keys() & times["c0-baseline"].keys())[:5]
    return len(runs) == 5 and median(times["c0"][r] / times["c0-baseline"][r] for r in runs) <= 1.5


def test_a_gate_is_never_greener_than_what_it_requires() -> None:
    rng = random.Random(17)
    greens = reds = 0
    for number in range(NIGHTS):
        made = drawn(rng)
        decision = decide(made)
        assert not decision.is_green or "faults: no clean run" not in decision.sentence
        assert decision.is_green == may_be_green(made), f"night {number}: {decision.sentence}"
        greens, reds = greens + decision.is_green, reds + (not decision.is_green)
        assert decision.is_green == all(r.status.exit_code == 0 for r in decision.requirements)
    assert greens > NIGHTS / 10 and reds > NIGHTS / 10
