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

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.coordination import Interface, Metadata, Reply
from fencepost.harness.generators import (
    PENDING,
    Context,
    Draw,
    Generator,
    Invocation,
    Offer,
    draws,
    limit,
    phases,
    reserve,
    stagger,
    time_limit,
    until_ok,
)
from fencepost.harness.generators.contract import Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.contract.system import System
from fencepost.workloads.metadata_final import LAST_KEY, Rounds

_ROLES: Final = frozenset({"controller", "broker"})
#: How long a node that says it is not the controller is spared changes: each costs a connection and proves nothing.
_SPARED_NS: Final = 250_000_000
#: The option of a system that says how often an idle controller appends a record that changes nothing; 0: never.
_NO_OPS: Final = "idle_interval_ms"
_NOT_IN_CHARGE: Final = frozenset({"not-controller"})
#: Each name is asked for this long before it may be taken: an answer "taken" is then a lie.
_NAMES_AHEAD: Final = 1
#: The stream of draws that decides which nodes are only read, apart from those of operations.
_WINDOWS: Final = 16
#: Until the changes that the final views must show are acknowledged.
_LAST_CHANGE_NS: Final = 2_000_000_000


class MetadataWorkload:
    name: Final = "metadata"
    about: Final = "unique settings and names, written and read through every controller and broker"
    protocol: Final = Interface.METADATA
    effect_free: frozenset[str] = frozenset({"describe", "exists"})

    def options(self, system: System) -> dict[str, Any]:
        return {
            "rate": 300.0,
            "reads": 0.95,
            "keys": 8,
            "names": 8,
            "create_every": "500ms",
            "window": "12s",
            "writers_per_node": 2,
            "readers_per_node": 2,
            "change_timeout": "1500ms",
        }

    def choices(self, system: System) -> dict[str, tuple[str, ...]]:
        return {}

    def guarantee(self, system: System, options: Mapping[str, Any]) -> str:
        return "metadata-durable"

    def requires(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("leader-self-fencing",)

    def refuse(self, options: Mapping[str, Any], members: tuple[Member, ...]) -> str | None:
        return None

    def notice(self, options: Mapping[str, Any]) -> str | None:
        return None

    def checkers(self, system: System, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("metadata", "topic-names", "rejoin", "ground-truth")

    def keys(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (*(f"k{i}" for i in range(options["keys"])), LAST_KEY)

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        named = tuple(member.name for member in members if _ROLES & set(member.roles))
        return named or tuple(member.name for member in members)

    def workers(self, options: Mapping[str, Any], node_count: int) -> int:
        # On each node: writers of settings, one taker of names, readers of settings, askers for names.
        return int(node_count * (options["writers_per_node"] + 1 + 2 * options["readers_per_node"]))

    def timeout_s(self, options: Mapping[str, Any], node_count: int, worker: int, patient_s: float) -> float:
        # One asker on every node waits long: what it asked before a pause is worth hearing after it.
        if worker >= self.workers(options, node_count) - node_count:
            return patient_s
        return parse_duration_ns(options["change_timeout"], what="change_timeout") / 1e9

    def system_options(self, system: System) -> dict[str, Any]:
        # A controller that appends a record of its own now and then has one that it cannot commit soon after it is cut
        # off, and answers nothing behind it. Without them a superseded one goes on answering, which is worth seeing.
        return {_NO_OPS: 0} if _NO_OPS in system.options() else {}

    def generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        keys = self.keys(options)[:-1]
        windows = _Windows(nodes=node_count, length_ns=max(1, parse_duration_ns(options["window"], what="window")))
        every_ns = max(1, parse_duration_ns(options["create_every"], what="create_every"))
        readers = node_count * options["readers_per_node"]

        def alter(ctx: Context, worker: int) -> Offer:
            return Offer("alter", ctx.draw(worker).choice(keys), _unique(ctx, worker))

        def create(ctx: Context, worker: int) -> Offer:
            return Offer("create", name_at(ctx.time_ns, every_ns), 1)

        def describe(worker: int, i: int, draw: Draw) -> Offer:
            return Offer("describe", draw.choice(keys))

        # A share of nothing is a pace too slow to be met, not a division by zero.
        reads_ns = round(1e9 / (options["rate"] * max(options["reads"], 1e-6)))
        writes_ns = round(1e9 / (options["rate"] * max(1 - options["reads"], 1e-6)))
        return reserve(
            (node_count * options["writers_per_node"], stagger(writes_ns, _Changes(windows=windows, offer=alter))),
            (node_count, stagger(every_ns // 2, _Changes(windows=windows, offer=create))),
            (readers, stagger(reads_ns * 3 // 2, draws(describe))),
            (readers, stagger(reads_ns * 3, _Asks(names=options["names"], every_ns=every_ns))),
        )

    def final_generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        """One more setting and name, which views must show to be of use; then everything from every node, in rounds."""
        every_ns = max(1, parse_duration_ns(options["create_every"], what="create_every"))
        total = self.workers(options, node_count)

        def alter(worker: int, i: int, draw: Draw) -> Offer:
            return Offer("alter", LAST_KEY, i * total + worker + 1)

        rounds = Rounds(keys=self.keys(options), every_ns=every_ns)
        last_name = _Changes(windows=None, offer=lambda ctx, worker: Offer("create", name_at(ctx.time_ns, every_ns), 1))
        return reserve(
            (
                node_count,
                phases(
                    time_limit(_LAST_CHANGE_NS, until_ok(limit(1, draws(alter)))),
                    time_limit(_LAST_CHANGE_NS, until_ok(limit(1, last_name))),
                    rounds,
                ),
            )
        )

    def client(self, store: Metadata, options: Mapping[str, Any], now_ns: Callable[[], int]) -> Client:
        return MetadataClient(store)


def name_at(time_ns: int, every_ns: int) -> str:
    """The name that belongs to this moment of the run."""
    return f"t{time_ns // every_ns}"


def _unique(ctx: Context, worker: int) -> int:
    return ctx.counts[worker] * ctx.total + worker + 1


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


class MetadataClient:
    """One connection to one node. Settings are decimal numbers; a name is taken (1) or not (None)."""

    def __init__(self, store: Metadata) -> None:
        self._store = store

    async def invoke(self, offer: Offer) -> Completion:
        assert offer.key is not None
        match offer.f:
            case "alter":
                return self._done(await self._store.alter(offer.key, b"%d" % offer.value), offer.value)
            case "create":
                return self._done(await self._store.create_name(offer.key), offer.value)
            case "exists":
                reply = await self._store.name_taken(offer.key)
                return self._done(reply, None if reply.value is None else 1)
            case _:
                reply = await self._store.describe(offer.key)
                return self._done(reply, int(reply.value) if reply.value else None)

    async def close(self) -> None:
        await self._store.close()

    def _done(self, reply: Reply, value: Any) -> Completion:
        return Completion(
            Outcome.OK,
            value,
            position=reply.position,
            value_position=reply.value_position,
            epoch=reply.epoch,
            session=self._store.session_id,
        )
