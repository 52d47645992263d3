"""The schedule of faults: drawn from the seed during the run, or read from the record of an earlier run.

Kinds, nominal times and draws depend only on the plan and the seed; which node leads when a fault acts depends on the
cluster. The faults of one worker take turns in a seeded order, each kind once per round, so that a short run has every
kind; a mixture begins with the kinds that decide whether a superseded leader can act. Workers are independent: each
draws from a seed of its own, so that another worker changes none of them.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.kind import FaultKind, FaultSpec
from fencepost.harness.faults.nemesis_text import Choice, is_mixed, parse_choice
from fencepost.harness.results.schedule_rows import Row, injected, read_rows
from fencepost.harness.runtime.provider import Placement

#: A recorded fault may have come this much after the main phase's nominal end.
_LATE_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fault to come: injected `inject_ns` after the main phase began, healed `duration_ns` after its proof.

    `draw_seed` decides which nodes a target such as "minority" means, unless the fault's effect lasts
    (`targets.choose_lasting`). `worker` carries its entries out one at a time,
    in the order of `number`, and waits at least `gap_ns` after each healing.
    """

    spec: FaultSpec
    inject_ns: int
    duration_ns: int
    draw_seed: int
    worker: int = 0
    number: int = 0
    gap_ns: int = 0


def draw_schedules(
    workers: Sequence[Sequence[Choice]],
    faults: Mapping[str, FaultKind],
    *,
    seed: int,
    time_limit_ns: int,
    quiet_ns: int,
) -> list[Iterator[Entry]]:
    """Return each worker's entries, drawn when they are needed: a run of a month starts as fast as one of a minute."""
    return [
        draw_schedule(choices, faults, seed=seed, time_limit_ns=time_limit_ns, quiet_ns=quiet_ns, worker=number)
        for number, choices in enumerate(workers)
    ]


def by_worker(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Divide a list of entries by worker, keeping their order."""
    workers: dict[int, list[Entry]] = {}
    for entry in entries:
        workers.setdefault(entry.worker, []).append(entry)
    return list(workers.values())


def draw_schedule(
    choices: Sequence[Choice],
    faults: Mapping[str, FaultKind],
    *,
    seed: int,
    time_limit_ns: int,
    quiet_ns: int,
    worker: int = 0,
) -> Iterator[Entry]:
    """Draw one worker's entries that fit into the main phase.

    The first fault comes after half a quiet time. Quiet times vary by a fifth, so that faults do not keep step with the
    system's own timers. When not even one fault fits, the first one is shortened.

    Args:
        choices: the faults that take turns; each turn uses one variant of a choice.
        seed: the run's seed.
        time_limit_ns: the length of the main phase.
        quiet_ns: the mean time without a fault of this worker, after each of its faults.
        worker: the worker's number; workers draw independently of each other.
    """
    draw = random.Random(f"{seed}/schedule/{worker}" if worker else f"{seed}/schedule")
    first = _headline(choices, faults) if is_mixed(choices) else frozenset()
    variants = _Variants(choices, seed=f"{seed}/variants/{worker}", first=first)
    at_ns = quiet_ns // 2
    turn: list[int] = []
    for number in itertools.count():
        if not choices:
            return
        if not turn:
            turn = list(range(len(choices)))
            draw.shuffle(turn)
            if number == 0:
                # The last one is taken first.
                turn.sort(key=first.__contains__)
        spec = variants.next(turn.pop())
        entry = Entry(
            spec=spec,
            inject_ns=at_ns,
            duration_ns=spec.duration_ns,
            draw_seed=draw.getrandbits(32),
            worker=worker,
            number=number,
            gap_ns=quiet_ns // 2,
        )
        if at_ns + spec.duration_ns > time_limit_ns:
            if number == 0 and at_ns < time_limit_ns:
                yield replace(entry, duration_ns=time_limit_ns - at_ns)
            return
        yield entry
        at_ns += spec.duration_ns + round(quiet_ns * draw.uniform(0.8, 1.2))


def _headline(choices: Sequence[Choice], faults: Mapping[str, FaultKind]) -> frozenset[int]:
    """Return the places of the kinds that decide whether a superseded leader can act."""
    return frozenset(place for place, choice in enumerate(choices) if faults[choice[0].fault].of_leadership)


class _Variants:
    """Chooses the next variant of each choice: all of them in a drawn order, then again.

    The choices in `first` begin with their first variant.
    """

    def __init__(self, choices: Sequence[Choice], *, seed: str, first: frozenset[int]) -> None:
        self._orders = [list(choice) for choice in choices]
        for number, order in enumerate(self._orders):
            random.Random(f"{seed}/{number}").shuffle(order)
            if number in first:
                order.remove(choices[number][0])
                order.insert(0, choices[number][0])
        self._turns = [0] * len(self._orders)

    def next(self, choice: int) -> FaultSpec:
        order, turn = self._orders[choice], self._turns[choice]
        self._turns[choice] += 1
        return order[turn % len(order)]


def recorded_entries(rows: Iterable[Row], faults: Mapping[str, FaultKind], placement: Placement) -> list[Entry]:
    """Return the faults that a run really injected, from its schedule.jsonl, to inject them again at the same times.

    Raises UsageError for rows of another format and for specs that make no sense on this cluster.
    """
    return [
        Entry(
            spec=parse_choice([row["spec"]], faults, placement)[0],
            inject_ns=row["nominal_ns"] if row["when"] is not None else row["at_ns"],
            duration_ns=row["duration_ns"],
            draw_seed=row["draw_seed"],
            worker=row["worker"],
            number=row["number"],
        )
        for row in injected(rows)
    ]


def given_entries(
    path: Path, faults: Mapping[str, FaultKind], placement: Placement, *, time_limit_ns: int
) -> list[Entry]:
    """Read the faults of a schedule file and check them against the plan that names it; raise UsageError."""
    rows = read_rows(path)
    try:
        entries = recorded_entries(rows, faults, placement)
    except UsageError as error:
        raise UsageError(f"{path} does not fit the plan: {error.message}", hint=error.hint) from None
    late = next((entry for entry in entries if entry.inject_ns > time_limit_ns + _LATE_NS), None)
    if late:
        raise UsageError(
            f"{path} does not fit the plan: {late.spec.text} comes {late.inject_ns / 1e9:.3g} s into the main phase, "
            f"which lasts {time_limit_ns / 1e9:g} s",
            hint="give a longer --time-limit, or leave the fault out",
        )
    return entries


def nemesis_of(entries: Sequence[Entry]) -> str:
    """Return the `nemesis` of a plan with these faults (at least one): each once, workers joined by +."""
    workers: dict[int, dict[str, None]] = {}
    for entry in entries:
        workers.setdefault(entry.worker, {})[entry.spec.text] = None
    return "+".join(",".join(texts) for texts in workers.values())
