"""The schedule of faults: drawn from the seed during the run, or read from the record of an earlier run.

Kinds, nominal times and draws depend only on the plan and the seed; which node leads when a fault acts depends on the
cluster. The faults of one worker take turns in a seeded order, each kind once per round, so that a short run has every
kind; a mixture begins with the kinds that decide whether a superseded leader can act. Workers are independent: each
draws from a seed of its own, so that another worker changes none of them.

The plan's `nemesis` is parsed as a person writes it. A fault is `FAULT[:TARGET][:key=value]...`. Faults joined by
commas take turns; `+` joins independent workers, whose faults may be in force at the same time. `all` stands for one
fault of every kind that this system, runtime and machine support.
"""

import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal, UsageError, choices_hint
from fencepost.harness.faults.fault_options import AT, TRIGGERS
from fencepost.harness.faults.kind import FaultKind, FaultSpec, role_targets
from fencepost.harness.results.schedule_rows import Row, injected, read_rows
from fencepost.harness.runtime.provider import Placement

#: A mixture of everything that this system, runtime and machine support.
ALL: Final = "all"
#: No faults, on purpose.
NONE: Final = "none"
#: Joins workers. A plus before a digit belongs to an option's value ("when=leader+300ms").
_WORKERS: Final = re.compile(r"\+(?=[a-z])")


#: What one turn chooses from: usually one fault; for a kind of the mixture its variants, one at a time.
Choice = tuple[FaultSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NemesisRequest:
    """The parsed `nemesis` of a plan: each worker's choices, and what `all` leaves out, with the reason."""

    workers: tuple[tuple[Choice, ...], ...]
    left_out: tuple[tuple[str, str], ...] = ()
    #: Kinds that the plan names, not those of `all`.
    named: frozenset[str] = frozenset()

    @property
    def specs(self) -> list[FaultSpec]:
        return [spec for worker in self.workers for choice in worker for spec in choice]


def is_mixed(worker: Sequence[Choice]) -> bool:
    """Whether the faults of a worker come from the mixture: then some kind has several variants."""
    return any(len(choice) > 1 for choice in worker)


def nemesis_words(text: str) -> tuple[str, ...]:
    """Return every fault that a nemesis names, as it is written there, "all" included; none for "none"."""
    names = (word.strip() for worker in _WORKERS.split(text) for word in worker.split(","))
    return tuple(word for word in names if word and word != NONE)


def parse_faults(text: str, faults: Mapping[str, FaultKind], placement: Placement) -> list[FaultSpec]:
    """Parse `partition:leader:direction=out,kill` into checked specs; raise UsageError."""
    return parse_nemesis(text, faults, placement).specs


def parse_nemesis(
    text: str,
    faults: Mapping[str, FaultKind],
    placement: Placement,
    *,
    can: Callable[[str], str | None] = lambda _: None,
) -> NemesisRequest:
    """Parse `kill,pause+partition:leader` into the choices of two workers.

    Args:
        text: "none" alone means no faults. An empty text or part is refused.
        can: says why this machine cannot do a kind; a mixture then leaves that kind out. None: it can.

    Raises:
        UsageError: an unknown fault, target or option, or one that makes no sense on this cluster.
    """
    left_out: dict[str, str] = {}
    workers: list[tuple[Choice, ...]] = []
    named: set[str] = set()
    parts = [word.strip() for worker in _WORKERS.split(text) for word in worker.split(",")]
    if NONE in parts and len(parts) > 1:
        raise UsageError(
            f"nemesis {text!r}: {NONE!r} stands beside faults", hint=f"write {NONE} alone, or leave it out"
        )
    for worker in _WORKERS.split(text):
        choices: list[Choice] = []
        for part in (word.strip() for word in worker.split(",")):
            if not part:
                raise UsageError(f"nemesis {text!r}: a part of it names no fault", hint=_choices(faults))
            if part == ALL:
                choices += _mixture(faults, placement, can, left_out)
            elif part != NONE:
                choices.append((_parse_one(part, faults, placement),))
                named.add(choices[-1][0].fault)
        if choices:
            workers.append(tuple(choices))
    return NemesisRequest(workers=tuple(workers), left_out=tuple(left_out.items()), named=frozenset(named))


def versions_needed(specs: Iterable[FaultSpec], faults: Mapping[str, FaultKind]) -> tuple[str, ...]:
    """Return the other releases of the server that these faults start nodes as, each once."""
    releases: dict[str, None] = {}
    for spec in specs:
        releases |= dict.fromkeys(change.to for change in faults[spec.fault].release_changes(spec))
    return tuple(releases)


def _mixture(
    faults: Mapping[str, FaultKind], placement: Placement, can: Callable[[str], str | None], left_out: dict[str, str]
) -> list[Choice]:
    """Return one choice for each available kind, and one of what acts on nodes that return.

    Adds the other kinds, and variants that make no sense, to `left_out`.
    """
    choices: list[Choice] = []
    on_return: list[FaultSpec] = []
    for name, fault in faults.items():
        if not fault.for_all:
            left_out[name] = "takes part only when the plan names it"
            continue
        why = can(name)
        if why:
            left_out[name] = why
            continue
        variants: list[FaultSpec] = []
        for text in (*fault.for_all, *fault.on_return):
            try:
                (on_return if text in fault.on_return else variants).append(_parse_one(text, faults, placement))
            except UsageError as error:
                canonical = text if ":" in text else f"{text}:{fault.default_target}"
                left_out[text] = error.message.removeprefix(f"{canonical}: ")
        if variants:
            choices.append(tuple(variants))
    return [*choices, tuple(on_return)] if on_return else choices


def _choices(faults: Mapping[str, FaultKind], name: str = "") -> str:
    return choices_hint(name, sorted([*faults, ALL, NONE]))


def _parse_one(text: str, faults: Mapping[str, FaultKind], placement: Placement) -> FaultSpec:
    name, *rest = text.split(":")
    fault = faults.get(name)
    if fault is None:
        if name in (ALL, NONE):
            raise UsageError(
                f"{text!r}: {name!r} takes no target and no option",
                hint=f"write {name} alone, or name a fault in its place",
            )
        raise UsageError(f"unknown fault {name!r}", hint=_choices(faults, name))
    target, given = fault.default_target, dict[str, str]()
    for position, word in enumerate(rest):
        key, equals, value = word.partition("=")
        if not equals:
            if position:
                raise UsageError(f"{text!r}: {word!r} is not key=value", hint="write FAULT[:TARGET][:key=value]...")
            target = word
        elif key in given:
            raise UsageError(f"{text!r}: {key}= is given twice", hint="give it once")
        else:
            given[key] = value
    spec = fault.spec(target, given)
    _refuse_unknown_events(spec, faults)
    nodes = (member.name for member in placement.cluster)
    choices = list(dict.fromkeys([*fault.targets, *placement.other_leaders, *role_targets(placement), *nodes]))
    if target not in choices:
        fitting = [c for c in choices if fault.refusal(fault.spec(c), placement) is None]
        raise UsageError(f"{name}: unknown target {target!r}", hint=choices_hint(target, fitting or choices))
    refusal = fault.refusal(spec, placement) or _refused_wait(spec, faults, placement)
    if refusal:
        raise refusal.error(spec.text)
    return spec


def _refuse_unknown_events(spec: FaultSpec, faults: Mapping[str, FaultKind]) -> None:
    waits = [moment for moment in (spec.options.trigger, spec.options.ending) if moment is not None]
    # Every fault is looked at only where one waits.
    phases = [phase for fault in faults.values() for phase in fault.phases] if waits else []
    for trigger in waits:
        if trigger.what not in TRIGGERS and trigger.what not in phases:
            raise UsageError(
                f"{spec.text}: there is no {'phase' if trigger.during else 'event'} {trigger.what!r}",
                hint=choices_hint(trigger.what, phases if trigger.during else [*TRIGGERS, *phases]),
            )
        if trigger.node and trigger.what in phases:
            raise UsageError(f"{spec.text}: a phase belongs to no node", hint=f"leave out {AT}{trigger.node}")


def _refused_wait(spec: FaultSpec, faults: Mapping[str, FaultKind], placement: Placement) -> Refusal | None:
    """Why this cluster never comes to a phase that the fault waits for: the fault that has the phase cannot act."""
    waits = {trigger.what for trigger in (spec.options.trigger, spec.options.ending) if trigger is not None}
    having = (fault for fault in faults.values() if waits & fault.phases.keys()) if waits - TRIGGERS.keys() else ()
    return next((why for fault in having if (why := fault.refusal(fault.spec(), placement)) is not None), None)


def parse_choice(texts: list[str], faults: Mapping[str, FaultKind], placement: Placement) -> Choice:
    """Parse the canonical texts of one choice, as `run.json` keeps them."""
    return tuple(_parse_one(text, faults, placement) for text in texts)


#: A recorded fault may have come this much after the main phase's nominal end.
_LATE_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    """One fault to come: injected `inject_ns` after the main phase began, healed `duration_ns` after its proof.

    `draw_seed` decides which nodes a target such as "minority" means, unless the fault's effect lasts
    (`FaultKind.resolve`). `worker` carries its entries out one at a time, in the order of `number`, and waits at
    least `gap_ns` after each healing. A `bounded` one takes no more from any quorum, together with the faults in force,
    than one of them takes alone: its nodes are drawn again until that is so.
    """

    spec: FaultSpec
    inject_ns: int
    duration_ns: int
    draw_seed: int
    worker: int = 0
    number: int = 0
    gap_ns: int = 0
    bounded: bool = False


def by_worker(entries: Iterable[ScheduledFault]) -> list[list[ScheduledFault]]:
    """Divide a list of entries by worker, keeping their order."""
    workers: dict[int, list[ScheduledFault]] = {}
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
) -> Iterator[ScheduledFault]:
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
    first = headline(choices, faults) if is_mixed(choices) else frozenset()
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
        entry = ScheduledFault(
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


def headline(choices: Sequence[Choice], faults: Mapping[str, FaultKind]) -> frozenset[int]:
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


def recorded_entries(
    rows: Iterable[Row], faults: Mapping[str, FaultKind], placement: Placement
) -> list[ScheduledFault]:
    """Return the faults that a run really injected, from its schedule.jsonl, to inject them again at the same times.

    Raises UsageError for rows of another format and for specs that make no sense on this cluster.
    """
    return [
        ScheduledFault(
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
) -> list[ScheduledFault]:
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


def nemesis_of(entries: Sequence[ScheduledFault]) -> str:
    """Return the `nemesis` of a plan with these faults (at least one): each once, workers joined by +."""
    workers: dict[int, dict[str, None]] = {}
    for entry in entries:
        workers.setdefault(entry.worker, {})[entry.spec.text] = None
    return "+".join(",".join(texts) for texts in workers.values())
