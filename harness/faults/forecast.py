"""Forecasts, before the cluster starts, which faults a run will have.

The forecast stands in `run.json` under "nemesis". The runner is handed its workers: inside the lab's namespaces the
machine cannot be asked any more what it can do.

A plan whose main phase is too short for the faults that it names is refused, with the times that fit: a run in which a
named fault never comes is `unknown` whatever the cluster does.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random
from typing import Any, Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quantities import format_duration
from fencepost.harness.faults.kind import FaultKind, FaultSpec, cuts_off_leader, with_holds
from fencepost.harness.faults.overlaps import draw_schedules
from fencepost.harness.faults.schedule import (
    ALL,
    Choice,
    NemesisRequest,
    ScheduledFault,
    by_worker,
    is_mixed,
    parse_nemesis,
)
from fencepost.harness.runtime.node import Member
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.verdict import LeadershipBound

#: In the mixture a cut of the leader lasts this much longer than a cut-off leader may go on claiming to lead.
_BEYOND_LIMIT_NS: Final = 3_000_000_000
#: The longest other fault of the mixture that has no length of its own: a short run should still have many kinds.
_USUAL_NS_MAX: Final = 6_000_000_000
#: Lengths that the mixture draws. No store here sends heartbeats more often than the shortest; the longest is also at
#: most this share of the main phase.
_DRAWN_NS_MIN: Final = 50_000_000
_DRAWN_NS_MAX: Final = 30_000_000_000
_DRAWN_SHARE_MAX: Final = 8
#: How many faults of each worker are looked at: more show nothing new, and a run may last for weeks.
_LOOK_MAX: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The cluster and the times for which a forecast is made."""

    placement: Placement
    members: tuple[Member, ...]
    leader_names: tuple[str, ...]
    bound: LeadershipBound
    seed: int
    time_limit_ns: int
    quiet_ns: int

    @property
    def voters(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members if member.votes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The faults of a run; `entries` are the first of its schedule."""

    request: NemesisRequest
    entries: tuple[ScheduledFault, ...]
    #: Kinds for which the main phase is too short.
    without_time: tuple[str, ...]

    @property
    def kinds(self) -> list[str]:
        """Every kind that may be drawn."""
        return _kinds(self.request)

    def document(self, *, keep_quorum: bool) -> dict[str, Any]:
        """The forecast as `run.json` holds it."""
        return {
            "workers": [[[spec.text for spec in choice] for choice in worker] for worker in self.request.workers],
            "kinds": self.kinds,
            "left_out": [{"fault": fault, "why": why} for fault, why in self.request.left_out],
            "without_time": list(self.without_time),
            "quorum": {"asked": "keep" if keep_quorum else "any"},
        }

    def in_words(self, *, keep_quorum: bool) -> list[str]:
        """Return what a person should know before the run, one line each."""
        lines = []
        if self.request.left_out:
            lines.append(f"left out: {', '.join(fault for fault, _ in self.request.left_out)} (run.json says why)")
        if self.without_time:
            lines.append(f"no time for: {', '.join(self.without_time)}; use a longer --time-limit or a shorter --quiet")
        if keep_quorum and self.entries:
            lines.append("quorum: kept; a fault that would break it is skipped")
        return lines


def look_ahead(
    text: str,
    faults: Mapping[str, FaultKind],
    around: Surroundings,
    *,
    can: Callable[[str], str | None] = lambda _: None,
    given: Sequence[ScheduledFault] | None = None,
) -> Forecast:
    """Forecast the faults of a run.

    Args:
        text: the plan's nemesis, as a person wrote it.
        can: says why this machine cannot do a kind of fault; None when it can.
        given: the faults of a recorded schedule, which are then used as they are; `text` names them.

    Raises:
        UsageError: a part of `text` makes no sense on this cluster.
    """
    nemesis = parse_nemesis(text, faults, around.placement, can=can)
    if given is None:
        nemesis = with_lengths(nemesis, faults, around)
        workers: list[Iterator[ScheduledFault]] = drawn(nemesis, faults, around)
    else:
        workers = [iter(entries) for entries in by_worker(given)]
    entries = tuple(entry for worker in workers for entry in islice(worker, _LOOK_MAX))
    scheduled = {entry.spec.fault for entry in entries}
    late = tuple(kind for kind in _kinds(nemesis) if kind not in scheduled)
    return Forecast(request=nemesis, entries=entries, without_time=late)


def with_lengths(nemesis: NemesisRequest, faults: Mapping[str, FaultKind], around: Surroundings) -> NemesisRequest:
    """Make cuts of the leader as long as the main phase has room for, and draw the lengths of a mixture."""
    return replace(nemesis, workers=tuple(_with_lengths(worker, faults, around) for worker in nemesis.workers))


def drawn(
    nemesis: NemesisRequest, faults: Mapping[str, FaultKind], around: Surroundings
) -> list[Iterator[ScheduledFault]]:
    """Draw each worker's faults, lazily: a fault is drawn when it is needed."""
    return draw_schedules(
        nemesis.workers,
        faults,
        seed=around.seed,
        time_limit_ns=around.time_limit_ns,
        quiet_ns=around.quiet_ns,
        voters=len(around.voters),
    )


def _kinds(nemesis: NemesisRequest) -> list[str]:
    return list(dict.fromkeys(spec.fault for spec in nemesis.specs))


def _with_lengths(
    worker: Sequence[Choice], faults: Mapping[str, FaultKind], around: Surroundings
) -> tuple[Choice, ...]:
    """Make cuts of the leader long enough to test something; in a mixture just long enough, or of a drawn length."""
    if not is_mixed(worker):
        held = with_holds(
            [choice[0] for choice in worker],
            faults,
            members=around.members,
            leader_names=around.leader_names,
            bound=around.bound,
            time_limit_ns=around.time_limit_ns,
            quiet_ns=around.quiet_ns,
        )
        return tuple((spec,) for spec in held)
    return tuple(tuple(_in_mixture(spec, faults[spec.fault], around) for spec in choice) for choice in worker)


def _in_mixture(spec: FaultSpec, fault: FaultKind, around: Surroundings) -> FaultSpec:
    """Return a fault of the mixture with its length: its own, else half of the time the usual one, else a drawn one."""
    if "for" in spec.given:
        return spec
    # The first variant of a kind that decides the headline is never drawn too short for it.
    if fault.any_length and not (fault.of_leadership and spec.text == fault.for_all[0]):
        draw = Random(f"{around.seed}/length/{spec.text}")
        longest_ns = max(_DRAWN_NS_MIN, min(_DRAWN_NS_MAX, around.time_limit_ns // _DRAWN_SHARE_MAX))
        if draw.random() < 0.5:
            drawn_ns = math.exp(draw.uniform(math.log(_DRAWN_NS_MIN), math.log(longest_ns)))
            return spec.lasting(round(drawn_ns / 1e6) * 1_000_000)
    limit_ns = around.bound.limit_ns
    if limit_ns is not None and cuts_off_leader(spec, fault, around.members, around.leader_names):
        return spec.lasting(max(limit_ns + _BEYOND_LIMIT_NS, spec.duration_ns))
    return spec.lasting(_USUAL_NS_MAX) if spec.duration_ns > _USUAL_NS_MAX else spec


_S_NS: Final = 1_000_000_000
#: Quiet times to offer; the longest one that fits is named.
_QUIET_NS: Final = (3 * _S_NS, 2 * _S_NS, _S_NS, _S_NS // 2, _S_NS // 5, _S_NS // 10)


def refuse_without_time(
    nemesis: NemesisRequest, faults: Mapping[str, FaultKind], around: Surroundings, *, seeds: Sequence[int]
) -> None:
    """Raise UsageError when a run with one of the `seeds` would end before every named kind of fault has come.

    Which faults a mixture (`all`) draws is no promise, so of its kinds any one will do.

    Args:
        nemesis: the plan's faults.
        around: the cluster, the length of the main phase and the quiet time.
        seeds: the seeds of all runs that the plan stands for.
    """
    every = {spec.fault for spec in nemesis.specs}

    def missing(around: Surroundings) -> list[str]:
        for seed in seeds:
            late = _without_time(nemesis, faults, replace(around, seed=seed))
            named = [kind for kind in late if kind in nemesis.named]
            if named or (every and len(late) == len(every)):
                return named or [f"any fault of {ALL}"]
        return []

    kinds = missing(around)
    if not kinds:
        return
    limit_s = _least(lambda seconds: not missing(replace(around, time_limit_ns=seconds * _S_NS)))
    offers = [f"--time-limit {format_duration(limit_s * _S_NS)}"]
    quiet = (ns for ns in _QUIET_NS if ns < around.quiet_ns and not missing(replace(around, quiet_ns=ns)))
    offers += [f"--quiet {format_duration(ns)}" for ns in list(quiet)[:1]]
    raise UsageError(
        f"{', '.join(kinds)} {'does' if len(kinds) == 1 else 'do'} not fit in {format_duration(around.time_limit_ns)}",
        hint=f"use {' or '.join(offers)}",
    )


def _without_time(nemesis: NemesisRequest, faults: Mapping[str, FaultKind], around: Surroundings) -> list[str]:
    """Return the named kinds that never come, or come for less time than the plan says."""

    def whole(entry: ScheduledFault) -> bool:
        # A length of our own gives way to a short main phase; one that a person wrote does not.
        own = "for" in entry.spec.given and entry.spec in nemesis.specs
        return not own or entry.duration_ns == entry.spec.duration_ns

    kinds = dict.fromkeys(spec.fault for spec in nemesis.specs)
    entries = drawn(with_lengths(nemesis, faults, around), faults, around)
    # What is drawn beside a mixture comes last, and brings no kind that the mixture has not.
    for choices, worker in zip(nemesis.workers, entries, strict=False):
        turns = {choice[0].fault for choice in choices}
        for entry in worker:
            if whole(entry):
                kinds.pop(entry.spec.fault, None)
            turns.discard(entry.spec.fault)
            if not turns:
                break
    return list(kinds)


def _least(fits: Callable[[int], bool]) -> int:
    """Return the smallest number that fits; every larger number must fit as well."""
    low, high = 0, 1
    while not fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
