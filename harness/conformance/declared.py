"""Rows that need no server: whether what a system declares fits together, and whether each option does something."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.base.options import Duration
from fencepost.harness.conformance.rows import SuiteRow, failed, passed
from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.contract.system import System, has_part, leadership_of
from fencepost.harness.coordination import Interface
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.network import CLIENT
from fencepost.harness.runtime.node import Member, Place


def declarations(checked: CheckedPlan) -> SuiteRow:
    """What holds by the declarations alone."""
    name, system = "declarations", checked.system
    profile, names = system.profile, [guarantee.name for guarantee in system.promises()]
    wrong = []
    if len(names) != len(set(names)):
        wrong.append("a guarantee is promised twice")
    wrong += [
        f"release {release} promises other names than the default"
        for release in system.releases.known()
        if [guarantee.name for guarantee in system.promises(release)] != names
    ]
    wrong += [
        f"reads {mode.value} are held to {held}, which is no guarantee of it"
        for mode, held in profile.reads.items()
        if held not in names
    ]
    if CLIENT not in profile.listeners:
        wrong.append(f"no listener {CLIENT!r}")
    if system.releases.default not in system.releases.known():
        wrong.append(f"the default release {system.releases.default} is not known")
    wrong += [
        f"the guarantee {guarantee.name} has no source"
        for guarantee in system.promises()
        if not guarantee.source.strip()
    ]
    fitting = [key for key, workload in registry.workloads().items() if workload.protocol in profile.interfaces]
    if not fitting:
        wrong.append("no workload runs on it")
    if wrong:
        return failed(name, "; ".join(wrong))
    lacking = [part for part in could_have(system) if not has_part(system, part)]
    more = f"; parts that it could have and has not: {', '.join(lacking)}" if lacking else ""
    return passed(name, f"{len(names)} guarantees with sources; workloads {', '.join(fitting)}{more}")


def could_have(system: System) -> tuple[str, ...]:
    """The parts that a system like this can have, by its interfaces and by whether a node leads."""
    interfaces = system.profile.interfaces
    parts = {"logs", "member-changes", "reported-time", "settings", "versions"}
    if system.profile.subjects:
        parts |= {"leadership", "move-leadership"}
    if interfaces & {Interface.ELECTION, Interface.LEASES, Interface.LOCKS, Interface.MEMBERSHIP}:
        parts.add("lease-bound")
    if Interface.LISTENERS in interfaces:
        parts.add("watches")
    return tuple(sorted(parts))


def options(checked: CheckedPlan, artifacts: Artifacts) -> SuiteRow:
    """Whether another value of each option changes the servers' specs, the members or a bound."""
    name, system, given = "options", checked.system, checked.system_options
    fields = type(given).__struct_fields__
    if not fields:
        return passed(name, "the system has no options")
    before = _effects(system, checked, artifacts, given)
    idle: list[str] = []
    active: list[str] = []
    for field in fields:
        changed = [other for value in _others(given, field) if (other := _with(given, field, value)) is not None]
        moved = any(_effects(system, checked, artifacts, other) != before for other in changed)
        (active if moved else idle).append(field)
    # An option of sessions alone reaches the client by open_client; nothing here can see that.
    if len(idle) == len(fields):
        return failed(name, f"none of {', '.join(idle)} changes how a server starts, a bound or the members")
    seen_by_clients = f"; {', '.join(idle)}: nothing of the servers, so at most the client" if idle else ""
    return passed(name, f"{', '.join(active)} take effect{seen_by_clients}")


def _with(options: SystemOptions, field: str, value: object) -> SystemOptions | None:
    """The options with this value; None where servers cannot run with it."""
    other = msgspec.structs.replace(options, **{field: value})
    return other if other.refuse() is None else None


def _others(options: SystemOptions, field: str) -> Iterator[object]:
    """Values that differ from the one in force, of the same type."""
    value = getattr(options, field)
    match value:
        case bool():
            yield not value
        case Duration():
            yield from (Duration(value * 2), Duration(value // 2))
        case int() | float():
            yield from (value + 1, value * 2, value - 1)
        case str():
            hint = get_type_hints(type(options))[field]
            yield from (other for other in get_args(hint) if other != value)


def _effects(system: System, checked: CheckedPlan, artifacts: Artifacts, options: SystemOptions) -> tuple[Any, ...]:
    members = system.members(checked.plan.nodes, options)
    layout = {member.name: _place(number, member) for number, member in enumerate(members, 1)}
    try:
        specs: object = system.specs(layout, artifacts, options, {})
    except FencepostError as error:
        specs = error.message
    lease = None if system.lease_bound is None else system.lease_bound(options)
    return members, specs, leadership_of(system, options), lease


def _place(number: int, member: Member) -> Place:
    home = Path(f"/conformance/{member.name}")
    return Place(
        name=member.name,
        number=number,
        address=f"10.0.0.{number}",
        folder=home,
        data=home / "data",
        kept=home,
        roles=member.roles,
    )
