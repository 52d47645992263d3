"""Histories of other tools: a million events of EDN, from the file to the columns that the search takes.

Written as Jepsen writes them: ten clients, compare-and-set on keyed registers of which each is retired after 500
operations; a hundredth of the operations ends `info`. Each measurement is a process of its own, so that its peak is
its own.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.figure import Figure, peak_mb
from fencepost.checkers.storage.register_anomalies import encode
from fencepost.checkers.storage.registers import search
from fencepost.harness.interchange.formats.edn import read_events
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.verdict import SearchBudget

_CLIENTS = 10
_PER_KEY = 500
_TIMES = 5


def write_history(path: Path, events: int) -> None:
    """Simulate a store that carries out each operation at its completion, which is linearizable."""
    draw = random.Random(7)
    process = list(range(_CLIENTS))
    doing: list[tuple[str, str, object] | None] = [None] * _CLIENTS
    state: dict[int, int | None] = {}
    begun = 0
    with path.open("w", encoding="utf-8") as file:
        for index in range(events):
            worker = draw.randrange(_CLIENTS)
            now = doing[worker]
            if now is None:
                key, begun = begun // _PER_KEY, begun + 1
                f = draw.choice(("read", "write", "cas"))
                value: object = {
                    "read": None,
                    "write": draw.randrange(5),
                    "cas": [draw.randrange(5), draw.randrange(5)],
                }[f]
                doing[worker], kind, shown = (f, str(key), value), "invoke", value
            else:
                f, at, value = now
                doing[worker], kind, shown, key = None, "ok", value, int(at)
                if draw.random() < 0.01:
                    kind = "info"
                elif f == "read":
                    shown = state.get(key)
                elif f == "write":
                    state[key] = value  # type: ignore[assignment]
                elif isinstance(value, list) and state.get(key) == value[0]:
                    state[key] = value[1]
                else:
                    kind = "fail"
            text = json.dumps(shown).replace("null", "nil").replace(",", "")
            file.write(
                f"{{:index {index}, :time {index * 1000}, :type :{kind}, :process {process[worker]}, :f :{f}, "
                f":value [{key} {text}]}}\n"
            )
            if kind == "info":
                process[worker] += _CLIENTS


def step(path: Path) -> None:
    """Measure both stages in processor time, since other programs may run at the same time."""
    begun = time.process_time()
    with path.open("rb") as file:
        read_events(file, str(path))
    native = time.process_time() - begun
    begun, wall = time.process_time(), time.perf_counter()
    imported = read_foreign(path)
    columns = encode(imported.history.operations)
    whole, wall = time.process_time() - begun, time.perf_counter() - wall
    verdicts = {result.verdict for result in search(columns, SearchBudget())}
    measured = {
        "native": native,
        "whole": whole,
        "wall": wall,
        "peak_mb": round(peak_mb()),
        "verdicts": sorted(verdicts),
    }
    print(json.dumps(measured))


def run(events: int = 1_000_000) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "history.edn"
        write_history(path, events)
        megabytes = path.stat().st_size / 1e6
        load = os.getloadavg()[0]
        argv = [sys.executable, "-m", "bench.formats", str(path)]
        runs = [
            json.loads(subprocess.run(argv, check=True, timeout=600, stdout=subprocess.PIPE, text=True).stdout)
            for _ in range(_TIMES)
        ]
    if any(each["verdicts"] != ["valid"] for each in runs):
        raise AssertionError(f"expected every key valid: {runs}")
    shape = f"{megabytes:.0f} MB, keyed cas-register, 1 % info; median of {_TIMES}; load {load:.1f}"
    wholes = [each["whole"] for each in runs]
    return [
        Figure(
            f"{events} events of EDN, file to columns",
            median(wholes),
            "s",
            "at most 5 s",
            f"processor time of one thread, the rules of a history held; {min(wholes):.2f} to {max(wholes):.2f} s, "
            f"by the clock {median(each['wall'] for each in runs):.1f} s; peak "
            f"{max(each['peak_mb'] for each in runs)} MB; {shape}",
        ),
        Figure(
            f"{events} events of EDN, parsed natively",
            median(each["native"] for each in runs),
            "s",
            "-",
            f"processor time, parsing and interning alone; {shape}",
        ),
    ]


if __name__ == "__main__":
    step(Path(sys.argv[1]))
