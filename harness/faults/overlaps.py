"""Draws the faults of all workers, and beside the faults of a mixture (`all`) others that overlap with them.

While a fault of the mixture is in force, a second one comes: within it, around it, across its end, or until within a
second of its end. A node that was stopped or cut off may be hit again within a second of its return, or is made the
leader. All that is drawn from the seed; the faults that take turns are the same with and without it.

Which nodes fit depends on the cluster: with three nodes a second fault that takes one away means the same node, with
five another one. So only pairs are drawn that may fit, and targets again until they do (`ScheduledFault.bounded`).
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fencepost.harness.faults.kind import CLIENT_WORKER, RETURNED, UNABLE, FaultKind, FaultSpec
from fencepost.harness.faults.schedule import Choice, ScheduledFault, draw_schedule, headline, is_mixed
from fencepost.harness.history import Stops

_MS: Final = 1_000_000
#: How long after its return a node is hit again, and for how long.
_AGAIN_NS: Final = (50 * _MS, 900 * _MS)
_AGAIN_FOR_NS: Final = (50 * _MS, 2_000 * _MS)
_AGAIN_SHARE: Final = 0.4
#: How far a second fault reaches beyond the first.
_BEYOND_NS: Final = (200 * _MS, 2_500 * _MS)
_TOGETHER_NS: Final = 1_000 * _MS
_SHORTEST_NS: Final = 200 * _MS
#: One that takes no node away may last this much longer, into the faults to come.
_HARMLESS_NS_MAX: Final = 8_000 * _MS
#: A worker heals one fault, and proves it, before the next.
_BREAK_NS: Final = 500 * _MS
#: Of faults that take nodes away two overlap only where the first means few nodes, and the second may mean others.
_FEW: Final = frozenset({"leader", "follower", "one", "minority"})
_ANY: Final = frozenset({"follower", "one"})
#: From so many voters on two nodes may be away.
_VOTERS: Final = 5


def draw_schedules(
    workers: Sequence[Sequence[Choice]],
    faults: Mapping[str, FaultKind],
    *,
    seed: int,
    time_limit_ns: int,
    quiet_ns: int,
    voters: int = 3,
) -> list[Iterator[ScheduledFault]]:
    """Return each worker's entries, drawn when they are needed: a run of a month starts as fast as one of a minute.

    What is drawn beside a mixture has a worker of its own; these come last.
    """
    mixed = [number for number, choices in enumerate(workers) if is_mixed(choices)]
    times = {"time_limit_ns": time_limit_ns, "quiet_ns": quiet_ns}

    def lane(number: int, own: int, beside: int) -> Iterator[ScheduledFault]:
        turns = [choice for choice in workers[number] if number not in mixed or not _is_again(choice)]
        entries = draw_schedule(turns, faults, seed=seed, worker=number, **times)
        if number in mixed:
            again = [spec for choice in workers[number] if _is_again(choice) for spec in choice]
            others = _Beside(turns, faults, random.Random(f"{seed}/beside/{number}"), voters)
            entries = _with_overlaps(entries, others, again, beside=beside, **times)
        return (entry for entry in entries if entry.worker == own)

    lanes = [(number, number, len(workers) + at) for at, number in enumerate(mixed)]
    plain = [(number, number, number) for number in range(len(workers)) if number not in mixed]
    return [lane(*one) for one in sorted([*lanes, *plain])] + [lane(n, beside, beside) for n, _, beside in lanes]


def _is_again(choice: Choice) -> bool:
    return all(spec.target == RETURNED for spec in choice)


def _with_overlaps(
    entries: Iterator[ScheduledFault],
    others: "_Beside",
    again: Sequence[FaultSpec],
    *,
    time_limit_ns: int,
    quiet_ns: int,
    beside: int,
) -> Iterator[ScheduledFault]:
    """Yield the entries of a mixture, and between them what overlaps with them and what follows a return (`again`)."""
    draw = others.draw
    free_ns = numbered = count = 0
    for entry in entries:
        over_ns, after_ns = entry.inject_ns + entry.duration_ns, round(draw.uniform(*_AGAIN_NS))
        # Until then the next that takes its turn does not come: quiet times vary by a fifth.
        calm_ns = min(time_limit_ns, over_ns + quiet_ns * 4 // 5 - _BREAK_NS)
        room_ns = calm_ns - over_ns - after_ns
        follows = draw.random() < _AGAIN_SHARE and others.takes(entry.spec)
        fitting = [spec for spec in again if "for" not in spec.given or spec.duration_ns <= room_ns]
        follows = follows and bool(fitting) and room_ns >= _AGAIN_FOR_NS[0]
        yield replace(entry, number=numbered, bounded=True, gap_ns=after_ns if follows else entry.gap_ns)
        numbered += 1
        spec = others.next(entry)
        if spec is not None:
            begin_ns, end_ns = _span(entry.inject_ns, over_ns, spec, others.faults[spec.fault].any_length, draw)
            if others.takes(spec):
                # Before or after it would keep one of the others from coming.
                begin_ns, end_ns = max(begin_ns, entry.inject_ns + _BREAK_NS), min(end_ns, calm_ns)
            else:
                end_ns += round(draw.uniform(0, _HARMLESS_NS_MAX))
            begin_ns, end_ns = max(begin_ns, free_ns), min(end_ns, time_limit_ns)
            if end_ns - begin_ns >= _SHORTEST_NS:
                spec = spec.lasting(_whole_ms(end_ns - begin_ns))
                yield ScheduledFault(
                    spec=spec,
                    inject_ns=begin_ns,
                    duration_ns=spec.duration_ns,
                    draw_seed=draw.getrandbits(32),
                    worker=beside,
                    number=count,
                    bounded=True,
                )
                count += 1
                free_ns = end_ns + _BREAK_NS
        if follows:
            spec = draw.choice(fitting)
            if "for" not in spec.given:
                spec = spec.lasting(_whole_ms(min(room_ns, round(draw.uniform(*_AGAIN_FOR_NS)))))
            yield ScheduledFault(
                spec=spec,
                inject_ns=over_ns + after_ns,
                duration_ns=spec.duration_ns,
                draw_seed=draw.getrandbits(32),
                worker=entry.worker,
                number=numbered,
                gap_ns=_BREAK_NS,
                bounded=True,
            )
            numbered += 1


def takes_nodes(fault: FaultKind, spec: FaultSpec) -> bool:
    """Decide whether this fault may take nodes from a quorum, or cut them off."""
    effects = fault.effects(spec)
    holds = fault.holds if spec.target != CLIENT_WORKER else frozenset[str]()
    return effects.stops is not Stops.NO or effects.cuts or bool(holds & UNABLE)


def _whole_ms(length_ns: int) -> int:
    return length_ns // _MS * _MS


def _span(from_ns: int, to_ns: int, spec: FaultSpec, any_length: bool, draw: random.Random) -> tuple[int, int]:
    """Draw when a fault begins and ends that overlaps with one from `from_ns` to `to_ns`."""
    length_ns, far_ns = to_ns - from_ns, round(draw.uniform(*_BEYOND_NS))
    shape, early = draw.choice(("within", "around", "across", "together")), draw.uniform(0, 0.3)
    begin_ns = from_ns + round(early * length_ns)
    if not any_length:
        # It has a length of its own.
        begin_ns = from_ns + round(draw.uniform(-0.2 * spec.duration_ns, 0.4 * length_ns))
        return max(0, begin_ns), max(0, begin_ns) + spec.duration_ns
    if shape == "within" and length_ns >= 2 * _TOGETHER_NS:
        return begin_ns, to_ns - round(early * length_ns)
    if shape == "across":
        return begin_ns, to_ns + far_ns
    if shape == "together":
        return begin_ns, to_ns + round(draw.uniform(-1, 1) * min(_TOGETHER_NS, length_ns))
    return max(0, from_ns - round(draw.uniform(*_BEYOND_NS)) // 2), to_ns + far_ns


class _Beside:
    """Chooses what overlaps with a fault: the kinds in a drawn order, then again; one that does not fit waits."""

    def __init__(
        self, choices: Sequence[Choice], faults: Mapping[str, FaultKind], draw: random.Random, voters: int
    ) -> None:
        self.faults, self.draw, self._voters = faults, draw, voters
        #: The first faults, which cut off and pause the leader and so decide the headline, are not to be spoilt.
        self._guarded = len(headline(choices, faults))
        self._orders = [draw.sample(choice, len(choice)) for choice in choices]
        self._waiting: list[int] = []

    def next(self, first: ScheduledFault) -> FaultSpec | None:
        """Return a fault that may overlap with `first`; None when there is none."""
        for again in (False, True):
            if again:
                self._waiting = self.draw.sample(range(len(self._orders)), len(self._orders))
            for kind in self._waiting:
                order = self._orders[kind]
                spec = next((spec for spec in order if self._fits(first, spec)), None)
                if spec is not None:
                    self._waiting.remove(kind)
                    order.remove(spec)
                    order.append(spec)
                    return spec
        return None

    def takes(self, spec: FaultSpec) -> bool:
        return takes_nodes(self.faults[spec.fault], spec)

    def _fits(self, entry: ScheduledFault, second: FaultSpec) -> bool:
        first, one, two = entry.spec, self.faults[entry.spec.fault], self.faults[second.fault]
        if one is two and one.alone:
            return False
        both = self.takes(first) and self.takes(second)
        if self.takes(second) and entry.number < self._guarded:
            return False
        changing = one.effects(first).changes_members or two.effects(second).changes_members
        if both and (changing or first.target not in _FEW or second.target not in _ANY):
            return False
        # With three voters both mean the same node, of which each thing is held by one of them.
        return not one.holds & two.holds or (both and self._voters >= _VOTERS)
