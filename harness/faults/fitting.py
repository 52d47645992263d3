"""Refuses plans whose main phase is too short for the faults that they name, and says which times fit.

A run in which a named fault never comes is `unknown` whatever the cluster does, so it is refused before it starts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fencepost.harness.base.durations import format_duration
from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.forecast import Surroundings, drawn, with_lengths
from fencepost.harness.faults.kind import FaultKind
from fencepost.harness.faults.nemesis_text import ALL, NemesisRequest
from fencepost.harness.faults.schedule import Entry

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

    def whole(entry: Entry) -> bool:
        # A length of our own gives way to a short main phase; one that a person wrote does not.
        own = "for" in entry.spec.given and entry.spec in nemesis.specs
        return not own or entry.duration_ns == entry.spec.duration_ns

    kinds = dict.fromkeys(spec.fault for spec in nemesis.specs)
    for number, worker in enumerate(drawn(with_lengths(nemesis, faults, around), faults, around)):
        turns = {choice[0].fault for choice in nemesis.workers[number]}
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
