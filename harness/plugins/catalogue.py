"""The catalogue: everything that a person can name, as typed values read from the plug-ins' own declarations.

`fencepost list` prints these values and docs/reference is made from them, so a sentence about a fault, an option or a
guarantee is written once: beside the code that it describes. Nothing here depends on the machine.
"""

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fencepost.harness.base import offers
from fencepost.harness.base.errors import unknown_choice
from fencepost.harness.base.options import OptionRow, describe, in_words, plain
from fencepost.harness.contract import releases
from fencepost.harness.contract.system import PARTS, System, has_part
from fencepost.harness.faults.fault_options import OF_EVERY_FAULT, TRIGGERS
from fencepost.harness.faults.kind import FaultKind
from fencepost.harness.faults.schedule import ALL, NONE
from fencepost.harness.history import DiskEffect, Effects, Stops
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.judged import judged_by
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.verdict import MINORITY_DAMAGED, Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTable:
    """A titled table of two columns: a name or a value, and one sentence on it."""

    title: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameEntry:
    """One name: `about` is its line in a table, everything else its page.

    `option_form` shows how an option is typed, with `NAME` and `VALUE` in it; `example` is a command line that works.
    """

    name: str
    about: str
    text: str = ""
    options: tuple[OptionRow, ...] = ()
    option_form: str = ""
    sections: tuple[NameTable, ...] = ()
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameKind:
    """One kind of name, such as the faults; `sections` say what holds for all of them."""

    name: str
    singular: str
    about: str
    entries: tuple[NameEntry, ...]
    sections: tuple[NameTable, ...] = ()

    def entry(self, name: str) -> NameEntry:
        """The entry of this name; raises UsageError with the names that there are."""
        entry = next((entry for entry in self.entries if entry.name == name), None)
        if entry is None:
            raise unknown_choice(self.singular, name, [entry.name for entry in self.entries])
        return entry


#: What each kind of name is, without loading any plug-in.
KINDS: Final[Mapping[str, str]] = {
    "systems": "What is tested: --system NAME.",
    "workloads": "What clients ask of it: --workload NAME.",
    "faults": "What goes wrong meanwhile: --nemesis FAULT[:TARGET][:OPTION=VALUE]...",
    "guarantees": "What each system is held to: --require NAME.",
    "checkers": "What judges a history; each workload names its own.",
    "runtimes": "Where the nodes live: --runtime NAME.",
    "abilities": "What only some systems can do; some faults and workloads need one.",
    "plugins": "What brings names: leaves of fencepost, installed packages, and --plugin PATH.",
}
#: Other names of kinds, as they were once called.
ALIASES: Final[Mapping[str, str]] = {"nemeses": "faults"}

_EFFECTS: Final[Mapping[str, str]] = {
    "cuts": "links carry nothing, or their connections end",
    "holds": "threads of the server may wait in a system call for as long as the fault lasts",
    "delays": "links are slow, lossy, narrow or out of order",
    "skews": "clocks do not show the true time",
    "changes_members": "members are removed and added",
    "ends": "a server may end by itself",
}
_STOPS: Final[Mapping[Stops, str]] = {
    Stops.CERTAIN: "the server does nothing while the fault lasts",
    Stops.POSSIBLE: "the server may do nothing for a part of the time",
}
_DISKS: Final[Mapping[DiskEffect, str]] = {
    DiskEffect.UNSYNCED: "what the server had not synced may be gone from its disk for good",
    DiskEffect.DAMAGED: "a file of the server stays damaged for the rest of the run",
}
#: Where nodes can live, as flags.
_PLACES: Final = {"--runtime lab": Placement(), "--runtime containers": Placement(runtime="containers")}


def kind(name: str) -> NameKind:
    """Everything of one kind, by its name in `KINDS` or `ALIASES`; raises UsageError."""
    makers: dict[str, Callable[[], Iterator[NameEntry]]] = {
        "systems": _systems,
        "workloads": _workloads,
        "faults": _faults,
        "guarantees": _guarantees,
        "checkers": _checkers,
        "runtimes": _runtimes,
        "abilities": _abilities,
        "plugins": _plugins,
    }
    name = ALIASES.get(name, name)
    if name not in makers:
        raise unknown_choice("kind of name", name, [*KINDS])
    entries = tuple(makers[name]())
    return NameKind(
        name=name,
        singular={"abilities": "ability"}.get(name, name.removesuffix("s")),
        about=KINDS[name],
        entries=entries,
        sections=(*(_JOINED if name == "faults" else ()), *_refused(name)),
    )


def _refused(kind: str) -> tuple[NameTable, ...]:
    """What plug-ins wanted to offer of this kind and could not, once every entry was loaded."""
    problems = [problem for problem in offers.offered().problems if problem.kind in (kind, "")]
    return _rows("Not usable", {problem.name or problem.source.name: problem.text for problem in problems})


_JOINED: Final = (
    NameTable(
        title="Also",
        rows=(
            (NONE, "no faults, on purpose; a run that names none at all is refused"),
            (ALL, "a seeded mixture of every fault that is possible here"),
            ("A,B", "A and B take turns"),
            ("A+B", "A and B may be in force at the same time"),
        ),
    ),
)


def _run(system: str, workload: str, nemesis: str, *more: str) -> str:
    return " ".join(["fencepost run --system", system, "--workload", workload, "--nemesis", nemesis, *more])


#: A longer list of a system's workloads does not fit into a line beside its name.
_NAMES_MAX: Final = 70


def _workloads_of(system: System) -> list[str]:
    """Names of the workloads that run on a system, the simplest first."""
    offered = system.profile.interfaces
    fitting = [name for name, workload in registry.workloads().items() if workload.protocol in offered]
    return sorted(fitting, key=lambda name: (name != "register", name != "metadata", name))


def _few(names: Sequence[str]) -> str:
    """As many of these names as fit into a line; `--workload` lists all."""
    text, left = ", ".join(names), len(names)
    while len(text) > _NAMES_MAX:
        left -= 1
        text = f"{', '.join(names[:left])} and {len(names) - left} more"
    return text


def _rows(title: str, rows: Mapping[str, str]) -> tuple[NameTable, ...]:
    return (NameTable(title=title, rows=tuple(rows.items())),) if rows else ()


# -- systems ----------------------------------------------------------------------------------------------------------


def _systems() -> Iterator[NameEntry]:
    for name, system in registry.systems().items():
        workloads = _workloads_of(system)
        facts = {
            "--version": f"{system.releases.default} unless given; {releases.in_words(system.releases.known())}; "
            "or the path of your own build",
            "--nodes": " or ".join(map(str, system.profile.sizes)),
            "--workload": ", ".join(workloads),
            "--reads": ", ".join(f"{mode.value} (held to {promise})" for mode, promise in system.profile.reads.items()),
            "--require": ", ".join(guarantee.name for guarantee in system.promises()),
        }
        if system.maintenance:
            facts["--nemesis"] = f"administer:one:do= {', '.join(system.maintenance)}"
        settings = dict(system.settings.settable) if system.settings else {}
        yield NameEntry(
            name=name,
            about=f"release {system.releases.default}; {_few(workloads)}",
            options=describe(system.profile.options()),
            option_form="-O NAME=VALUE",
            sections=(
                *_rows("Flags", facts),
                *_rows(
                    "More targets of faults",
                    {f":{word}": about for word, about in system.profile.other_leaders.items()},
                ),
                *_rows("Settings of the servers", {f"--set {of}.KEY=VALUE": about for of, about in settings.items()}),
                *_rows("Abilities", {word: abilities()[word] for word in abilities_of(system)}),
            ),
            example=_run(name, workloads[0], "kill"),
        )


# -- workloads --------------------------------------------------------------------------------------------------------


def _workloads() -> Iterator[NameEntry]:
    systems = registry.systems()
    for name, workload in registry.workloads().items():
        judged, defaults = {}, {}
        for system_name, system in systems.items():
            if workload.protocol in system.profile.interfaces:
                options = workload.defaults(system)
                checkers = ", ".join(workload.checkers(system, options))
                judged[system_name] = f"{workload.guarantee(system, options)}, judged by: {checkers}"
                defaults[system_name] = plain(options)
        if not judged:
            continue  # no system here offers what it asks for
        first = next(iter(judged))
        rows = tuple(_with_defaults(row, defaults) for row in describe(workload.options()))
        yield NameEntry(
            name=name,
            about=workload.about,
            options=rows,
            option_form="-o NAME=VALUE",
            sections=_rows("Guarantee on each system", judged),
            example=_run(first, name, "kill"),
        )


def _with_defaults(row: OptionRow, defaults: Mapping[str, Mapping[str, Any]]) -> OptionRow:
    """The option with the default of every system, where they differ."""
    by_value: dict[str, list[str]] = {}
    for system, options in defaults.items():
        by_value.setdefault(in_words(options.get(row.name)), []).append(system)
    if len(by_value) == 1:
        return replace(row, default=next(iter(by_value)))
    return replace(row, default="; ".join(f"{value} on {', '.join(systems)}" for value, systems in by_value.items()))


# -- faults -----------------------------------------------------------------------------------------------------------


def _faults() -> Iterator[NameEntry]:
    for name, fault in registry.faults().items():
        possible, example = _where(fault)
        targets = {target: _target(fault, target, text) for target, text in fault.targets.items()}
        targets["NODE"] = "that node, such as n1; where nodes have roles also a role: one node of it, drawn"
        mixture = ", ".join((*fault.for_all, *fault.on_return)) or "nothing: it acts only where a plan names it"
        if fault.any_length:
            mixture += "; about half of those without for= last between 50 ms and 30 s, drawn by the seed"
        yield NameEntry(
            name=name,
            about=fault.about,
            options=tuple(sorted(describe(fault.options), key=lambda row: row.name in OF_EVERY_FAULT)),
            option_form=":NAME=VALUE",
            sections=(
                *_rows("Targets", targets),
                *_rows("Target unless given", {fault.default_target: "where none is named"}),
                *_rows("Events of when= and end=, such as when=leader+300ms", TRIGGERS),
                *_rows("Phases for when=, end= and during= of other faults, such as during=hybrid", fault.phases),
                *_rows("Effects", _effects(fault)),
                *possible,
                *_rows("In --nemesis all", {"as": mixture}),
            ),
            example=example,
        )


def _target(fault: FaultKind, target: str, text: str) -> str:
    """What a target means, with the systems whose default cluster has it where not all of them do."""
    able = {name for name in registry.systems() for place in _PLACES if _refusal(fault, name, place) is None}
    fitting = {name for name in able for place in _PLACES if _refusal(fault, name, place, target) is None}
    few = len(able - fitting) < len(fitting)
    named = f"not on {', '.join(sorted(able - fitting))}" if few else ", ".join(sorted(fitting)) or "no system"
    return text if fitting == able else f"{text} ({named})"


@functools.cache
def _placement(system_name: str, place: str, nodes: int = 0) -> Placement:
    """The largest cluster of this system there, or one of so many nodes."""
    system, placement = registry.system(system_name), _PLACES[place]
    options, nodes = system.profile.options(), nodes or max(system.profile.sizes)
    return replace(
        placement,
        nodes=nodes,
        members=system.members(nodes, options),
        system=system,
        system_options=options,
        version=system.releases.default,
        why_not=registry.runtime(placement.runtime).why_not,
    )


def _refusal(fault: FaultKind, system: str, place: str, target: str = "") -> str | None:
    """Why this fault makes no sense on the largest cluster of this system there; None when it does."""
    refusal = fault.refusal(fault.spec(target), _placement(system, place))
    return None if refusal is None else refusal.reason


def _where(fault: FaultKind) -> tuple[tuple[NameTable, ...], str]:
    """Where the fault is possible, where not and why, and a command line that works."""
    places_by: dict[tuple[str, str], list[str]] = {}
    for system, place in itertools.product(registry.systems(), _PLACES):
        reasons = [_refusal(fault, system, place, target) or "" for target in ("", *fault.targets)]
        places_by.setdefault((system, reasons[0] if all(reasons) else ""), []).append(place)
    systems_by: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (system, reason), places in places_by.items():
        systems_by.setdefault((reason, tuple(places)), []).append(system)
    possible, refused = {}, {}
    for (reason, where), systems in systems_by.items():
        names = ", ".join(systems) if len(systems) < len(registry.systems()) else "every system"
        at = " or ".join(where) if len(where) < len(_PLACES) else "every runtime"
        if reason:
            refused[names if at == "every runtime" else f"{names} with {at}"] = reason
        else:
            possible[names] = f"with {at}"
    spec = fault.for_all[0] if fault.for_all else f"{fault.name}:{fault.default_target}"
    # On a system with a leader, since a fault may follow one.
    leading = [(system, where[0]) for (system, reason), where in places_by.items() if not reason]
    system, place = next((given for given in leading if registry.system(given[0]).profile.subjects), ("", ""))
    if not system:
        return (*_rows("Possible on", possible), *_rows("Not possible on", refused)), ""
    more = () if place == "--runtime lab" else (place,)
    usual, most = Placement().nodes, max(registry.system(system).profile.sizes)
    parsed = fault.spec(spec.split(":")[1]) if ":" in spec else fault.spec()
    if usual in registry.system(system).profile.sizes and fault.refusal(parsed, _placement(system, place, usual)):
        more = (f"--nodes {most}", *more)
    example = _run(system, _workloads_of(registry.system(system))[0], spec, *more)
    return (*_rows("Possible on", possible), *_rows("Not possible on", refused)), example


def _effects(fault: FaultKind) -> dict[str, str]:
    """What the fault does to nodes and links with its default options, by the target where that matters."""
    targets_by: dict[str, list[str]] = {}
    for target in fault.targets:
        targets_by.setdefault(effects_in_words(fault.effects(fault.spec(target))), []).append(target)
    most = max(targets_by, key=lambda text: len(targets_by[text]))
    special = {target: text for text, targets in targets_by.items() if text != most for target in targets}
    return {**special, "every other target" if special else "every target": most}


def effects_in_words(effects: Effects) -> str:
    """The effects of one fault, as clauses joined by semicolons."""
    clauses = [_STOPS[effects.stops]] if effects.stops in _STOPS else []
    clauses += [text for name, text in _EFFECTS.items() if getattr(effects, name)]
    clauses += [_DISKS[effects.disk]] if effects.disk in _DISKS else []
    return "; ".join(clauses) or "nodes and links go on as before"


# -- the rest ---------------------------------------------------------------------------------------------------------


def _guarantees() -> Iterator[NameEntry]:
    by_name: dict[str, dict[str, Guarantee]] = {}
    for name, tested in registry.systems().items():
        for guarantee in tested.promises():
            by_name.setdefault(guarantee.name, {})[name] = guarantee
    for name, of in sorted(by_name.items()):
        rows = []
        for system, guarantee in of.items():
            rows += [(system, f"{guarantee.standing.value}: {guarantee.text}"), ("", f"Source: {guarantee.source}")]
            rows += [("", f"Only while {one.rule}") for one in guarantee.conditions if one != MINORITY_DAMAGED]
            rows += [("", f"Known issue: {guarantee.known_issue}")] if guarantee.known_issue else []
            rows += [("", f"Known issue: {issue.text}") for issue in guarantee.issues]
        yield NameEntry(
            name=name,
            about=standings_in_words(of),
            sections=(NameTable(title="On each system", rows=tuple(rows)),),
            example=next(filter(None, (guarantee_example(system, name) for system in _leading_first(of))), ""),
        )


def _leading_first(systems: Iterable[str]) -> list[str]:
    """Systems with a leader first, since most faults of an example follow one."""
    return sorted(systems, key=lambda name: not registry.system(name).profile.subjects)


def guarantee_example(system: str, guarantee: str) -> str:
    """A run of this system that has the guarantee judged; "" where no workload has."""
    tested = registry.system(system)
    run = judged_by(tested, guarantee, _workloads_of(tested))
    if run is None:
        return ""
    options = (f"-o {name}={value}" for name, value in run.options.items())
    return _run(system, run.workload, run.nemesis, *options, f"--require {guarantee}")


def _checkers() -> Iterator[NameEntry]:
    uses = _uses()
    for name, checker in registry.checkers().items():
        own = getattr(checker, "about", "") or sys.modules[checker.__module__].__doc__ or checker.__doc__
        doc = (own or "").strip()
        first, _, rest = doc.partition("\n")
        yield NameEntry(name=name, about=first, text=rest.strip(), sections=_rows("Judges", uses.get(name, {})))


def _uses() -> dict[str, dict[str, str]]:
    """By checker: the workloads that it judges, and on which systems."""
    uses: dict[str, dict[str, list[str]]] = {}
    systems = registry.systems()
    for name, workload in registry.workloads().items():
        for system_name, system in systems.items():
            if workload.protocol in system.profile.interfaces:
                for checker in workload.checkers(system, workload.defaults(system)):
                    uses.setdefault(checker, {}).setdefault(name, []).append(system_name)
    return {
        checker: {workload: f"on {', '.join(systems)}" for workload, systems in of.items()}
        for checker, of in uses.items()
    }


def _runtimes() -> Iterator[NameEntry]:
    system = next(name for name, system in registry.systems().items() if system.profile.subjects)
    workload = _workloads_of(registry.system(system))[0]
    for name in registry.RUNTIMES:
        example = _run(system, workload, "partition:leader", f"--runtime {name}")
        yield NameEntry(name=name, about=registry.runtime(name).about, example=example)


def abilities() -> dict[str, str]:
    """Every part that a system may have, those of leaves among them, as one sentence each."""
    added = {word: (part.__doc__ or "").strip().partition("\n")[0] for word, part in offers.loaded("abilities").items()}
    return dict(sorted({**PARTS, **added}.items()))


def abilities_of(system: System) -> tuple[str, ...]:
    """The names of the parts that this system has."""
    return tuple(word for word in abilities() if has_part(system, word))


def _abilities() -> Iterator[NameEntry]:
    for word, about in abilities().items():
        having = [name for name, system in registry.systems().items() if word in abilities_of(system)]
        yield NameEntry(name=word, about=about, sections=_rows("Systems", dict.fromkeys(having, "has it")))


#: The kinds of names that a person can type.
_NAMED: Final = ("systems", "workloads", "faults", "checkers", "models", "commands")


def _plugins() -> Iterator[NameEntry]:
    registry.load_all()
    there = offers.offered()
    for source in sorted(there.sources, key=lambda source: source.name):
        names: dict[str, list[str]] = {}
        for offer in there.offers.values():
            if offer.source == source and offer.kind in _NAMED:
                names.setdefault(offer.kind, []).append(offer.name)
        refused = [problem.text for problem in there.problems if problem.source == source]
        what = ", ".join(f"{kind.removesuffix('s')} {name}" for kind, of in names.items() for name in of)
        if len(what) > _NAMES_MAX:
            what = ", ".join(
                f"{len(of)} {kind if len(of) > 1 else kind.removesuffix('s')}" for kind, of in names.items()
            )
        place = "leaf" if source.leaf else "path" if source.path else "installed as"
        yield NameEntry(
            name=source.name,
            about="; ".join(filter(None, (source.version, what, *refused))),
            sections=(
                *_rows("From", {place: source.place}),
                *_rows("Brings", {kind: ", ".join(of) for kind, of in names.items()}),
            ),
        )


#: What fits beside a name in a terminal of 100 columns.
_LINE_MAX: Final = 86


def standings_in_words(of: Mapping[str, Guarantee]) -> str:
    """Name the systems by standing, and count the most of them where the line is too short: "measured: 6 systems"."""
    by_standing: dict[str, list[str]] = {}
    for system, guarantee in of.items():
        by_standing.setdefault(guarantee.standing.value, []).append(system)
    shown = {standing: ", ".join(systems) for standing, systems in by_standing.items()}
    for standing, systems in sorted(by_standing.items(), key=lambda item: -len(item[1])):
        about = "; ".join(f"{name}: {names}" for name, names in shown.items())
        if len(about) <= _LINE_MAX:
            break
        shown[standing] = f"{len(systems)} systems"
    return "; ".join(f"{name}: {names}" for name, names in shown.items())
