"""What spans runs, as steps from tables of facts to small tables: Spark's own column functions, no Python of ours.

Every step groups by system, version, variant (an own build, options, settings) and by whether a violation was expected:
a run with a planted bug says nothing about runs without one. A table's rows are as many as there are such groups,
faults and anomalies, however many runs and operations it was made from.
"""

from typing import Final, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


class Tables(Protocol):
    """Tables by name: a warehouse, or a mapping."""

    def __getitem__(self, name: str, /) -> DataFrame: ...


#: percentile_approx is exact up to so many distinct values in a group, and within 1 / this of the rank beyond.
ACCURACY: Final = 10_000
_RELEASE: Final = ("system", "version", "variant", "expected")


def population(tables: Tables) -> DataFrame:
    """Where each run belongs, what makes its system no plain release, and whether a violation was expected of it.

    It was of canaries, and of runs whose test says so. Both texts are empty, not null, where there is nothing to say.

    TABLES -> those of the table `placed`.
    """
    canaries = tables["cells"].where("canary").select("night", "cell", F.lit("invalid").alias("of_canary")).distinct()
    return (
        tables["placed"]
        .join(F.broadcast(canaries), ["night", "cell"], "left")
        .withColumn("expected", F.coalesce("of_canary", "expected", F.lit("")))
        .withColumn("variant", F.coalesce("variant", F.lit("")))
        .drop("of_canary")
    )


def zombie_episodes_by_version(tables: Tables) -> DataFrame:
    """How many runs of each release showed a leader that went on, and what such leaders did."""
    counts = ("claims", "asked", "reached", "served", "fenced", "unknown", "acted")
    per_run = (
        tables["zombie_episodes"]
        .groupBy("run_id")
        .agg(
            F.count("*").alias("episodes"),
            F.count(F.when(F.col("acted") > 0, 1)).alias("acting"),
            F.max("running_ns").alias("running_ns_max"),
            *(F.sum(name).alias(name) for name in counts),
        )
    )
    return (
        _runs(tables)
        .join(per_run, "run_id", "left")
        .groupBy(*_RELEASE)
        .agg(
            F.count("*").alias("runs"),
            F.count("episodes").alias("runs_with_episodes"),
            F.count(F.when(F.col("acting") > 0, 1)).alias("runs_in_which_one_acted"),
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("episodes", *counts)),
            F.max("running_ns_max").alias("running_ns_max"),
        )
    )


def anomaly_rates(tables: Tables) -> DataFrame:
    """In how many of a release's runs each fingerprint showed: `runs` of `of`."""
    total = _runs(tables).groupBy(*_RELEASE).agg(F.count("*").alias("of"))
    return (
        tables["anomalies"]
        .join(_runs(tables), "run_id")
        .groupBy(*_RELEASE, "guarantee", "anomaly", "fingerprint")
        .agg(
            F.countDistinct("run_id").alias("runs"),
            F.sum("count").alias("count"),
            F.max("decides").alias("decides"),
            F.min("started_at").alias("first_at"),
            F.max("started_at").alias("last_at"),
        )
        .join(total, list(_RELEASE))
        .withColumn("rate", F.col("runs") / F.col("of"))
    )


def guarantee_outcomes(tables: Tables) -> DataFrame:
    """How each guarantee was judged over a release's runs, and how often it was put to the test."""
    exposed = tables["exposures"].groupBy("run_id", "guarantee").agg(F.max("exposure").alias("exposure"))
    outcome = F.col("validity")
    return (
        tables["guarantees"]
        .join(exposed, ["run_id", "guarantee"], "left")
        .join(_runs(tables), "run_id")
        .groupBy(*_RELEASE, "guarantee")
        .agg(
            F.count("*").alias("runs"),
            *(F.count(F.when(outcome == word, 1)).alias(word) for word in ("valid", "invalid", "unknown")),
            F.count(F.when(F.col("exposure") > 0, 1)).alias("exposed_runs"),
            F.sum("exposure").alias("exposure"),
        )
    )


def recovery_by_fault(tables: Tables) -> DataFrame:
    """Time to a new leader, recovery and availability around faults that took hold."""
    return (
        tables["recovery"]
        .where(F.col("node").isNull())
        .join(installed(tables), ["run_id", "fault_id"])
        .join(_runs(tables), "run_id")
        .groupBy(*_RELEASE, "fault")
        .agg(
            F.count("*").alias("faults"),
            F.count("new_leader_after_ns").alias("new_leaders"),
            *_quantiles("new_leader_after_ns"),
            *_quantiles("recovered_after_ns"),
            F.max("longest_without_ok_ns").alias("longest_without_ok_ns"),
            _availability(),
        )
    )


def availability_by_phase(tables: Tables) -> DataFrame:
    """The share of operations that ended `ok`, by the phase in which they were invoked."""
    return (
        tables["phases"]
        .join(_runs(tables), "run_id")
        .groupBy(*_RELEASE, "phase")
        .agg(
            F.sum(_outcomes()).alias("operations"),
            _availability(),
            F.max("longest_without_ok_ns").alias("longest_without_ok_ns"),
        )
    )


def latency_by_fault(tables: Tables) -> DataFrame:
    """Latencies of what ended `ok`, by the fault that may have been in force at the invocation; `none` without one."""
    return (
        tables["operations"]
        .where(F.col("type") == "ok")
        .select("run_id", "fault_id", "f", "latency_ns")
        .join(F.broadcast(installed(tables)), ["run_id", "fault_id"], "left")
        .join(F.broadcast(_runs(tables)), "run_id")
        .groupBy(*_RELEASE, F.coalesce("fault", F.lit("none")).alias("fault"), "f")
        .agg(F.count("*").alias("operations"), *_quantiles("latency_ns"))
    )


def _runs(tables: Tables) -> DataFrame:
    homes = population(tables).select("run_id", "variant", "expected")
    return tables["run"].join(homes, "run_id").select("run_id", *_RELEASE, "started_at")


def installed(tables: Tables) -> DataFrame:
    """Every fault that took hold (TABLES -> run_id, fault_id, fault)."""
    return tables["faults"].where(F.col("outcome") == "installed").select("run_id", "fault_id", "fault")


def _quantiles(name: str) -> list[Column]:
    return [
        *(F.percentile_approx(name, q, ACCURACY).alias(f"{name}_p{round(100 * q)}") for q in (0.5, 0.99)),
        F.max(name).alias(f"{name}_max"),
    ]


def _outcomes() -> Column:
    return F.col("ok") + F.col("fail") + F.col("info")


def _availability() -> Column:
    return F.try_divide(F.sum("ok"), F.sum(_outcomes())).alias("availability")
