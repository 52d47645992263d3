"""`partition-states`: partitions get other leaders all the time, and every broker is asked what it knows of them.

Operations:
  view  no key; an ok has what the broker says of the cluster (`harness.history.BrokerView`): the brokers that it takes
        for alive, and the leader, epoch and in-sync replicas of each partition.
  move  key "p<i>", value: the partition's replicas in a new order, of which the first is to lead. One move in four
        leaves one out, and the next move of the partition gives it back, which must catch up before it is in sync.

A controller tells the brokers who leads (ZooKeeper mode), or each broker reads it from the metadata log (KRaft). Either
way a broker that is cut off from the active controller alone goes on serving clients, and knows nothing of later
leaders. Which answers were superseded is known from the epochs in the other brokers' answers.
"""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.coordination import Partitions
from fencepost.harness.generators import at_rate, draws, reserve, stagger
from fencepost.harness.generators.contract import PENDING, Context, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload
from fencepost.systems.kafka.broker_view import BrokerView, broker_view
from fencepost.systems.kafka.protocols import KafkaInterface, PartitionStates

#: How long a node that is not the controller gets no moves: each would cost a request and prove nothing.
_SPARED_NS: Final = 1_000_000_000
_NOT_IN_CHARGE: Final = frozenset({"not-controller"})
#: Rounds of the final phase begin this far apart, and so many in succession must agree.
_PAUSE_NS: Final = 500_000_000
_ROUNDS_ALIKE: Final = 2

#: With a replica less than so many, a partition could lose what appends need when one broker is away.
_RESIZED_MIN: Final = 3
#: The stream of draws that decides which moves take a replica away.
_SIZES: Final = 16

_VIEW: Final = draws(lambda worker, i, draw: Offer("view"))


class PartitionStatesOptions(Options, frozen=True, kw_only=True):
    partitions: Annotated[int, about("how many partitions are used", least=1, most=1000)] = 6
    rate: Annotated[float, about("views per second, all workers together", above=0, most=1e6)] = 100.0
    move_every: Annotated[Duration, about("mean time from one move of a leader to the next", above=0)] = seconds(0.4)
    resize_one_in: Annotated[
        int, about("one move in so many takes a replica away, which a later move gives back; 0: none", least=0)
    ] = 4
    viewers_per_node: Annotated[int, about("workers per node that ask for views", least=1, most=1000)] = 2
    fresh: Annotated[Duration, about("an answer may lack what another broker said this long before", above=0)] = (
        seconds(2)
    )
    fenced: Annotated[
        Duration, about("a broker that has lacked news for this long should not count as alive", above=0)
    ] = seconds(6)
    view_timeout: Annotated[Duration, about("an operation is given up after this long", above=0)] = seconds(1.5)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"p{i}" for i in range(self.partitions))


class PartitionStatesWorkload(Workload[PartitionStatesOptions]):
    name = "partition-states"
    about = "leaders of partitions move, and every broker says what it knows of them"
    protocol = KafkaInterface.PARTITION_STATES
    options = PartitionStatesOptions
    effect_free = frozenset({"view"})
    promise = "partition-states-agree"
    judges = ("partition-states",)
    roles = frozenset({"broker"})
    #: With a short session a broker of KRaft that is cut off is fenced while the fault lasts.
    wants = {  # noqa: RUF012  # a read-only mapping
        "brokers": 3,
        "broker_session": "3s",
        "broker_heartbeat": "500ms",
    }

    def needs(self, options: PartitionStatesOptions) -> Partitions:
        return Partitions(options.partitions)

    def workers(self, options: PartitionStatesOptions, node_count: int) -> int:
        return node_count * (1 + options.viewers_per_node)

    def timeout_s(self, options: PartitionStatesOptions, node_count: int, worker: int, patient_s: float) -> float:
        return options.view_timeout.seconds

    def generator(self, options: PartitionStatesOptions, node_count: int) -> Generator:
        moves = stagger(max(1, options.move_every), _Moves(nodes=node_count, rules=options))
        views = at_rate(options.rate, _VIEW)
        return reserve((node_count, moves), (node_count * options.viewers_per_node, views))

    def final_generator(self, options: PartitionStatesOptions, node_count: int) -> Generator:
        return reserve((node_count, _Rounds()))

    def client(self, store: PartitionStates, options: PartitionStatesOptions, now_ns: Callable[[], int]) -> Client:
        return PartitionStatesClient(store)


class _Moves(msgspec.Struct, frozen=True, kw_only=True):
    """Moves of drawn partitions to drawn replicas, through nodes that did not lately say that they cannot move any.

    `replicas` are those of each partition, by what views showed to be in sync; the first operation asks for a view.
    """

    nodes: int
    rules: PartitionStatesOptions
    replicas: tuple[tuple[int, ...], ...] = ()
    spared: dict[int, int] = {}

    def op(self, ctx: Context) -> Step:
        for worker in ctx.free:
            if not self.replicas:
                return Invocation(worker, Offer("view"), ctx.time_ns), self
            if ctx.time_ns >= self.spared.get(worker % self.nodes, 0):
                draw = ctx.draw(worker)
                partition = draw.below(len(self.replicas))
                own = self.replicas[partition]
                leader = draw.choice(own)
                order = [leader, *(broker for broker in own if broker != leader)]
                one_in = self.rules.resize_one_in
                if len(own) >= _RESIZED_MIN and one_in and ctx.draw(worker, _SIZES).below(one_in) == 0:
                    order.pop()
                return Invocation(worker, Offer("move", f"p{partition}", order), ctx.time_ns), self
        return PENDING, self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if event.type is Outcome.OK:
            return self._learned(broker_view(event.value)) if event.f == "view" else self
        if event.error not in _NOT_IN_CHARGE:
            return self
        # A small dict, copied: a generator is a value, and a run has a few nodes.
        node = ctx.worker_of(event) % self.nodes
        return msgspec.structs.replace(self, spared={**self.spared, node: ctx.time_ns + _SPARED_NS})

    def _learned(self, view: BrokerView) -> Generator:
        own = tuple(state.in_sync for state in view.partitions)
        return msgspec.structs.replace(self, replicas=own) if len(own) == self.rules.partitions and all(own) else self


class _Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """Every node is asked for its view, round by round, until all say the same in two rounds, a while apart.

    `workers` were asked in this round, `first` is its first answer, and `agreed` how many rounds in succession had
    equal answers from all. If the deadline of the phase ends the rounds early, the answers so far are judged.
    """

    workers: frozenset[int] = frozenset()
    first: BrokerView | None = None
    alike: bool = True
    agreed: int = 0
    not_before_ns: int = 0

    def op(self, ctx: Context) -> Step:
        rounds = self
        if len(self.workers) == len(ctx.workers) == len(ctx.free):
            rounds = _Rounds(
                agreed=self.agreed + 1 if self.alike and self.first is not None else 0,
                not_before_ns=ctx.time_ns + _PAUSE_NS,
            )
        if rounds.agreed >= _ROUNDS_ALIKE:
            return None, rounds
        for worker in ctx.free:
            if worker not in rounds.workers and ctx.time_ns >= rounds.not_before_ns:
                after = msgspec.structs.replace(rounds, workers=rounds.workers | {worker})
                return Invocation(worker, Offer("view"), ctx.time_ns), after
        return PENDING, rounds

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if event.f != "view":
            return self
        view = broker_view(event.value) if event.type is Outcome.OK else None
        if view is not None and self.first is None:
            return msgspec.structs.replace(self, first=view)
        alike = view is not None and self.first is not None and view.says_the_same(self.first)
        return self if alike else msgspec.structs.replace(self, alike=False)


class PartitionStatesClient(SessionClient[PartitionStates]):
    """One connection to one broker."""

    async def invoke(self, offer: Offer) -> Completion:
        if offer.f == "view":
            return Completion(Outcome.OK, (await self._store.view()).value())
        assert offer.key is not None
        await self._store.move(int(offer.key[1:]), offer.value)
        return Completion(Outcome.OK, offer.value)
