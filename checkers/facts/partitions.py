"""One topic partition in a history: who appended what, which record was read where, and what stands at the end.

All reads are believed. Offsets may have gaps (control records, compaction), so "next to each other" means next in the
final content, never one higher. The final content is what the scans read after healing, joined from offset 0 on as far
as they reach without a gap; `complete` when that is their highest high watermark.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.positions import LOG_READS
from fencepost.harness.history import History, Operation, Outcome

_APPEND: Final = "append"
_SCAN: Final = "scan"


class Row(msgspec.Struct, frozen=True, gc=False):
    """One record in a reply."""

    offset: int
    value: int
    epoch: int | None


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """By `at_ns` the partition's `epoch` had certainly begun; `proof` shows it."""

    epoch: int
    at_ns: int
    proof: Operation


class PartitionView:
    """All appends, polls and scans of one partition. Cost of making it: O(records read)."""

    def __init__(self, history: History, key: str, operations: list[Operation]) -> None:
        healed = history.healed_ns
        self.key: Final = key
        self.first: Final = operations[0]
        self.appends: Final = [o for o in operations if o.f == _APPEND]
        self.acknowledged: Final = [o for o in self.appends if o.type is Outcome.OK and o.position is not None]
        self.attempts: Final = [o for o in operations if o.f in LOG_READS]
        self.reads: Final = [o for o in self.attempts if o.type is Outcome.OK]
        self.scans: Final = [o for o in self.reads if o.f == _SCAN and healed is not None and o.invoked_ns >= healed]
        self.rows: Final = {o.invoke_index: rows_of(o) for o in self.reads}
        #: The first read that showed a value at an offset, and the record's epoch.
        self.shown: Final[dict[tuple[int, int], Operation]] = {}
        self.epochs: Final[dict[tuple[int, int], int]] = {}
        self.offsets_of: Final[dict[int, list[int]]] = {}
        self.values_at: Final[dict[int, list[int]]] = {}
        for read in self.reads:
            self._remember(read)
        self.final: dict[int, Row] = {}
        self.final_values: dict[int, int] = {}
        self.covered_to = 0
        self.complete = False
        self._join_scans()
        self.final_order: Final = sorted(self.final)
        self.begun: Final = self._begun()

    def epoch_of(self, append: Operation) -> int | None:
        """Return the epoch in which an acknowledged append was made: the record's own, else that of the reply."""
        if append.position is not None and (append.position, append.value) in self.epochs:
            return self.epochs[append.position, append.value]
        return append.epoch

    def scan_over(self, offset: int) -> Operation | None:
        """Return the scan that passed over `offset`, or that ended before it at the end of the log."""
        best: Operation | None = None
        for scan in self.scans:
            if scan.value <= offset:
                best = scan if best is None or scan.value >= best.value else best
        return best

    def _remember(self, read: Operation) -> None:
        for row in self.rows[read.invoke_index]:
            at = (row.offset, row.value)
            if at not in self.shown:
                self.shown[at] = read
                self.offsets_of.setdefault(row.value, []).append(row.offset)
                self.values_at.setdefault(row.offset, []).append(row.value)
            if row.epoch is not None:
                self.epochs.setdefault(at, row.epoch)

    def _join_scans(self) -> None:
        end = max((o.position or 0 for o in self.scans), default=0)
        for scan in sorted(self.scans, key=lambda o: (o.value, o.invoke_index)):
            if scan.value > self.covered_to:
                break
            for row in self.rows[scan.invoke_index]:
                self.final.setdefault(row.offset, row)
                self.final_values.setdefault(row.value, row.offset)
                self.covered_to = max(self.covered_to, row.offset + 1)
        self.complete = bool(self.scans) and self.covered_to >= end

    def _begun(self) -> list[Begun]:
        """Return the earliest proof of each epoch that is higher than all before it, in the order of time."""
        proofs: list[tuple[int, int, Operation]] = []
        seen: set[int] = set()
        answered = [o for o in (*self.reads, *self.acknowledged) if o.completed_ns is not None]
        for operation in sorted(answered, key=lambda o: o.completed_ns or 0):
            for epoch in self._epochs_in(operation):
                if epoch not in seen:
                    seen.add(epoch)
                    proofs.append((operation.completed_ns or 0, epoch, operation))
        rising: list[Begun] = []
        for at_ns, epoch, proof in proofs:
            if not rising or epoch > rising[-1].epoch:
                rising.append(Begun(epoch=epoch, at_ns=at_ns, proof=proof))
        return rising

    def _epochs_in(self, operation: Operation) -> Iterator[int]:
        if operation.epoch is not None:
            yield operation.epoch
        last: int | None = None
        for row in self.rows.get(operation.invoke_index, ()) if operation.f in LOG_READS else ():
            if row.epoch is not None and row.epoch != last:
                last = row.epoch
                yield row.epoch


def rows_of(read: Operation) -> list[Row]:
    """Return the records of a reply; a row without an epoch has the epoch of the row before it."""
    rows: list[Row] = []
    epoch: int | None = None
    for offset, value, *stamped in read.result or ():
        epoch = stamped[0] if stamped else epoch
        rows.append(Row(offset, value, epoch))
    return rows


@once
def partitions(history: History) -> list[PartitionView]:
    """List every partition that was appended to or read, by number."""
    own: dict[str, list[Operation]] = {}
    for operation in history.operations:
        if operation.key is not None and (operation.f == _APPEND or operation.f in LOG_READS):
            own.setdefault(operation.key, []).append(operation)
    return [PartitionView(history, key, own[key]) for key in sorted(own, key=lambda k: (len(k), k))]
