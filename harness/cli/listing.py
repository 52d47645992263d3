"""`fencepost list`: every name that can be chosen, with one line on what it is."""

import sys
from collections.abc import Callable

import click

from fencepost.harness.base.options import OptionRow, describe, plain
from fencepost.harness.faults.fault_options import OF_EVERY_FAULT
from fencepost.harness.faults.trigger import TRIGGERS
from fencepost.harness.plugins import registry
from fencepost.harness.systems.contract import releases
from fencepost.harness.systems.contract.abilities import ABILITIES, abilities_of, meaning
from fencepost.harness.systems.contract.server_settings import TakesSettings


def listing(what: str) -> list[str]:
    """Lines for one kind of thing; `what` is one of the command's choices."""
    kinds: dict[str, Callable[[], list[str]]] = {
        "systems": _systems,
        "abilities": _abilities,
        "workloads": _workloads,
        "nemeses": _nemeses,
        "faults": _nemeses,
        "checkers": _checkers,
        "runtimes": lambda: [_row(name, registry.runtime(name).about) for name in registry.RUNTIMES],
        "guarantees": _guarantees,
    }
    return kinds[what]()


def _row(name: str, text: str, width: int = 14) -> str:
    return f"{name:<{width}} {text}"


def _option(option: OptionRow, width: int) -> str:
    return f"{option.name:<{width}} {option.about} ({', '.join(option.choices) or option.kind})"


def _systems() -> list[str]:
    lines = []
    for name in registry.SYSTEMS:
        system = registry.system(name)
        modes = ", ".join(mode.value for mode in system.profile.read_modes)
        interfaces = ", ".join(sorted(system.profile.interfaces))
        lines.append(_row(name, f"{system.releases.default}; {interfaces}; reads: {modes}"))
        lines.append(_row("", f"--nodes {', '.join(map(str, system.profile.sizes))}"))
        lines.append(_row("", f"--version {releases.in_words(system.releases.known())}, or a path"))
        lines += [
            _row("", f"-O {_option(option, 16)}; {option.default}") for option in describe(system.profile.options())
        ]
        if isinstance(system, TakesSettings):
            lines += [_row("", f"--set {of}.KEY=VALUE  {about}") for of, about in system.settable.items()]
    return lines


def _workloads() -> list[str]:
    lines = []
    for name in registry.WORKLOADS:
        workload = registry.workload(name)
        lines.append(_row(name, f"{workload.about} (needs {workload.protocol})"))
        for option in describe(workload.options()):
            lines.append(_row("", f"-o {_option(option, 19)}"))
        for system_name in registry.SYSTEMS:
            system = registry.system(system_name)
            if workload.protocol not in system.profile.interfaces:
                continue
            options = workload.defaults(system)
            checks = ", ".join(workload.checkers(system, options))
            settings = " ".join(f"{key}={value}" for key, value in plain(options).items())
            lines.append(_row("", f"{system_name}: {workload.guarantee(system, options)} by {checks}; -o {settings}"))
    return lines


def _abilities() -> list[str]:
    lines = []
    for word in ABILITIES:
        having = [name for name in registry.SYSTEMS if word in abilities_of(registry.system(name))]
        lines.append(_row(word, meaning(word), 18))
        lines.append(_row("", ", ".join(having) or "no system", 18))
    return lines


def _nemeses() -> list[str]:
    lines = [
        _row("none", "no faults, on purpose: a run that names no faults at all is refused"),
        _row("all", "a seeded mixture of every kind available here; what is left out is recorded with the reason"),
        _row("A,B  A+B", "faults by commas take turns, + joins workers whose faults are in force together"),
        _row("of every fault", ":when=EVENT+DELAY  acts so long after EVENT was seen; EVENT is one of:"),
        *(_row("", f"  {event:<16} {about}") for event, about in TRIGGERS.items()),
        _row("", ":within=10s  how long EVENT is waited for; :otherwise=act|skip  what then"),
        _row("", ":for=8s  time from the proof that it took hold to its healing; each fault's default is below"),
    ]
    for name, fault in registry.faults().items():
        lines.append(_row(name, f"{fault.about}; default {fault.default_target}, {fault.options.for_}"))
        lines.append(_row("", f"in all: {'  '.join(fault.for_all) or 'not, it must be asked for by name'}"))
        lines += [_row("", f":{target:<16} {text}") for target, text in fault.targets.items()]
        lines.append(_row("", f":{'n1, b1, ...':<16} that node; where nodes have roles, a role: one node of it, drawn"))
        if "controller" not in fault.targets:
            lines.append(_row("", f":{'controller':<16} the active controller, where there are brokers"))
        for option in describe(fault.options):
            if option.name not in OF_EVERY_FAULT:
                value = "|".join(option.choices) or f"<{option.kind}>"
                default = f"; default {option.default}" if option.default else ""
                lines.append(_row("", f":{option.name}={value}  {option.about}{default}"))
    return lines


def _checkers() -> list[str]:
    lines = []
    for name in registry.CHECKERS:
        check = registry.checker(name)
        text = (sys.modules[check.__module__].__doc__ or "").strip().splitlines()
        lines.append(_row(name, text[0] if text else ""))
    return lines


def _guarantees() -> list[str]:
    lines = []
    for system_name in registry.SYSTEMS:
        for guarantee in registry.system(system_name).promises():
            lines.append(_row(system_name, f"{guarantee.name} [{guarantee.standing.value}] {guarantee.text}", 10))
            known = f"; known: {guarantee.known_issue}" if guarantee.known_issue else ""
            lines.append(_row("", f"  source: {guarantee.source}{known}", 10))
    return lines


@click.command("list")
@click.argument(
    "what",
    type=click.Choice(["systems", "abilities", "workloads", "faults", "nemeses", "checkers", "runtimes", "guarantees"]),
)
def command(what: str) -> int:
    """What there is to choose from."""
    for line in listing(what):
        click.echo(line)
    return 0
