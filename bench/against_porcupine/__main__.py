"""`python -m bench.against_porcupine`: the whole grid within 20 minutes, or `--quick` within four.

The seed is printed first; `--seed` makes the same histories again. A wrong verdict, of whichever side, ends the bench
with an error and that seed. The table is printed, and kept in results/benchmarks/ unless `--no-write` is given.
"""

import argparse
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.against_porcupine.cells import HISTORIES_SMALL, SMALL, End, Outcome, Side, grid, milder
from bench.against_porcupine.contest import Limits, Wrong, contest
from bench.against_porcupine.histories import Shape, make
from bench.against_porcupine.recorded import FOUND, recorded
from bench.against_porcupine.table import lines, name
from bench.document import machine_line, write_table
from fencepost.harness.base.errors import MachineError
from fencepost.harness.interchange.second_opinion.porcupine import SOURCE, built

_LIMITS = Limits(cpu_s=30.0, memory_bytes=10 * 10**9)
_LIMITS_QUICK = Limits(cpu_s=10.0, memory_bytes=4 * 10**9)


def main() -> int:
    arguments = _arguments()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(2**31)
    limits = _LIMITS_QUICK if arguments.quick else _LIMITS
    minutes = arguments.minutes or (4.0 if arguments.quick else 20.0)
    machine = machine_line()
    try:
        program = built()
    except MachineError as error:
        raise SystemExit(f"{error.message}\nhint: {error.hint}") from None
    print(f"seed {seed}; repeat with: make bench-checkers SEED={seed}{' QUICK=1' * arguments.quick}", flush=True)
    # One processor, for both sides: nothing that either does beside its check can hide on another one.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    until = time.monotonic() + minutes * 60
    outcomes: list[Outcome] = []
    left = 0
    try:
        with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
            real = [
                (title, contest(_of(len(c.f)), c, None, program, limits, Path(folder), ask=True))
                for title, c in recorded((FOUND, *arguments.recorded))
            ]
            failed: set[Shape] = set()
            for shape in grid(quick=arguments.quick):
                if time.monotonic() > until:
                    left += 1
                    continue
                outcome = _cell(shape, seed, program, limits, Path(folder), failed)
                if outcome.theirs.end is not End.DONE:
                    failed.add(shape)
                outcomes.append(outcome)
                print(f"  {_progress(outcome)}", flush=True)
    except Wrong as error:
        raise SystemExit(f"WRONG VERDICT, seed {seed}: {error}") from None
    section = [
        machine,
        "",
        f"Seed {seed}; {_versions()}; Porcupine's limits: {limits.cpu_s:g} s of processor time and "
        f"{limits.memory_bytes / 1e9:g} GB ({End.TIME.value}, {End.MEMORY.value}); {len(outcomes)} cells measured, "
        f"{left} left out when {minutes:g} minutes were over.",
        "",
        *lines(outcomes, real),
    ]
    print("\n".join(section))
    if not arguments.no_write:
        write_table("checkers-and-porcupine", section)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.against_porcupine")
    parser.add_argument("--quick", action="store_true", help="cells of 1,000 and 10,000 operations, smaller limits")
    parser.add_argument("--seed", type=int, help="the histories of an earlier run")
    parser.add_argument("--minutes", type=float, help="no cell begins later than this")
    parser.add_argument("--recorded", type=Path, action="append", default=[], help="a folder of runs to take in")
    parser.add_argument("--no-write", action="store_true", help="print the table only")
    return parser.parse_args()


def _cell(shape: Shape, seed: int, program: Path, limits: Limits, folder: Path, failed: set[Shape]) -> Outcome:
    """A cell's histories, merged; Porcupine is not asked where a milder cell was too much for it."""
    ask = not any(other in failed for other in milder(shape))
    expected = "valid" if shape.valid else "invalid"
    outcomes: list[Outcome] = []
    for number in range(HISTORIES_SMALL if shape.operations == SMALL else 1):
        outcomes.append(contest(shape, make(shape, seed + number), expected, program, limits, folder, ask=ask))
        if outcomes[-1].ours.end is not End.DONE or (ask and outcomes[-1].theirs.end is not End.DONE):
            break
    return _merged(outcomes)


def _merged(outcomes: Sequence[Outcome]) -> Outcome:
    """By medians; a side that failed on one history of a cell failed on the cell."""
    methods = sorted({outcome.method for outcome in outcomes})
    return Outcome(
        shape=outcomes[0].shape,
        ours=_merged_side([outcome.ours for outcome in outcomes]),
        theirs=_merged_side([outcome.theirs for outcome in outcomes]),
        method="+".join(methods),
    )


def _merged_side(sides: Sequence[Side]) -> Side:
    ends = [side.end for side in sides if side.end is not End.DONE]
    return Side(
        end=ends[0] if ends else End.DONE,
        cpu_s=statistics.median(side.cpu_s for side in sides),
        peak_bytes=max(side.peak_bytes for side in sides),
    )


def _of(operations: int) -> Shape:
    """Stands for a recorded history, of which nothing else is known."""
    return Shape(kind="recorded", operations=operations, clients=0, info=0.0, valid=True)


def _progress(outcome: Outcome) -> str:
    theirs, ours = (
        f"{side.cpu_s * 1e3:.3g} ms" if side.end is End.DONE else side.end.value
        for side in (outcome.theirs, outcome.ours)
    )
    ratio = f"{outcome.ratio:.1f} times" if outcome.ratio else ""
    return f"{name(outcome.shape)}: Porcupine {theirs}, ours {ours} ({outcome.method}) {ratio}"


def _versions() -> str:
    go = subprocess.run(["go", "env", "GOVERSION"], check=False, capture_output=True, text=True, timeout=60)
    required = next(
        line for line in (SOURCE / "go.mod").read_text(encoding="utf-8").splitlines() if line.startswith("require")
    )
    return f"Porcupine {required.split()[-1]} built with {go.stdout.strip() or 'an unknown Go'}"


if __name__ == "__main__":
    raise SystemExit(main())
