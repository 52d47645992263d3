"""Findings about transactions: each is confirmed by the rows that it names before it counts."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from fencepost.checkers import _core
from fencepost.checkers.transactions import weak_isolation
from fencepost.checkers.transactions.columns import TransactionColumns
from fencepost.checkers.transactions.exhaustion import Exhaustion
from fencepost.checkers.transactions.proof import CycleProof, ListProof, NativeAnomaly, RegisterProof
from fencepost.checkers.transactions.words import ListWords, RegisterWords, TransactionFinding
from fencepost.harness.verdict.consistency_models import ruled_out, ruled_out_of_registers

#: Findings of one name that are confirmed and told, by the native core; the others are counted.
SHOWN_MAX: Final = 10


class TransactionFindings:
    """The findings about one history, confirmed as they come in, and the models that they rule out."""

    def __init__(self, columns: TransactionColumns, *, lists: bool) -> None:
        self.told: list[TransactionFinding] = []
        self.counts: Counter[str] = Counter()
        #: Findings of the native core that the rows do not confirm.
        self.contradictions: list[str] = []
        #: Whether some transaction did not read what it had written itself.
        self.misses_own = False
        self._proof = ListProof(columns) if lists else RegisterProof(columns)
        self._words = ListWords(columns) if lists else RegisterWords(columns)
        self._rules_out = ruled_out if lists else ruled_out_of_registers

    def ruled_out(self) -> tuple[str, ...]:
        """Return the models that the findings rule out, weakest first."""
        return self._rules_out(self.counts)

    def against(self, model: str) -> list[str]:
        """Return the anomalies that rule out a model."""
        return [name for name in self.counts if model in self._rules_out([name])]

    def take(self, report: _core.TransactionReport | _core.WeakReport) -> None:
        """Confirm the anomalies of a report and describe them; those that the rows do not confirm are
        `contradictions`."""
        self.misses_own |= report.misses_own
        self.counts.update(dict(report.counts))
        for anomaly in itertools.starmap(NativeAnomaly, report.anomalies):
            if self._proof.anomaly(anomaly):
                self.told.append(self._words.anomaly(anomaly))
            else:
                self.counts[anomaly.name] -= 1
                self._contradict(anomaly.name, (anomaly.transaction, anomaly.other))
        self.counts = +self.counts

    def take_cycles(self, cycles: Iterable[CycleProof], suffix: str = "") -> None:
        """Confirm cycles as `take` does.

        Args:
            suffix: the order that versions were inferred from, where the names of cycles do not say it.
        """
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
