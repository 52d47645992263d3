"""Transactions from columns to a confirmed verdict: 100,000 of them, valid and invalid, and one component of 10,000.

CPU time of the whole process, called from Python, confirmation included; building the history is not. Each case runs in
a process of its own. `python -m bench.transactions CASE REPEATS` prints one case as JSON.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any, Final

from bench.figure import Figure, peak_mb
from fencepost.checkers.transactions.anomalies import STRICT, check_list_append, check_register
from fencepost.checkers.transactions.columns import TransactionColumns
from tests.checkers.transactions.transaction_histories import Shape, columns, ring, simulated, spliced, told

TRANSACTIONS: Final = 100_000
COMPONENT: Final = 10_000
#: Writes to a key before another takes its place: here ten keys stay for good.
CONTENDED: Final = 10**9
_LATE: Final = ("ax1 @0-5 #1", "rx @6-9 #2", "rx1 @10-12 #2")
_SKEW: Final = ("rx ay1", "ry ax1")
CASES: Final = {
    "list-append, valid": "<= 90 ms",
    "list-append, G-single-realtime": "<= 90 ms",
    "list-append, G2-item": "<= 90 ms",
    "list-append, read committed": "<= 90 ms",
    "list-append, held to read committed": "<= 90 ms",
    "list-append, held to causal": "<= 90 ms",
    "list-append, held to snapshot isolation": "",
    "read-write register, valid": "<= 100 ms",
    "read-write register, lost update": "<= 100 ms",
    "read-write register, contended": "<= 100 ms",
    "read-write register, held to read committed": "",
    "read-write register, held to read atomic": "",
    "read-write register, held to causal": "",
    "one component, wr ring": "<= 100 ms",
    "one component, rw ring": "<= 100 ms",
    "one component, tangled": "<= 100 ms",
}
#: The models as Biswas & Enea and AWDIT have them: with sessions.
_HELD_TO: Final = {
    "held to read committed": "session-read-committed",
    "held to read atomic": "session-read-atomic",
    "held to causal": "causal",
    "held to snapshot isolation": "snapshot-isolation",
}
_CHILD_S: Final = 1200


def run(repeats: int = 7) -> list[Figure]:
    """Measure each case in a child process; the figures are medians of `repeats`."""
    figures = []
    for name, target in CASES.items():
        command = [sys.executable, "-m", "bench.transactions", name, str(repeats)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_CHILD_S)
        measured = json.loads(done.stdout)
        note = (
            f"CPU time; {measured['transactions']} transactions, {measured['elements']} list elements read, "
            f"{measured['verdict']}, {measured['anomalies'] or 'no anomaly'}, largest component "
            f"{measured['component']}; median of {repeats}, "
            f"{measured['least_ms']:.0f} to {measured['most_ms']:.0f} ms; "
            f"whole process at its peak {measured['peak_mb']:.0f} MB, {measured['before_mb']:.0f} MB before; "
            f"load {measured['load']:.0f}"
        )
        figures.append(Figure(f"transactions, {name}", measured["cpu_ms"], "ms", target, note))
    return figures


def history(case: str) -> TransactionColumns:
    """Make the columns of one case."""
    rng = random.Random(case)
    kind, _, what = case.partition(", ")
    if kind == "one component":
        if what.endswith("ring"):
            return columns(ring(what.split()[0], COMPONENT))
        shape = Shape(transactions=COMPONENT, clients=20, keys=10, per_key=200, isolation="read-uncommitted")
        return columns(simulated(rng, shape))
    lists = kind == "list-append"
    isolation = "read-committed" if what.endswith("read committed") and lists else "serializable"
    shape = Shape(transactions=TRANSACTIONS, clients=20, keys=10, info=0.01, isolation=isolation, lists=lists)
    if what == "contended":
        shape = replace(shape, per_key=CONTENDED)
    txns = simulated(rng, shape)
    if what == "G-single-realtime":
        txns = spliced(txns, told(*_LATE), 0.5)
    elif what in ("G2-item", "held to snapshot isolation"):
        txns = spliced(txns, told(*_SKEW), 0.5)
    elif what == "lost update":
        txns = spliced(txns, told("rx_ wx1", "rx_ wx2"), 0.5)
    return columns(txns)


def measure(case: str, repeats: int) -> dict[str, Any]:
    """Measure one case in this process."""
    given = history(case)
    check = check_register if case.startswith("read-write") else check_list_append
    model = _HELD_TO.get(case.partition(", ")[2], STRICT)
    before_mb = peak_mb()
    spent = []
    for _ in range(repeats):
        begun = time.process_time()
        verdict = check(given, model=model)
        spent.append((time.process_time() - begun) * 1000)
    return {
        "transactions": len(given),
        "elements": len(given.elements),
        "verdict": verdict.validity.value,
        "anomalies": ", ".join(verdict.anomalies),
        "component": verdict.figures["largest_component"],
        "cpu_ms": statistics.median(spent),
        "least_ms": min(spent),
        "most_ms": max(spent),
        "before_mb": before_mb,
        "peak_mb": peak_mb(),
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
