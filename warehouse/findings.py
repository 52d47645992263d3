"""Findings over all runs, as steps from tables to small tables: how often each fingerprint showed, and where to look.

A run could have shown a fingerprint when its system, variant, workload and faults are those of some run that did. Runs
of other plans say nothing about it, however clean they are. Nor do runs that are made to fail, such as canaries.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fencepost.warehouse.across import Tables, installed, population

#: What makes two runs alike enough for one to have shown what the other did.
_PLACE = ("system", "variant", "workload", "nemesis")
#: Runs that repeat a recorded one, or shrink it, lie below such a folder. How often they show it says nothing of
#: others.
_REPEATED = r"^.*/(replay|shrink)-[^/]+/\d{8}T[^/]+/.+"
#: The folder of a search by `fencepost shrink`, in that of one of its runs.
_SEARCH = r"^(.*/shrink-[^/]+/\d{8}T[^/]+)/.+"


def sightings(tables: Tables) -> DataFrame:
    """How often each fingerprint showed in each night, by release and variant: `seen` of the `runs` that could show it.

    TABLES -> fingerprint, guarantee, anomaly, decides, night, day, system, version, variant, runs, seen.
    """
    runs = _placed(tables)
    shown = _shown(tables).select("run_id", "fingerprint", "guarantee", "anomaly", "decides").distinct()
    places = (
        shown.join(runs, "run_id")
        .groupBy("fingerprint", "guarantee", "anomaly", *_PLACE)
        .agg(F.max("decides").alias("decides"))
    )
    seen = shown.select("run_id", "fingerprint").distinct().withColumn("is_seen", F.lit(True))
    return (
        runs.join(F.broadcast(places), list(_PLACE))
        .join(seen, ["run_id", "fingerprint"], "left")
        .groupBy("fingerprint", "guarantee", "anomaly", "night", "day", "system", "version", "variant")
        .agg(
            F.max("decides").alias("decides"),
            F.countDistinct("run_id").alias("runs"),
            F.countDistinct(F.when(F.col("is_seen"), F.col("run_id"))).alias("seen"),
        )
    )


def examples(tables: Tables) -> DataFrame:
    """Which runs to open for each fingerprint: the oldest, the newest, the clearest and the fastest, by folder.

    The clearest has the fewest operations, the fastest the shortest plan; the earlier one of equals.

    TABLES -> fingerprint, runs, count, oldest, newest, clearest, fastest, faults (kinds that took hold), searches
    (folders in which it was shrunk; null without one).
    """
    searched = (
        _shown(tables)
        .join(tables["run"].select("run_id", F.regexp_extract("folder", _SEARCH, 1).alias("search")), "run_id")
        .where(F.col("search") != "")
        .groupBy("fingerprint")
        .agg(F.sort_array(F.collect_set("search")).alias("searches"))
    )
    runs = _placed(tables).select("run_id", "folder", "started_at", "operations", "planned_ns")
    shown = _shown(tables).join(runs, "run_id")
    faults = (
        _shown(tables)
        .select("run_id", "fingerprint")
        .distinct()
        .join(installed(tables).select("run_id", "fault").distinct(), "run_id")
        .groupBy("fingerprint")
        .agg(F.sort_array(F.collect_set("fault")).alias("faults"))
    )
    return (
        shown.groupBy("fingerprint")
        .agg(
            F.countDistinct("run_id").alias("runs"),
            F.sum("count").alias("count"),
            F.min_by("folder", F.struct("started_at", "folder")).alias("oldest"),
            F.max_by("folder", F.struct("started_at", "folder")).alias("newest"),
            F.min_by("folder", F.struct("operations", "started_at", "folder")).alias("clearest"),
            F.min_by("folder", F.struct("planned_ns", "started_at", "folder")).alias("fastest"),
        )
        .join(faults, "fingerprint", "left")
        .join(searched, "fingerprint", "left")
    )


def _shown(tables: Tables) -> DataFrame:
    """Every anomaly under each fingerprint of its witnesses: a known one hides no second one."""
    every = F.array_union(F.array("fingerprint"), F.coalesce("fingerprints", F.array("fingerprint")))
    return tables["anomalies"].withColumn("fingerprint", F.explode(every))


def _placed(tables: Tables) -> DataFrame:
    """Every run with the night that it belongs to, without repetitions, searches, and what was expected to fail."""
    homes = population(tables).where("expected = ''").select("run_id", "night", "day", "variant")
    return tables["run"].where(~F.col("folder").rlike(_REPEATED)).join(homes, "run_id")
