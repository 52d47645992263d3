"""`register`: reads, writes and compare-and-sets on a few keys, and readers that seldom act.

With unique values every write writes a number that no other operation writes, so each read identifies its write. With
`values=small` there are five values, which often meet. A compare-and-set compares with the value that its worker last
read of the key. The seldom readers only read, several on every node. They are idle when a fault begins, so some of
their reads go to a paused leader and are answered the moment it wakes (ZOOKEEPER-1675; the numbers come from trials
with 3.9.5). Probes write to and read from a node that was superseded as leader while its successor serves.
"""

from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Interface, Keys, KeyValue, ReadMode
from fencepost.harness.generators import Draw, at_rate, draws, each_worker, once, phases, probes, reserve, stagger
from fencepost.harness.generators.contract import Context, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload, padded, unpadded


class RegisterOptions(Options, frozen=True, kw_only=True):
    reads: Annotated[ReadMode, about("how every read is made")] = ReadMode.STRONG
    values: Annotated[Literal["unique", "small"], about("what is written: new numbers, or five")] = "unique"
    value_bytes: Annotated[int, about("size of the largest values, which are filled up", least=0, most=1 << 18)] = 0
    keys: Annotated[int, about("how many keys are used", least=1)] = 5
    cas_share: Annotated[
        float, about("share of compare-and-sets; 0.35 are reads, the rest are writes", least=0, most=0.65)
    ] = 0.25
    settle: Annotated[
        Duration,
        about(
            "after a write of unknown outcome its key is read, and not written, for this long; 0: it is used on",
            least=0,
        ),
    ] = seconds(0)
    rate: Annotated[float, about("operations per second of the active workers together", above=0, most=1e6)] = 150.0
    active_per_node: Annotated[
        int, about("workers per node that read, write and compare-and-set", least=1, most=1000)
    ] = 2
    active_timeout: Annotated[Duration, about("time-out of an operation of an active worker", above=0)] = seconds(1.5)
    seldom_per_node: Annotated[int, about("workers per node that only read, and seldom", least=0, most=1000)] = 6
    seldom_every: Annotated[Duration, about("mean time between two reads of a seldom reader", above=0)] = seconds(2.5)
    probes_per_node: Annotated[
        int, about("workers per node that use it once it was superseded as leader", least=0, most=1000)
    ] = 4


class RegisterWorkload(Workload[RegisterOptions]):
    name = "register"
    about = "reads, writes and compare-and-sets on several keys"
    protocol = Interface.STORAGE
    options = RegisterOptions
    effect_free = frozenset({"read"})

    def defaults(self, system: System) -> RegisterOptions:
        return RegisterOptions(reads=system.profile.read_modes[0])

    def guarantee(self, system: System, options: RegisterOptions) -> str:
        return system.profile.read_guarantee(options.reads)

    def checkers(self, system: System, options: RegisterOptions) -> tuple[str, ...]:
        by_guarantee = {
            "linearizable": ("linearizable", "freshness"),
            "fresh-after-sync": ("freshness",),
            "fresh-from-leader": ("freshness",),
            "fresh-from-any-node": ("freshness",),
            "fresh-by-quorum": ("freshness",),
        }
        stated = {guarantee.name for guarantee in system.promises()}
        order = ("session-order",) if "session-order" in stated else ()
        return (*by_guarantee.get(self.guarantee(system, options), ()), *order, *system.profile.register_checkers)

    def needs(self, options: RegisterOptions) -> Keys:
        return Keys(tuple(f"r{i}" for i in range(options.keys)))

    def workers(self, options: RegisterOptions, node_count: int) -> int:
        return node_count * (options.active_per_node + options.seldom_per_node + options.probes_per_node)

    def timeout_s(self, options: RegisterOptions, node_count: int, worker: int, patient_s: float) -> float:
        # Active workers give up soon, so that the load continues elsewhere; the others wait for a late answer.
        return options.active_timeout.seconds if worker < node_count * options.active_per_node else patient_s

    def generator(self, options: RegisterOptions, node_count: int) -> Generator:
        keys = self.needs(options).names
        small = 5 if options.values == "small" else 0
        traffic = _Active(keys=keys, small=small, cas_share=options.cas_share, settle_ns=int(options.settle))
        active = at_rate(options.rate, traffic)
        idle = each_worker(stagger(options.seldom_every, draws(lambda w, i, draw: Offer("read", draw.choice(keys)))))
        probing = probes(
            lambda draw: Offer("read", draw.choice(keys)),
            lambda number, draw: _probe(keys, 1 + draw.below(small) if small else number, draw),
        )
        return reserve(
            (node_count * options.active_per_node, active),
            (node_count * options.seldom_per_node, idle),
            (node_count * options.probes_per_node, probing),
        )

    def final_generator(self, options: RegisterOptions, node_count: int) -> Generator:
        return reserve(
            (node_count, each_worker(phases(*(once(Offer("read", key)) for key in self.needs(options).names))))
        )

    def client(self, store: KeyValue, options: RegisterOptions, now_ns: Callable[[], int]) -> Client:
        return RegisterClient(store, options.reads, options.value_bytes)


def _probe(keys: tuple[str, ...], new: int, draw: Draw) -> Offer:
    key = draw.choice(keys)
    return Offer("read", key) if draw.below(4) == 0 else Offer("write", key, new)


class _Active(msgspec.Struct, frozen=True, kw_only=True):
    """35 % reads, the rest writes and compare-and-sets; `seen` is what each worker last read or wrote, per key.

    Keys of `unsettled` had a write of unknown outcome: until the time given they are only read, and half of all
    operations read one of them.
    """

    keys: tuple[str, ...]
    small: int  # how many values there are; 0: every write has its own
    cas_share: float
    settle_ns: int = 0
    seen: dict[tuple[int, str], int] = {}
    unsettled: dict[str, int] = {}

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        draw = ctx.draw(worker)
        key, point = draw.choice(self.keys), draw.random()
        unsettled = [key for key, until_ns in self.unsettled.items() if until_ns > ctx.time_ns]
        if unsettled and draw.below(2):
            return Invocation(worker, Offer("read", draw.choice(unsettled)), ctx.time_ns), self
        if point < 0.35 or key in unsettled:
            return Invocation(worker, Offer("read", key), ctx.time_ns), self
        new = 1 + draw.below(self.small) if self.small else ctx.number(worker)
        old = 1 + draw.below(self.small) if self.small else self.seen.get((worker, key))
        swaps = point >= 1 - self.cas_share and old is not None
        offer = Offer("cas", key, [old, new]) if swaps else Offer("write", key, new)
        return Invocation(worker, offer, ctx.time_ns), self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if self.settle_ns and event.type is Outcome.INFO and event.f != "read" and event.key is not None:
            unsettled = {key: until_ns for key, until_ns in self.unsettled.items() if until_ns > ctx.time_ns}
            unsettled[event.key] = ctx.time_ns + self.settle_ns
            return msgspec.structs.replace(self, unsettled=unsettled)
        if self.small or event.type is not Outcome.OK or event.key is None:
            return self
        value = event.value[1] if event.f == "cas" else event.value
        # One small dict, copied: a generator is a value, and a run has a few keys and workers.
        seen = self.seen if value is None else {**self.seen, (ctx.worker_of(event), event.key): value}
        return msgspec.structs.replace(self, seen=seen)


class RegisterClient(SessionClient[KeyValue]):
    """One connection; values are decimal numbers (`padded`), an absent or empty value is None."""

    def __init__(self, store: KeyValue, mode: ReadMode, bytes_max: int) -> None:
        super().__init__(store)
        self._mode = mode
        self._bytes_max = bytes_max

    async def invoke(self, offer: Offer) -> Completion:
        key, value = offer.key or "", offer.value
        if offer.f == "read":
            reply = await self._store.read(key, self._mode)
            value = unpadded(reply.value, self._bytes_max) if reply.value else None
        elif offer.f == "write":
            reply = await self._store.write(key, padded(value, self._bytes_max))
        else:
            reply = await self._store.cas(key, *(padded(number, self._bytes_max) for number in value))
        return self._ok(value, reply, reply.value_position)
