"""Evidence made in memory: a policy with one required cell, a canary and what a test adds."""

import datetime
from collections.abc import Sequence
from typing import Any

import msgspec

from fencepost.campaigns.gate.evidence import GateEvidence, Measures
from fencepost.campaigns.gate.policy import BudgetMeasure, GuaranteeNeed, Policy, PolicyBudget, PolicyException
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import RunAttempt
from fencepost.campaigns.night.run_class import RunClass
from tests.campaigns.night.made import FINGERPRINT, attempt, caught, cell, night

TODAY = datetime.date(2026, 11, 23)
YESTERDAY = TODAY - datetime.timedelta(days=1)


def policy(**fields: Any) -> Policy:
    return Policy(**{"name": "p", "candidate": "1.0", "baseline": "0.9", "runs": {"c0": 1}, **fields})


def clean(name: str = "c0", *, run: int = 1, tested: int = 40, **fields: Any) -> RunAttempt:
    return attempt(name, RunClass.VALID, run=run, exposures={"linearizable": tested}, build="1.0 aa", **fields)


def exception(**fields: Any) -> PolicyException:
    return PolicyException(**{"link": "https://issues.example/1", "owner": "me", "expires": TODAY, **fields})


def baseline_cell(name: str = "c0") -> NightCell:
    return msgspec.structs.replace(cell(f"{name}-baseline", required=True), seeds_of=name)


def evidence(
    attempts: Sequence[RunAttempt],
    made: Policy | None = None,
    *,
    canary: Sequence[RunAttempt] = (),
    cells: Sequence[NightCell] = (),
    measures: dict[str, Measures] | None = None,
    **fields: Any,
) -> GateEvidence:
    """Evidence of these attempts; without `canary` it was caught."""
    every = [cell("canary", canary=True), *(cells or [cell("c0", required=True)])]
    made = made or policy()
    return GateEvidence(
        policy=made, night=night(every, [*(canary or [caught()]), *attempts], **fields), measures=measures or {}
    )


def budget(**fields: Any) -> PolicyBudget:
    return PolicyBudget(**{"cell": "c0", "measure": BudgetMeasure.RECOVERY, "factor": 1.5, "pairs": 5, **fields})


def paired(candidate: Sequence[int], baseline: Sequence[int], **fields: Any) -> GateEvidence:
    """Evidence of pairs of runs with these recovery times in milliseconds."""
    attempts, measures = [], {}
    for name, times in (("c0", candidate), ("c0-baseline", baseline)):
        for run, time_ms in enumerate(times, 1):
            attempts.append(clean(name, run=run))
            measures[attempts[-1].folder] = {BudgetMeasure.RECOVERY: time_ms * 1_000_000}
    cells = [cell("c0", required=True), baseline_cell()]
    return evidence(attempts, policy(budgets=(budget(**fields),)), cells=cells, measures=measures)


def linearizable(tested: int, runs: int = 1) -> GuaranteeNeed:
    return GuaranteeNeed(name="linearizable", tested=tested, runs=runs)


def violation(name: str = "c0", **fields: Any) -> RunAttempt:
    return attempt(name, RunClass.INVALID, fingerprints=(FINGERPRINT,), anomalies=("stale-read",), **fields)
