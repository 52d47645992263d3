"""`make soak`: the demo's two runs and the barrier control, ten times each, and etcd under a partition as well.

The counts are written into `docs/benchmarks.md`, between its soak marks. A run that does not come out as expected is
kept, named, and makes the exit code 1; nothing is repeated until it fits.
"""

import sys
import time
from collections import Counter
from pathlib import Path

import msgspec

from harness.cli.demo import FINDING, demo_plans
from harness.cli.progress import Progress
from harness.plan import Plan
from harness.run import check_plan, execute
from harness.spark_session import SparkHandle
from harness.stopping import StoppedTwice, StopRequest
from harness.verdict import Validity
from tests.bench.document import write_section

TIMES = 10
#: Name, plan from a seed, the verdict expected, and in how many of ten.
Row = tuple[str, Plan, Validity, int]


def rows(seed: int) -> list[Row]:
    etcd, zookeeper = demo_plans(seed)
    partitioned = check_plan(msgspec.structs.replace(etcd, nemesis="partition:leader"))
    barrier = check_plan(msgspec.structs.replace(zookeeper, require=(), workload_options={"reads": "barrier"}))
    return [
        ("etcd, pause:leader", etcd, Validity.VALID, TIMES),
        ("etcd, partition:leader", partitioned, Validity.VALID, TIMES),
        (f"ZooKeeper, sync reads, {FINDING} required, pause:leader", zookeeper, Validity.INVALID, TIMES - 1),
        ("ZooKeeper, barrier reads, pause:leader", barrier, Validity.VALID, TIMES),
    ]


def main() -> int:
    results = Path("results/soak")
    began = time.monotonic()
    counts: dict[str, Counter[str]] = {}
    expected: dict[str, tuple[Validity, int]] = {}
    odd: list[str] = []
    stop = StopRequest()
    stop.install()
    spark = SparkHandle()
    try:
        for number in range(TIMES):
            for name, plan, validity, least in rows(1000 + number):
                result = execute(plan, results, progress=Progress(), stop=stop, spark=spark)
                counts.setdefault(name, Counter())[result.judgement.validity.value] += 1
                expected[name] = (validity, least)
                if result.judgement.validity is not validity:
                    odd.append(f"{name}: {result.judgement.validity.value} in {result.folder}")
                print(f"{number + 1:2}/{TIMES} {name}: {result.judgement.validity.value}", flush=True)
                if stop.asked:
                    raise StoppedTwice
    finally:
        spark.stop()
    write_section("soak", _table(counts, expected, time.monotonic() - began))
    for line in odd:
        print(f"not as expected: {line}", file=sys.stderr)
    met = all(counts[name][validity.value] >= least for name, (validity, least) in expected.items())
    return 0 if met else 1


def _table(counts: dict[str, Counter[str]], expected: dict[str, tuple[Validity, int]], seconds: float) -> list[str]:
    lines = [
        "| runs of 24 s, seeds 1000 to 1009 | valid | invalid | unknown | wanted |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, found in counts.items():
        validity, least = expected[name]
        cells = [str(found[kind.value]) for kind in (Validity.VALID, Validity.INVALID, Validity.UNKNOWN)]
        lines.append(f"| {name} | {' | '.join(cells)} | {validity.value} in at least {least} |")
    return [*lines, "", f"Took {seconds / 60:.0f} minutes."]


if __name__ == "__main__":
    raise SystemExit(main())
