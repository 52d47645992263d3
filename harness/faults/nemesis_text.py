"""Reads what a plan's `nemesis` asks for, as a person types it.

A fault is `FAULT[:TARGET][:key=value]...`. Faults joined by commas take turns; `+` joins independent workers, whose
faults may be in force at the same time. `all` stands for one fault of every kind that this system, runtime and machine
support.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.kind import FaultKind, FaultSpec
from fencepost.harness.runtime.provider import Placement

#: Stands for a mixture of everything that this system, runtime and machine support.
ALL: Final = "all"
#: Stands for no faults, on purpose.
NONE: Final = "none"
#: In the mixture no fault lasts longer unless its variant says so: else a short run would meet few kinds.
_IN_MIXTURE_NS_MAX: Final = 6_000_000_000
#: Joins workers; an option's value may hold a plus as well, but before a digit ("when=leader+300ms").
_WORKERS: Final = re.compile(r"\+(?=[a-z])")


#: What takes one turn: one fault as a rule; for a kind of the mixture its variants, one of them each time.
Choice = tuple[FaultSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a plan's `nemesis` asks for: each worker's choices, and what `all` had to leave out, with the reason."""

    workers: tuple[tuple[Choice, ...], ...]
    left_out: tuple[tuple[str, str], ...] = ()
    #: Kinds that were asked for by name, not by `all`.
    named: frozenset[str] = frozenset()

    @property
    def specs(self) -> list[FaultSpec]:
        return [spec for worker in self.workers for choice in worker for spec in choice]


def nemesis_words(text: str) -> tuple[str, ...]:
    """Every fault that a plan's nemesis names, as it is written there, "all" included; none for "none"."""
    words = (word.strip() for worker in _WORKERS.split(text) for word in worker.split(","))
    return tuple(word for word in words if word and word != NONE)


def parse_faults(text: str, faults: Mapping[str, FaultKind], placement: Placement) -> list[FaultSpec]:
    """`partition:leader:direction=out,kill` to specs, each checked against its fault; raises UsageError."""
    return parse_nemesis(text, faults, placement).specs


def parse_nemesis(
    text: str,
    faults: Mapping[str, FaultKind],
    placement: Placement,
    *,
    can: Callable[[str], str | None] = lambda _: None,
) -> Asked:
    """`kill,pause+partition:leader` to two workers' choices, each checked against its fault; raises UsageError.

    "none" is no faults on purpose; an empty text or part names nothing and is refused. `can` says of a kind why this
    machine cannot do it: in a mixture it is then left out.
    """
    left_out: dict[str, str] = {}
    workers: list[tuple[Choice, ...]] = []
    named: set[str] = set()
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
    return Asked(workers=tuple(workers), left_out=tuple(left_out.items()), named=frozenset(named))


def versions_needed(specs: Iterable[FaultSpec], faults: Mapping[str, FaultKind]) -> tuple[str, ...]:
    """Other releases of the server that these faults start nodes as, each once."""
    found: dict[str, None] = {}
    for spec in specs:
        found |= dict.fromkeys(change.to for change in faults[spec.fault].release_changes(spec))
    return tuple(found)


def _mixture(
    faults: Mapping[str, FaultKind], placement: Placement, can: Callable[[str], str | None], left_out: dict[str, str]
) -> list[Choice]:
    """One choice for each kind that is available here; `left_out` gets the others, and variants that make no sense."""
    choices: list[Choice] = []
    for name, fault in faults.items():
        if not fault.for_all:
            left_out[name] = "takes part only when it is asked for by name"
            continue
        why = can(name)
        if why:
            left_out[name] = why
            continue
        variants = []
        for text in fault.for_all:
            try:
                variants.append(_shortened(_parse_one(text, faults, placement)))
            except UsageError as error:
                canonical = text if ":" in text else f"{text}:{fault.default_target}"
                left_out[text] = error.message.removeprefix(f"{canonical}: ")
        if variants:
            choices.append(tuple(variants))
    return choices


def _shortened(spec: FaultSpec) -> FaultSpec:
    if "for" in spec.given or spec.duration_ns <= _IN_MIXTURE_NS_MAX:
        return spec
    return spec.lasting(_IN_MIXTURE_NS_MAX)


def _choices(faults: Mapping[str, FaultKind]) -> str:
    return f"choose from: {', '.join(sorted([*faults, ALL, NONE]))}"


def _roles(placement: Placement) -> list[str]:
    """Roles that tell nodes apart; where all nodes are the same there is nothing to choose.

    Where there are brokers one node is the active controller, whether or not that is a role.
    """
    roles = dict.fromkeys(role for member in placement.cluster for role in member.roles)
    if "broker" in roles:
        roles["controller"] = None
    return list(roles) if len(roles) > 1 else []


def _parse_one(text: str, faults: Mapping[str, FaultKind], placement: Placement) -> FaultSpec:
    name, *rest = text.split(":")
    fault = faults.get(name)
    if fault is None:
        raise UsageError(f"unknown fault {name!r}", hint=_choices(faults))
    target, given = fault.default_target, dict[str, str]()
    for position, word in enumerate(rest):
        key, equals, value = word.partition("=")
        if not equals:
            if position:
                raise UsageError(f"{text!r}: {word!r} is not key=value", hint="write FAULT[:TARGET][:key=value]...")
            target = word
        elif key in given:
            raise UsageError(f"{text!r}: {key}= is given twice", hint="leave one of them out")
        else:
            given[key] = value
    spec = fault.spec(target, given)
    choices = list(dict.fromkeys([*fault.targets, *_roles(placement), *(member.name for member in placement.cluster)]))
    if target not in choices:
        fitting = [c for c in choices if fault.refuse(fault.spec(c), placement) is None]
        raise UsageError(f"{name}: unknown target {target!r}", hint=f"choose from: {', '.join(fitting or choices)}")
    refusal = fault.refuse(spec, placement)
    if refusal:
        raise refusal.error(spec.text)
    return spec


def parse_choice(texts: list[str], faults: Mapping[str, FaultKind], placement: Placement) -> Choice:
    """The canonical texts of one choice (as `run.json` keeps them) to its specs."""
    return tuple(_parse_one(text, faults, placement) for text in texts)
