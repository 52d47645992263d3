"""`make soak-plants`: correct stores in memory, a thousand runs of each fake; a checker that accuses one is wrong.

A number asks for so many runs of each instead. Prints every accusation with its seed; one makes the exit code 1.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from tests.fakes.plants import FAKES
from tests.runs.test_plants import accusations

_RUNS: Final = 1000


def _accused(job: tuple[str, int, int]) -> list[str]:
    workload, number, seed = job
    return [f"{workload} {number}, seed {seed}: {one}" for one in accusations(FAKES[workload][number], seed)]


def main(runs: int) -> int:
    jobs = [(w, number, seed) for seed in range(runs) for w, fakes in FAKES.items() for number in range(len(fakes))]
    with ProcessPoolExecutor() as pool:
        accused = [line for lines in pool.map(_accused, jobs, chunksize=20) for line in lines]
    sys.stdout.write("".join(f"{line}\n" for line in accused))
    sys.stdout.write(f"{len(jobs)} runs of correct stores, {len(accused)} accusations\n")
    return int(bool(accused))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else _RUNS))
