"""Smaller candidates: fewer faults, less load, narrower parameters. Pure: values in, values out.

A reduction offers candidates, the smallest first; the search takes the first that still shows the violation.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import parse
from fencepost.harness.base.quantities import format_duration, parse_duration_ns
from fencepost.harness.faults.fault_options import OF_EVERY_FAULT, FaultOptions
from fencepost.harness.plan import Plan
from fencepost.harness.results.schedule_rows import Row

#: What stays of the time before the first fault, between two faults and after the last, when idle time is removed.
IDLE_NS: Final = 1_000_000_000
_TIME_LIMIT_NS_MIN: Final = 2_000_000_000
_DURATION_NS_MIN: Final = 50_000_000
_ROUND_NS: Final = 100_000_000
#: Divisors, the largest first.
_SHARES: Final = (8, 4, 2)
#: Names of workload options: the number of clients, the number of keys or the like, and the rate.
_CLIENTS: Final = "_per_node"
_KEYS: Final = ("keys", "names", "partitions", "steady", "passing")
_RATES: Final = ("rate", "observe_rate", "looks_per_second")
#: For each target of several nodes, the narrower ones to try.
_NARROWER: Final[Mapping[str, tuple[str, ...]]] = {
    "all": ("one", "minority", "majority"),
    "majority": ("one", "minority"),
    "minority": ("one",),
}


class ReducedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and its faults; the plan's own `schedule` and `nemesis` follow from `rows`."""

    plan: Plan
    rows: tuple[Row, ...]

    @property
    def key(self) -> str:
        """A hash that is equal for candidates that do the same."""
        plan = msgspec.structs.replace(self.plan, schedule="", nemesis="none")
        acts = [[row[k] for k in ("worker", "spec", "duration_ns", "draw_seed")] + [_start(row)] for row in self.rows]
        return hashlib.sha256(msgspec.json.encode([plan, acts], order="deterministic")).hexdigest()[:16]

    def with_options(self, **options: Any) -> "ReducedPlan":
        plan = msgspec.structs.replace(self.plan, workload_options={**self.plan.workload_options, **options})
        return msgspec.structs.replace(self, plan=plan)

    def with_row(self, number: int, row: Row) -> "ReducedPlan":
        return msgspec.structs.replace(self, rows=(*self.rows[:number], row, *self.rows[number + 1 :]))


class Reduction(msgspec.Struct, frozen=True):
    """One thing to reduce; `offers` makes smaller candidates from the current one."""

    name: str
    offers: Callable[[ReducedPlan], Iterator[ReducedPlan]]


def idle_time(candidate: ReducedPlan) -> list[Reduction]:
    """Cut time without a fault: between faults, then after the last."""
    return [Reduction("idle time", _without_idle_time), Reduction("time_limit", _shorter)]


def load(candidate: ReducedPlan) -> list[Reduction]:
    """Reduce clients, keys and rate, in this order."""
    options = candidate.plan.workload_options
    clients = [name for name, value in options.items() if name.endswith(_CLIENTS) and type(value) is int]
    keys = [name for name in _KEYS if type(options.get(name)) is int]
    rates = [name for name in _RATES if isinstance(options.get(name), float)]
    return [*(_fewer(name) for name in (*clients, *keys)), *(_slower(name) for name in rates)]


def narrowing(candidate: ReducedPlan) -> list[Reduction]:
    """Narrow each fault's target, length and quantities."""
    reductions = []
    for number, row in enumerate(candidate.rows):
        name, _, options = _parts(row["spec"])
        of = f"fault {number}, {name}"
        reductions += [
            Reduction(f"target of {of}", _narrower(number)),
            Reduction(f"length of {of}", _briefer(number)),
            *(Reduction(f"{key} of {of}", _less(number, key)) for key in options if key not in OF_EVERY_FAULT),
        ]
    return reductions


# -- load ---------------------------------------------------------------------------------------------------------


def _fewer(option: str) -> Reduction:
    def offers(candidate: ReducedPlan) -> Iterator[ReducedPlan]:
        now = candidate.plan.workload_options[option]
        for value in dict.fromkeys((1, *(now // share for share in _SHARES))):
            if 1 <= value < now:
                yield candidate.with_options(**{option: value})

    return Reduction(option, offers)


def _slower(option: str) -> Reduction:
    def offers(candidate: ReducedPlan) -> Iterator[ReducedPlan]:
        for share in _SHARES:
            yield candidate.with_options(**{option: candidate.plan.workload_options[option] / share})

    return Reduction(option, offers)


def _shorter(candidate: ReducedPlan) -> Iterator[ReducedPlan]:
    """Shorten the run to just after its last fault; without faults, to fractions of its length."""
    now_ns = candidate.plan.duration_ns("time_limit")
    last_ns = max((_end(row) for row in candidate.rows), default=None)
    wanted = [now_ns // share for share in _SHARES] if last_ns is None else [last_ns + IDLE_NS]
    for ns in wanted:
        limit_ns = max(math.ceil(ns / _ROUND_NS) * _ROUND_NS, _TIME_LIMIT_NS_MIN)
        if limit_ns < now_ns:
            plan = msgspec.structs.replace(candidate.plan, time_limit=format_duration(limit_ns))
            yield msgspec.structs.replace(candidate, plan=plan)


def _without_idle_time(candidate: ReducedPlan) -> Iterator[ReducedPlan]:
    """Move the faults together and shorten the time limit; else only cut the time before the first fault."""
    cuts = _idle(candidate.rows)
    for chosen in ([*cuts], cuts[:1]) if len(cuts) > 1 else ([*cuts],):
        total_ns = sum(to_ns - from_ns for from_ns, to_ns in chosen)
        if total_ns <= 0:
            continue
        limit_ns = max(candidate.plan.duration_ns("time_limit") - total_ns, _TIME_LIMIT_NS_MIN)
        limit_ns = math.ceil(limit_ns / _ROUND_NS) * _ROUND_NS
        yield ReducedPlan(
            plan=msgspec.structs.replace(candidate.plan, time_limit=format_duration(limit_ns)),
            rows=tuple(_earlier(row, chosen) for row in candidate.rows),
        )


def _idle(rows: tuple[Row, ...]) -> list[tuple[int, int]]:
    """List the stretches (from, to) without a fault, each less the second that stays; none after the last fault."""
    stretches, free_from_ns = [], 0
    for start_ns, end_ns in sorted((_start(row), _end(row)) for row in rows):
        if start_ns - free_from_ns > IDLE_NS:
            stretches.append((free_from_ns + IDLE_NS, start_ns))
        free_from_ns = max(free_from_ns, end_ns)
    return stretches


def _earlier(row: Row, cuts: list[tuple[int, int]]) -> Row:
    by_ns = sum(to_ns - from_ns for from_ns, to_ns in cuts if to_ns <= _start(row))
    return {**row, "at_ns": row["at_ns"] - by_ns, "nominal_ns": max(row["nominal_ns"] - by_ns, 0)}


def _start(row: Row) -> int:
    """When the fault is injected, or starts to wait for its trigger, in ns."""
    return int(row["at_ns"] if row["when"] is None else row["nominal_ns"])


def _end(row: Row) -> int:
    """The latest time at which the fault is healed, in ns."""
    given = _parts(row["spec"])[2]
    when = {name: given[name] for name in OF_EVERY_FAULT if name in given}
    trigger = parse(row["spec"], when, FaultOptions()).trigger
    waits_ns = trigger.within_ns + trigger.delay_ns if trigger else 0
    return int(_start(row) + row["duration_ns"] + waits_ns)


# -- parameters ---------------------------------------------------------------------------------------------------


def _parts(text: str) -> tuple[str, str, dict[str, str]]:
    """Split a canonical spec into name, target and options."""
    name, target, *options = text.split(":")
    return name, target, dict(option.split("=", 1) for option in options)


def _with_spec(row: Row, *, target: str | None = None, **options: str) -> Row:
    name, old, given = _parts(row["spec"])
    fields = [name, target or old, *(f"{k}={v}" for k, v in {**given, **options}.items())]
    return {**row, "spec": ":".join(fields)}


def _narrower(number: int) -> Callable[[ReducedPlan], Iterator[ReducedPlan]]:
    def offers(candidate: ReducedPlan) -> Iterator[ReducedPlan]:
        row = candidate.rows[number]
        for target in _NARROWER.get(_parts(row["spec"])[1], ()):
            yield candidate.with_row(number, _with_spec(row, target=target))

    return offers


def _briefer(number: int) -> Callable[[ReducedPlan], Iterator[ReducedPlan]]:
    def offers(candidate: ReducedPlan) -> Iterator[ReducedPlan]:
        row = candidate.rows[number]
        for share in _SHARES:
            ns = row["duration_ns"] // share // 1_000_000 * 1_000_000
            if ns >= _DURATION_NS_MIN:
                options = {"for": format_duration(ns)} if "for" in _parts(row["spec"])[2] else {}
                yield candidate.with_row(number, {**_with_spec(row, **options), "duration_ns": ns})

    return offers


def _less(number: int, option: str) -> Callable[[ReducedPlan], Iterator[ReducedPlan]]:
    """Divide a duration or a number; a choice stays as it is."""

    def offers(candidate: ReducedPlan) -> Iterator[ReducedPlan]:
        row = candidate.rows[number]
        value = _parts(row["spec"])[2][option]
        for share in _SHARES:
            text = _divided(value, share)
            if text is not None:
                yield candidate.with_row(number, _with_spec(row, **{option: text}))

    return offers


def _divided(value: str, share: int) -> str | None:
    """Divide a quantity: `100ms` by 2 is `50ms`, `-2s` is `-1s`, `0.5` is `0.25`; None for anything else."""
    sign, text = ("-", value[1:]) if value.startswith("-") else ("", value)
    try:
        return sign + format_duration(parse_duration_ns(text) // share)
    except UsageError:
        pass
    try:
        return f"{sign}{float(text) / share:g}"
    except ValueError:
        return None


# -- the result ----------------------------------------------------------------------------------------------------


def dropped(before: ReducedPlan, after: ReducedPlan) -> list[str]:
    """Say what the smaller candidate leaves out, one line each."""
    places = {(row["worker"], row["number"]): row for row in after.rows}
    lines = []
    for row in before.rows:
        kept = places.get((row["worker"], row["number"]))
        if kept is None:
            lines.append(f"left out: {row['spec']} at {_start(row) / 1e9:.1f} s")
        elif (kept["spec"], kept["duration_ns"]) != (row["spec"], row["duration_ns"]):
            lengths = [f"{r['spec']} for {format_duration(r['duration_ns'])}" for r in (row, kept)]
            lines.append(f"narrowed: {lengths[0]} to {lengths[1]}")
    if before.plan.time_limit != after.plan.time_limit:
        lines.append(f"time_limit: {before.plan.time_limit} to {after.plan.time_limit}")
    old, new = before.plan.workload_options, after.plan.workload_options
    return lines + [f"{name}: {old[name]} to {new[name]}" for name in new if old.get(name) != new[name]]
