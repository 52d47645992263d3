"""`metadata`: unique settings written and names taken through every controller and broker, read back from all of them.

A setting is read from a node's own copy (`describe`), which may lag everywhere; whether a name is taken (`exists`) is
asked through the controller's queue. So settings are judged by what a quorum promises whatever the lag, and names as a
linearizable set.

Windows: every node alternates between windows in which it is only read and windows in which it is also written, since
one write that is queued at a superseded controller silences all that comes behind it. In each pair of windows the
nodes that are only read first are drawn again, so that a superseded controller and the broker that follows it are
left unwritten together, while others take changes.

Names belong to moments: a new one every `create_every`, made about twice, asked for a little before and for a while
after. So all workers, and the final phase, know the names without telling each other.
"""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.coordination import Interface, Metadata
from fencepost.harness.generators import draws, limit, numbered, phases, reserve, stagger, time_limit, until_ok
from fencepost.harness.generators.contract import PENDING, Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload
from fencepost.workloads.metadata_final import LAST_KEY, Rounds

#: How long a node that says it is not the controller is spared changes: each costs a connection and proves nothing.
_SPARED_NS: Final = 250_000_000
_NOT_IN_CHARGE: Final = frozenset({"not-controller"})
#: Each name is asked for this long before it may be taken: an answer "taken" is then a lie.
_NAMES_AHEAD: Final = 1
#: The stream of draws that decides which nodes are only read, apart from those of operations.
_WINDOWS: Final = 16
#: Until the changes that the final views must show are acknowledged.
_LAST_CHANGE_NS: Final = 2_000_000_000


class MetadataOptions(Options, frozen=True, kw_only=True):
    rate: Annotated[float, about("operations per second, all workers together", above=0, most=1e6)] = 300.0
    reads: Annotated[float, about("the share of them that reads, 0 to 1", least=0, most=1)] = 0.95
    keys: Annotated[int, about("how many settings are written", least=1)] = 8
    names: Annotated[int, about("how many of the newest names are asked for", least=1)] = 8
    create_every: Annotated[Duration, about("time from one new name to the next", above=0)] = seconds(0.5)
    window: Annotated[Duration, about("length of the windows in which a node is written, or only read", above=0)] = (
        seconds(12)
    )
    writers_per_node: Annotated[int, about("workers per node that write settings", least=1, most=1000)] = 2
    readers_per_node: Annotated[
        int, about("workers per node that read settings; as many ask for names", least=1, most=1000)
    ] = 2
    change_timeout: Annotated[Duration, about("an operation is given up after this long", above=0)] = seconds(1.5)

    @property
    def every_ns(self) -> int:
        """As `create_every`, at least 1."""
        return max(1, self.create_every)


class MetadataWorkload(Workload[MetadataOptions]):
    name = "metadata"
    about = "unique settings and names, written and read through every controller and broker"
    protocol = Interface.METADATA
    options = MetadataOptions
    effect_free = frozenset({"describe", "exists"})
    promise = "metadata-durable"
    judges = ("metadata", "topic-names", "rejoin", "ground-truth")
    roles = frozenset({"controller", "broker"})
    #: How often an idle controller appends a record that changes nothing: never. Soon after it is cut off it would have
    #: one that it cannot commit, and answer nothing behind it; a superseded one that goes on answering is worth seeing.
    wants = {"idle_interval": "0ms"}  # noqa: RUF012  # a read-only mapping

    def requires(self, options: MetadataOptions) -> tuple[str, ...]:
        return ("leader-self-fencing",)

    def keys(self, options: MetadataOptions) -> tuple[str, ...]:
        return (*(f"k{i}" for i in range(options.keys)), LAST_KEY)

    def workers(self, options: MetadataOptions, node_count: int) -> int:
        # On each node: writers of settings, one taker of names, readers of settings, askers for names.
        return node_count * (options.writers_per_node + 1 + 2 * options.readers_per_node)

    def timeout_s(self, options: MetadataOptions, node_count: int, worker: int, patient_s: float) -> float:
        # One asker on every node waits long: what it asked before a pause is worth hearing after it.
        patient = worker >= self.workers(options, node_count) - node_count
        return patient_s if patient else options.change_timeout.seconds

    def generator(self, options: MetadataOptions, node_count: int) -> Generator:
        keys, every_ns = self.keys(options)[:-1], options.every_ns
        windows = _Windows(nodes=node_count, length_ns=max(1, options.window))
        readers = node_count * options.readers_per_node

        def alter(ctx: Context, worker: int) -> Offer:
            return Offer("alter", ctx.draw(worker).choice(keys), ctx.number(worker))

        describe = draws(lambda worker, i, draw: Offer("describe", draw.choice(keys)))
        # A share of nothing is a pace too slow to be met, not a division by zero.
        reads_ns = round(1e9 / (options.rate * max(options.reads, 1e-6)))
        writes_ns = round(1e9 / (options.rate * max(1 - options.reads, 1e-6)))
        return reserve(
            (node_count * options.writers_per_node, stagger(writes_ns, _Changes(windows=windows, offer=alter))),
            (node_count, stagger(every_ns // 2, _Changes(windows=windows, offer=_creating(every_ns)))),
            (readers, stagger(reads_ns * 3 // 2, describe)),
            (readers, stagger(reads_ns * 3, _Asks(names=options.names, every_ns=every_ns))),
        )

    def final_generator(self, options: MetadataOptions, node_count: int) -> Generator:
        """One more setting and name, which views must show to be of use; then everything from every node, in rounds."""
        setting = numbered(lambda number: Offer("alter", LAST_KEY, number))
        name = _Changes(windows=None, offer=_creating(options.every_ns))
        last = (time_limit(_LAST_CHANGE_NS, until_ok(limit(1, change))) for change in (setting, name))
        return reserve((node_count, phases(*last, Rounds(keys=self.keys(options), every_ns=options.every_ns))))

    def client(self, store: Metadata, options: MetadataOptions, now_ns: Callable[[], int]) -> Client:
        return MetadataClient(store)


def _creating(every_ns: int) -> Callable[[Context, int], Offer]:
    return lambda ctx, worker: Offer("create", name_at(ctx.time_ns, every_ns), 1)


def name_at(time_ns: int, every_ns: int) -> str:
    """The name that belongs to this moment of the run."""
    return f"t{time_ns // every_ns}"


class _Windows(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes are written, and when."""

    nodes: int
    length_ns: int

    def written(self, ctx: Context, worker: int) -> bool:
        """Whether this worker's node takes changes now."""
        number, node = ctx.time_ns // self.length_ns, worker % self.nodes
        first = self._read_first(ctx.seed, number // 2)
        return first[node] is (number % 2 == 1)

    def _read_first(self, seed: int, pair: int) -> tuple[bool, ...]:
        """Of each node, whether the first window of this pair is its window of reads; never the same of all."""
        draw = Draw(seed, 0, pair, _WINDOWS)
        drawn = [draw.chance(0.5) for _ in range(self.nodes)]
        if self.nodes > 1 and len(set(drawn)) == 1:
            other = draw.below(self.nodes)
            drawn[other] = not drawn[other]
        return tuple(drawn)


class _Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes through nodes that are written now, but for those that lately said that they are not in charge."""

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
    """Is this name taken? The names of the last moments, and the next one."""

    names: int
    every_ns: int

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        slot = ctx.time_ns // self.every_ns + _NAMES_AHEAD - ctx.draw(worker).below(self.names + _NAMES_AHEAD)
        return Invocation(worker, Offer("exists", f"t{max(0, slot)}"), ctx.time_ns), self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


class MetadataClient(SessionClient[Metadata]):
    """One connection to one node. Settings are decimal numbers; a name is taken (1) or not (None)."""

    async def invoke(self, offer: Offer) -> Completion:
        key, value = offer.key or "", offer.value
        match offer.f:
            case "alter":
                reply = await self._store.alter(key, b"%d" % value)
            case "create":
                reply = await self._store.create_name(key)
            case "exists":
                reply = await self._store.name_taken(key)
                value = None if reply.value is None else 1
            case _:
                reply = await self._store.describe(key)
                value = int(reply.value) if reply.value else None
        return self._ok(value, reply, reply.value_position)
