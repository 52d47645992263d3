"""What a kind of fault is, and what it acts on.

A fault resolves its target when it acts, is recorded before it acts, proves that it is in force, and can be healed
more than once.

All kinds share targets: a name such as `leader` or `minority` becomes nodes.

Only a cut of the leader in both directions tests self-fencing, and only answers that come later than the bound's limit
count (`LeadershipBound.limit_ns`). A cut of three times that limit leaves two thirds of it for such answers.
"""

import asyncio
import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fencepost.harness.base.errors import Refusal, UsageError, choices_hint
from fencepost.harness.base.options import Duration, parse
from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.system import PARTS, System, has_part
from fencepost.harness.faults.fault_options import (
    CLAIM,
    LEADER,
    LOGGED,
    OF_MOMENTS,
    OF_TRIGGERS,
    RESTART,
    FaultOptions,
    LastingOptions,
    Trigger,
    triggers_told_by,
)
from fencepost.harness.history import Effects, Event, FaultOutcome
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.network import Effect, Link
from fencepost.harness.runtime.node import Member, Node, NodeSpec, Runtime, electorates
from fencepost.harness.runtime.provider import Need, Placement
from fencepost.harness.verdict import LeadershipBound

#: A fault that holds one of these of a node (`FaultKind.holds`) may leave the node unable to vote; a server whose disk
#: fails ends itself. Clocks do not matter, and links are counted separately. A removed member counts as one that is
#: down: an odd number of voters less one has the same majority, and only one is out at a time.
UNABLE: Final = frozenset({"process", "membership", "disk"})
#: A special target: a node that a fault gave back.
RETURNED: Final = "returned"
#: A special target: one of the harness's clients instead of a server.
CLIENT_WORKER: Final = "client"

M = TypeVar("M")
P = TypeVar("P", bound=FaultOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One fault as a plan names it, made by `FaultKind.spec`. `text` is canonical and parses back to this value."""

    fault: str
    target: str
    options: FaultOptions
    #: The options that a person gave, as text and in order; all others have their defaults.
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return ":".join([self.fault, self.target, *(f"{name}={text}" for name, text in self.given.items())])

    @property
    def duration_ns(self) -> int:
        """The time from the proof to the beginning of the healing."""
        return int(self.options.for_)

    def own(self, kind: type[P]) -> P:
        """Return the options as the type that the kind of fault declares."""
        assert isinstance(self.options, kind), "parsed over the defaults of the same kind of fault"
        return self.options

    def lasting(self, duration_ns: int) -> "FaultSpec":
        """Return the same fault with this length."""
        length = Duration(duration_ns)
        options = msgspec.structs.replace(self.options, for_=length)
        return replace(self, options=options, given={**self.given, "for": str(length)})


@dataclass(frozen=True, slots=True)
class ReleaseChange:
    """Another release that a fault starts nodes as; `back`: it returns them to their own release by itself."""

    to: str
    back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The cluster as the nemesis sees it when it acts."""

    nodes: tuple[str, ...]
    leader: str | None
    epoch: int | None
    members: tuple[Member, ...] = ()
    #: The targets that mean the node that leads, beside `leader` (`Profile.leader_names`).
    leader_names: tuple[str, ...] = ()
    #: Who leads something else, by the word that a target has for it (NATS: "meta"); None for nobody.
    other_leaders: Mapping[str, str | None] = field(default_factory=dict)
    #: How long a cut-off leader may go on claiming to lead, as the system promises; None: it promises nothing.
    bound_ns: int | None = None
    #: Nodes whose server was started but does not serve yet.
    unready: frozenset[str] = frozenset()
    #: The node whose server was restarted last.
    restarted: str | None = None
    #: The nodes that were stopped or cut off by the fault that was healed last.
    returned: tuple[str, ...] = ()
    #: The run's seed. Faults whose effect lasts draw their nodes from it (`FaultKind.resolve`).
    seed: int = 0
    #: The number of client workers, and which of them to freeze: the connected ones, if possible with an operation in
    #: flight.
    clients: int = 0
    busy_clients: tuple[int, ...] = ()

    @property
    def voters(self) -> tuple[str, ...]:
        """The nodes that elect, in order."""
        return tuple(member.name for member in self.members if member.votes) or self.nodes

    @property
    def electorates(self) -> tuple[tuple[str, ...], ...]:
        """The nodes that elect, by what they elect."""
        return electorates(self.members) or (self.nodes,)

    @property
    def serving(self) -> tuple[str, ...]:
        """The nodes that serve clients, in order."""
        return tuple(member.name for member in self.members if member.serves) or self.nodes

    def with_role(self, role: str) -> tuple[str, ...]:
        """The nodes that have this role, in order."""
        return tuple(member.name for member in self.members if role in member.roles)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A target made concrete: the nodes, and for partitions the links that are cut and how."""

    nodes: tuple[str, ...]
    links: Mapping[Link, Effect] = field(default_factory=dict)
    #: Further figures of this act (an offset, a rate, a delay) for history and schedule; units stand in the names.
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    #: Links that the fault closes from time to time; those of `links` stay closed.
    threatens: frozenset[Link] = frozenset()
    #: The fault acts on its nodes one at a time, never on two together.
    in_turn: bool = False
    #: What the kind draws from while it acts.
    seed: int = 0
    #: What the kind drew or computed beside nodes and links, in a type of its own.
    means: object = None
    #: The options of the fault; `FaultKind.choose` puts them here.
    options: FaultOptions = field(default_factory=FaultOptions)


@dataclass(frozen=True, slots=True)
class Skip:
    """The reason why there is nothing to act on."""

    why: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What was measured after an act; `details` are added to those of the fault's events."""

    outcome: FaultOutcome
    text: str
    details: Mapping[str, str | int | float | bool] = field(default_factory=dict)


E = TypeVar("E", bound=Event)


class Records(Protocol):
    """The part of the recorder that the nemesis needs."""

    def record(self, cls: type[E], **fields: Any) -> E: ...
    def now_ns(self) -> int: ...


class Parts(Protocol):
    """Carries out single acts of a fault that acts many times; see `Act.part`."""

    async def part(self, of: "Act", resolved: Resolved, *, inject: "Doing", hold_ns: int, heal: "Doing") -> Proof: ...


class FreezableClients(Protocol):
    """The harness's own client workers, which a fault may freeze like a stopped process."""

    async def freeze(self, worker: int, fault_id: int) -> None:
        """Let this worker send and receive nothing from now on: no request, no keep-alive, no close."""
        ...

    async def thaw(self, worker: int, fault_id: int) -> None:
        """Let the worker run again, unless another fault froze it too; its waiting writes are sent now. Idempotent."""
        ...

    def sent_bytes(self, worker: int) -> Mapping[int, int]:
        """Return, by open connection, the bytes that the kernel has sent. Raises OSError where that is not known."""
        ...

    def held_back(self, worker: int) -> int:
        """Return how many writes of the worker are waiting."""
        ...


def _no() -> bool:
    return False


def _nobody(fault_id: int) -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a fault acts on: the servers and their links, the system, and where to write.

    `options` are the system's options of this run, `settings` those of the servers themselves, and `artifacts` what the
    nodes were first started from (`specs` returns their commands). A fault may keep evidence in `folder`, the run's.
    `view` tells who leads now. The conductor sets `parts` and `disturbed`, which returns the nodes on which other
    faults than the given one act: their links prove nothing.
    """

    runtime: Runtime
    system: System
    artifacts: Artifacts
    options: SystemOptions
    records: Records
    view: Callable[[], View]
    folder: Path
    settings: Settings = field(default_factory=dict)
    #: Whether the servers were started in a way that allows members to be removed and added.
    changes_members: bool = False
    #: The artifacts of other releases that a fault may start nodes as, by the version in its spec.
    others: Mapping[str, Artifacts] = field(default_factory=dict)
    #: The artifacts of nodes whose release a fault has changed; written by that fault.
    runs: dict[str, Artifacts] = field(default_factory=dict)
    #: Nodes that a fault has ended for good: nothing starts them but that fault.
    retired: set[str] = field(default_factory=set)
    #: Nodes whose servers a fault ended while another one acted on them: they are started when none does.
    ended: set[str] = field(default_factory=set)
    #: The phases that have begun, in order; written by the fault that has phases.
    phases: list[str] = field(default_factory=list)
    #: Whether a person is ending the run: then faults wait only until the nodes run.
    hurried: Callable[[], bool] = _no
    clients: FreezableClients | None = None
    parts: Parts | None = None
    disturbed: Callable[[int], frozenset[str]] = _nobody
    fault_ids: Iterator[int] = field(default_factory=itertools.count)

    def artifacts_of(self, node: str) -> Artifacts:
        """Return what this node was started from last."""
        return self.runs.get(node, self.artifacts)

    def specs(self, artifacts: Artifacts | None = None) -> dict[str, NodeSpec]:
        """Return every node's spec as the system would start it now, by name; from other artifacts if given."""
        layout, given = self.runtime.layout, artifacts or self.artifacts
        made = self.system.specs(layout, given, self.options, self.settings)
        if self.changes_members and self.system.member_changes is not None:
            membership = self.system.member_changes.of(layout, given)
            made = [membership.prepared(spec) for spec in made]
        return {spec.name: spec for spec in made}


class NotUndone(Exception):
    """A step of a fault could not be undone; the message says why."""


#: Undoes one step of a fault, and may return what it found. Raises NotUndone, and is then called again.
Undo = Callable[[], Awaitable[str | None]]
#: Injects or heals.
Doing = Callable[["Act"], Awaitable[Proof]]


@dataclass(slots=True, kw_only=True)
class Act:
    """One fault in force, or a part of one: what it acts on, what it keeps, and what is left to undo.

    The conductor makes it, hands it to the kind of fault, and undoes what is left at every end. An injection registers
    each step before it takes it, so that nothing stays that was begun and given up.
    """

    fault_id: int
    resolved: Resolved
    cluster: Cluster
    #: What the steps found that are undone, in the order in which they were taken.
    undone: list[str] = field(default_factory=list)
    _left: list[Undo] = field(default_factory=list)
    _kept: object = None

    @property
    def nodes(self) -> list[Node]:
        return [self.cluster.runtime.nodes[name] for name in self.resolved.nodes]

    def options(self, kind: type[P]) -> P:
        """Return the fault's options as the type that its kind declares."""
        assert isinstance(self.resolved.options, kind), "chosen by the same kind of fault"
        return self.resolved.options

    def means(self, kind: type[M]) -> M:
        """Return what `resolve` of the same kind computed."""
        assert isinstance(self.resolved.means, kind), "made by resolve of the same kind of fault"
        return self.resolved.means

    def disturbed(self) -> frozenset[str]:
        """The nodes on which other faults act: their links prove nothing."""
        return self.cluster.disturbed(self.fault_id)

    def keep(self, state: M) -> M:
        """Keep this for the healing; `kept` returns it."""
        self._kept = state
        return state

    def kept(self, kind: type[M]) -> M | None:
        """Return what the injection kept; None when it did not come so far."""
        return self._kept if isinstance(self._kept, kind) else None

    def undo(self, step: Undo) -> None:
        """Have this done before the fault is healed; what was registered last is done first."""
        self._left.append(step)

    async def healed(self, heal: Doing) -> Proof:
        """Undo what is left, then heal. A step that fails is tried again by the next healing, and doubts this one.

        A step at which the time of this healing ends is the last one of the next, so that it keeps no other waiting.
        """
        failed, texts = [], []
        for step in reversed(self._left[:]):
            try:
                text = await step()
            except asyncio.CancelledError:
                self._left.remove(step)
                self._left.insert(0, step)
                raise
            except NotUndone as error:
                failed.append(str(error))
            except Exception as error:
                failed.append(f"{type(error).__name__}: {error}")
            else:
                self._left.remove(step)
                texts += [text] if text else []
        self.undone += reversed(texts)
        proof = await heal(self)
        text = "; ".join(filter(None, [*self.undone, proof.text]))
        if not failed:
            return replace(proof, text=text or "nothing was done")
        wrong = "; ".join(reversed(failed))
        return replace(proof, outcome=FaultOutcome.INDETERMINATE, text=f"{wrong} ({text})" if text else wrong)

    async def part(self, resolved: Resolved, *, inject: Doing, heal: Doing, hold_ns: int = 0) -> Proof:
        """Inject, hold and heal one part: a cut of a flapping link, a move of the leader; return the injection's proof.

        Each part is recorded as a fault of its own, with its own number, proof and healing, so that the history says
        exactly what was in force at any time. Heals on cancellation too.
        """
        parts = self.cluster.parts
        assert parts is not None, "set by the conductor"
        return await parts.part(self, resolved, inject=inject, hold_ns=hold_ns, heal=heal)


#: The targets that follow whoever leads.
_OF_A_LEADER: Final = frozenset({"leader", "follower"})


class AddedTarget(Protocol):
    """A target that a leaf adds to a kind of fault, which injects and heals what it resolves to (`FaultKind`)."""

    @property
    def about(self) -> str: ...

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None: ...

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip: ...


class FaultKind(ABC):
    """One kind of fault: what it declares, and how it is injected and healed.

    `targets` maps a target's name to what it means; nodes and their roles are targets too.
    """

    name: str
    about: str
    targets: Mapping[str, str]
    default_target: str = "one"
    #: The options with their defaults; the struct holds names, types and explanations.
    options: FaultOptions = FaultOptions()
    #: What no other fault may use on the same nodes at the same time ("process", "clock", "disk", ...). Links are not
    #: held: several faults on one link add up.
    holds: frozenset[str] = frozenset()
    #: The specs with which it takes part in `--nemesis all`; empty for a kind that must be named, such as one that
    #: destroys data.
    for_all: tuple[str, ...]
    #: The specs with which it acts there on a node that another fault has just given back.
    on_return: tuple[str, ...] = ()
    #: Whether it makes sense for any length. The mixture then draws one, from below a heartbeat to beyond what a store
    #: keeps in its log, so that a node that comes back catches up in every way that the store has.
    any_length: bool = False
    #: Whether it decides if a superseded leader can still act. The mixture then begins with the first of `for_all`.
    of_leadership: bool = False
    #: What the kind needs: parts of the system (`harness.contract.system.PARTS`), and `Need`s of the runtime.
    needs: frozenset[str] = frozenset()
    #: What holds in each phase of a fault that has phases; other faults can wait for them (`when=`).
    phases: Mapping[str, str] = MappingProxyType({})
    #: Whether it commits the members again, without a change.
    reconfigures: bool = False
    #: Whether only one fault of this kind may be in force at a time, on any nodes.
    alone: bool = False
    #: The time limit in seconds of each injection and each healing.
    act_deadline_s: float = 10.0
    #: Whether it draws while it acts: then `aim` is given a seed, which is drawn before the nodes are.
    draws: bool = False
    #: Targets that leaves add.
    added: Mapping[str, AddedTarget] = MappingProxyType({})

    def extend(self, target: str, added: AddedTarget) -> None:
        """Take this target too; a mixture tries it after the others."""
        self.added = {**self.added, target: added}
        self.targets = {**self.targets, target: added.about}
        self.for_all = (*self.for_all, f"{self.name}:{target}")

    def spec(self, target: str = "", given: Mapping[str, str] | None = None) -> FaultSpec:
        """Return this fault with the options that a person gave; raise UsageError for options that make no sense."""
        texts = dict(given or {})
        options = parse(self.name, texts, self.options)
        idle = next((name for name in OF_TRIGGERS if name in texts), None)
        if idle and "when" not in texts:
            raise UsageError(f"{self.name}: {idle}= needs when=", hint="such as when=leader+300ms:within=5s")
        moment = next((name for name in OF_MOMENTS if name in texts), None)
        if moment and "during" in texts:
            raise UsageError(f"{self.name}: during= and {moment}= exclude each other", hint="leave out one of them")
        return FaultSpec(fault=self.name, target=target or self.default_target, options=options, given=texts)

    @abstractmethod
    def effects(self, spec: FaultSpec) -> Effects:
        """Return what this spec does to nodes and links while it is in force."""

    def reached(self, spec: FaultSpec) -> frozenset[str]:
        """Return the phases that this spec can bring about, of those in `phases`."""
        return frozenset(self.phases)

    def main_phase_ns(self, spec: FaultSpec) -> int:
        """Return how long the main phase must be for this spec to run its course; 0: it shows itself in any length."""
        return 0

    def release_changes(self, spec: FaultSpec) -> tuple[ReleaseChange, ...]:
        """Return the other releases of the server that this spec needs; they are resolved before the cluster starts."""
        return ()

    def needed(self, spec: FaultSpec) -> frozenset[str]:
        """Return what this spec needs, as in `needs`."""
        return self.needs

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        """Return why this spec makes no sense on such a cluster, on any machine; None when it does."""
        return None

    def refusal(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        """Return why this spec makes no sense there: it lacks what it needs or follows, or what `refuse` says."""
        triggers = [trigger for trigger in (spec.options.trigger, spec.options.ending) if trigger is not None]
        events = {trigger.what for trigger in triggers}
        follows = spec.target in _OF_A_LEADER or LEADER in events
        lacking = (_lacking(need, self.name, placement) for need in sorted(self.needed(spec)))
        return (
            next(filter(None, lacking), None)
            or (_leaderless(placement) if follows or CLAIM in events else None)
            or next(filter(None, (_unlogged(placement, event) for event in sorted(events))), None)
            or _unknown_node(triggers, placement)
            or (self.added.get(spec.target) or self).refuse(spec, placement)
        )

    def choose(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        """Make the target concrete as `resolve` does, or as the leaf does that added the target."""
        resolved = (self.added.get(spec.target) or self).resolve(spec, view, draw)
        return resolved if isinstance(resolved, Skip) else replace(resolved, options=spec.options)

    def unavailable(self, placement: Placement) -> Refusal | None:
        """Return why this machine cannot do it on that runtime; None when it can. Called before a run."""
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        """Make the target concrete. All choices come from `draw`, so that a schedule can be repeated."""
        seed = draw.getrandbits(32) if self.draws else 0
        lasting = isinstance(spec.options, LastingOptions) and spec.options.fixed
        # All such faults of the run, of any kind, mean the same minority, and "one" is among it. So the faults of a
        # whole run never add up to more than a minority.
        chosen = choose_nodes(spec.target, view, random.Random(f"{view.seed}/lasting") if lasting else draw)
        return chosen if isinstance(chosen, Skip) else self.aim(spec, chosen, view, seed)

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        """Say what the fault does to these nodes; part of `resolve`."""
        return Resolved(nodes=nodes, seed=seed)

    @abstractmethod
    async def inject(self, act: Act) -> Proof:
        """Act, and measure whether the fault is in force.

        Returns:
            INSTALLED with what was measured; INDETERMINATE when the measurement does not show the fault.
        """

    @abstractmethod
    async def heal(self, act: Act) -> Proof:
        """End the fault, even when the injection failed half-way or a node has died or restarted since. Idempotent.

        What `act` had to undo is undone before, but for what failed.

        Returns:
            HEALED with what was measured; INDETERMINATE when something of the fault may be left.
        """


def _lacking(need: str, fault: str, placement: Placement) -> Refusal | None:
    """Why this fault does not have what it needs there; None when it has."""
    if isinstance(need, Need):
        return placement.why_not(need)
    # Of a system that is not known yet a leaf's part is not expected.
    if has_part(placement.system, need) or (placement.system is None and need in PARTS):
        return None
    return Refusal(
        f"{placement.system_name} lacks the part {need}, which {fault} needs",
        "choose a system that has it (fencepost list abilities)",
    )


def _leaderless(placement: Placement) -> Refusal | None:
    if placement.system is None or placement.system.profile.subjects:
        return None
    return Refusal(f"no node of {placement.system_name} leads", "name another target: one, minority, or a node's name")


def _unlogged(placement: Placement, event: str) -> Refusal | None:
    """Why a server's log never tells of this event there; None where it does, and for what no log tells."""
    if (
        placement.system is None
        or event not in LOGGED
        or event in (triggers := triggers_told_by(placement.system.logs))
    ):
        return None
    what = "say who leads" if event == CLAIM else f"tell of the event {event}"
    return Refusal(
        f"the logs of {placement.system_name} do not {what}",
        f"wait for {' or '.join((LEADER, RESTART, *triggers))}",
    )


def _unknown_node(triggers: Iterable[Trigger], placement: Placement) -> Refusal | None:
    names = [member.name for member in placement.cluster]
    for trigger in triggers:
        if trigger.node and trigger.node not in names:
            return Refusal(f"{trigger.text}: there is no node {trigger.node!r}", choices_hint(trigger.node, names))
    return None


def refuse_foreign(spec: FaultSpec, kind: str, own: Mapping[str, Iterable[str]]) -> Refusal | None:
    """Refuse an option that belongs to another value of `kind=`; `own` lists the options of each value."""
    foreign = sorted({option for options in own.values() for option in options} & {*spec.given} - {*own[kind]})
    if not foreign:
        return None
    return Refusal(f"kind={kind} has no option {foreign[0]}", f"it has: {', '.join(own[kind]) or 'none'}")


#: What each name means. A node's own name ("n2") is a target too. Where nodes differ, so is a role (one node of that
#: role, drawn at random), the system's own word for the leader, and its word for something else that has a leader.
NODE_TARGETS: Final = {
    "one": "one node, drawn at random",
    "minority": "voters drawn at random, as many as the cluster can lose and keep a quorum",
    "majority": "the smallest majority of the voters, drawn at random",
    "leader": "the node that leads when the fault acts",
    "follower": "one voter that does not lead when the fault acts, drawn at random",
    "restarted": "the node whose server was restarted last; with when=restart+200ms it is hit while it recovers",
    RETURNED: "a node that was stopped or cut off by the fault that was healed last",
}

#: One node that serves clients; no person can type it.
SERVING: Final = "serving"


def role_targets(placement: Placement) -> list[str]:
    """Return the roles that distinguish nodes, and the system's word for the leader; none where all are the same.

    The word for the leader may be a role's name as well: the active one of that role is meant.
    """
    roles = dict.fromkeys(role for member in placement.cluster for role in member.roles)
    if placement.system is not None and placement.system.profile.leader_word:
        roles[placement.system.profile.leader_word] = None
    return list(roles) if len(roles) > 1 else []


def choose_nodes(target: str, view: View, draw: random.Random) -> tuple[str, ...] | Skip:
    """Return the nodes that `target` means now, in the cluster's order, or why there are none.

    One draw is made whatever the target, so that the draws of later faults do not depend on who leads.
    """
    shuffled = list(view.nodes)
    draw.shuffle(shuffled)
    voters = [node for node in shuffled if node in view.voters]
    if target in view.nodes:
        chosen = [target]
    elif target == "all":
        chosen = shuffled
    elif target == "one":
        chosen = shuffled[:1]
    elif target == SERVING:
        chosen = [node for node in shuffled if node in view.serving][:1]
    elif target == "restarted":
        if view.restarted is None:
            return Skip("no server had been started again")
        chosen = [view.restarted]
    elif target == RETURNED:
        chosen = [node for node in shuffled if node in view.returned][:1]
        if not chosen:
            return Skip("no fault had given a node back")
    elif target == "minority":
        chosen = voters[: (len(voters) - 1) // 2]
    elif target == "majority":
        chosen = voters[: len(voters) // 2 + 1]
    elif target in view.other_leaders:
        leader = view.other_leaders[target]
        if leader is None:
            return Skip(f"no node was known to lead the {target} group")
        chosen = [leader]
    elif target not in ("leader", "follower", *view.leader_names):
        chosen = [node for node in shuffled if node in view.with_role(target)][:1]
    elif view.leader is None:
        return Skip("no node was known to lead")
    elif target == "follower":
        chosen = [node for node in voters if node != view.leader][:1]
    else:
        chosen = [view.leader]
    return tuple(node for node in view.nodes if node in chosen)


#: Guarantees that only such a cut can test.
NEED_A_CUT: Final = frozenset({"leader-self-fencing"})
#: Draws per target to see which nodes it may mean; more than a cluster has nodes.
_DRAWS: Final = 32
_LIMITS_HELD: Final = 3
#: Quiet times vary by a fifth.
_QUIET_SHARE_MAX: Final = 1.2


def may_cut_off_leader(
    spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], leader_names: tuple[str, ...]
) -> bool:
    """Decide whether this fault can cut off the leader, for some leader and some draw."""
    return any(_cases(spec, fault, members, leader_names))


def cuts_off_leader(
    spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], leader_names: tuple[str, ...]
) -> bool:
    """Decide whether this fault always cuts off the leader, for every leader and every draw."""
    return all(_cases(spec, fault, members, leader_names))


def with_holds(
    specs: Sequence[FaultSpec],
    faults: Mapping[str, FaultKind],
    *,
    members: tuple[Member, ...],
    leader_names: tuple[str, ...],
    bound: LeadershipBound,
    time_limit_ns: int,
    quiet_ns: int,
) -> list[FaultSpec]:
    """Give every cut of the leader without a `for=` a length: three times the bound's limit.

    Args:
        bound: how long a cut-off leader may go on claiming to lead, as the system promises.
        time_limit_ns: the length of the main phase. Cuts are shorter where one round of all faults would not fit, but
            never shorter than the fault's own default.
        quiet_ns: the mean time without a fault between two faults.

    Returns:
        The specs in the same order.
    """
    limit_ns = bound.limit_ns
    if limit_ns is None:
        return list(specs)
    chosen = [
        "for" not in spec.given and cuts_off_leader(spec, faults[spec.fault], members, leader_names) for spec in specs
    ]
    others_ns = sum(s.duration_ns for s, long in zip(specs, chosen, strict=True) if not long)
    quiet_in_all_ns = quiet_ns // 2 + round((len(specs) - 1) * quiet_ns * _QUIET_SHARE_MAX)
    room_ns = (time_limit_ns - quiet_in_all_ns - others_ns) // max(1, sum(chosen))
    hold_ns = min(_LIMITS_HELD * limit_ns, room_ns)
    return [
        spec.lasting(max(hold_ns, spec.duration_ns)) if long else spec for spec, long in zip(specs, chosen, strict=True)
    ]


def _cases(
    spec: FaultSpec, fault: FaultKind, members: tuple[Member, ...], leader_names: tuple[str, ...]
) -> Iterator[bool]:
    """Yield, for every possible leader and a number of draws, whether the fault cuts that leader off."""
    nodes = tuple(member.name for member in members)
    voters = [member.name for member in members if member.votes]
    for leader in voters:
        view = View(nodes=nodes, leader=leader, epoch=1, members=members, leader_names=leader_names)
        for seed in range(_DRAWS):
            resolved = fault.choose(spec, view, random.Random(seed))
            yield not isinstance(resolved, Skip) and _is_cut_off(leader, voters, resolved.links)


def _is_cut_off(node: str, voters: Sequence[str], links: Collection[Link]) -> bool:
    """Decide whether `node`, itself included, reaches less than a majority, and less than a majority reaches it."""
    others = [voter for voter in voters if voter != node]
    majority = len(voters) // 2 + 1
    out = 1 + sum(Link(node, other) not in links for other in others)
    back = 1 + sum(Link(other, node) not in links for other in others)
    return out < majority and back < majority
