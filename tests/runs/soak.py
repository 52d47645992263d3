"""`make soak` and `make soak-kafka`: the same runs ten times each, with fixed seeds, and how often each verdict came.

`make soak`: the demo's two runs and the barrier control, and etcd under a partition as well. `make soak-kafka`: the
controller of a KRaft quorum cut from its peers, of the release with KAFKA-15489 and of the default one.

A number after the soak's name asks for so many runs of each instead (`python -m tests.runs.soak soak-kafka 3`).

The counts are written into `results/benchmarks/`. A run that does not come out as
expected is kept, named, and makes the exit code 1; nothing is repeated until it fits.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.document import write_table
from fencepost.harness.base.signals import StoppedTwice, StopRequest
from fencepost.harness.cli.output.progress import Progress
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.run.execute import execute
from fencepost.harness.verdict import Validity
from fencepost.warehouse.commands.demo import FINDING, demo_plans

TIMES = 10
#: Name, plan from a seed, the verdict expected, and how many runs may come out otherwise.
Row = tuple[str, CheckedPlan, Validity, int]


def demo_rows(seed: int) -> list[Row]:
    etcd, zookeeper = demo_plans(seed)
    partitioned = check_plan(msgspec.structs.replace(etcd.plan, nemesis="partition:leader"))
    barrier = check_plan(msgspec.structs.replace(zookeeper.plan, require=(), workload_options={"reads": "barrier"}))
    return [
        ("etcd, pause:leader", etcd, Validity.VALID, 0),
        ("etcd, partition:leader", partitioned, Validity.VALID, 0),
        (f"ZooKeeper, sync reads, {FINDING} required, pause:leader", zookeeper, Validity.INVALID, 1),
        ("ZooKeeper, barrier reads, pause:leader", barrier, Validity.VALID, 0),
    ]


def kafka_rows(seed: int) -> list[Row]:
    return [
        ("KRaft 3.6.0, partition:controller", _kraft(seed, "3.6.0"), Validity.INVALID, 0),
        ("KRaft of the default release, partition:controller", _kraft(seed, ""), Validity.VALID, 0),
    ]


def _kraft(seed: int, version: str) -> CheckedPlan:
    plan = Plan(
        system="kraft",
        version=version,
        workload="metadata",
        nemesis="partition:controller",
        time_limit="60s",
        seed=seed,
    )
    return check_plan(plan)


#: The section of the document, and the runs that it counts.
SOAKS: dict[str, Callable[[int], list[Row]]] = {"soak": demo_rows, "soak-kafka": kafka_rows}


def main(section: str, asked: str = str(TIMES)) -> int:
    times = int(asked)
    rows, results = SOAKS[section], Path("results") / section
    began = time.monotonic()
    counts: dict[str, Counter[str]] = {}
    expected: dict[str, tuple[Validity, int]] = {}
    odd: list[str] = []
    stop = StopRequest()
    stop.install()
    for number in range(times):
        for name, checked, validity, otherwise in rows(1000 + number):
            result = execute(checked, results, progress=Progress(), stop=stop)
            counts.setdefault(name, Counter())[result.judgement.validity.value] += 1
            expected[name] = (validity, times - otherwise)
            if result.judgement.validity is not validity:
                odd.append(f"{name}: {result.judgement.validity.value} in {result.folder}")
            print(f"{number + 1:2}/{times} {name}: {result.judgement.validity.value}", flush=True)
            if stop.asked:
                raise StoppedTwice
    limits = {checked.plan.time_limit for _, checked, *_ in rows(0)}
    write_table(section, _table(f"runs of {', '.join(limits)}", counts, expected, time.monotonic() - began))
    for line in odd:
        print(f"not as expected: {line}", file=sys.stderr)
    met = all(counts[name][validity.value] >= least for name, (validity, least) in expected.items())
    return 0 if met else 1


def _table(
    what: str, counts: dict[str, Counter[str]], expected: dict[str, tuple[Validity, int]], seconds: float
) -> list[str]:
    lines = [f"| {what}, seeds from 1000 | valid | invalid | unknown | wanted |", "| --- | --- | --- | --- | --- |"]
    for name, found in counts.items():
        validity, least = expected[name]
        cells = [str(found[kind.value]) for kind in (Validity.VALID, Validity.INVALID, Validity.UNKNOWN)]
        lines.append(f"| {name} | {' | '.join(cells)} | {validity.value} in at least {least} |")
    return [*lines, "", f"Took {seconds / 60:.0f} minutes."]


if __name__ == "__main__":
    raise SystemExit(main(*(sys.argv[1:] or ["soak"])))
