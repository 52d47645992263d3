"""Findings about transactions: each is confirmed by the rows that it names before it counts.

How often each rule could have fired is counted by what was asked, whatever was answered. A rule is named for the
anomaly that it finds. Its chances are the micro-operations by which a wrong answer would have shown that anomaly: a
dirty read needs a failed write of the key, a lost update two transactions that read the key before they wrote it, a
cycle with one anti-dependency a transaction that reads and depends on another one besides. The conditions are
necessary, not sufficient: whether transactions overlapped is not asked.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fencepost.checkers import _core
from fencepost.checkers.transactions import weak_isolation
from fencepost.checkers.transactions.columns import TransactionColumns
from fencepost.checkers.transactions.exhaustion import ALL, TRANSACTIONS_MAX, Exhaustion
from fencepost.checkers.transactions.native import call_core
from fencepost.checkers.transactions.proof import CycleProof, ListProof, NativeAnomaly, RegisterProof
from fencepost.checkers.transactions.words import ListWords, RegisterWords, TransactionFinding
from fencepost.checkers.violations.finding import rule
from fencepost.harness.verdict import Rule
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


_READ: Final = "no ok transaction read what another one writes"
_OVERWRITTEN: Final = "no two transactions write one key"
_FAILED: Final = "no ok transaction read a key that a failed one writes"
_TWICE: Final = "no ok transaction read a key that another one writes twice"
_UPDATES: Final = "no two transactions read one key and then wrote it"

#: Rules by the anomaly that they are named for: by which count, and what is lacking where that is 0.
_LISTS: Final = {
    "duplicate-elements": ("read", "no ok transaction read a list"),
    "incompatible-order": ("read_again", "no list was read twice, and no transaction appends to one twice"),
}
_REGISTERS: Final = {
    "cyclic-versions": ("updates", _UPDATES),
    "cyclic-versions-process": ("tested", _READ),
    "cyclic-versions-realtime": ("tested", _READ),
}
_BOTH: Final = {
    "garbage-read": ("read", "no ok transaction read anything"),
    "G1a": ("read_of_failed", _FAILED),
    "dirty-update": ("update_of_failed", f"{_FAILED} and another one overwrites"),
    "G1b": ("read_of_twice_written", _TWICE),
    "internal": ("read_of_own", "no ok transaction read a key that it had read or written before"),
    "future-read": ("read_before_own_write", "no ok transaction read a key before it wrote it"),
    "lost-update": ("updates", _UPDATES),
    "G0": ("overwritten_in_two_keys", f"{_OVERWRITTEN} and a second one"),
    "G0-process": ("overwritten", _OVERWRITTEN),
    "G0-realtime": ("overwritten", _OVERWRITTEN),
    "G1c": ("read_by_writer", f"{_READ}, and wrote besides"),
    "G1c-process": ("tested", _READ),
    "G1c-realtime": ("tested", _READ),
    "G-single": ("read_with_more", f"{_READ}, and did more besides"),
    "G-single-process": ("tested", _READ),
    "G-single-realtime": ("tested", _READ),
    "G-nonadjacent": ("read_with_more", f"{_READ}, and did more besides"),
    "G-nonadjacent-process": ("tested", _READ),
    "G-nonadjacent-realtime": ("tested", _READ),
    "G2-item": ("read_by_writer", f"{_READ}, and wrote besides"),
    "G2-item-process": ("tested", _READ),
    "G2-item-realtime": ("tested", _READ),
    "observed-transaction-vanishes": ("read_with_read", f"{_READ}, and read besides"),
    "observed-transaction-vanishes-process": ("tested", _READ),
    "fractured-reads": ("read_with_read", f"{_READ}, and read besides"),
    "fractured-reads-process": ("tested", _READ),
    "causality-violation": ("read_with_read", f"{_READ}, and read besides"),
    "causality-violation-process": ("tested", _READ),
}
#: Each of these comes with a cycle of one anti-dependency.
_SPECIAL_CASES: Final = frozenset(name for name in _BOTH if name.startswith(("observed-", "fractured-", "causality-")))


def chances_of(columns: TransactionColumns, *, lists: bool) -> dict[str, int]:
    """Count the chances of a whole history, by what they take (`native/transactions/src/chances.rs` says what).

    `tested`: reads of ok transactions that another transaction could have contradicted, since it writes their key.
    """
    return call_core(columns, _core.transaction_chances, lists=lists)


def rules_of(model: str, chances: Mapping[str, int], *, lists: bool, transactions: int) -> tuple[Rule, ...]:
    """The rules by which `model` could have been ruled out; `transactions` of the history did not fail.

    A rule that keeps the order of each process is left out where another one keeps that of real time, and so are the
    special cases of a cycle with one anti-dependency where every such cycle counts.
    """
    names = _BOTH | (_LISTS if lists else _REGISTERS)
    out = ruled_out if lists else ruled_out_of_registers
    against = {name for name in names if model in out([name])}
    against -= {f"{name.removesuffix('-realtime')}-process" for name in against if name.endswith("-realtime")}
    against -= _SPECIAL_CASES if "G-single" in against else set()
    rules = tuple(rule(name, chances[count], lacks) for name, (count, lacks) in names.items() if name in against)
    all_orders = ALL.get(model)
    if all_orders is None:
        return rules
    few = transactions <= TRANSACTIONS_MAX
    lacks = _READ if few else f"there are more than {TRANSACTIONS_MAX} transactions: not all orders can be tried"
    return (*rules, rule(all_orders, chances["tested"] if few else 0, lacks))
