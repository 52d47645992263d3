"""Which runs a gate still needs: those that a requirement lacks and can get, and none once red is certain."""

import math

from fencepost.campaigns.gate.decision import (
    clean_attempts,
    decide,
    last_attempts,
    measured_pairs,
    required_cells,
    time_ns,
)
from fencepost.campaigns.gate.evidence import GateEvidence
from fencepost.campaigns.gate.outlook import outlook
from fencepost.campaigns.gate.policy import GuaranteeNeed
from fencepost.campaigns.night.night import CellOutcome
from fencepost.campaigns.night.pool import Demand, WaitingRun


def demand_of(evidence: GateEvidence, turn: WaitingRun) -> Demand:
    """Decide whether the gate needs this run: now, perhaps later, or never."""
    if decide(evidence).is_certainly_red:
        return Demand.NEVER
    each = next(outcome for outcome in evidence.night.cells if outcome.cell.id == turn.cell)
    if turn.number > 1 or each.cell.canary or turn.run <= evidence.policy.runs.get(turn.cell, 0):
        return Demand.NOW
    demands = {_for_pairs(evidence, each, turn.run)}
    if each.cell.id in evidence.policy.runs:
        demands |= {_for_guarantee(evidence, need, each) for need in evidence.policy.guarantees}
    return next(demand for demand in Demand if demand in demands)


def _for_pairs(evidence: GateEvidence, each: CellOutcome, run: int) -> Demand:
    """Runs of both sides until each budget has its pairs; a run that cannot be measured is replaced."""
    demands = {Demand.NEVER}
    for budget in evidence.policy.budgets:
        if budget.cell not in (each.cell.id, each.cell.seeds_of):
            continue
        if len(measured_pairs(evidence, budget)) >= budget.pairs:
            continue
        sides = [o for o in evidence.night.cells if budget.cell in (o.cell.id, o.cell.seeds_of)]
        wasted = {
            a.run
            for side in sides
            for a in last_attempts(side.attempts)
            if a.run_class is not None and time_ns(a, evidence.measures, budget.measure) is None
        }
        demands.add(Demand.NOW if run <= budget.pairs + len(wasted) else Demand.LATER)
    return next(demand for demand in Demand if demand in demands)


def _for_guarantee(evidence: GateEvidence, need: GuaranteeNeed, each: CellOutcome) -> Demand:
    """More runs of the cells that test a guarantee, as many at a time as it seems to lack."""
    required = required_cells(evidence)
    clean = [a for outcome in required for a in clean_attempts(outcome, need.name)]
    tested = sum(a.exposures[need.name] for a in clean)
    if tested >= need.tested and len(clean) >= need.runs:
        return Demand.NEVER
    in_flight = sum(a.run_class is None for outcome in required for a in outcome.attempts)
    ahead = outlook(need, evidence.night, required, clean)
    if ahead is not None and ahead.is_hopeless:
        return Demand.NEVER
    if not clean or not clean_attempts(each, need.name):
        # Nobody knows yet whether this cell tests it.
        has_ended = any(a.run_class is not None for a in each.attempts)
        return Demand.NEVER if clean and has_ended else Demand.LATER
    lacking = max(need.runs - len(clean), math.ceil((need.tested - tested) / (tested / len(clean))))
    return Demand.NOW if in_flight < lacking else Demand.LATER
