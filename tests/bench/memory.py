"""Memory that a history of a million events takes: read from JSON lines, sealed, and read from Parquet.

`python -m tests.bench.memory [events]` prints one JSON object per step; each step is a process of its own, so that its
peak is its own. Target: at most 1 GB with every field of an operation filled.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.generator import Draw
from harness.operation import Completion, Outcome
from harness.reader import read_history, seal
from harness.recorder import HISTORY_LINES, Recorder

_STEPS = ("lines", "lines-paired", "seal", "parquet", "parquet-paired")


def write_history(folder: Path, events: int) -> None:
    """Operations of 20 processes with all that a reply can carry."""
    recorder = Recorder(folder / HISTORY_LINES, reserve_bytes=0)
    draw = Draw(1, 0, 0)
    for i in range(events // 2):
        node, key = f"n{draw.below(3) + 1}", f"r{draw.below(50)}"
        invocation = recorder.invoke(i % 20, "write", node, key, i)
        answer = Completion(
            Outcome.OK, i, position=(7 << 32) + i, value_position=(7 << 32) + i - 3, epoch=7, session=1 << 60
        )
        recorder.complete(invocation, answer)
    recorder.close_now()


def step(name: str, folder: Path) -> None:
    begun = time.perf_counter()
    if name == "seal":
        seal(folder)
        events = 0
    else:
        history = read_history(folder)
        events = len(history.events)
        if name.endswith("paired"):
            events += len(history.operations)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    load = os.getloadavg()[0]
    seconds = round(time.perf_counter() - begun, 2)
    print(json.dumps({"step": name, "held": events, "peak_mb": round(peak_mb), "seconds": seconds, "load": load}))


def main() -> None:
    if len(sys.argv) > 2:
        step(sys.argv[2], Path(sys.argv[3]))
        return
    events = sys.argv[1] if len(sys.argv) > 1 else "1000000"
    with tempfile.TemporaryDirectory() as name:
        write_history(Path(name), int(events))
        for each in _STEPS:
            subprocess.run([sys.executable, "-m", "tests.bench.memory", events, each, name], check=True, timeout=300)


if __name__ == "__main__":
    main()
