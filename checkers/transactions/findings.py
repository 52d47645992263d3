"""Findings about transactions: each is confirmed by the rows that it names before it counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from fencepost.checkers.transactions import weak_isolation
from fencepost.checkers.transactions.columns import WRITE, TransactionColumns
from fencepost.checkers.transactions.exhaustion import Exhaustion
from fencepost.checkers.transactions.proof import CycleProof, ListProof, NativeAnomaly, RegisterProof
from fencepost.checkers.transactions.words import TransactionFinding, Words

#: Findings of one name that are confirmed and told; the others are counted.
SHOWN_MAX: Final = 10


class TransactionFindings:
    """The findings about one history, confirmed as they come in, and the models that they rule out."""

    def __init__(
        self,
        columns: TransactionColumns,
        proof: ListProof | RegisterProof,
        sentences: Words,
        rules_out: Callable[[Iterable[str]], tuple[str, ...]],
    ) -> None:
        self.told: list[TransactionFinding] = []
        self.counts: Counter[str] = Counter()
        #: Findings of the native core that the rows do not confirm.
        self.contradictions: list[str] = []
        #: Whether some transaction did not read what it had written itself.
        self.misses_own = False
        self._columns = columns
        self._proof = proof
        self._words = sentences
        self._rules_out = rules_out

    def ruled_out(self) -> tuple[str, ...]:
        """Return the models that the findings rule out, weakest first."""
        return self._rules_out(self.counts)

    def against(self, model: str) -> list[str]:
        """Return the anomalies that rule out a model."""
        return [name for name in self.counts if model in self._rules_out([name])]

    def take(self, anomalies: Iterable[NativeAnomaly], cycles: Iterable[CycleProof], suffix: str = "") -> None:
        """Confirm findings and describe them; those that the rows do not confirm are `contradictions`.

        Args:
            suffix: the order that versions were inferred from, where the names of cycles do not say it.
        """
        anomalies = list(anomalies)
        self.misses_own |= any(map(self._lacks_own, self._own_written(anomalies)))
        for anomaly in anomalies:
            if self.counts[anomaly.name] < SHOWN_MAX:
                if not self._proof.anomaly(anomaly):
                    self._contradict(anomaly.name, (anomaly.transaction, anomaly.other))
                    continue
                self.told.append(self._words.anomaly(anomaly))
            self.counts[anomaly.name] += 1
        for cycle in cycles:
            if not self._proof.cycle(cycle):
                self._contradict(cycle.name, [step.before for step in cycle.steps])
                continue
            named = cycle
            base = cycle.name.removesuffix("-realtime").removesuffix("-process")
            if suffix:
                if any(self.counts[name] for name in (base, f"{base}-process", f"{base}{suffix}", cycle.name)):
                    continue
                named = cycle if cycle.name.endswith("-realtime") else cycle._replace(name=base + suffix)
            self.counts[named.name] += 1
            self.told.append(self._words.cycle(named))

    def _contradict(self, name: str, transactions: Sequence[int]) -> None:
        shown = ", ".join(f"T{t}" for t in transactions if t >= 0)
        self.contradictions.append(
            f"the native checker of transactions found {name} ({shown}), and the rows of these do not confirm it"
        )

    def take_circle(self, circle: weak_isolation.CommitCircle) -> None:
        """Add a circle of commits, which was confirmed already."""
        self.counts[circle.name] += 1
        self.told.append(self._words.circle(circle))

    def take_exhaustion(self, exhaustion: Exhaustion) -> None:
        """Add that no order explains the history."""
        self.counts[exhaustion.name] += 1
        self.told.append(self._words.exhaustion(exhaustion))

    def _own_written(self, anomalies: list[NativeAnomaly]) -> list[NativeAnomaly]:
        """Return the reads that contradict their transaction after it had written to their key."""
        internal = [anomaly for anomaly in anomalies if anomaly.name == "internal"]
        c = self._columns
        op = np.array([anomaly.op for anomaly in internal], dtype=np.int64)
        first = c.first[[anomaly.transaction for anomaly in internal]]
        wrote = np.zeros(len(internal), dtype=np.bool_)
        for back in range(1, int((op - first).max(initial=0)) + 1):
            earlier = np.maximum(op - back, first)
            wrote |= (earlier < op) & (c.kind[earlier] == WRITE) & (c.key[earlier] == c.key[op])
        return [internal[place] for place in np.flatnonzero(wrote).tolist()]

    def _lacks_own(self, anomaly: NativeAnomaly) -> bool:
        """Whether a read that contradicts its transaction lacks what that had written; a list ends with it."""
        c = self._columns
        ops = slice(int(c.first[anomaly.transaction]), anomaly.op)
        own = c.value[ops][(c.kind[ops] == WRITE) & (c.key[ops] == c.key[anomaly.op])].tolist()
        if not isinstance(self._proof, ListProof):
            return bool(own)
        seen = c.elements[int(c.start[anomaly.op]) : int(c.start[anomaly.op + 1])].tolist()
        return bool(seen[len(seen) - len(own) :] != own)
