"""What was found of transactions: each finding is confirmed by the rows that it names before it counts."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from fencepost.checkers.transactions import weak_isolation
from fencepost.checkers.transactions.columns import WRITE, TransactionColumns
from fencepost.checkers.transactions.exhaustion import Exhaustion
from fencepost.checkers.transactions.proof import Anomaly, Cycle, ListProof, RegisterProof
from fencepost.checkers.transactions.words import TransactionFinding, Words
from fencepost.harness.base.errors import HarnessError

#: Findings of one name that are confirmed and told; the others are counted.
SHOWN_MAX: Final = 10


class TransactionFindings:
    """What was found, confirmed as it comes in, and what that rules out."""

    def __init__(
        self,
        columns: TransactionColumns,
        proof: ListProof | RegisterProof,
        words: Words,
        rules_out: Callable[[Iterable[str]], tuple[str, ...]],
    ) -> None:
        self.told: list[TransactionFinding] = []
        self.counts: Counter[str] = Counter()
        #: Whether some transaction did not read what it had written itself.
        self.misses_own = False
        self._columns = columns
        self._proof = proof
        self._words = words
        self._rules_out = rules_out

    def ruled_out(self) -> tuple[str, ...]:
        """Models, weakest first."""
        return self._rules_out(self.counts)

    def against(self, model: str) -> list[str]:
        """The anomalies that rule it out."""
        return [name for name in self.counts if model in self._rules_out([name])]

    def take(self, anomalies: Iterable[Anomaly], cycles: Iterable[Cycle], suffix: str = "") -> None:
        """Confirm and tell; `suffix`: what the cycles' order of versions rests on, if their names do not say it."""
        anomalies = list(anomalies)
        self.misses_own |= any(map(self._lacks_own, self._own_written(anomalies)))
        for found in anomalies:
            self.counts[found.name] += 1
            if self.counts[found.name] <= SHOWN_MAX:
                if not self._proof.anomaly(found):
                    raise HarnessError(f"a finding of the native checker of transactions is not confirmed: {found}")
                self.told.append(self._words.anomaly(found))
        for cycle in cycles:
            if not self._proof.cycle(cycle):
                raise HarnessError(f"a cycle of the native checker of transactions is not confirmed: {cycle}")
            named = cycle
            base = cycle.name.removesuffix("-realtime").removesuffix("-process")
            if suffix:
                if any(self.counts[name] for name in (base, f"{base}-process", f"{base}{suffix}", cycle.name)):
                    continue
                named = cycle if cycle.name.endswith("-realtime") else cycle._replace(name=base + suffix)
            self.counts[named.name] += 1
            self.told.append(self._words.cycle(named))

    def take_circle(self, circle: weak_isolation.CommitCircle) -> None:
        """A circle of commits, confirmed where it was found."""
        self.counts[circle.name] += 1
        self.told.append(self._words.circle(circle))

    def take_exhaustion(self, exhaustion: Exhaustion) -> None:
        """That no order at all explains the history."""
        self.counts[exhaustion.name] += 1
        self.told.append(self._words.exhaustion(exhaustion))

    def _own_written(self, anomalies: list[Anomaly]) -> list[Anomaly]:
        """Reads that contradict their transaction, and come after it had written to their key."""
        found = [anomaly for anomaly in anomalies if anomaly.name == "internal"]
        c = self._columns
        op = np.array([anomaly.op for anomaly in found], dtype=np.int64)
        first = c.first[[anomaly.transaction for anomaly in found]]
        wrote = np.zeros(len(found), dtype=np.bool_)
        for back in range(1, int((op - first).max(initial=0)) + 1):
            earlier = np.maximum(op - back, first)
            wrote |= (earlier < op) & (c.kind[earlier] == WRITE) & (c.key[earlier] == c.key[op])
        return [found[place] for place in np.flatnonzero(wrote).tolist()]

    def _lacks_own(self, found: Anomaly) -> bool:
        """Whether a read that contradicts its transaction lacks what that had written; a list ends with it."""
        c = self._columns
        ops = slice(int(c.first[found.transaction]), found.op)
        own = c.value[ops][(c.kind[ops] == WRITE) & (c.key[ops] == c.key[found.op])].tolist()
        if not isinstance(self._proof, ListProof):
            return bool(own)
        seen = c.elements[int(c.start[found.op]) : int(c.start[found.op + 1])].tolist()
        return bool(seen[len(seen) - len(own) :] != own)
