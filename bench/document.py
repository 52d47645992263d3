"""Keeps what was measured: each table is a file of its own in results/benchmarks/, which git ignores."""

import platform
import time
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).resolve().parents[1] / "results" / "benchmarks"


def machine_line() -> str:
    """Return the machine's make and load in one line, without its name."""
    load = Path("/proc/loadavg").read_text(encoding="ascii").split()[0]
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return f"{time.strftime('%Y-%m-%d', time.gmtime())}, {cpu}, {platform.release()}, load {load} at the start"


def write_table(name: str, lines: list[str]) -> None:
    """Write the lines to results/benchmarks/NAME.md, in place of an earlier table, and print where."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written to {path}")
