"""What the nemesis is made of: fault specs as typed by a person, and the seam that every fault fulfils.

A fault is `FAULT[:TARGET][:key=value]...`, faults are joined by commas. A fault resolves its target at the moment it
acts, is recorded before it acts, proves that it took hold, and heals idempotently.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from harness.errors import UsageError, refused
from harness.operation import Event, FaultOutcome
from harness.runtime.node import Effect, Link, Member, Runtime
from harness.runtime.provider import Setting
from harness.systems.system import Artifacts, System


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One fault as asked for; `text` is canonical and parses back to this value."""

    fault: str
    target: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return ":".join([self.fault, self.target, *(f"{k}={v}" for k, v in self.options.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The cluster as the nemesis sees it when it acts."""

    nodes: tuple[str, ...]
    leader: str | None
    epoch: int | None
    members: tuple[Member, ...] = ()
    #: What the leader is called here ("leader", "controller").
    subject: str = "leader"

    @property
    def voters(self) -> tuple[str, ...]:
        """The nodes that elect, in order."""
        return tuple(member.name for member in self.members if member.votes) or self.nodes

    def with_role(self, role: str) -> tuple[str, ...]:
        """The nodes that have this role, in order."""
        return tuple(member.name for member in self.members if role in member.roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A target made concrete: which nodes, and for partitions which links are cut and how."""

    nodes: tuple[str, ...]
    links: Mapping[Link, Effect] = field(default_factory=dict)
    #: What else is fixed now (an offset, a rate, a delay), as the history and the schedule record it; units in names.
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skip:
    """There was nothing to act on; says why."""

    why: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured after acting."""

    outcome: FaultOutcome
    text: str


E = TypeVar("E", bound=Event)


class Records(Protocol):
    """The part of the recorder that the nemesis needs."""

    def record(self, cls: type[E], **fields: Any) -> E: ...
    def now_ns(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a fault acts on: the servers and their links, what the system says of itself, and where to write.

    `options` are the system's own settings of this run, `artifacts` what its nodes were started from; `folder` is the
    run's, where a fault may keep evidence. `view` tells who leads now.
    """

    runtime: Runtime
    system: System
    artifacts: Artifacts
    options: Mapping[str, object]
    records: Records
    view: Callable[[], View]
    folder: Path


class Fault(Protocol):
    """One kind of fault. `targets` maps a target's name to what it means; nodes and their roles are targets too."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def targets(self) -> Mapping[str, str]: ...
    @property
    def default_target(self) -> str: ...
    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """Option to its choices; the first is the default. An empty tuple: a duration or free value."""
        ...

    @property
    def default_duration_ns(self) -> int:
        """From the proof to the beginning of healing, unless `for=` says otherwise."""
        ...

    @property
    def holds(self) -> frozenset[str]:
        """What no other fault may touch on the chosen nodes meanwhile ("process", "clock", "disk", ...).

        Links are not held: their contributions merge.
        """
        ...

    def refuse(self, spec: FaultSpec, setting: Setting) -> str | None:
        """Why this spec makes no sense on such a cluster, whatever the machine; None when it does."""
        ...

    def unavailable(self, setting: Setting) -> str | None:
        """Why this machine cannot do it on that runtime, with the remedy; None when it can. Asked before a run."""
        ...

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        """What is drawn comes from `draw` alone, so that the same entry of a schedule means the same again."""
        ...

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof: ...

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        """Undo it, also when injecting failed half-way or a node has died or restarted since. Idempotent."""
        ...


def parse_faults(text: str, faults: Mapping[str, Fault], setting: Setting) -> list[FaultSpec]:
    """`partition:leader:direction=out,kill` to specs, each checked against its fault; raises UsageError."""
    return [_parse_one(part.strip(), faults, setting) for part in text.split(",") if part.strip()]


def _roles(setting: Setting) -> list[str]:
    """Roles that tell nodes apart; where all nodes are the same there is nothing to choose.

    Where there are brokers one node is the active controller, whether or not that is a role.
    """
    roles = dict.fromkeys(role for member in setting.cluster for role in member.roles)
    if "broker" in roles:
        roles["controller"] = None
    return list(roles) if len(roles) > 1 else []


def _parse_one(text: str, faults: Mapping[str, Fault], setting: Setting) -> FaultSpec:
    name, *rest = text.split(":")
    fault = faults.get(name)
    if fault is None:
        raise UsageError(f"unknown fault {name!r}", hint=f"choose from: {', '.join(sorted([*faults, 'none']))}")
    target = fault.default_target
    options: dict[str, str] = {}
    for position, word in enumerate(rest):
        key, equals, value = word.partition("=")
        if not equals:
            if position:
                raise UsageError(f"{text!r}: {word!r} is not key=value", hint="write FAULT[:TARGET][:key=value]...")
            target = word
        elif key not in fault.options:
            raise UsageError(
                f"{name}: unknown option {key!r}", hint=f"choose from: {', '.join(fault.options) or 'none'}"
            )
        else:
            allowed = fault.options[key]
            if allowed and value not in allowed:
                raise UsageError(f"{name}: {key}={value!r} is not a choice", hint=f"choose from: {', '.join(allowed)}")
            options[key] = value
    choices = list(dict.fromkeys([*fault.targets, *_roles(setting), *(member.name for member in setting.cluster)]))
    if target not in choices:
        fitting = [c for c in choices if fault.refuse(FaultSpec(fault=name, target=c), setting) is None]
        raise UsageError(f"{name}: unknown target {target!r}", hint=f"choose from: {', '.join(fitting or choices)}")
    spec = FaultSpec(fault=name, target=target, options=options)
    refusal = fault.refuse(spec, setting)
    if refusal:
        raise refused(spec.text, refusal)
    return spec
