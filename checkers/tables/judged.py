"""Tables as the command line judges and shows them (`harness.verdict.tables`)."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.checkers.tables import operations_file, transactions_file
from fencepost.checkers.tables.histories import (
    ended,
    events_of,
    transaction_events_of,
    transaction_witnesses_in,
    witnesses_in,
)
from fencepost.checkers.tables.transactions import Rows
from fencepost.harness.history import Event, History
from fencepost.harness.verdict import Facts, Verdict, Witness
from fencepost.harness.verdict.tables import CAS_REGISTER, ShownRows

#: Rows of the shown keys together; of larger ones the sentences stand without a drawing.
_ROWS_MAX: Final = 200_000
#: Micro-operations and elements of the shown transactions together; of larger ones likewise.
_VALUES_MAX: Final = 20_000
_NAMED: Final = re.compile(r"\bT(\d+)\b")


class Operations(operations_file.TableFile):
    """A table of operations on registers."""

    model: Final = CAS_REGISTER

    def __init__(self, path: Path, model: str | None = None) -> None:
        super().__init__(path)
        self._path = path

    def check(self, facts: Facts) -> Verdict:
        return operations_file.check(self._path, facts)

    def shown(self, verdict: Verdict) -> ShownRows:
        """The keys of the witnesses; without those of too many rows."""
        keys = [int(witness.key.removeprefix("key ")) for witness in verdict.witnesses if witness.key is not None]
        left, chosen = _ROWS_MAX, list[int]()
        for key in keys:
            rows = self.count(key)
            if rows <= left:
                chosen.append(key)
                left -= rows
        return ShownRows(events=events_of(self.read(chosen)) if chosen else [])

    def witnesses(self, history: History, verdict: Verdict, facts: Facts) -> tuple[Witness, ...]:
        return witnesses_in(history, verdict, facts)

    def size(self) -> int:
        return int(self.query(lambda files: files.count_rows())) * len(self.schema)

    def events(self) -> list[Event]:
        return ended(events_of(self.read()))


class Transactions(transactions_file.TransactionsFile):
    """A table of transactions."""

    def __init__(self, path: Path, model: str | None = None) -> None:
        super().__init__(path, model)
        self._path = path

    def check(self, facts: Facts) -> Verdict:
        return transactions_file.check(self._path, facts, self.model)

    def shown(self, verdict: Verdict) -> ShownRows:
        """The transactions of the witnesses and those that bear witness to their steps; without too large ones."""
        named = [_named(witness) for witness in verdict.witnesses]
        rows = self.read({number for numbers in named for number in numbers})
        sizes = dict(zip(rows.numbers.tolist(), _sizes(rows), strict=True))
        left, chosen = _VALUES_MAX, set[int]()
        for numbers in named:
            size = sum(sizes[number] for number in numbers - chosen)
            if size <= left:
                chosen |= numbers
                left -= size
        if len(chosen) < len(sizes):
            rows = self.read(chosen)
        return ShownRows(events=transaction_events_of(rows), numbers=tuple(rows.numbers.tolist()))

    def witnesses(self, history: History, verdict: Verdict, facts: Facts) -> tuple[Witness, ...]:
        return transaction_witnesses_in(history, verdict)

    def events(self) -> list[Event]:
        return ended(transaction_events_of(self.read()))


def _named(witness: Witness) -> set[int]:
    return {*witness.transactions, *(int(number) for step in witness.steps for number in _NAMED.findall(step))}


def _sizes(rows: Rows) -> Sequence[int]:
    """Of each transaction: itself, its micro-operations, and the elements that it read."""
    c = rows.columns
    ops = c.first[1:] - c.first[:-1]
    elements = c.start[c.first[1:]] - c.start[c.first[:-1]] if rows.lists else 0
    return (1 + ops + elements).tolist()  # type: ignore[no-any-return]  # numpy's lists are of anything
