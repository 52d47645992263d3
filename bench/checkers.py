"""The native core on 100,000 operations over 200 keys, 5 clients a key: seconds to the verdict, and the peak of memory.

Two paths: from integer columns (what the core costs, call included) and from the operations of a history (encoding,
exposure and verdict included). Each case runs in a process of its own, so that its peak is its own; beside the peak
stands what the process held before, interpreter and operations included. `python -m bench.checkers CASE REPEATS`
prints one case as JSON.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from typing import Any, Final

from bench.figure import Figure, peak_mb
from fencepost.checkers.storage.register_anomalies import encode
from fencepost.checkers.storage.register_proofs import CAS, NEVER, READ
from fencepost.checkers.storage.registers import check, search
from fencepost.harness.history import History, OpEvent, Outcome
from fencepost.harness.verdict import Facts, SearchBudget
from tests.histories.simulate import Shape, valid_history

KEYS: Final = 200
OPERATIONS: Final = 100_000
CLIENTS: Final = 5
CASES: Final = {
    "small domain, no info": (5, 0.0),
    "small domain, 1 % info": (5, 0.01),
    "unique values, no info": (0, 0.0),
    "unique values, 1 % info": (0, 0.01),
}
_WALL_TARGET: Final = "<= 0.5 s"
_MEMORY_TARGET: Final = "<= 500 MB"
_CHILD_S: Final = 300


def run(repeats: int = 7) -> list[Figure]:
    """Measure each case in a child process; the figures are medians of `repeats`."""
    figures = []
    for name in CASES:
        command = [sys.executable, "-m", "bench.checkers", name, str(repeats)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_CHILD_S)
        measured = json.loads(done.stdout)
        note = f"{measured['operations']} operations, {measured['verdict']}, median of {repeats}"
        figures += [
            Figure(f"core, {name}: from columns", measured["columns_s"], "s", _WALL_TARGET, note),
            Figure(f"core, {name}: from operations", measured["operations_s"], "s", _WALL_TARGET, note),
            Figure(
                f"core, {name}: peak memory",
                measured["peak_mb"],
                "MB",
                _MEMORY_TARGET,
                f"whole process; {measured['before_mb']:.0f} MB before the check",
            ),
        ]
    return figures


def history(values: int, info: float) -> History:
    """Simulate about `OPERATIONS` operations of a correct register, key after key, with `CLIENTS` clients per key."""
    rng = random.Random(1)
    events: list[OpEvent] = []
    process = 0
    # A compare-and-set that fails is left out, as a checker would; so more are simulated than are judged.
    shape = Shape(
        operations=round(OPERATIONS / KEYS * (1.18 if values else 1.0)), clients=CLIENTS, values=values, info=info
    )
    for key in range(KEYS):
        rows: list[tuple[float, dict[str, Any]]] = []
        for row in valid_history(rng, shape):
            process += 1
            same = {"process": process, "f": ("read", "write", "cas")[row.f], "node": "n1", "key": f"r{key}"}
            value: Any = [row.a or None, row.b] if row.f == CAS else row.a or None
            rows.append((row.invoked, {**same, "type": Outcome.INVOKE, "value": None if row.f == READ else value}))
            if row.returned != NEVER:
                rows.append((row.returned, {**same, "type": Outcome.OK, "value": value}))
        for _, fields in sorted(rows, key=lambda event: event[0]):
            events.append(OpEvent(index=len(events), time_ns=len(events) * 1000, **fields))
    return History(events)


def measure(case: str, repeats: int) -> dict[str, Any]:
    """Measure one case in this process."""
    values, info = CASES[case]
    given = history(values, info)
    operations = given.operations
    facts = Facts(system="imaginary", workload="register", nodes=("n1",), guarantees=())
    columns = encode(operations)
    before_mb = peak_mb()
    from_columns, from_operations = [], []
    verdict = ""
    for _ in range(repeats):
        begun = time.perf_counter()
        search(columns, SearchBudget())
        from_columns.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        verdict = check(given, facts)[0].validity.value
        from_operations.append(time.perf_counter() - begun)
    return {
        "operations": len(columns.operations),
        "verdict": verdict,
        "columns_s": statistics.median(from_columns),
        "operations_s": statistics.median(from_operations),
        "peak_mb": peak_mb(),
        "before_mb": before_mb,
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
