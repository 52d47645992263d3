"""Every table that is computed over runs, by name: its step from tables to a DataFrame, and the schema of its rows.

Pages and queries ask for these by name and compute nothing over runs themselves. A step returns as many rows as there
are releases, nights, cells and findings, however many operations the runs have.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from pyspark.sql import DataFrame

from fencepost.warehouse import across, findings, nightly
from fencepost.warehouse.across import Tables


class Step(msgspec.Struct, frozen=True):
    """A step, and the columns of its rows as Spark writes them in SQL."""

    compute: Callable[[Tables], DataFrame]
    schema: str


_RELEASE: Final = "system string, version string, variant string, expected string"
_VARIANT: Final = "system string, version string, variant string"

STEPS: Final[Mapping[str, Step]] = {
    "zombie_episodes_by_version": Step(
        across.zombie_episodes_by_version,
        f"{_RELEASE}, runs bigint, runs_with_episodes bigint, runs_in_which_one_acted bigint, episodes bigint, "
        "claims bigint, asked bigint, reached bigint, served bigint, fenced bigint, unknown bigint, acted bigint, "
        "running_ns_max bigint",
    ),
    "anomaly_rates": Step(
        across.anomaly_rates,
        f"{_RELEASE}, guarantee string, anomaly string, fingerprint string, runs bigint, count bigint, "
        "decides boolean, first_at string, last_at string, of bigint, rate double",
    ),
    "guarantee_outcomes": Step(
        across.guarantee_outcomes,
        f"{_RELEASE}, guarantee string, runs bigint, valid bigint, invalid bigint, unknown bigint, "
        "exposed_runs bigint, exposure bigint",
    ),
    "recovery_by_fault": Step(
        across.recovery_by_fault,
        f"{_RELEASE}, fault string, faults bigint, new_leaders bigint, new_leader_after_ns_p50 bigint, "
        "new_leader_after_ns_p99 bigint, new_leader_after_ns_max bigint, recovered_after_ns_p50 bigint, "
        "recovered_after_ns_p99 bigint, recovered_after_ns_max bigint, longest_without_ok_ns bigint, "
        "availability double",
    ),
    "availability_by_phase": Step(
        across.availability_by_phase,
        f"{_RELEASE}, phase string, operations bigint, availability double, longest_without_ok_ns bigint",
    ),
    "latency_by_fault": Step(
        across.latency_by_fault,
        f"{_RELEASE}, fault string, f string, operations bigint, latency_ns_p50 bigint, latency_ns_p99 bigint, "
        "latency_ns_max bigint",
    ),
    "finding_sightings": Step(
        findings.sightings,
        f"fingerprint string, guarantee string, anomaly string, night string, day string, {_VARIANT}, "
        "decides boolean, runs bigint, seen bigint",
    ),
    "finding_examples": Step(
        findings.examples,
        "fingerprint string, runs bigint, count bigint, oldest string, newest string, clearest string, "
        "fastest string, faults array<string>, searches array<string>",
    ),
    "night_runs": Step(
        nightly.night_runs,
        "night string, day string, started_at string, runs bigint, valid bigint, invalid bigint, unknown bigint, "
        "expected bigint, missed bigint, folder string",
    ),
    "night_matrix": Step(
        nightly.night_matrix,
        f"night string, {_VARIANT}, workload string, nemesis string, canary boolean, run_class string, runs bigint, "
        "exposure bigint, folder string",
    ),
    "night_trends": Step(
        nightly.night_trends,
        "night string, system string, variant string, runs bigint, throughput double, dual_s double, "
        "unavailable_s double, exposure double, beyond_s double, check_s double, controls bigint, false_alarms bigint, "
        "versions array<string>, commits array<string>, machines array<string>, cores array<string>, "
        "recovery_s double, new_leader_s double",
    ),
}
