"""What all answers of a store say for certain: how far it had come by when, and which numbers are taken."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from fencepost.checkers.storage.kv.acts import Act, Compare, Dialect, Kind, Txn, by_key


class Check(NamedTuple):
    """A compare of the transaction `row` that held at the number `at`, or did not."""

    row: int
    at: int
    compare: Compare
    held: bool


class Writers:
    """Transactions of unknown outcome, by what they put."""

    def __init__(self, heads: Iterable[Act]) -> None:
        self._by_put: dict[tuple[str | None, int | None], list[Act]] = {}
        for head in heads:
            for part in by_key((head,)):
                if part.kind is Kind.PUT:
                    self._by_put.setdefault((part.key, part.value), []).append(head)
                    self._by_put.setdefault((part.key, None), []).append(head)

    def of(self, made: Mapping[str | None, int | None]) -> list[Act]:
        """Return the transactions that can have made all these versions: values by key, None if unknown."""
        one, *others = (self._by_put.get(version, []) for version in made.items())
        rows = [{id(head) for head in heads} for heads in others]
        return [head for head in one if all(id(head) in ids for ids in rows)]


class Store:
    """What all keys share: how far the store had come by when, and which numbers are taken."""

    def __init__(self, acts: Sequence[Act], dialect: Dialect, pinned: Mapping[int, Act] | None = None) -> None:
        self.dialect = dialect
        self.keys: dict[str | None, list[Act]] = {}
        self.checks: dict[str | None, list[Check]] = {}
        self._pairs: set[tuple[str | None, str | None]] = set()
        for act in by_key(acts):
            self.keys.setdefault(act.key, []).append(act)
        for act in acts:
            if act.txn is not None:
                self._add(act, act.txn)
        answered = sorted((a.ended, a.reached) for a in acts if a.done is not None and a.kind is not Kind.SYNC)
        self._ends = [end for end, _ in answered]
        self._reached = [-1]
        for _, reached in answered:
            self._reached.append(max(reached, self._reached[-1]))
        current = [a.known - a.writes for a in acts if a.done is not None and a.current and a.at is not None]
        #: At numbers up to this one there can be writes that the history does not have.
        self.begun = dialect.begun(current)
        self.owners = {a.known for a in acts if a.writes and a.done is not None}
        #: By number, of which keys answers tell that it made a version of them.
        self.told: dict[int, set[str | None]] = {}
        for act in by_key(acts):
            if act.made is not None:
                self.told.setdefault(act.made, set()).add(act.key)
        self._used_numbers: dict[str | None, list[int]] = {}
        #: By number, transactions of unknown outcome of which any can have made what was shown of it.
        self.choices: dict[int, list[Act]] = {}
        self._sure = {**self._certain(acts), **(pinned or {})}

    def _add(self, head: Act, txn: Txn) -> None:
        written = [part.key for part in txn.parts if part.writes]
        self._pairs |= set(product(written, written))
        if head.done is None or (not txn.succeeded and len(txn.compares) != 1):
            # Which one of several did not hold nobody says.
            return
        for compare in txn.compares:
            check = Check(head.row, head.known - head.writes, compare, txn.succeeded)
            self.checks.setdefault(compare.key, []).append(check)

    def _certain(self, acts: Sequence[Act]) -> dict[int, Act]:
        """Return by number the transactions of unknown outcome that alone can have made what was shown at it."""
        heads = [act for act in acts if act.txn is not None and act.done is None]
        shown: dict[int, dict[str | None, int | None]] = {}
        for act in by_key(acts) if heads else ():
            if act.made is not None and act.made > self.begun and act.made not in self.owners:
                made = shown.setdefault(act.made, {})
                made[act.key] = act.shown if made.get(act.key) is None else made[act.key]
        sure: dict[int, Act] = {}
        spent: set[int] = set()
        writers = Writers(heads)
        plain: dict[tuple[str | None, int | None], int] = {}
        for act in acts if heads else ():
            if act.done is None and act.kind is Kind.PUT:
                floor = self.floor(act)
                for version in ((act.key, act.value), (act.key, None)):
                    plain[version] = min(floor, plain.get(version, floor))
        for at, made in sorted(shown.items()):
            could = [head for head in writers.of(made) if self.floor(head) < at]
            if len(could) > 1:
                self.choices[at] = could
            alone = len(made) > 1 or plain.get(next(iter(made.items())), at) >= at
            # It took effect once: what it seems to have made elsewhere as well nobody made.
            if alone and len(could) == 1 and could[0].row not in spent:
                sure[at] = could[0]
                spent.add(could[0].row)
        return sure

    def sure_of(self, key: str | None) -> list[tuple[int, Act]]:
        """Return what transactions of unknown outcome certainly did to a key, and pinned writes, with numbers."""
        return [(at, part) for at, act in self._sure.items() for part in by_key((act,)) if part.key == key]

    def together(self, key: str | None, other: str | None) -> bool:
        """Whether any transaction could have written both at one number."""
        return (key, other) in self._pairs

    def floor(self, act: Act) -> int:
        """Return the highest number that any answer had told when `act` was invoked."""
        return self._reached[bisect_left(self._ends, act.invoked)]

    def used_numbers(self, key: str | None) -> list[int]:
        """Return in order the numbers at which another key was written, or this one by an acknowledged write."""
        if key not in self._used_numbers:
            others = (at for at, keys in self.told.items() if not all(k == key or self.together(k, key) for k in keys))
            self._used_numbers[key] = sorted({*self.owners, *others})
        return self._used_numbers[key]
