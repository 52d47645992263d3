"""`log-transactions`: producers play transactions over several partitions, and are superseded while they do.

Operations of a producer have its name as key: "x<i>", or "c<i>" where it also reads an input and sends its offset, or
"m<i>" where it does that as a member of a group, whose generation fences it and not its epoch (KIP-447):
  begin      as the next producer of the name: an ok has [token, version]. It fences the one before.
  transact   value: [number, partitions, ending, wait_ms]. One record with that number goes into each of the partitions,
             in one transaction; then the producer waits, and commits or aborts as `ending` says. An ok did so, and has
             [ending, records], each record as [partition, offset].
  transform  value: [number, most, ending, wait_ms]. Up to `most` records of the input are read; for each a record with
             the number and that offset goes into a partition, and the new offset is part of the transaction. An ok has
             [at, count, records].
  late-record  value: [number, [partition], "abort", 0]. A record for the transaction that the producer just aborted,
             like a request that was under way for long. An ok was appended; it must never be shown as committed.
  consumed   how far the producers of the name have read, by committed transactions.
Operations on partition i have the key "p<i>":
  read-committed, read-uncommitted   value: the first offset; an ok has [following, stable, high watermark, records],
             each record as [offset, number] or [offset, number, input].

A `fail` of a transaction means that it was not committed and never will be. One that was to be aborted is never
committed, whatever its outcome.

Every name is played on every node. Whoever begins fences the others, who learn that only from what they send next; some
wait inside a transaction meanwhile. At the end every partition is read both ways, until nothing is unstable any more.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.generators import at_rate, reserve
from fencepost.harness.generators.contract import PENDING, Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload
from fencepost.systems.kafka.protocols import KafkaInterface, NamedProducer, Piece, Producers, TransactionsOnLogs

COMMIT: Final = "commit"
ABORT: Final = "abort"
#: Most records of an input that one transaction reads.
_INPUTS_MAX: Final = 3
#: The mean pause before a producer begins again after a failure; one that was fenced waits for `takeover`.
_AFTER_FAILURE_NS: Final = 300_000_000
#: Failures before anything was sent.
_UNSENT: Final = frozenset({"not-connected", "not-sent"})
#: The pause of a producer whose input is read to its end.
_NO_INPUT_NS: Final = 1_000_000_000
#: The stream of draws for pauses, apart from those of operations.
_PAUSES: Final = 18
#: Records that are kept of one reply.
_RECORDS: Final = 500
#: One reader in this many goes back to an earlier offset.
_BACK_ONE_IN: Final = 8
_BACK_RECORDS: Final = 200
#: The pause after a reply of the final phase in which there was nothing new.
_AGAIN_NS: Final = 100_000_000


class LogTransactionsOptions(Options, frozen=True, kw_only=True):
    partitions: Annotated[int, about("how many partitions records go to", least=2, most=100)] = 4
    producers: Annotated[int, about("names of producers that read nothing", least=1, most=100)] = 2
    transforming: Annotated[int, about("names of producers that read an input", least=0, most=100)] = 2
    grouped: Annotated[int, about("names of producers that read an input as members of a group", least=0, most=100)] = 1
    version: Annotated[
        Literal["auto", "1", "2"],
        about("version of transactions; 2: an epoch for each one (KIP-890); auto: the cluster's"),
    ] = "auto"
    rate: Annotated[float, about("transactions per second of one producer", above=0, most=1e6)] = 20.0
    read_rate: Annotated[float, about("reads per second, all readers together", above=0, most=1e6)] = 60.0
    readers_per_node: Annotated[int, about("workers per node that read", least=1, most=1000)] = 1
    abort_one_in: Annotated[int, about("one transaction in so many is aborted", least=2)] = 5
    wait_one_in: Annotated[int, about("one transaction in so many waits before its end", least=1)] = 4
    wait: Annotated[Duration, about("how long such a transaction waits at most", above=0)] = seconds(2)
    takeover: Annotated[Duration, about("mean time before a fenced producer begins again", above=0)] = seconds(8)
    late_one_in: Annotated[int, about("one aborted transaction in so many gets a late record", least=1)] = 3
    hangs_after: Annotated[
        Duration, about("a record may be unstable for so long after the last transaction, at the end", above=0)
    ] = seconds(15)

    @property
    def played(self) -> tuple[NamedProducer, ...]:
        """Everybody who plays; those that read have the number of their input in the name."""
        first = self.transforming
        return (
            *(NamedProducer(f"x{i}") for i in range(self.producers)),
            *(NamedProducer(f"c{i}", input=i) for i in range(first)),
            *(NamedProducer(f"m{i}", input=i, grouped=True) for i in range(first, first + self.grouped)),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(producer.name for producer in self.played)

    @property
    def readers(self) -> tuple[str, ...]:
        """The names that read an input."""
        return tuple(producer.name for producer in self.played if producer.input is not None)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return tuple(f"p{i}" for i in range(self.partitions))


class LogTransactions(Workload[LogTransactionsOptions]):
    name = "log-transactions"
    about = "transactions over partitions and over what was read, of superseded producers"
    protocol = KafkaInterface.TRANSACTIONS
    options = LogTransactionsOptions
    effect_free = frozenset({"read-committed", "read-uncommitted", "consumed"})
    promise = "transactions-atomic"
    judges = ("log-transactions",)
    roles = frozenset({"broker"})
    #: With three brokers a transaction can be on two while one is away. The short times let another broker coordinate
    #: and lead while a fault lasts.
    wants = {  # noqa: RUF012  # a read-only mapping
        "brokers": 3,
        "broker_session": "3s",
        "broker_heartbeat": "500ms",
        "replica_lag": "3s",
    }

    def needs(self, options: LogTransactionsOptions) -> Producers:
        return Producers(options.partitions, options.played)

    def workers(self, options: LogTransactionsOptions, node_count: int) -> int:
        return node_count * (len(options.names) + options.readers_per_node)

    def timeout_s(self, options: LogTransactionsOptions, node_count: int, worker: int, patient_s: float) -> float:
        """Long enough for every request of a transaction: a session gives each of them its own time."""
        return max(patient_s, options.wait.seconds + 12.0)

    def generator(self, options: LogTransactionsOptions, node_count: int) -> Generator:
        played = node_count * len(options.names)
        return reserve(
            (played, _Producers(rules=options, nodes=node_count)),
            (
                node_count * options.readers_per_node,
                at_rate(options.read_rate, _Readers(keys=options.partition_keys)),
            ),
        )

    def final_generator(self, options: LogTransactionsOptions, node_count: int) -> Generator:
        return _End(
            reads=tuple((key, f) for key in options.partition_keys for f in ("read-uncommitted", "read-committed")),
            readers=options.readers,
            patience_ns=options.hangs_after + seconds(5),
        )

    def client(self, store: TransactionsOnLogs, options: LogTransactionsOptions, now_ns: Callable[[], int]) -> Client:
        store.use_version(None if options.version == "auto" else int(options.version))
        return TransactionsClient(store, options)


class _Seat(msgspec.Struct, frozen=True):
    """One worker's producer: whether it has begun, and when it does something next; `late` is a late record's place."""

    begun: bool = False
    due_ns: int = 0
    late: int | None = None


class _Producers(msgspec.Struct, frozen=True, kw_only=True):
    """Every worker plays one name; those of one name are on different nodes. `seats` are copied for each change."""

    rules: LogTransactionsOptions
    nodes: int
    seats: dict[int, _Seat] = {}

    def op(self, ctx: Context) -> Step:
        worker = min(ctx.free, key=lambda w: self._seat(w).due_ns)
        seat = self._seat(worker)
        name = self.rules.names[worker // self.nodes % len(self.rules.names)]
        offer = self._transaction(ctx, worker, name) if seat.begun else Offer("begin", name)
        if seat.late is not None:
            offer = Offer("late-record", name, [ctx.number(worker), [seat.late], ABORT, 0])
        return Invocation(worker, offer, max(seat.due_ns, ctx.time_ns)), self

    def _seat(self, worker: int) -> _Seat:
        return self.seats.get(worker) or _Seat()

    def _transaction(self, ctx: Context, worker: int, name: str) -> Offer:
        rules, draw = self.rules, ctx.draw(worker)
        ending = ABORT if draw.below(rules.abort_one_in) == 0 else COMMIT
        waits = draw.below(rules.wait_one_in) == 0
        wait_ms = draw.below(rules.wait.ms + 1) if waits else 0
        number = ctx.number(worker)
        if name in rules.readers:
            return Offer("transform", name, [number, 1 + draw.below(_INPUTS_MAX), ending, wait_ms])
        left = list(range(rules.partitions))
        chosen = [left.pop(draw.below(len(left))) for _ in range(1 + draw.below(min(3, rules.partitions)))]
        return Offer("transact", name, [number, sorted(chosen), ending, wait_ms])

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        worker = ctx.worker_of(event)
        after = self._after(self._seat(worker), event, ctx.time_ns, Draw(ctx.seed, worker, ctx.counts[worker], _PAUSES))
        return msgspec.structs.replace(self, seats={**self.seats, worker: after})

    def _after(self, seat: _Seat, event: OpEvent, now_ns: int, draw: Draw) -> _Seat:
        if event.f == "late-record":
            return _Seat(False, now_ns)
        if event.type is Outcome.OK:
            if event.f == "transact" and event.value[0] == ABORT and draw.below(self.rules.late_one_in) == 0:
                return _Seat(True, now_ns, event.value[1][0][0])
            return _Seat(True, max(now_ns, seat.due_ns + round(1e9 / self.rules.rate)))
        if event.error == "no-input":
            return _Seat(True, now_ns + _NO_INPUT_NS)
        # Whoever failed inside a transaction is the newest producer of the name, and soon goes on. Others wait, or no
        # producer would have the time for a transaction.
        soon = event.error in _UNSENT or (event.f != "begin" and event.error != "fenced")
        mean_ns = _AFTER_FAILURE_NS if soon else int(self.rules.takeover)
        return _Seat(False, now_ns + mean_ns // 2 + draw.below(mean_ns + 1))


class _Readers(msgspec.Struct, frozen=True, kw_only=True):
    """Each worker reads partitions in turns, one way and the other; `places` are its next offsets."""

    keys: tuple[str, ...]
    places: dict[tuple[int, str, str], int] = {}

    def op(self, ctx: Context) -> Step:
        worker = ctx.free[0]
        draw = ctx.draw(worker)
        key = draw.choice(self.keys)
        f = "read-uncommitted" if draw.below(2) else "read-committed"
        back = draw.below(_BACK_RECORDS) if draw.below(_BACK_ONE_IN) == 0 else 0
        place = max(0, self.places.get((worker, f, key), 0) - back)
        return Invocation(worker, Offer(f, key, place), ctx.time_ns), self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if event.type is not Outcome.OK or event.key is None:
            return self
        which = ctx.worker_of(event), event.f, event.key
        following = max(self.places.get(which, 0), event.value[0])
        return msgspec.structs.replace(self, places={**self.places, which: following})


class _End(msgspec.Struct, frozen=True, kw_only=True):
    """Read every partition to its end in both ways, until it is stable or time is over; then how far inputs were read.

    A read that failed is asked again, by way of another node.
    """

    reads: tuple[tuple[str, str], ...]
    readers: tuple[str, ...]
    patience_ns: int
    until_ns: int | None = None
    following: dict[tuple[str, str], int] = {}
    due_ns: dict[tuple[str, str], int] = {}
    busy: frozenset[tuple[str, str]] = frozenset()
    done: frozenset[tuple[str, str]] = frozenset()

    def op(self, ctx: Context) -> Step:
        if self.until_ns is None:
            return PENDING, msgspec.structs.replace(self, until_ns=ctx.time_ns + self.patience_ns)
        over = ctx.time_ns >= self.until_ns
        left = [which for which in self.reads if which not in self.done]
        if not left or over:
            left = [(name, "consumed") for name in self.readers if (name, "consumed") not in self.done]
        free = [which for which in left if which not in self.busy and self.due_ns.get(which, 0) <= ctx.time_ns]
        if not left or ctx.time_ns >= self.until_ns + self.patience_ns:
            return None, self
        if not free or not ctx.free:
            return PENDING, self
        key, f = free[0]
        offer = Offer(f, key) if f == "consumed" else Offer(f, key, self.following.get(free[0], 0))
        return Invocation(ctx.free[0], offer, ctx.time_ns), msgspec.structs.replace(self, busy=self.busy | {free[0]})

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        which = event.key or "", event.f
        if which not in self.busy:
            return self
        after = msgspec.structs.replace(self, busy=self.busy - {which})
        later = {**self.due_ns, which: ctx.time_ns + _AGAIN_NS}
        if event.type is not Outcome.OK:
            return msgspec.structs.replace(after, due_ns=later)
        if event.f == "consumed":
            return msgspec.structs.replace(after, done=self.done | {which})
        following, _, high, _ = event.value
        if following >= high:
            return msgspec.structs.replace(after, done=self.done | {which})
        moved = following > self.following.get(which, 0)
        return msgspec.structs.replace(
            after,
            following={**self.following, which: following},
            due_ns=self.due_ns if moved else later,
        )


class TransactionsClient(SessionClient[TransactionsOnLogs]):
    """One session; a worker plays one producer with it, or reads."""

    def __init__(self, store: TransactionsOnLogs, options: LogTransactionsOptions) -> None:
        super().__init__(store)
        self._producers = {producer.name: producer for producer in options.played}
        self._partitions = options.partition_keys

    async def invoke(self, offer: Offer) -> Completion:
        assert offer.key is not None
        if offer.f in ("read-committed", "read-uncommitted"):
            partition = self._partitions.index(offer.key)
            piece = await self._store.read(partition, offer.value, committed=offer.f == "read-committed")
            return Completion(Outcome.OK, _reply(piece))
        producer = self._producers[offer.key]
        match offer.f:
            case "begin":
                begun = await self._store.begin(producer)
                return Completion(Outcome.OK, [begun.token, begun.version])
            case "transact":
                number, partitions, ending, wait_ms = offer.value
                put = await self._store.transact(
                    producer, number, partitions, commit=ending == COMMIT, wait_s=wait_ms / 1e3
                )
                return Completion(Outcome.OK, [ending, _pairs(put.records)])
            case "transform":
                number, most, ending, wait_ms = offer.value
                done = await self._store.transform(
                    producer, number, most, commit=ending == COMMIT, wait_s=wait_ms / 1e3
                )
                return Completion(Outcome.OK, [done.at, done.count, _pairs(done.records)])
            case "late-record":
                late = await self._store.put_late(producer, offer.value[0], offer.value[1][0])
                return Completion(Outcome.OK, [ABORT, _pairs(late.records)])
        return Completion(Outcome.OK, await self._store.consumed(producer))


def _pairs(records: Sequence[tuple[int, int]]) -> list[list[int]]:
    return [[partition, offset] for partition, offset in records]


def _reply(piece: Piece) -> list[Any]:
    """The reply, cut to a number of records; then reading goes on after the last of them."""
    kept = piece.records[:_RECORDS]
    following = piece.following if len(kept) == len(piece.records) else kept[-1].offset + 1
    rows = [[r.offset, r.number] if r.read is None else [r.offset, r.number, r.read] for r in kept]
    return [following, piece.stable, piece.high_watermark, rows]
