"""`log`: workers append unique values to several topic partitions; pollers read from offsets of their own.

Operations on partition i have the key "p<i>":
  append  value: a number that no other append writes; an ok has `position` (the offset) and, where the answer names it,
          `epoch`.
  poll    value: the first offset; an ok has the records as [offset, value], the first record of an epoch as
          [offset, value, epoch], `position` (the high watermark) and `epoch` (of the node, when it answered).
  scan    the same in the final phase: every partition from its beginning to its end.

A client is bound to one node, and a partition is written and read through the node that leads it. So the generator
remembers which node answered for which partition and lets each worker use the partitions of its node. Now and then a
worker polls a drawn partition, to learn whether leaders moved; a poll that the node refuses changes nothing. When two
nodes answer for one partition, both are used: this is how a zombie broker is found.

The options decide what is promised (Kafka's documentation of `acks` and `min.insync.replicas`): with acks=all and
min_isr of 2 or more, an acknowledged append is on two nodes. Weaker settings are measured under names of their own.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Interface, Partitions, Polled
from fencepost.harness.coordination import Log as LogSession
from fencepost.harness.generators import at_rate, stagger
from fencepost.harness.generators.contract import PENDING, Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.history.operation import NOT_ENOUGH_REPLICAS
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload, padded, unpadded
from fencepost.harness.runtime.node import Member

#: One operation in this many asks the worker's node for a drawn partition, whichever node leads it; one in this many
#: (`_SEEK`) for a partition without a known leader, while there is one. Idle workers are asked first each time, several
#: at once, so each of them probes less often.
_PROBE_ONE_IN: Final = 8
_IDLE_PROBE_ONE_IN: Final = 64
_SEEK_ONE_IN: Final = 2
#: One poll in this many goes back by up to this many replies: an offset must still hold the same record.
_BACK_ONE_IN: Final = 8
_BACK_REPLIES: Final = 4
#: A poller that is further behind than this many replies continues near the end; the final scan reads the rest.
_BEHIND_REPLIES: Final = 16
#: Records of one reply of the final scan, and the pace of its polls.
_SCAN_RECORDS: Final = 2000
_SCAN_EVERY_NS: Final = 2_000_000
#: Refusals that only a leader gives: the node is still the one to ask.
_AS_LEADER: Final = frozenset({NOT_ENOUGH_REPLICAS, "not-enough-replicas-after-append", "offset-out-of-range"})
#: An append with this end was not answered; the node may still answer polls of that partition.
_NO_ANSWER: Final = frozenset({"timeout", "request-timed-out"})
#: A stream of draws; the numbers of `generators.contract.Stream` are smaller.
_IDLE_STREAM: Final = 16

_MEASURED_ONLY: Final = (
    "appends are acknowledged before they are on two nodes (acks=1, or min_isr below 2): losses are measured, not"
    " judged"
)


class LogOptions(Options, frozen=True, kw_only=True):
    partitions: Annotated[int, about("how many partitions are used", least=1)] = 6
    acks: Annotated[Literal["all", "1"], about("which replicas have an append before it is acknowledged")] = "all"
    min_isr: Annotated[int, about("in-sync replicas that an append needs", least=1)] = 2
    idempotence: Annotated[
        Literal["auto", "on", "off"], about("whether producers are idempotent; auto: on with acks=all")
    ] = "auto"
    value_bytes: Annotated[int, about("size of the largest values, which are filled up", least=0, most=1 << 18)] = 0
    rate: Annotated[
        float, about("operations per second, all workers together; 0: as fast as they are answered", least=0, most=1e6)
    ] = 1e3
    appenders_per_node: Annotated[int, about("workers per node that append", least=1, most=1000)] = 4
    pollers_per_node: Annotated[int, about("workers per node that poll", least=1, most=1000)] = 2
    batch: Annotated[int, about("most records that are kept of one reply", least=1)] = 100
    append_timeout: Annotated[Duration, about("an operation is given up after this long", above=0)] = seconds(1.5)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"p{i}" for i in range(self.partitions))

    @property
    def replicated(self) -> bool:
        """Whether an acknowledged append is on two nodes at least."""
        return self.acks == "all" and self.min_isr >= 2


class LogWorkload(Workload[LogOptions]):
    name = "log"
    about = "append unique values to several partitions of a log, and poll them"
    protocol = Interface.LOG
    options = LogOptions
    effect_free = frozenset({"poll", "scan"})
    judges = ("log", "zombie-brokers")

    def guarantee(self, system: System, options: LogOptions) -> str:
        return "log-durable" if options.replicated else "log-durable-unreplicated"

    def refuse(self, options: LogOptions, members: tuple[Member, ...]) -> Refusal | None:
        if options.idempotence == "on" and options.acks != "all":
            return Refusal("idempotence=on needs acks=all", "leave one of them out")
        nodes = len(self.nodes(members))
        if options.min_isr > nodes:
            return Refusal(
                f"min_isr={options.min_isr} is more than the number of nodes that keep the log, {nodes}",
                f"ask for more of them, or for at most -o min_isr={nodes}",
            )
        return None

    def notice(self, options: LogOptions) -> str | None:
        return None if options.replicated else _MEASURED_ONLY

    def needs(self, options: LogOptions) -> Partitions:
        return Partitions(options.partitions, options.min_isr)

    def workers(self, options: LogOptions, node_count: int) -> int:
        return node_count * (options.appenders_per_node + options.pollers_per_node)

    def timeout_s(self, options: LogOptions, node_count: int, worker: int, patient_s: float) -> float:
        # A node that does not answer blocks its workers for this long; the workers of other nodes continue.
        return options.append_timeout.seconds

    def generator(self, options: LogOptions, node_count: int) -> Generator:
        traffic = _Traffic(
            keys=options.keys,
            appenders=node_count * options.appenders_per_node,
            nodes=node_count,
            batch=options.batch,
            leads=((),) * node_count,
            takes=((),) * node_count,
            orphans=tuple(range(options.partitions)),
            stuck=(),
            places=((0,) * options.partitions,) * self.workers(options, node_count),
        )
        return at_rate(options.rate, traffic)

    def final_generator(self, options: LogOptions, node_count: int) -> Generator:
        return stagger(_SCAN_EVERY_NS, _Scan(keys=options.keys, nodes=node_count, next=(0,) * options.partitions))

    def client(self, store: LogSession, options: LogOptions, now_ns: Callable[[], int]) -> Client:
        auto = options.idempotence == "auto"
        store.acknowledge(options.acks, idempotent=options.acks == "all" if auto else options.idempotence == "on")
        return LogClient(store, batch=options.batch, bytes_max=options.value_bytes)


class _Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Appends and polls.

    By node: `leads` are the partitions for which it last answered polls, and `takes` those of them to which appends are
    sent. After an append without an answer only a probe tries again. `orphans` are in no node's `leads`, `stuck` in no
    node's `takes`. `places` is where each worker polls next. The first `appenders` workers append, the others poll. A
    worker whose node leads nothing mostly lets workers of other nodes go first.
    """

    keys: tuple[str, ...]
    appenders: int
    nodes: int
    batch: int
    leads: tuple[tuple[int, ...], ...]
    takes: tuple[tuple[int, ...], ...]
    orphans: tuple[int, ...]
    stuck: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]

    def op(self, ctx: Context) -> Step:
        begun = sum(ctx.counts)
        for worker in ctx.free:
            useful = self._use(worker)
            # A worker that is skipped must not repeat its draw, so the draw depends on the number of operations that
            # the whole run has begun.
            draw = ctx.draw(worker) if useful else Draw(ctx.seed, worker, begun, _IDLE_STREAM)
            if self.orphans and draw.below(_SEEK_ONE_IN) == 0:
                offer = self._probe(ctx, worker, draw.choice(self.orphans))
            elif draw.below(_PROBE_ONE_IN if useful else _IDLE_PROBE_ONE_IN) == 0:
                every = range(len(self.keys))
                offer = self._probe(ctx, worker, draw.choice(self.stuck or every if draw.below(2) else every))
            elif not useful:
                continue
            elif worker < self.appenders:
                offer = self._append(ctx, worker, draw.choice(useful))
            else:
                back = draw.below(_BACK_REPLIES * self.batch) if draw.below(_BACK_ONE_IN) == 0 else 0
                offer = self._poll(worker, draw.choice(useful), back)
            return Invocation(worker, offer, ctx.time_ns), self
        return PENDING, self

    def _use(self, worker: int) -> tuple[int, ...]:
        """The partitions that this worker can work on through its node."""
        return (self.takes if worker < self.appenders else self.leads)[worker % self.nodes]

    def _probe(self, ctx: Context, worker: int, partition: int) -> Offer:
        """Ask whether the node leads; if it does and does not answer appends, try an append."""
        node = worker % self.nodes
        stuck = partition in self.leads[node] and partition not in self.takes[node]
        if stuck and worker < self.appenders:
            return self._append(ctx, worker, partition)
        return self._poll(worker, partition, 0)

    def _append(self, ctx: Context, worker: int, partition: int) -> Offer:
        return Offer("append", self.keys[partition], ctx.number(worker))

    def _poll(self, worker: int, partition: int, back: int) -> Offer:
        return Offer("poll", self.keys[partition], max(0, self.places[worker][partition] - back))

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        assert event.key is not None
        worker, partition = ctx.worker_of(event), int(event.key[1:])
        places, place = self.places, self.places[worker][partition]
        if event.type is Outcome.OK and event.f == "poll":
            place = self._place(place, event)
        elif event.error == "offset-out-of-range":
            place = 0
        if place != places[worker][partition]:
            places = _with(places, worker, _with(places[worker], partition, place))
        leads, takes = self._learned(worker % self.nodes, partition, event)
        if leads is self.leads and takes is self.takes and places is self.places:
            return self
        every = range(len(self.keys))
        orphans, stuck = self.orphans, self.stuck
        if leads is not self.leads or takes is not self.takes:
            orphans = tuple(p for p in every if not any(p in own for own in leads))
            stuck = tuple(p for p in every if p not in orphans and not any(p in own for own in takes))
        return msgspec.structs.replace(self, leads=leads, takes=takes, orphans=orphans, stuck=stuck, places=places)

    def _learned(
        self, node: int, partition: int, event: OpEvent
    ) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """Return `leads` and `takes` as they are after this completion."""
        leads, takes = self.leads, self.takes
        known, appendable = partition in leads[node], partition in takes[node]
        if event.type is Outcome.OK:
            if not appendable and (event.f == "append" or not known):
                takes = _with(takes, node, (*takes[node], partition))
            if not known:
                leads = _with(leads, node, (*leads[node], partition))
        elif event.error not in _AS_LEADER:
            if appendable:
                takes = _with(takes, node, tuple(p for p in takes[node] if p != partition))
            if known and not (event.f == "append" and event.error in _NO_ANSWER):
                leads = _with(leads, node, tuple(p for p in leads[node] if p != partition))
        return leads, takes

    def _place(self, place: int, event: OpEvent) -> int:
        """The next offset of the poller: after the last record, or near the end when it is too far behind."""
        if event.value:
            place = max(place, event.value[-1][0] + 1)
        end = event.position or 0
        return end - self.batch if end - place > _BEHIND_REPLIES * self.batch else place


def _with(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


class _Scan(msgspec.Struct, frozen=True, kw_only=True):
    """Poll each partition from offset 0 until a reply is empty at the high watermark, one poll at a time.

    A node that refused is asked again only after every node has refused.
    """

    keys: tuple[str, ...]
    nodes: int
    next: tuple[int, ...]
    busy: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    refused: frozenset[tuple[int, int]] = frozenset()

    def op(self, ctx: Context) -> Step:
        left = [p for p in range(len(self.keys)) if p not in self.done]
        if not left:
            return None, self
        for worker in ctx.free:
            for partition in left:
                if partition not in self.busy and (worker % self.nodes, partition) not in self.refused:
                    offer = Offer("scan", self.keys[partition], self.next[partition])
                    after = msgspec.structs.replace(self, busy=self.busy | {partition})
                    return Invocation(worker, offer, ctx.time_ns), after
        return PENDING, self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if event.f != "scan" or event.key is None:
            return self
        partition, node = int(event.key[1:]), ctx.worker_of(event) % self.nodes
        after = msgspec.structs.replace(self, busy=self.busy - {partition})
        if event.type is not Outcome.OK:
            refused = self.refused | {(node, partition)}
            if all((n, partition) in refused for n in range(self.nodes)):
                refused = frozenset(pair for pair in refused if pair[1] != partition)
            return msgspec.structs.replace(after, refused=refused)
        if event.value:
            return msgspec.structs.replace(after, next=_with(self.next, partition, event.value[-1][0] + 1))
        if self.next[partition] >= (event.position or 0):
            return msgspec.structs.replace(after, done=self.done | {partition})
        return after


class LogClient(SessionClient[LogSession]):
    """One connection; values are numbers (`padded`). Replies are cut to `batch` records to keep histories small."""

    def __init__(self, store: LogSession, *, batch: int, bytes_max: int) -> None:
        super().__init__(store)
        self._batch = batch
        self._bytes_max = bytes_max

    async def invoke(self, offer: Offer) -> Completion:
        assert offer.key is not None
        partition = int(offer.key[1:])
        if offer.f == "append":
            done = await self._store.append(partition, padded(offer.value, self._bytes_max))
            return Completion(Outcome.OK, offer.value, position=done.offset, epoch=done.epoch)
        polled = await self._store.poll(partition, offer.value)
        limit = _SCAN_RECORDS if offer.f == "scan" else self._batch
        return Completion(
            Outcome.OK, _rows(polled, limit, self._bytes_max), position=polled.high_watermark, epoch=polled.epoch
        )


def _rows(polled: Polled, limit: int, bytes_max: int) -> list[list[int]]:
    """The records as [offset, value], with the epoch as a third item where it differs from the record before."""
    rows: list[list[int]] = []
    epoch: int | None = None
    for record in polled.records[:limit]:
        row = [record.offset, unpadded(record.value, bytes_max)]
        if record.epoch is not None and record.epoch != epoch:
            row.append(record.epoch)
            epoch = record.epoch
        rows.append(row)
    return rows
