"""What the pages over all nights show, as steps from tables to small tables: nights, the matrix, and trends.

A row stands for a night, for a cell of a night, or for a system of a night. So what a page collects grows with nights,
cells and systems, however many operations the runs have.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from fencepost.warehouse.across import ACCURACY, Tables, installed, population

#: Classes of cells that left no run to look at, so that no row of the table `run` shows them.
HOLES: Final = ("not-run", "lost", "harness", "machine")
_PLACE: Final = ("system", "version", "variant", "workload", "nemesis")
#: A run that was not made to fail.
_ORDINARY: Final = "expected = ''"


def night_runs(tables: Tables) -> DataFrame:
    """Every night in which a run was made or planned, with what its single runs say: one row for each night.

    TABLES -> night, day (of its first run or its start), started_at, runs, valid, invalid, unknown (without those that
    were expected to fail), expected (runs that were), missed (those of them that did not), folder (of the campaign;
    null for single runs).
    """
    ordinary = F.expr(_ORDINARY)
    of_runs = (
        _runs(tables)
        .groupBy("night")
        .agg(
            F.min("started_at").alias("first_run"),
            F.count_if(ordinary).alias("runs"),
            *(
                F.count_if(ordinary & (F.col("outcome") == word)).alias(word)
                for word in ("valid", "invalid", "unknown")
            ),
            F.count_if(~ordinary).alias("expected"),
            F.count_if(~ordinary & (F.col("outcome") != F.col("expected"))).alias("missed"),
        )
    )
    of_registers = (
        tables["nights"].groupBy("night").agg(F.min("started_at").alias("began"), F.min("folder").alias("folder"))
    )
    counts = ("runs", "valid", "invalid", "unknown", "expected", "missed")
    # A stored run may not know when it was made: such a night comes before all others.
    started = F.coalesce("began", "first_run", F.lit(""))
    return of_runs.join(of_registers, "night", "full").select(
        "night",
        F.when(started == "", F.col("night")).otherwise(F.substring(started, 1, 10)).alias("day"),
        started.alias("started_at"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in counts),
        "folder",
    )


def night_matrix(tables: Tables) -> DataFrame:
    """What came of each system, release, variant, workload and set of faults in each night, by class.

    A run's class is that of its attempt where a register has one (it alone knows `known` and why a run is unknown),
    else the run's outcome. An attempt that was made again is left out, unless it showed a violation. Cells without a
    run are there with 0 runs, by the release and variant that the cell ran with last. `canary`: it was made to fail.

    TABLES -> night, system, version, variant, workload, nemesis, canary, run_class, runs, exposure (how often the
    guarantee that was tested least in a run was tested, added up), folder (of the newest of these runs; null without
    one).
    """
    least = (
        tables["exposures"].where("exposure > 0").groupBy("run_id", "guarantee").agg(F.max("exposure").alias("most"))
    )
    exposure = least.groupBy("run_id").agg(F.min("most").alias("exposure"))
    of_runs = (
        _classed(tables)
        .join(F.broadcast(_made_again(tables)), ["night", "attempt", "shard"], "left_anti")
        .join(exposure, "run_id", "left")
        .groupBy("night", *_PLACE, "canary", "run_class")
        .agg(
            F.count("*").alias("runs"),
            F.coalesce(F.sum("exposure"), F.lit(0)).alias("exposure"),
            F.max_by("folder", F.struct("started_at", "folder")).alias("folder"),
        )
    )
    return of_runs.unionByName(_holes(tables))


def night_trends(tables: Tables) -> DataFrame:
    """The figures of each system and variant in each night, without gates and without runs that are made to fail.

    Throughput and unavailability are those of the main phase. Unavailability is its longest time without an `ok`, and
    dual leadership the time in which two nodes led and ran, each as the mean over runs. `beyond_s` is what an attempt
    cost beyond its run's own length: start and checks; `check_s` is that of its checkers. A false alarm is a run of a
    control that is invalid.

    TABLES -> night, system, variant, runs, throughput (ok each second), recovery_s (median), new_leader_s (median),
    dual_s, unavailable_s, exposure (of a run, mean), beyond_s (mean), check_s (mean), controls (runs), false_alarms
    (runs; null without a control), versions, commits, machines, cores (sets of texts).
    """
    gates = tables["nights"].where("policy is not null").select("night").distinct()
    runs = _runs(tables).where(_ORDINARY).join(F.broadcast(gates), "night", "left_anti")
    faults = installed(tables).select("run_id", "fault_id")
    around = tables["recovery"].where(F.col("node").isNull()).join(faults, ["run_id", "fault_id"])
    main = tables["phases"].where(F.col("phase") == "main")
    served = main.groupBy("run_id").agg(
        F.sum("ok").alias("ok"),
        F.sum(F.col("to_ns") - F.col("from_ns")).alias("main_ns"),
        F.max("longest_without_ok_ns").alias("gap_ns"),
    )
    dual = tables["overlaps"].groupBy("run_id").agg(F.sum("running_ns").alias("dual_ns"))
    tested = tables["exposures"].groupBy("run_id").agg(F.sum("exposure").alias("exposure"))
    costs = _attempts(tables, "seconds", "check_s")
    controls = tables["cells"].where("control").select("night", "cell", F.lit(True).alias("control")).distinct()
    per_run = (
        runs.join(served, "run_id", "left")
        .join(dual, "run_id", "left")
        .join(tested, "run_id", "left")
        .join(F.broadcast(costs), ["night", "attempt", "shard"], "left")
        .join(F.broadcast(controls), ["night", "cell"], "left")
        .groupBy("night", "system", "variant")
        .agg(
            F.count("*").alias("runs"),
            F.try_divide(F.sum("ok"), F.sum("main_ns") / 1e9).alias("throughput"),
            (F.sum(F.coalesce("dual_ns", F.lit(0))) / F.count("*") / 1e9).alias("dual_s"),
            (F.avg("gap_ns") / 1e9).alias("unavailable_s"),
            F.avg("exposure").alias("exposure"),
            F.avg(F.col("seconds") - F.col("length_ns") / 1e9).alias("beyond_s"),
            F.avg("check_s").alias("check_s"),
            F.count("control").alias("controls"),
            F.sum(F.when(F.col("control"), (F.col("outcome") == "invalid").cast("long"))).alias("false_alarms"),
            _set("version", "versions"),
            _set(F.get_json_object("machine", "$.git_commit"), "commits"),
            _set(_machine(), "machines"),
            _set("core", "cores"),
        )
    )
    healed = (
        runs.join(around, "run_id")
        .groupBy("night", "system", "variant")
        .agg(_median("recovered_after_ns", "recovery_s"), _median("new_leader_after_ns", "new_leader_s"))
    )
    return per_run.join(healed, ["night", "system", "variant"], "left")


def _runs(tables: Tables) -> DataFrame:
    # Rows from before shards shared the id of their night do not say which shard made them: it had the night alone.
    shards = tables["nights"].groupBy("night").agg(F.min("shard").alias("only_shard"))
    placed = population(tables).drop("day").join(F.broadcast(shards), "night", "left")
    placed = placed.withColumn("shard", F.coalesce("shard", "only_shard")).drop("only_shard")
    return tables["run"].join(placed, "run_id")


def _attempts(tables: Tables, *names: str) -> DataFrame:
    """Attempts by what names them in the table `placed`, with some of their columns."""
    return tables["attempts"].select("night", "shard", F.col("folder").alias("attempt"), *names).distinct()


def _classed(tables: Tables) -> DataFrame:
    """Every run with its class and whether it was made to fail."""
    attempts = _attempts(tables, "run_class")
    same = F.col("run_class").startswith(F.col("outcome"))
    known = (F.col("outcome") == "invalid") & (F.col("run_class") == "known")
    gone = (F.col("outcome") == "unknown") & F.col("run_class").isin("harness", "lost")
    return (
        _runs(tables)
        .join(F.broadcast(attempts), ["night", "attempt", "shard"], "left")
        .withColumn("run_class", F.when(same | known | gone, F.col("run_class")).otherwise(F.col("outcome")))
        .withColumn("canary", ~F.expr(_ORDINARY))
    )


def _made_again(tables: Tables) -> DataFrame:
    """Attempts that a later one took the place of; a violation stays, whatever came after it."""
    of_one_run = Window.partitionBy("night", "shard", "cell", "run")
    violation = F.coalesce(F.col("run_class").isin("invalid", "known"), F.lit(False))
    return (
        tables["attempts"]
        .withColumn("last", F.max("number").over(of_one_run))
        .where((F.col("number") < F.col("last")) & ~violation)
        .select("night", "shard", F.col("folder").alias("attempt"))
        .distinct()
    )


def _holes(tables: Tables) -> DataFrame:
    """Cells of nights that left no run."""
    judged = tables["placed"].select("night", "cell").distinct()
    ran = (
        _runs(tables)
        .where(F.col("cell").isNotNull())
        .groupBy("cell")
        .agg(F.max_by("version", "started_at").alias("ran"), F.max_by("variant", "started_at").alias("variant"))
    )
    version = F.when(F.col("version") != "", F.col("version")).otherwise(F.coalesce("ran", F.lit("default release")))
    return (
        tables["cells"]
        .where(F.col("run_class").isin(*HOLES))
        .join(judged, ["night", "cell"], "left_anti")
        .join(ran, "cell", "left")
        .select(
            "night",
            "system",
            version.alias("version"),
            F.coalesce("variant", F.lit("")).alias("variant"),
            "workload",
            "nemesis",
            "canary",
            "run_class",
            F.lit(0).cast("long").alias("runs"),
            F.lit(0).cast("long").alias("exposure"),
            F.lit(None).cast("string").alias("folder"),
        )
        .distinct()
    )


def _machine() -> Column:
    parts = ("kernel", "architecture", "cores")
    return F.concat_ws(" ", *(F.get_json_object("machine", f"$.{part}") for part in parts))


def _set(value: Column | str, name: str) -> Column:
    return F.sort_array(F.collect_set(value)).alias(name)


def _median(name: str, seconds: str) -> Column:
    return (F.percentile_approx(name, 0.5, ACCURACY) / 1e9).alias(seconds)
