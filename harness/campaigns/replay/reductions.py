"""Smaller candidates: fewer faults, less load, narrower parameters. Pure: values in, values out.

A reduction offers candidates from the smallest to the least reduced; the first that still shows is taken.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fencepost.harness.base.durations import format_duration, parse_duration_ns
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import parse
from fencepost.harness.faults.fault_options import OF_EVERY_FAULT, FaultOptions
from fencepost.harness.plan import Plan, dump_plan
from fencepost.harness.results.schedule_rows import Row

#: Before the first fault, between two and after the last one, when idle time is taken out.
IDLE_NS: Final = 1_000_000_000
_TIME_LIMIT_NS_MIN: Final = 2_000_000_000
_DURATION_NS_MIN: Final = 50_000_000
_ROUND_NS: Final = 100_000_000
#: What is divided by, the largest first.
_SHARES: Final = (8, 4, 2)
#: Options of workloads that say how many clients there are, and over how much they spread.
_CLIENTS: Final = "_per_node"
_KEYS: Final = ("keys", "names", "partitions", "steady", "passing")
_RATES: Final = ("rate", "observe_rate", "looks_per_second")
#: Targets of several nodes and narrower ones in their place.
_NARROWER: Final[Mapping[str, tuple[str, ...]]] = {
    "all": ("one", "minority", "majority"),
    "majority": ("one", "minority"),
    "minority": ("one",),
}


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and the faults that it carries out; the plan's own `schedule` and `nemesis` follow from these."""

    plan: Plan
    rows: tuple[Row, ...]

    @property
    def key(self) -> str:
        """The same for candidates that do the same."""
        plan = msgspec.structs.replace(self.plan, schedule="", nemesis="none")
        acts = [[row[k] for k in ("worker", "spec", "duration_ns", "draw_seed")] + [_start(row)] for row in self.rows]
        return hashlib.sha256(f"{dump_plan(plan)}{json.dumps(acts)}".encode()).hexdigest()[:16]

    def with_options(self, **options: Any) -> "Candidate":
        plan = msgspec.structs.replace(self.plan, workload_options={**self.plan.workload_options, **options})
        return msgspec.structs.replace(self, plan=plan)

    def with_row(self, number: int, row: Row) -> "Candidate":
        return msgspec.structs.replace(self, rows=(*self.rows[:number], row, *self.rows[number + 1 :]))


class Reduction(msgspec.Struct, frozen=True):
    """One thing of which there may be less; `offers` are made from the candidate as it then is."""

    name: str
    offers: Callable[[Candidate], Iterator[Candidate]]


def idle_time(candidate: Candidate) -> list[Reduction]:
    """Time without a fault: between faults, then behind the last."""
    return [Reduction("idle time", _without_idle_time), Reduction("time_limit", _shorter)]


def load(candidate: Candidate) -> list[Reduction]:
    """Clients, keys, rate, in this order."""
    options = candidate.plan.workload_options
    clients = [name for name, value in options.items() if name.endswith(_CLIENTS) and type(value) is int]
    keys = [name for name in _KEYS if type(options.get(name)) is int]
    rates = [name for name in _RATES if isinstance(options.get(name), float)]
    return [
        *(_fewer(name) for name in (*clients, *keys)),
        *(_slower(name) for name in rates),
    ]


def narrowing(candidate: Candidate) -> list[Reduction]:
    """Each fault's target, length and quantities."""
    found = []
    for number, row in enumerate(candidate.rows):
        name, _, options = _parts(row["spec"])
        of = f"fault {number}, {name}"
        found += [
            Reduction(f"target of {of}", _narrower(number)),
            Reduction(f"length of {of}", _briefer(number)),
            *(Reduction(f"{key} of {of}", _less(number, key)) for key in options if key not in OF_EVERY_FAULT),
        ]
    return found


# -- load ---------------------------------------------------------------------------------------------------------


def _fewer(option: str) -> Reduction:
    def offers(candidate: Candidate) -> Iterator[Candidate]:
        now = candidate.plan.workload_options[option]
        for value in dict.fromkeys((1, *(now // share for share in _SHARES))):
            if 1 <= value < now:
                yield candidate.with_options(**{option: value})

    return Reduction(option, offers)


def _slower(option: str) -> Reduction:
    def offers(candidate: Candidate) -> Iterator[Candidate]:
        for share in _SHARES:
            yield candidate.with_options(**{option: candidate.plan.workload_options[option] / share})

    return Reduction(option, offers)


def _shorter(candidate: Candidate) -> Iterator[Candidate]:
    """To just behind the last fault; a run without faults to shares of what it was."""
    now_ns = candidate.plan.duration_ns("time_limit")
    last_ns = max((_end(row) for row in candidate.rows), default=None)
    wanted = [now_ns // share for share in _SHARES] if last_ns is None else [last_ns + IDLE_NS]
    for ns in wanted:
        limit_ns = max(math.ceil(ns / _ROUND_NS) * _ROUND_NS, _TIME_LIMIT_NS_MIN)
        if limit_ns < now_ns:
            plan = msgspec.structs.replace(candidate.plan, time_limit=format_duration(limit_ns))
            yield msgspec.structs.replace(candidate, plan=plan)


def _without_idle_time(candidate: Candidate) -> Iterator[Candidate]:
    """Faults moved together, with the time limit; then only the head taken off."""
    cuts = _idle(candidate.rows)
    for taken in ([*cuts], cuts[:1]) if len(cuts) > 1 else ([*cuts],):
        total_ns = sum(to_ns - from_ns for from_ns, to_ns in taken)
        if total_ns <= 0:
            continue
        limit_ns = max(candidate.plan.duration_ns("time_limit") - total_ns, _TIME_LIMIT_NS_MIN)
        limit_ns = math.ceil(limit_ns / _ROUND_NS) * _ROUND_NS
        yield Candidate(
            plan=msgspec.structs.replace(candidate.plan, time_limit=format_duration(limit_ns)),
            rows=tuple(_earlier(row, taken) for row in candidate.rows),
        )


def _idle(rows: tuple[Row, ...]) -> list[tuple[int, int]]:
    """Stretches without a fault in force, less the second that stays of each; none behind the last fault."""
    found, free_from_ns = [], 0
    for start_ns, end_ns in sorted((_start(row), _end(row)) for row in rows):
        if start_ns - free_from_ns > IDLE_NS:
            found.append((free_from_ns + IDLE_NS, start_ns))
        free_from_ns = max(free_from_ns, end_ns)
    return found


def _earlier(row: Row, cuts: list[tuple[int, int]]) -> Row:
    by_ns = sum(to_ns - from_ns for from_ns, to_ns in cuts if to_ns <= _start(row))
    return {**row, "at_ns": row["at_ns"] - by_ns, "nominal_ns": max(row["nominal_ns"] - by_ns, 0)}


def _start(row: Row) -> int:
    """When it is injected, or begins to wait for its trigger."""
    return int(row["at_ns"] if row["when"] is None else row["nominal_ns"])


def _end(row: Row) -> int:
    """When it is healed, at the latest."""
    given = _parts(row["spec"])[2]
    when = {name: given[name] for name in OF_EVERY_FAULT if name in given}
    trigger = parse(row["spec"], when, FaultOptions()).trigger
    waits_ns = trigger.within_ns + trigger.delay_ns if trigger else 0
    return int(_start(row) + row["duration_ns"] + waits_ns)


# -- parameters ---------------------------------------------------------------------------------------------------


def _parts(text: str) -> tuple[str, str, dict[str, str]]:
    """Name, target and options of a canonical spec."""
    name, target, *options = text.split(":")
    return name, target, dict(option.split("=", 1) for option in options)


def _with_spec(row: Row, *, target: str | None = None, **options: str) -> Row:
    name, old, given = _parts(row["spec"])
    words = [name, target or old, *(f"{k}={v}" for k, v in {**given, **options}.items())]
    return {**row, "spec": ":".join(words)}


def _narrower(number: int) -> Callable[[Candidate], Iterator[Candidate]]:
    def offers(candidate: Candidate) -> Iterator[Candidate]:
        row = candidate.rows[number]
        for target in _NARROWER.get(_parts(row["spec"])[1], ()):
            yield candidate.with_row(number, _with_spec(row, target=target))

    return offers


def _briefer(number: int) -> Callable[[Candidate], Iterator[Candidate]]:
    def offers(candidate: Candidate) -> Iterator[Candidate]:
        row = candidate.rows[number]
        for share in _SHARES:
            ns = row["duration_ns"] // share // 1_000_000 * 1_000_000
            if ns >= _DURATION_NS_MIN:
                said = {"for": format_duration(ns)} if "for" in _parts(row["spec"])[2] else {}
                yield candidate.with_row(number, {**_with_spec(row, **said), "duration_ns": ns})

    return offers


def _less(number: int, option: str) -> Callable[[Candidate], Iterator[Candidate]]:
    """Shares of a duration or a number; a choice stays."""

    def offers(candidate: Candidate) -> Iterator[Candidate]:
        row = candidate.rows[number]
        value = _parts(row["spec"])[2][option]
        for share in _SHARES:
            text = _divided(value, share)
            if text is not None:
                yield candidate.with_row(number, _with_spec(row, **{option: text}))

    return offers


def _divided(value: str, share: int) -> str | None:
    """`100ms` by 2 is `50ms`, `-2s` is `-1s`, `0.5` is `0.25`; None for what is no quantity."""
    sign, text = ("-", value[1:]) if value.startswith("-") else ("", value)
    try:
        return sign + format_duration(parse_duration_ns(text) // share)
    except UsageError:
        pass
    try:
        return f"{sign}{float(text) / share:g}"
    except ValueError:
        return None


# -- what came of it ----------------------------------------------------------------------------------------------


def dropped(before: Candidate, after: Candidate) -> list[str]:
    """What the smaller one does without, one line each."""
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
