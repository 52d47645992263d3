"""The evidence of a gate: its night, and how long each run took to recover and was unavailable."""

from pathlib import Path

import msgspec

from fencepost.campaigns.gate.policy import BudgetMeasure, Policy
from fencepost.campaigns.night.launcher import fact_rows
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.verdict.fact_tables import PHASES, RECOVERY

_MAIN = "main"
#: Nanoseconds by measure; a measure that a run does not tell is absent.
Measures = dict[BudgetMeasure, int]


class GateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision rests on; `measures` are by the folder of the attempt."""

    policy: Policy
    night: Night
    measures: dict[str, Measures] = {}


class MeasureFiles:
    """Reads the measures of attempts below a night's folder, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, Measures] = {}

    def evidence(self, policy: Policy, night: Night) -> GateEvidence:
        """Collect what a night shows by now."""
        budgeted = {budget.cell for budget in policy.budgets}
        for outcome in night.cells:
            if outcome.cell.id in budgeted or outcome.cell.seeds_of:
                for attempt in outcome.attempts:
                    if attempt.run_class is not None and attempt.folder not in self._read:
                        self._read[attempt.folder] = _measures(self._folder, attempt)
        return GateEvidence(policy=policy, night=night, measures=self._read)


def _measures(folder: Path, attempt: RunAttempt) -> Measures:
    """The longest recovery after a fault and the longest time without a successful operation, of one run."""
    if attempt.run_class is None or attempt.run_class is RunClass.LOST:
        return {}
    measures: Measures = {}
    recovered = [
        row["recovered_after_ns"] for row in fact_rows(folder / attempt.folder, RECOVERY.name) if row["node"] is None
    ]
    if recovered and None not in recovered:
        measures[BudgetMeasure.RECOVERY] = max(recovered)
    gaps = [
        row["longest_without_ok_ns"] for row in fact_rows(folder / attempt.folder, PHASES.name) if row["phase"] == _MAIN
    ]
    if gaps and gaps[0] is not None:
        measures[BudgetMeasure.UNAVAILABILITY] = gaps[0]
    return measures
