"""What a kind of fault is, and what it acts on.

A fault resolves its target at the moment it acts, is recorded before it acts, proves that it took hold, and heals
idempotently.
"""

import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fencepost.harness.base.errors import Refusal, UsageError
from fencepost.harness.base.options import Duration, parse
from fencepost.harness.faults.fault_options import OF_TRIGGERS, FaultOptions
from fencepost.harness.history import Effects, Event, FaultOutcome
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.network import Effect, Link
from fencepost.harness.runtime.node import Member, NodeSpec, Runtime
from fencepost.harness.runtime.provider import Need, Placement
from fencepost.harness.systems.contract.membership import ChangesMembers
from fencepost.harness.systems.contract.options import SystemOptions
from fencepost.harness.systems.contract.server_settings import Settings
from fencepost.harness.systems.contract.system import System

#: A target of its own: one of the harness's clients, not a server.
CLIENT_WORKER: Final = "client"

M = TypeVar("M")
P = TypeVar("P", bound=FaultOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One fault as a plan names it (`FaultKind.spec` makes it); `text` is canonical and parses back to this value."""

    fault: str
    target: str
    options: FaultOptions
    #: The options as they were typed, in their order; the others have their defaults.
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return ":".join([self.fault, self.target, *(f"{name}={text}" for name, text in self.given.items())])

    @property
    def duration_ns(self) -> int:
        """From the proof to the beginning of healing."""
        return int(self.options.for_)

    def own(self, kind: type[P]) -> P:
        """The options as the struct of the kind of fault that they were parsed for."""
        assert isinstance(self.options, kind), "parsed over the defaults of the same kind of fault"
        return self.options

    def lasting(self, duration_ns: int) -> "FaultSpec":
        """The same fault for so long."""
        length = Duration(duration_ns)
        options = msgspec.structs.replace(self.options, for_=length)
        return replace(self, options=options, given={**self.given, "for": str(length)})


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """Another release of the server that a fault starts nodes as, and whether it takes them back by itself."""

    to: str
    back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The cluster as the nemesis sees it when it acts."""

    nodes: tuple[str, ...]
    leader: str | None
    epoch: int | None
    members: tuple[Member, ...] = ()
    #: What the leader is called here ("leader", "controller").
    subject: str = "leader"
    #: How long a leader that is cut off may go on claiming, as the system promises; None where it promises nothing.
    bound_ns: int | None = None
    #: Nodes whose server was started and does not serve yet.
    unready: frozenset[str] = frozenset()
    #: The node whose server was started again last.
    restarted: str | None = None
    #: How many client workers there are, and which of them are connected: those with an operation in flight, if any.
    clients: int = 0
    busy_clients: tuple[int, ...] = ()

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
    #: Links that it may shut now and then; those of `links` stay shut.
    threatens: frozenset[Link] = frozenset()
    #: Its nodes are unable one at a time, never two of them together.
    in_turn: bool = False
    #: What the kind worked out and drew for its own acts, as a value of a type of its own; `own` gives it back.
    means: object = None

    def own(self, kind: type[M]) -> M:
        """What this target means to the kind of fault that resolved it."""
        assert isinstance(self.means, kind), "made by resolve of the same kind of fault"
        return self.means


@dataclass(frozen=True, slots=True)
class Skip:
    """There was nothing to act on; says why."""

    why: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured after acting; `details` join those of the fault's events."""

    outcome: FaultOutcome
    text: str
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)


E = TypeVar("E", bound=Event)


class Records(Protocol):
    """The part of the recorder that the nemesis needs."""

    def record(self, cls: type[E], **fields: Any) -> E: ...
    def now_ns(self) -> int: ...


class Parts(Protocol):
    """Carries out one act of a fault that acts many times: a cut of a flapping link, a move of the leader.

    Each part is recorded as a fault of its own, with its own number, proof and healing, so that a history says exactly
    what was in force when.
    """

    async def part(
        self,
        of: int,
        resolved: Resolved,
        *,
        inject: Callable[[int], Awaitable[Proof]],
        hold_ns: int,
        heal: Callable[[int], Awaitable[Proof]],
    ) -> Proof:
        """Inject (given the part's number), hold, heal, and record all of it; returns the injection's proof.

        Heals on cancellation too.
        """
        ...


class Clients(Protocol):
    """The harness's own client workers, which a fault may freeze as a stopped process would be."""

    async def freeze(self, worker: int, fault_id: int) -> None:
        """From now on this worker sends nothing and receives nothing: no request, no keep-alive, no close."""
        ...

    async def thaw(self, worker: int, fault_id: int) -> None:
        """Let it run again, unless another fault holds it; what it held back is sent now. Idempotent."""
        ...

    def sent_bytes(self, worker: int) -> Mapping[int, int]:
        """By connection that it has open: what the kernel has sent on it. Raises OSError where that cannot be told."""
        ...

    def held_back(self, worker: int) -> int:
        """How many writes of the worker wait."""
        ...


def _no() -> bool:
    return False


def _nobody(fault_id: int) -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a fault acts on: the servers and their links, what the system says of itself, and where to write.

    `options` are the system's own options of this run, `settings` those of the servers themselves, `artifacts` what the
    nodes were started from first (`specs` makes their commands again); `folder` is the run's, where a fault may keep
    evidence. `view` tells who leads now. `parts` and `disturbed` are the conductor's: the nodes on which faults other
    than the given one are at work, of whose links nothing can be said.
    """

    runtime: Runtime
    system: System
    artifacts: Artifacts
    options: SystemOptions
    records: Records
    view: Callable[[], View]
    folder: Path
    settings: Settings = field(default_factory=dict)
    #: Whether its servers were started so that members can be removed and added.
    changes_members: bool = False
    #: What other releases run from that a fault may start nodes as, by the version that its spec names.
    others: Mapping[str, Artifacts] = field(default_factory=dict)
    #: What nodes were started from since, where that is no longer `artifacts`; written by the fault that did it.
    runs: dict[str, Artifacts] = field(default_factory=dict)
    #: Whether the run is being ended by hand: then nothing is waited for but that nodes run.
    hurried: Callable[[], bool] = _no
    clients: Clients | None = None
    parts: Parts | None = None
    disturbed: Callable[[int], frozenset[str]] = _nobody
    fault_ids: Iterator[int] = field(default_factory=itertools.count)

    def artifacts_of(self, node: str) -> Artifacts:
        """What this node was started from last."""
        return self.runs.get(node, self.artifacts)

    def specs(self, artifacts: Artifacts | None = None) -> dict[str, NodeSpec]:
        """Every node as the system would begin it now, by name; from other artifacts where some are given."""
        layout, given = self.runtime.layout, artifacts or self.artifacts
        made = self.system.specs(layout, given, self.options, self.settings)
        if self.changes_members and isinstance(self.system, ChangesMembers):
            membership = self.system.membership(layout, given)
            made = [membership.prepared(spec) for spec in made]
        return {spec.name: spec for spec in made}


class FaultKind(ABC):
    """One kind of fault: what it declares, and how it is injected and healed.

    `targets` maps a target's name to what it means; nodes and their roles are targets too.
    """

    name: str
    about: str
    targets: Mapping[str, str]
    default_target: str = "one"
    #: Its options with their defaults: names, types and explanations are those of the struct.
    options: FaultOptions = FaultOptions()
    #: What no other fault may touch on the chosen nodes meanwhile ("process", "clock", "disk", ...). Links are not
    #: held: their contributions merge.
    holds: frozenset[str] = frozenset()
    #: The specs by which it takes part in `--nemesis all`; none for a kind that must be asked for by name, such as one
    #: that destroys data.
    for_all: tuple[str, ...]
    #: What it needs of the runtime that not every machine can do.
    needs: frozenset[Need] = frozenset()
    #: No second one at the same time, on whichever nodes.
    alone: bool = False
    #: No single injection or healing may hold up the run longer than this.
    act_deadline_s: float = 10.0

    def spec(self, target: str = "", given: Mapping[str, str] | None = None) -> FaultSpec:
        """This fault with options as a person types them; raises UsageError where they make no sense by themselves."""
        texts = dict(given or {})
        options = parse(self.name, texts, self.options)
        idle = next((name for name in OF_TRIGGERS if name in texts), None)
        if idle and options.trigger is None:
            raise UsageError(f"{self.name}: {idle}= belongs to when=", hint="such as when=leader+300ms:within=5s")
        return FaultSpec(fault=self.name, target=target or self.default_target, options=options, given=texts)

    @abstractmethod
    def effects(self, spec: FaultSpec) -> Effects:
        """What this spec does to nodes and links while it is in force."""

    def release_changes(self, spec: FaultSpec) -> tuple[ReleaseChange, ...]:
        """The other releases of the server that this spec needs, resolved before the cluster starts."""
        return ()

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        """Why this spec makes no sense on such a cluster, whatever the machine; None when it does."""
        return None

    def unavailable(self, placement: Placement) -> Refusal | None:
        """Why this machine cannot do it on that runtime; None when it can. Asked before a run."""
        return None

    @abstractmethod
    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        """What is drawn comes from `draw` alone, so that the same entry of a schedule means the same again."""

    @abstractmethod
    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        """Act, and measure that it took hold."""

    @abstractmethod
    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        """Undo it, also when injecting failed half-way or a node has died or restarted since. Idempotent."""


def refuse_foreign(spec: FaultSpec, kind: str, own: Mapping[str, Iterable[str]]) -> Refusal | None:
    """Refuse an option that only other values of `kind=` have; `own` are those that only some have, by kind."""
    foreign = sorted({option for options in own.values() for option in options} & {*spec.given} - {*own[kind]})
    if not foreign:
        return None
    return Refusal(f"kind={kind} has no option {foreign[0]}", f"it has: {', '.join(own[kind]) or 'none'}")
