"""`metadata`: unique settings and topic names, written through every controller and broker and read from all of them.

A setting is read from a node's own copy (`describe`), which may lag. Whether a name is taken (`exists`) is asked
through the controller's queue. So settings are judged by guarantees that hold despite any lag, and names as a
linearizable set.

Windows: every node alternates between windows in which it is only read and windows in which it is also written, since
one write in the queue of a superseded controller blocks all later requests. For each pair of windows the nodes that are
only read first are drawn again. So now and then a superseded controller and the broker that follows it both get no
writes while other nodes do.

Settings take turns: at any moment half of them are changed, and the others rest. So the last change of some of them is
older than the last fault. Where each is overwritten all the time, the end of a run says nothing of the changes that
a fault could have taken away.

With `listeners` the metadata log itself is fetched as well (`metadata_listeners`), where its leader serves it.

With `kinds=all` other kinds of metadata change as well (`metadata_kinds`): brokers' defaults, quotas, credentials, the
number of partitions, ACLs, and topics that are deleted again. They are read as settings are, and judged like them.

Names belong to moments: a new name every `create_every`, created about twice, and asked for from a little before until
a while after. So all workers and the final phase know the names without exchanging them.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Final, Literal, Protocol

import msgspec

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.contract.system import System
from fencepost.harness.generators import draws, limit, numbered, phases, reserve, stagger, time_limit, until_ok
from fencepost.harness.generators.contract import PENDING, Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import CatchUp, Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload
from fencepost.harness.runtime.node import Member
from fencepost.systems.kafka.protocols import KafkaInterface, LogListener, Metadata, MetadataNeeds
from fencepost.systems.kafka.workloads import metadata_kinds as kinds
from fencepost.systems.kafka.workloads.metadata_final import LAST_KEY, FinalRounds
from fencepost.systems.kafka.workloads.metadata_listeners import WAIT_S, ListenMemory, ListenToMetadata, answers

#: How long a node that is not the controller gets no changes: each would cost a connection and prove nothing.
_SPARED_NS: Final = 250_000_000
_NOT_IN_CHARGE: Final = frozenset({"not-controller"})
#: Each name is asked for this many names early, when the answer "taken" must be wrong.
_NAMES_AHEAD: Final = 1
#: The stream of draws that decides which nodes are only read, apart from those of operations.
_WINDOWS: Final = 16
#: The stream of draws that decides whether a change is of another kind.
_KINDS: Final = 17
#: After this long the next setting begins its turn, and another one rests. Of eight settings the one that rests the
#: longest was last changed nine to twelve seconds ago: before the last fault, which ends a quiet time and a hold before
#: the end.
_TURN_NS: Final = 3_000_000_000
#: In ZooKeeper mode no change waits in a controller's queue. With windows a short run may create hardly any name, since
#: only the controller does, and it may not be written for most of the run.
_WINDOW_WITHOUT_QUEUE: Final = seconds(0)
#: The time for acknowledging the changes that the final views must show.
_LAST_CHANGE_NS: Final = 2_000_000_000
#: The time in which every listener must have got everything, after the last change.
_LISTEN_NS: Final = 6_000_000_000
_NO_LISTENERS: Final = ("0",)
_SETTINGS: Final = "settings"
_SERVES_LOG: Final = frozenset({"controller"})


class MetadataOptions(Options, frozen=True, kw_only=True):
    rate: Annotated[float, about("operations per second, all workers together", above=0, most=1e6)] = 300.0
    reads: Annotated[float, about("the share of reads among them, 0 to 1", least=0, most=1)] = 0.95
    keys: Annotated[int, about("how many settings are written", least=1)] = 8
    names: Annotated[int, about("how many of the newest names are queried", least=1)] = 8
    create_every: Annotated[Duration, about("time from one new name to the next", above=0)] = seconds(0.5)
    partitions: Annotated[int, about("how many partitions the topic of a new name has", least=1, most=1000)] = 1
    window: Annotated[
        Duration, about("length of the windows in which a node is written, or only read; 0: always written", least=0)
    ] = seconds(12)
    writers_per_node: Annotated[int, about("workers per node that write settings", least=1, most=1000)] = 2
    readers_per_node: Annotated[
        int, about("workers per node that read settings; as many ask for names", least=1, most=1000)
    ] = 2
    kinds: Annotated[
        Literal["settings", "all"],
        about("all: also quotas, credentials, ACLs, numbers of partitions, brokers' defaults, and deletions"),
    ] = "settings"
    listeners: Annotated[
        int, about("listeners that fetch the metadata log from the controllers, as brokers do", least=0, most=100)
    ] = 0
    bystanders: Annotated[
        int, about("partitions of topics that nothing is done to, made before the run", least=0, most=10_000)
    ] = 0
    change_timeout: Annotated[Duration, about("an operation is given up after this long", above=0)] = seconds(1.5)

    @property
    def every_kind(self) -> bool:
        """Whether more than topics' settings and names changes."""
        return self.kinds != _SETTINGS

    @property
    def settings(self) -> tuple[str, ...]:
        """The topics whose settings are written."""
        return tuple(f"k{i}" for i in range(self.keys))

    @property
    def every_ns(self) -> int:
        """`create_every` in nanoseconds, at least 1."""
        return max(1, self.create_every)


class MetadataWorkload(Workload[MetadataOptions]):
    name = "metadata"
    about = "unique settings and names, written and read through every controller and broker"
    protocol = KafkaInterface.METADATA
    options = MetadataOptions
    effect_free = frozenset({"describe", "exists", "listen"})
    promise = "metadata-durable"
    judges = ("metadata", "topic-names", "rejoin", "ground-truth")
    roles = frozenset({"controller", "broker"})
    #: An idle controller appends no empty records. A controller that is cut off would soon have one that it cannot
    #: commit and would then answer no later request; a superseded controller that still answers is what this run looks
    #: for.
    wants = {"idle_interval": "0ms"}  # noqa: RUF012  # a read-only mapping

    def __init__(self) -> None:
        # One run has several phases, and its listeners live through all of them.
        self._listened = ListenMemory()

    def defaults(self, system: System) -> MetadataOptions:
        if "idle_interval" in system.profile.options.__struct_fields__:
            return self.options()
        return self.options(window=_WINDOW_WITHOUT_QUEUE)

    def choices(self, system: System) -> Mapping[str, tuple[str, ...]]:
        served = KafkaInterface.METADATA_LOG in system.profile.interfaces
        return {} if served else {"listeners": _NO_LISTENERS}

    def refuse(self, options: MetadataOptions, members: tuple[Member, ...]) -> Refusal | None:
        if options.listeners and not any(set(member.roles) == _SERVES_LOG for member in members):
            return Refusal(
                "clients reach no controller here, and only controllers serve the metadata log",
                "leave out listeners, or start without -O combined=true",
            )
        return None

    def requires(self, options: MetadataOptions) -> tuple[str, ...]:
        return ("leader-self-fencing",)

    def checkers(self, system: System, options: MetadataOptions) -> tuple[str, ...]:
        loads = system.logs is not None and CatchUp.LOADED in system.logs.caught_up.values()
        return (
            *self.judges,
            *(("snapshots",) if loads else ()),
            *(("metadata-listeners",) if options.listeners else ()),
        )

    def needs(self, options: MetadataOptions) -> MetadataNeeds:
        names = (*(kinds.GROWING,) * options.every_kind, *options.settings, LAST_KEY)
        return MetadataNeeds(names, options.bystanders)

    def workers(self, options: MetadataOptions, node_count: int) -> int:
        # On each node: writers of settings, one creator of names and one of things (if any), readers of settings,
        # workers that ask for names, and one of each listener.
        return self._askers(options, node_count) + node_count * options.listeners

    def _askers(self, options: MetadataOptions, node_count: int) -> int:
        creators = 1 + options.every_kind
        return node_count * (options.writers_per_node + creators + 2 * options.readers_per_node)

    def timeout_s(self, options: MetadataOptions, node_count: int, worker: int, patient_s: float) -> float:
        # One worker on every node waits long, so that a request from before a pause can be answered after it.
        askers = self._askers(options, node_count)
        patient = askers - node_count <= worker < askers
        return patient_s if patient else options.change_timeout.seconds

    def generator(self, options: MetadataOptions, node_count: int) -> Generator:
        keys, every_ns = options.settings, options.every_ns
        windows = _Windows(nodes=node_count, length_ns=options.window)
        readers = node_count * options.readers_per_node

        def alter(ctx: Context, worker: int) -> Offer:
            if options.every_kind and ctx.draw(worker, _KINDS).below(len(keys) + len(kinds.VALUED)) >= len(keys):
                return kinds.valued(ctx, worker)
            return Offer("alter", ctx.draw(worker).choice(settings_in_turn(keys, ctx.time_ns)), ctx.number(worker))

        describe: Generator = draws(lambda worker, i, draw: Offer("describe", draw.choice(keys)))
        things: tuple[tuple[int, Generator], ...] = ()
        if options.every_kind:
            looked_at = (*keys, *kinds.VALUED, kinds.GROWS)
            describe = kinds.Looks(keys=looked_at, every_ns=every_ns, nodes=node_count)
            deeds = kinds._Deeds(every_ns=every_ns, by=_Changes(windows=windows, offer=kinds.deed(every_ns)))
            things = ((node_count, deeds),)
        # A share of 0 becomes a pace too slow for any operation, not a division by zero.
        reads_ns = round(1e9 / (options.rate * max(options.reads, 1e-6)))
        writes_ns = round(1e9 / (options.rate * max(1 - options.reads, 1e-6)))
        return reserve(
            (node_count * options.writers_per_node, stagger(writes_ns, _Changes(windows=windows, offer=alter))),
            (node_count, stagger(every_ns // 2, _Changes(windows=windows, offer=_creating(every_ns)))),
            *things,
            (readers, stagger(reads_ns * 3 // 2, describe)),
            (readers, stagger(reads_ns * 3, _Asks(names=options.names, every_ns=every_ns))),
            *self._listening(options, node_count),
        )

    def final_generator(self, options: MetadataOptions, node_count: int) -> Generator:
        """One more setting and name, which a useful view must show; then read everything from every node, in rounds."""
        setting = numbered(lambda number: Offer("alter", LAST_KEY, number))
        name = _Changes(windows=None, offer=_creating(options.every_ns))
        last = (time_limit(_LAST_CHANGE_NS, until_ok(limit(1, change))) for change in (setting, name))
        askers = self._askers(options, node_count)
        rounds = (node_count, self._rounds(options)), (askers - node_count, limit(0, setting))
        return phases(
            reserve((node_count, phases(*last))),
            reserve(*rounds, *self._listening(options, node_count, to_the_end=True)),
        )

    def _listening(
        self, options: MetadataOptions, node_count: int, *, to_the_end: bool = False
    ) -> tuple[tuple[int, Generator], ...]:
        if not options.listeners:
            return ()
        listen: Generator = ListenToMetadata(memory=self._listened, nodes=node_count, to_the_end=to_the_end)
        return ((node_count * options.listeners, time_limit(_LISTEN_NS, listen) if to_the_end else listen),)

    def _rounds(self, options: MetadataOptions) -> FinalRounds:
        more = (*kinds.VALUED, kinds.GROWS) if options.every_kind else ()
        return FinalRounds(
            keys=(*more, *options.settings, LAST_KEY),
            every_ns=options.every_ns,
            things=options.every_kind,
        )

    def client(self, store: "_Store", options: MetadataOptions, now_ns: Callable[[], int]) -> Client:
        return MetadataClient(store, partitions=options.partitions)


def _creating(every_ns: int) -> Callable[[Context, int], Offer]:
    return lambda ctx, worker: Offer("create", name_at(ctx.time_ns, every_ns), 1)


def name_at(time_ns: int, every_ns: int) -> str:
    """The name that belongs to this moment of the run."""
    return f"t{time_ns // every_ns}"


def settings_in_turn(keys: tuple[str, ...], time_ns: int) -> tuple[str, ...]:
    """The settings that are changed at this moment of the run: half of them, or the only one."""
    turn = time_ns // _TURN_NS
    return tuple(keys[(turn + i) % len(keys)] for i in range(max(1, len(keys) // 2)))


class _Windows(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes are written, and when."""

    nodes: int
    length_ns: int

    def written(self, ctx: Context, worker: int) -> bool:
        """Whether this worker's node takes changes now."""
        if not self.length_ns:
            return True
        number, node = ctx.time_ns // self.length_ns, worker % self.nodes
        return _read_first(ctx.seed, number // 2, self.nodes)[node] is (number % 2 == 1)


@lru_cache(maxsize=64)
def _read_first(seed: int, pair: int, nodes: int) -> tuple[bool, ...]:
    """For each node, whether it is only read in the first window of this pair; never the same for all nodes.

    Kept, since every idle worker asks at every step.
    """
    draw = Draw(seed, 0, pair, _WINDOWS)
    drawn = [draw.chance(0.5) for _ in range(nodes)]
    if nodes > 1 and len(set(drawn)) == 1:
        other = draw.below(nodes)
        drawn[other] = not drawn[other]
    return tuple(drawn)


class _Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes through the nodes that are written now, except those that lately said they are not the controller."""

    windows: _Windows | None
    offer: Callable[[Context, int], Offer]
    spared: dict[int, int] = {}

    def op(self, ctx: Context) -> Step:
        for worker in ctx.free:
            if self.windows is None or self._may(ctx, worker, self.windows):
                return Invocation(worker, self.offer(ctx, worker), ctx.time_ns), self
        return PENDING, self

    def _may(self, ctx: Context, worker: int, windows: _Windows) -> bool:
        return ctx.time_ns >= self.spared.get(worker % windows.nodes, 0) and windows.written(ctx, worker)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if self.windows is None or event.type is Outcome.OK or event.error not in _NOT_IN_CHARGE:
            return self
        # A small dict, copied: a generator is a value, and a run has a few nodes.
        node = ctx.worker_of(event) % self.windows.nodes
        return msgspec.structs.replace(self, spared={**self.spared, node: ctx.time_ns + _SPARED_NS})


class _Asks(msgspec.Struct, frozen=True, kw_only=True):
    """Ask whether names are taken: those of the last moments, and the next one."""

    names: int
    every_ns: int

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        slot = ctx.time_ns // self.every_ns + _NAMES_AHEAD - ctx.draw(worker).below(self.names + _NAMES_AHEAD)
        return Invocation(worker, Offer("exists", f"t{max(0, slot)}"), ctx.time_ns), self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


class _Store(Metadata, LogListener, Protocol):
    """Only where a system offers the metadata log is it asked to `listen`."""


class MetadataClient(SessionClient[_Store]):
    """One connection to one node. Settings are decimal numbers; a name is taken (1) or not (None)."""

    def __init__(self, store: _Store, *, partitions: int) -> None:
        super().__init__(store)
        self._partitions = partitions

    async def invoke(self, offer: Offer) -> Completion:
        key, value = offer.key or "", offer.value
        match offer.f:
            case "alter":
                reply = await self._store.alter(*kinds.split(key), None if value is None else b"%d" % value)
            case "create":
                reply = await self._store.create_name(key, self._partitions)
            case "listen":
                first, last_epoch = value
                return Completion(Outcome.OK, answers(await self._store.listen(first, last_epoch, WAIT_S)))
            case "exists":
                reply = await self._store.name_taken(key)
                value = None if reply.value is None else 1
            case _:
                reply = await self._store.describe(*kinds.split(key))
                value = int(reply.value) if reply.value else None
        return self._ok(value, reply, reply.value_position)
