"""`register`: reads, writes and compare-and-sets over a few keys, and readers that seldom act.

With unique values (the default) every write writes a number that no other operation writes, so that each read names
its write; with `values=small` five values meet often. Compare-and-sets compare with the value that their worker last
read of the key. The seldom readers are read-only, several on every node: idle when a fault begins, so that some of
their reads are invoked on a paused leader and answered the moment it wakes (ZOOKEEPER-1675; the numbers come from
experiments with 3.9.5).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.coordination import Interface, Locks, ReadMode, Reply
from fencepost.harness.generators import (
    Context,
    Draw,
    Generator,
    Invocation,
    Offer,
    each_worker,
    limit,
    reserve,
    stagger,
)
from fencepost.harness.generators.contract import Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.contract.system import System

_SMALL_VALUES: Final = 5


class Register:
    name: Final = "register"
    about: Final = "read, write and compare-and-set over several keys"
    protocol: Final = Interface.STORAGE
    effect_free: frozenset[str] = frozenset({"read"})

    def options(self, system: System) -> dict[str, Any]:
        return {
            "reads": system.read_modes[0].value,
            "values": "unique",
            "keys": 5,
            "rate": 150.0,
            "active_per_node": 2,
            "active_timeout": "1500ms",
            "seldom_per_node": 6,
            "seldom_every": "2500ms",
        }

    def choices(self, system: System) -> dict[str, tuple[str, ...]]:
        return {"reads": tuple(mode.value for mode in system.read_modes), "values": ("unique", "small")}

    def guarantee(self, system: System, options: Mapping[str, Any]) -> str:
        return system.read_guarantee(ReadMode(options["reads"]))

    def requires(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def refuse(self, options: Mapping[str, Any], members: tuple[Member, ...]) -> str | None:
        return None

    def notice(self, options: Mapping[str, Any]) -> str | None:
        return None

    def checkers(self, system: System, options: Mapping[str, Any]) -> tuple[str, ...]:
        by_guarantee = {
            "linearizable": ("linearizable", "freshness"),
            "fresh-after-sync": ("freshness",),
        }.get(self.guarantee(system, options), ())
        ordered = ("session-order",) if any(g.name == "session-order" for g in system.guarantees) else ()
        return (*by_guarantee, *ordered)

    def keys(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(f"r{i}" for i in range(options["keys"]))

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        return tuple(member.name for member in members)

    def workers(self, options: Mapping[str, Any], node_count: int) -> int:
        return int(node_count * (options["active_per_node"] + options["seldom_per_node"]))

    def timeout_s(self, options: Mapping[str, Any], node_count: int, worker: int, patient_s: float) -> float:
        # Impatient where the load comes from, so that it goes on elsewhere; patient where an answer is worth a wait.
        active = worker < node_count * options["active_per_node"]
        return parse_duration_ns(options["active_timeout"], what="active_timeout") / 1e9 if active else patient_s

    def system_options(self, system: System) -> dict[str, Any]:
        return {}

    def generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        keys = self.keys(options)
        active = _Active(keys=keys, unique=options["values"] == "unique")
        seldom = parse_duration_ns(options["seldom_every"], what="seldom_every")
        shares = [(node_count * options["active_per_node"], stagger(round(1e9 / options["rate"]), active))]
        if options["seldom_per_node"]:
            readers = node_count * options["seldom_per_node"]
            shares.append((readers, each_worker(stagger(seldom, _Reads(keys=keys)))))
        return reserve(*shares)

    def final_generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        keys = self.keys(options)
        return reserve((node_count, each_worker(limit(len(keys), _Reads(keys=keys, in_turn=True)))))

    def client(self, store: Locks, options: Mapping[str, Any], now_ns: Callable[[], int]) -> Client:
        return RegisterClient(store, ReadMode(options["reads"]))


class _Reads(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of drawn keys, or of each key in turn."""

    keys: tuple[str, ...]
    in_turn: bool = False
    done: int = 0

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        key = self.keys[self.done % len(self.keys)] if self.in_turn else ctx.draw(worker).choice(self.keys)
        after = msgspec.structs.replace(self, done=self.done + 1) if self.in_turn else self
        return Invocation(worker, Offer("read", key), ctx.time_ns), after

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


class _Active(msgspec.Struct, frozen=True, kw_only=True):
    """40 % writes, 35 % reads, 25 % compare-and-sets; `seen` is what each worker last read or wrote, per key."""

    keys: tuple[str, ...]
    unique: bool
    seen: dict[tuple[int, str], int] = {}

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        draw = ctx.draw(worker)
        key = draw.choice(self.keys)
        point = draw.random()
        if point < 0.35:
            offer = Offer("read", key)
        else:
            new = self._fresh(ctx, worker, draw)
            old = self._compared(worker, key, draw)
            offer = Offer("cas", key, [old, new]) if point >= 0.75 and old is not None else Offer("write", key, new)
        return Invocation(worker, offer, ctx.time_ns), self

    def _fresh(self, ctx: Context, worker: int, draw: Draw) -> int:
        """Unique in the run: every operation of every worker has its own number, from 1 on."""
        return ctx.counts[worker] * ctx.total + worker + 1 if self.unique else 1 + draw.below(_SMALL_VALUES)

    def _compared(self, worker: int, key: str, draw: Draw) -> int | None:
        return self.seen.get((worker, key)) if self.unique else 1 + draw.below(_SMALL_VALUES)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if not self.unique or event.type is not Outcome.OK or event.key is None:
            return self
        value = event.value[1] if event.f == "cas" else event.value
        if value is None:
            return self
        # One small dict, copied: a generator is a value, and a run has a few keys and workers.
        return _Active(keys=self.keys, unique=True, seen={**self.seen, (ctx.worker_of(event), event.key): value})


class RegisterClient:
    """One connection; values are decimal numbers, an absent or empty value is None."""

    def __init__(self, store: Locks, mode: ReadMode) -> None:
        self._store = store
        self._mode = mode

    async def invoke(self, offer: Offer) -> Completion:
        assert offer.key is not None
        if offer.f == "read":
            reply = await self._store.read(offer.key, self._mode)
            return self._done(reply, int(reply.value) if reply.value else None)
        if offer.f == "write":
            return self._done(await self._store.write(offer.key, b"%d" % offer.value), offer.value)
        old, new = offer.value
        return self._done(await self._store.cas(offer.key, b"%d" % old, b"%d" % new), offer.value)

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
