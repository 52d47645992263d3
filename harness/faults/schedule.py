"""The schedule of faults: drawn from the seed while the run goes on, or read from the record of a run.

Kinds, nominal times and draws depend on the plan and the seed only; which node leads when a fault acts is the
cluster's affair. Faults of one worker take turns in a seeded order, each kind once per round, so that a short run
meets every kind. Workers are independent: each draws from a seed of its own, so that one more changes no other.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.kind import FaultKind, FaultSpec
from fencepost.harness.faults.nemesis_text import Choice, parse_choice
from fencepost.harness.results.schedule_rows import Row, injected, read_rows
from fencepost.harness.runtime.provider import Placement

#: A recorded fault may have come a little after the main phase's nominal end; one that comes later never would.
_LATE_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fault to come: injected `inject_ns` after the main phase began, healed `duration_ns` after its proof.

    `draw_seed` decides the nodes when the target is not fixed by its name. `worker` carries it out, one of its entries
    at a time in the order of `number`, and leaves at least `gap_ns` after the healing of the one before it.
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
    """Each worker's entries, drawn as they are taken: a run of a month starts as soon as one of a minute."""
    return [
        draw_schedule(choices, faults, seed=seed, time_limit_ns=time_limit_ns, quiet_ns=quiet_ns, worker=number)
        for number, choices in enumerate(workers)
    ]


def by_worker(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Part a list of entries by the worker that carries them out, in their order."""
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
    """Draw one worker's entries that fit in the main phase, each followed by `quiet_ns` without a fault of it.

    The first fault comes after half a quiet time; quiet times vary by a fifth, so that faults do not keep step with
    the system's own timers. When not even one fault fits, the first one comes, cut short.
    """
    draw = random.Random(f"{seed}/schedule/{worker}" if worker else f"{seed}/schedule")
    variants = _Variants(choices, seed=f"{seed}/variants/{worker}")
    at_ns = quiet_ns // 2
    turn: list[int] = []
    for number in itertools.count():
        if not choices:
            return
        if not turn:
            turn = list(range(len(choices)))
            draw.shuffle(turn)
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


class _Variants:
    """Which variant of each choice comes next: all of them in a drawn order, then again."""

    def __init__(self, choices: Sequence[Choice], *, seed: str) -> None:
        self._orders = [list(choice) for choice in choices]
        for number, order in enumerate(self._orders):
            random.Random(f"{seed}/{number}").shuffle(order)
        self._taken = [0] * len(self._orders)

    def next(self, choice: int) -> FaultSpec:
        order, taken = self._orders[choice], self._taken[choice]
        self._taken[choice] += 1
        return order[taken % len(order)]


def recorded_entries(rows: Iterable[Row], faults: Mapping[str, FaultKind], placement: Placement) -> list[Entry]:
    """The faults that a run really injected, as its schedule.jsonl has them, to be injected again at the same times.

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
    """The faults of a schedule's file, checked against the plan that names it; raises UsageError."""
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
    """Return what a plan's `nemesis` says of these faults (one at least): each once, workers joined by +."""
    workers: dict[int, dict[str, None]] = {}
    for entry in entries:
        workers.setdefault(entry.worker, {})[entry.spec.text] = None
    return "+".join(",".join(texts) for texts in workers.values())
