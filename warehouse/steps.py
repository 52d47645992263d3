"""Every table that is computed over runs, by name: its step from tables to a DataFrame.

Pages and queries ask for these by name and compute nothing over runs themselves. A step returns as many rows as there
are releases, nights, cells and findings, however many operations the runs have.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from fencepost.warehouse import across, findings, nightly
from fencepost.warehouse.across import Tables

STEPS: Final[Mapping[str, Callable[[Tables], DataFrame]]] = {
    "zombie_episodes_by_version": across.zombie_episodes_by_version,
    "anomaly_rates": across.anomaly_rates,
    "guarantee_outcomes": across.guarantee_outcomes,
    "recovery_by_fault": across.recovery_by_fault,
    "availability_by_phase": across.availability_by_phase,
    "latency_by_fault": across.latency_by_fault,
    "finding_sightings": findings.sightings,
    "finding_examples": findings.examples,
    "night_runs": nightly.night_runs,
    "night_matrix": nightly.night_matrix,
    "night_trends": nightly.night_trends,
}
