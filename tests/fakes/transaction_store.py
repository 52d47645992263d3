"""Partitions, inputs and producers in memory, with one coordinator of their transactions; planted bugs."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import History
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Thresholds, Verdict
from fencepost.systems.kafka.protocols import Begun, NamedProducer, Piece, Put, TransactionRecord, Transformed
from fencepost.systems.kafka.workloads.log_transactions import LogTransactions
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("b1", "b2", "b3")
GUARANTEES: Final = (
    "transactions-atomic",
    "transactions-durable",
    "aborted-transactions-hidden",
    "transactional-producers-fenced",
    "no-hanging-transactions",
    "transforms-exactly-once",
)
FACTS: Final = facts_of(
    "log-transactions", NODES, GUARANTEES, thresholds=Thresholds(ok_operations_min=40), options={"hangs_after": "3s"}
)
#: What each bug does, and the anomaly (checker:name) by which it must be found.
BUGS: Final = {
    "half": ("one partition of a committed transaction takes it for aborted", "log-transactions:torn-transaction"),
    "doubles": ("now and then a record is appended twice", "log-transactions:doubled-record"),
    "forgets": ("an acknowledged commit is aborted later", "log-transactions:lost-transaction"),
    "dirty": ("committed reads now and then show open transactions", "log-transactions:aborted-read"),
    "vanishes": ("the end of the log is cut off once", "log-transactions:vanished-record"),
    "another": ("a record now and then has another number", "log-transactions:phantom-record"),
    "no-fence": ("earlier producers commit", "log-transactions:fenced-commit"),
    "same-token": (
        "a producer now and then gets the token of the one before",
        "log-transactions:reused-producer-token",
    ),
    "late": ("a record arrives after its transaction was aborted", "log-transactions:hanging-transaction"),
    "old-offset": ("a producer that begins reads an old offset", "log-transactions:repeated-transform"),
    "offset-apart": ("offsets of aborted transactions are kept", "log-transactions:missing-transform"),
    "no-offset": ("in the end offsets of committed transactions are lost", "log-transactions:uncounted-transform"),
}
_PARTITIONS: Final = 4
#: An open transaction is aborted after so long.
_TIMEOUT_S: Final = 2.0
_LOAD_S: Final = 12.0


class Entry:
    """A record, or a marker without a number; `by` is the transaction that it belongs to."""

    def __init__(self, number: int, read: int | None, by: "Txn | None") -> None:
        self.number, self.read, self.by = number, read, by


class Txn:
    """A transaction: `committed` is None while it is open."""

    def __init__(self, name: str, token: int) -> None:
        self.name, self.token = name, token
        self.committed: bool | None = None
        self.partitions: set[int] = set()
        self.offset: int | None = None
        #: Partitions that decided otherwise, by a bug.
        self.otherwise: set[int] = set()

    def state(self, partition: int) -> bool | None:
        return False if partition in self.otherwise and self.committed is not None else self.committed


class FakeCluster(PlantedStore):
    """All partitions and producers of one run."""

    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("transactions", seed, bug)
        self.log: Final[list[list[Entry]]] = [[] for _ in range(_PARTITIONS)]
        self.tokens: Final[dict[str, int]] = {}
        self.open: Final[dict[str, Txn]] = {}
        self.offsets: Final[dict[str, list[int]]] = {}
        self.committed: Final[list[Txn]] = []
        self._timers: set[asyncio.Task[None]] = set()

    def begin(self, name: str) -> int:
        self.end(name, commit=False)
        before = self.tokens.get(name, 0)
        self.tokens[name] = before if before and self.hits("same-token", 3) else before + 1
        return self.tokens[name]

    def check(self, name: str, token: int) -> None:
        if self.tokens.get(name) != token and self.bug != "no-fence":
            raise Definite("fenced")

    def transaction(self, name: str, token: int) -> Txn:
        self.check(name, token)
        if name not in self.open:
            self.open[name] = Txn(name, token)
            timer = asyncio.ensure_future(self._abort_later(self.open[name]))
            self._timers.add(timer)
            timer.add_done_callback(self._timers.discard)
        return self.open[name]

    async def _abort_later(self, txn: Txn) -> None:
        await asyncio.sleep(_TIMEOUT_S)
        if self.open.get(txn.name) is txn:
            self.end(txn.name, commit=False)
            self.tokens[txn.name] += 1

    def append(self, partition: int, number: int, read: int | None, by: Txn) -> int:
        by.partitions.add(partition)
        log = self.log[partition]
        shown = number + 1_000_000 if self.hits("another", 40) else number
        log.append(Entry(shown, read, by))
        if self.hits("doubles", 40):
            log.append(Entry(shown, read, by))
            return len(log) - 2
        return len(log) - 1

    def end(self, name: str, *, commit: bool) -> None:
        txn = self.open.pop(name, None)
        if txn is None:
            return
        txn.committed = commit
        if commit and len(txn.partitions) > 1 and self.hits("half", 10):
            txn.otherwise.add(min(txn.partitions))
        keeps = commit and not (self.bug == "no-offset" and asyncio.get_running_loop().time() > _LOAD_S - 1)
        if txn.offset is not None and (keeps or self.bug == "offset-apart"):
            self.offsets.setdefault(name, []).append(txn.offset)
        if commit:
            self.committed.append(txn)
        for partition in sorted(txn.partitions):
            self.log[partition].append(Entry(0, None, None))
        if commit and self.hits("forgets", 30):
            self.random.choice(self.committed).committed = False
        if commit and self.hits("vanishes", 200):
            partition = min(txn.partitions)
            del self.log[partition][-20:]

    def offset(self, name: str, *, first: bool) -> int:
        known = self.offsets.get(name) or [0]
        return known[-2] if first and len(known) > 1 and self.hits("old-offset", 2) else known[-1]

    def read(self, partition: int, offset: int, *, committed: bool) -> Piece:
        log, stable = self.log[partition], self.stable(partition)
        dirty = committed and self.hits("dirty", 20)
        until = len(log) if dirty or not committed else stable
        rows = [
            TransactionRecord(at, entry.number, entry.read)
            for at, entry in enumerate(log[offset:until], offset)
            if entry.by is not None and (dirty or not committed or entry.by.state(partition))
        ]
        return Piece(tuple(rows), max(offset, until), stable, len(log))

    def stable(self, partition: int) -> int:
        log = self.log[partition]
        return next((at for at, e in enumerate(log) if e.by is not None and e.by.state(partition) is None), len(log))


class FakeTransactions(StoreSession[FakeCluster]):
    """Implements `systems.kafka.protocols.TransactionsOnLogs`."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster)
        self._tokens: dict[str, int] = {}
        self._positions: dict[str, int] = {}

    def use_version(self, version: int | None) -> None:
        return

    async def begin(self, named: NamedProducer) -> Begun:
        producer = named.name
        await self._travel()
        self._tokens[producer] = self._store.begin(producer)
        self._positions.pop(producer, None)
        await self._travel()
        return Begun(self._tokens[producer], 1)

    async def _put(self, name: str, rows: Sequence[tuple[int, int, int | None]]) -> tuple[tuple[int, int], ...]:
        token = self._tokens.get(name)
        if token is None:
            raise Definite("no-producer")
        records = []
        for partition, number, read in rows:
            await self._travel()
            txn = self._store.transaction(name, token)
            records.append((partition, self._store.append(partition, number, read, txn)))
            if self._store.random.randrange(100) == 0:
                raise Definite("timeout")
        return tuple(records)

    async def _end(self, name: str, *, commit: bool) -> None:
        await self._travel()
        self._store.check(name, self._tokens[name])
        if name not in self._store.open and self._store.bug != "no-fence":
            raise Definite("fenced")
        self._store.end(name, commit=commit)
        if commit and self._store.random.randrange(60) == 0:
            raise Indefinite("connection-lost")
        await self._travel()

    async def transact(
        self, named: NamedProducer, number: int, partitions: Sequence[int], *, commit: bool, wait_s: float
    ) -> Put:
        producer = named.name
        try:
            records = await self._put(producer, [(partition, number, None) for partition in partitions])
            await asyncio.sleep(wait_s)
            await self._end(producer, commit=commit)
        except (Definite, Indefinite):
            self._tokens.pop(producer, None)
            raise
        return Put(records)

    async def put_late(self, named: NamedProducer, number: int, partition: int) -> Put:
        producer = named.name
        await self._travel()
        token = self._tokens.pop(producer, None)
        if token is None:
            raise Definite("no-producer")
        if self._store.bug != "late":
            raise Definite("invalid-txn-state")
        offset = self._store.append(partition, number, None, Txn(producer, token))
        return Put(((partition, offset),))

    async def transform(
        self, named: NamedProducer, number: int, most: int, *, commit: bool, wait_s: float
    ) -> Transformed:
        producer = named.name
        if producer not in self._tokens:
            raise Definite("no-producer")
        at = self._positions.get(producer, self._store.offset(producer, first=True))
        try:
            records = await self._put(producer, [(i % _PARTITIONS, number, i) for i in range(at, at + most)])
            await asyncio.sleep(wait_s)
            self._store.transaction(producer, self._tokens[producer]).offset = at + most
            await self._end(producer, commit=commit)
        except (Definite, Indefinite):
            self._tokens.pop(producer, None)
            raise
        self._positions[producer] = at + most if commit else at
        return Transformed(records, at, most)

    async def read(self, partition: int, offset: int, *, committed: bool) -> Piece:
        await self._travel()
        piece = self._store.read(partition, offset, committed=committed)
        await self._travel()
        return piece

    async def consumed(self, named: NamedProducer) -> int:
        producer = named.name
        await self._travel()
        return self._store.offset(producer, first=False)


def run_fake_transactions(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 12 s of load, then the final phase."""
    cluster = FakeCluster(seed, bug)
    return play(
        LogTransactions(),
        lambda node: FakeTransactions(cluster),
        nodes=NODES,
        seed=seed,
        load_s=_LOAD_S,
        system="kraft",
        options={"hangs_after": "3s", "takeover": "1s", **(options or {})},
    )


def judge_transactions(history: History) -> list[Verdict]:
    return registry.checker("log-transactions")(history, FACTS)
