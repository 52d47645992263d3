"""`make soak-plants`: correct stores in memory, a thousand runs of each fake; a checker that accuses one is wrong.

A number asks for so many runs of each instead. Each accusation is told with its seed as it is made, and each tenth of
a fake's runs has its line; an accusation makes the exit code 1. Ctrl-C ends it at once, with what is known so far.
"""

import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from tests.fakes.plants import FAKES
from tests.runs.test_plants import accusations

_RUNS: Final = 1000
#: What a shell says of a command that Ctrl-C ended.
_INTERRUPTED: Final = 130
#: A workload, which of its fakes, and a seed.
Job = tuple[str, int, int]


def _accused(job: Job) -> tuple[Job, list[str]]:
    workload, number, seed = job
    return job, [str(one) for one in accusations(FAKES[workload][number], seed)]


def _jobs(runs: int, tenth: int) -> Iterator[Job]:
    """A tenth of the runs of each fake in turn, so that one that is ended early has seen all of them."""
    for first in range(0, runs, tenth):
        for workload, fakes in FAKES.items():
            for number in range(len(fakes)):
                for seed in range(first, min(first + tenth, runs)):
                    yield workload, number, seed


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _told(results: Iterable[tuple[Job, list[str]]], runs: int, tenth: int) -> int:
    """Tell the results as they come; return the exit code."""
    done, accused = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
    code = 0
    try:
        for (workload, number, seed), found in results:
            fake = workload, number
            done[fake] += 1
            accused[fake] += len(found)
            for one in found:
                _say(f"{workload} {number}, seed {seed}: {one}")
            if done[fake] % tenth == 0 or done[fake] == runs:
                _say(f"{workload} {number}: {done[fake]} of {runs} runs, {accused[fake]} accusations")
    except KeyboardInterrupt:
        wanted = runs * sum(map(len, FAKES.values()))
        _say(f"ended early: {done.total()} of {wanted} runs, of each fake at least {_least(done)}")
        code = _INTERRUPTED
    _say(f"{done.total()} runs of correct stores, {accused.total()} accusations")
    return 1 if accused.total() else code


def _least(done: Counter[tuple[str, int]]) -> int:
    return min(done[workload, number] for workload, fakes in FAKES.items() for number in range(len(fakes)))


def main(runs: int) -> int:
    tenth = max(1, runs // 10)
    # Ctrl-C reaches the whole group: only this process answers it, and leaving the pool ends the others.
    with multiprocessing.Pool(initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        return _told(pool.imap_unordered(_accused, _jobs(runs, tenth), chunksize=5), runs, tenth)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else _RUNS))
