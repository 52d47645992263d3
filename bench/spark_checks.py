"""Registers through Spark: from Parquet to the verdict, shuffle included, beside one native core on the same file.

Every repetition is a process of its own, and one after the other: native, one core of Spark's, two, and again. A Spark
process judges twice and the second time counts, when its code is compiled; the first is told beside it. OPERATIONS=
in the environment names another size; what is larger than ten million, such as 100000000, is judged once in a process,
after a million for the compiler. They are on 200,000 keys, of five clients each, or on as many as have 50 operations.

A process may use as many processors as its engine has cores: the one task of `local[1]` is a thread of the JVM and a
Python beside it, which would take two, and the second core of an executor would seem to bring little.

`python -m bench.spark_checks PATH WARMING native|local[N]` is one of them and prints its seconds as JSON.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.figure import Figure, peak_mb
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.warehouse.spark_session import SparkHandle
from tests.interchange.tables.operations_tables import generate

OPERATIONS: Final = 10_000_000
KEYS: Final = 200_000
PER_KEY_MIN: Final = 50
WARMING: Final = 1_000_000
#: Each with the processors that it may use.
_ENGINES: Final = {"native": 1, "local[1]": 1, "local[2]": 2}
_FACTS: Final = Facts(system="", workload="cas-register", nodes=(), guarantees=())
#: What a child may take at most: some start, and so many seconds for each million operations.
_CHILD_S: Final = (120.0, 60.0)


def run(repeats: int = 3) -> list[Figure]:
    """Measure medians; more than ten million operations are measured once, since that takes long."""
    operations = int(os.environ.get("OPERATIONS", OPERATIONS))
    keys = min(KEYS, operations // PER_KEY_MIN)
    repeats = repeats if operations <= OPERATIONS else 1
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        path = Path(folder) / "table.parquet"
        generate(path, operations, keys)
        warming = path
        if operations > OPERATIONS:
            warming = Path(folder) / "warming.parquet"
            generate(warming, WARMING, WARMING // PER_KEY_MIN)
        runs: dict[str, list[dict[str, float]]] = {engine: [] for engine in _ENGINES}
        for _ in range(repeats):
            for engine in _ENGINES:
                runs[engine].append(_child(path, warming, engine, operations))
    native, one, two = (_median(runs[engine], "wall_s") for engine in _ENGINES)
    of = f"{operations:,} operations"
    note = (
        f"median of {repeats}; {keys:,} keys, Parquet to verdict, a processor for each core; "
        f"load {os.getloadavg()[0]:.0f}"
    )

    def cpu(engine: str) -> str:
        return f"{note}; CPU time {_median(runs[engine], 'cpu_s'):.0f} s"

    def first(engine: str) -> str:
        warm = (
            "the first time, without the session," if warming == path else f"{WARMING:,} before, without the session,"
        )
        return f"{cpu(engine)}; {warm} {_median(runs[engine], 'first_s'):.0f} s"

    peak = _median(runs["native"], "peak_mb")
    by_core = f"its time on one core by that of one native core ({one:.0f} s, {native:.0f} s): with more it is faster"
    return [
        Figure(f"registers, {of}: one native core", native, "s", "as measured", cpu("native")),
        Figure(f"registers, {of}: native peak memory", peak, "MB", "as measured", "what Spark spares one machine"),
        Figure(f"registers, {of}: Spark, one core", one, "s", "as measured", first("local[1]")),
        Figure(f"registers, {of}: Spark, two cores", two, "s", "as measured", first("local[2]")),
        Figure(f"registers, {of}: efficiency of Spark's second core", one / two / 2, "", ">= 0.7", note),
        Figure(f"registers, {of}: Spark is worth its cost from", one / native, "cores", "as measured", by_core),
    ]


def _median(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _child(path: Path, warming: Path, engine: str, operations: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.spark_checks", str(path), str(warming), engine]
    limit_s = _CHILD_S[0] + _CHILD_S[1] * operations / 1e6
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=limit_s, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times


def _native(path: Path) -> dict[str, float]:
    began, spent = time.perf_counter(), time.process_time()
    (verdict,) = judge_foreign(read_foreign(path), str(path)).verdicts
    _must_be_valid(verdict)
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - spent,
        "peak_mb": peak_mb(),
    }


def _spark(path: Path, warming: Path, master: str) -> dict[str, float]:
    from fencepost.warehouse.by_spark import check

    with SparkHandle(master) as handle:
        spark = handle.session()
        walls, spent = [], [0.0]
        for table in (warming, path):
            began = time.perf_counter()
            _must_be_valid(check(spark, table, "operations", _FACTS))
            walls.append(time.perf_counter() - began)
            spent.append(cpu_s_below())
    return {"first_s": walls[0], "wall_s": walls[1], "cpu_s": spent[2] - spent[1]}


def _must_be_valid(verdict: Verdict) -> None:
    if verdict.validity is not Validity.VALID:
        raise SystemExit(f"a valid table was judged {verdict.validity}: {verdict.reason}")


def cpu_s_below() -> float:
    """Return the processor time of the living processes below this one: the JVM and its Python workers."""
    stats = {pid: stat_of(pid) for pid in pids_below()}
    return sum(int(stat[11]) + int(stat[12]) for stat in stats.values()) / os.sysconf("SC_CLK_TCK")


def pids_below() -> list[int]:
    """Return the processes that this one has started, and those that they have."""
    parents = {int(process.name): int(stat_of(int(process.name))[1]) for process in Path("/proc").glob("[0-9]*")}
    below = [os.getpid()]
    for pid in below:
        below += [child for child, parent in parents.items() if parent == pid]
    return below[1:]


def stat_of(pid: int) -> list[str]:
    """Return the fields of a process from its state on; zeros for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ["0"] * 50


def bind(processors: int) -> None:
    """Bind this process, and all that it starts, to so many cores; raises SystemExit if there are fewer."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < processors:
        raise SystemExit(f"{processors} processors wanted, {len(allowed)} allowed")
    os.sched_setaffinity(0, allowed[:processors])


if __name__ == "__main__":
    where, before, engine_ = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    bind(_ENGINES[engine_])
    print(json.dumps(_native(where) if engine_ == "native" else _spark(where, before, engine_)))
