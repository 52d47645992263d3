"""What producers played and readers saw: transactions by number, records by partition, producers by token."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import Newest, grouped
from fencepost.checkers.derived.positions import by_key, completed_ns
from fencepost.harness.history import History, Operation, Outcome, PhaseName

_TRANSACTIONS: Final = frozenset({"transact", "transform", "late-record"})
#: Refusals before anything of a transaction was sent.
_UNSENT: Final = frozenset({"no-producer", "no-input", "not-connected", "not-sent"})


class Sight(msgspec.Struct, frozen=True):
    """A record as a reader saw it first."""

    partition: str
    offset: int
    number: int
    input: int | None
    read: Operation


class LogTransaction(msgspec.Struct, frozen=True):
    """One transaction: `partitions` are those that it was to have a record in, where that is known."""

    operation: Operation
    number: int
    commits: bool
    wait_ns: int
    partitions: frozenset[str]

    @property
    def committed(self) -> bool:
        """Whether its commit was acknowledged."""
        return self.commits and self.operation.type is Outcome.OK

    @property
    def never(self) -> bool:
        """Whether it is not committed for sure: no commit was asked for, or the coordinator refused it."""
        return not self.commits or self.operation.type is Outcome.FAIL

    @property
    def left_open(self) -> bool:
        """Whether its producer left it without knowing its end, or put a late record into it."""
        if self.operation.f == "late-record":
            return self.operation.type is not Outcome.FAIL
        return self.operation.type is not Outcome.OK and self.operation.error not in _UNSENT

    @property
    def records(self) -> tuple[tuple[str, int], ...]:
        """The partitions and offsets of its records, where it was answered."""
        if self.operation.type is not Outcome.OK:
            return ()
        result = self.operation.result
        rows = result[-1]
        return tuple((f"p{partition}", offset) for partition, offset in rows)


class PartitionLog:
    """One partition: every record that committed reads showed, and what the reads of the final phase say of it."""

    def __init__(self, key: str, reads: Sequence[Operation], final_ns: int | None) -> None:
        self.key: Final = key
        self.reads: Final = [read for read in reads if read.f == "read-committed"]
        #: By number: the first sight of each record that a committed read showed.
        self.shown: Final = _first_sights(key, self.reads)
        ending = [read for read in reads if final_ns is not None and read.invoked_ns >= final_ns]
        last = [read for read in ending if read.f == "read-committed"]
        self.final: Final = _first_sights(key, last)
        #: What stands in the log at the end, whether committed or not.
        self.logged: Final = _first_sights(key, [read for read in ending if read.f == "read-uncommitted"])
        self.last_read: Final = max(last, key=lambda read: read.invoked_ns, default=None)
        self.complete: Final = self.last_read is not None and self.last_read.result[0] >= self.last_read.result[2]
        self.covered_to: Final = max((read.result[0] for read in last), default=0)

    @property
    def unstable(self) -> bool:
        """Whether the last committed read ends before the log does."""
        return self.last_read is not None and self.last_read.result[1] < self.last_read.result[2]


def _first_sights(key: str, reads: Iterable[Operation]) -> dict[int, dict[int, Sight]]:
    """By number and offset."""
    sights: dict[int, dict[int, Sight]] = {}
    for read in reads:
        for row in read.result[3]:
            offset, number = row[0], row[1]
            own = sights.setdefault(number, {})
            if offset not in own:
                own[offset] = Sight(key, offset, number, row[2] if len(row) > 2 else None, read)
    return sights


class TransactionsView:
    """One history."""

    def __init__(self, history: History) -> None:
        final = history.phases.get(PhaseName.FINAL)
        self.final_ns: Final = None if final is None else final[0]
        reads: dict[str, list[Operation]] = {}
        self.begins: Final[list[Operation]] = []
        self.transactions: Final[dict[int, LogTransaction]] = {}
        #: By name: how far the inputs were read, as answered last.
        self.consumed: Final[dict[str, Operation]] = {}
        for operation in history.operations:
            key, answered = operation.key or "", operation.type is Outcome.OK
            if operation.f in _TRANSACTIONS:
                transaction = _transaction(operation)
                self.transactions[transaction.number] = transaction
            elif answered and operation.f == "begin":
                self.begins.append(operation)
            elif answered and operation.f in ("read-committed", "read-uncommitted"):
                reads.setdefault(key, []).append(operation)
            elif answered and operation.f == "consumed" and final is not None and operation.invoked_ns >= final[0]:
                self.consumed[key] = operation
        self.partitions: Final = {key: PartitionLog(key, own, self.final_ns) for key, own in sorted(reads.items())}
        #: By name: the producer with the greatest token that had been given before a moment.
        self.tokens: Final = {
            name: Newest((begin.result[0], completed_ns(begin), begin) for begin in own)
            for name, own in by_key(self.begins).items()
        }
        self._own: Final = grouped(self.begins, lambda begin: (begin.process, begin.key or ""))

    @property
    def version(self) -> int:
        """The highest version of transactions that a producer played; 0 where none began."""
        return max((begin.result[1] for begin in self.begins), default=0)

    @property
    def unread(self) -> list[str]:
        """The partitions whose end no committed read reached in the final phase."""
        wanted = {key for transaction in self.transactions.values() for key in transaction.partitions}
        return sorted(key for key in wanted if key not in self.partitions or not self.partitions[key].complete)

    def began(self, transaction: LogTransaction) -> Operation | None:
        """The beginning of the producer that played a transaction."""
        operation = transaction.operation
        own = self._own.get((operation.process, operation.key or ""), [])
        return next((b for b in reversed(own) if completed_ns(b) <= operation.invoked_ns), None)


def _transaction(operation: Operation) -> LogTransaction:
    number, wanted, ending, wait_ms = operation.value
    partitions: Iterable[int] = ()
    if operation.f != "transform":
        partitions = wanted
    elif operation.type is Outcome.OK:
        partitions = (partition for partition, _ in operation.result[2])
    return LogTransaction(
        operation,
        number,
        ending == "commit",
        wait_ms * 1_000_000,
        frozenset(f"p{partition}" for partition in partitions),
    )
