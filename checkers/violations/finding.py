"""A finding: one violation with the operations that show it, the sentences that explain it, and its witness.

A rule with its chances: what could have broken a guarantee in this run, and what was lacking where nothing could.

Times, positions and operations in words, the same in the sentences of every checker.

From findings to a verdict there is one ladder, the same for every checker. A violation was found: `invalid`. Else there
is a doubt: `unknown`, with the cause of the doubt. Else the guarantee was tested too seldom: `unknown`. Else it was
kept: `valid`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from fencepost.checkers.derived.evidence import row
from fencepost.checkers.derived.positions import events_of
from fencepost.harness.history import UNNAMED_NODE, Operation, Value
from fencepost.harness.verdict import Cause, Facts, Rule, Stop, Validity, VerdictProof, Witness
from fencepost.harness.verdict.figures import Traced

#: So many operations of a proof are named in its sentence.
_TOLD_MAX: Final = 8


def seconds(ns: int) -> str:
    """A time of the run, as the report's axis shows it; to the nanosecond where a file counts in small numbers."""
    return f"{ns} ns" if ns < 1_000_000 else f"{ns / 1e9:.6f} s"


def duration(ns: int) -> str:
    """A length of time as a person says it: "4 ms", "5.2 s"."""
    if ns >= 1_000_000_000:
        return f"{ns / 1e9:.1f} s"
    if ns >= 1_000_000:
        return f"{ns / 1e6:.0f} ms" if ns >= 10_000_000 else f"{ns / 1e6:.1f} ms"
    return f"{ns / 1e3:.0f} µs"


def shown(position: int | None) -> str:
    """A position in a store's order; those of two parts, as a zxid, are read in hexadecimal."""
    if position is None:
        return "unknown"
    return f"{position:#x}" if position >= 1 << 32 else str(position)


def by(op: Operation) -> str:
    """Who asked for an operation, and where it begins in the history: "by process 3 on n1 (event 17)"."""
    where = "" if op.node == UNNAMED_NODE else f" on {op.node}"
    return f"by process {op.process}{where} (event {op.invoke_index})"


def describe(op: Operation) -> str:
    """Which operation, so that it can be found in the history."""
    what = "" if op.value is None else f" of {plain(op, op.value):.80}"
    on = f" of {op.key}" if op.key is not None else ""
    return f"{op.f}{what}{on} {by(op)}"


def plain(op: Operation, value: Value) -> str:
    """What an operation asked or answered; the parts of a transaction as "r x; w y 3"."""
    if op.f != "txn" or not isinstance(value, list) or not all(isinstance(part, list) and part for part in value):
        return repr(value)
    return "; ".join(" ".join(filter(None, (str(f).removeprefix(":"), *map(_part, more)))) for f, *more in value)


def _part(value: Value) -> str:
    """A key or a value as the file has it; nothing for an answer that is still to come."""
    return "" if value is None else value if isinstance(value, str) and value.startswith(":") else repr(value)


def listed(operations: Sequence[Operation], phrase: Callable[[Operation], str], most: int) -> str:
    """Say the first operations, as `phrase` names them, and how many more there are."""
    more = len(operations) - most
    return "; ".join(map(phrase, operations[:most])) + (f"; and {more} more" if more > 0 else "")


def proof_words(
    must: Sequence[Operation], may: Sequence[Operation], behind: str, phrase: Callable[[Operation], str]
) -> list[str]:
    """Name the few operations that prove by themselves that there is no order; `behind` says after what."""
    if not must:
        return []
    alone = "This alone proves it" if len(must) == 1 else f"No order explains even these {len(must)} operations"
    whether = f"; whether or not {'this' if len(may) == 1 else 'these'} took effect: " if may else ""
    return [f"{alone}{behind}: {listed(must, phrase, _TOLD_MAX)}{whether}{listed(may, phrase, _TOLD_MAX)}."]


def rule(name: str, chances: int, lacks: str) -> Rule:
    """`lacks` is said only where there was no chance."""
    return Rule(name=name, chances=chances, lacks="" if chances else lacks)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One violation: its name, the operations that show it, and the sentences that explain it.

    The operation at index `about` stands for the violation when violations are counted; if no operation can, the row
    `counted_by` does. `events` are further rows that show it. `key`, `nodes`, `from_ns` and `to_ns` are those of the
    operations unless they are given; `to_ns` is when the last operation ended.
    """

    anomaly: str
    operations: tuple[Operation, ...] = ()
    steps: tuple[str, ...]
    about: int = -1
    counted_by: int | None = None
    events: tuple[int, ...] = ()
    key: str | None = None
    nodes: tuple[str, ...] = ()
    from_ns: int | None = None
    to_ns: int | None = None
    proof: VerdictProof | None = None

    @property
    def counted(self) -> Operation:
        return self.operations[self.about]

    @property
    def row(self) -> int | None:
        """The row that stands for the violation; None if only a node's disk shows it."""
        if self.counted_by is not None or not self.operations:
            return self.counted_by
        return row(self.counted)

    def witness(self) -> Witness:
        """Return the finding as events of the history."""
        shown = self.operations
        ends = (o.invoked_ns if o.completed_ns is None else o.completed_ns for o in shown)
        return Witness(
            anomaly=self.anomaly,
            events=tuple(sorted({*events_of(*shown), *self.events})),
            steps=self.steps,
            from_ns=min(o.invoked_ns for o in shown) if self.from_ns is None else self.from_ns,
            to_ns=max(ends) if self.to_ns is None else self.to_ns,
            key=shown[0].key if self.key is None and shown else self.key,
            nodes=self.nodes or tuple(sorted({o.node for o in shown})),
            proof=self.proof,
        )


def violations(findings: Sequence[Finding]) -> dict[str, Traced[int]]:
    """Count findings by anomaly, with the row of each that has one."""
    counts = Counter(finding.anomaly for finding in findings)
    rows: dict[str, list[int]] = {}
    for finding in findings:
        if finding.row is not None:
            rows.setdefault(finding.anomaly, []).append(finding.row)
    return {name: Traced(count, tuple(rows.get(name, ()))) for name, count in counts.items()}


class Named(Protocol):
    """What shows an anomaly."""

    @property
    def anomaly(self) -> str: ...


F = TypeVar("F", bound=Named)


def one_of_each_first(findings: Sequence[F]) -> list[F]:
    """Order the findings so that every anomaly comes once before any comes twice."""
    before = Counter[str]()
    ranked = list[tuple[int, F]]()
    for one in findings:
        ranked.append((before[one.anomaly], one))
        before[one.anomaly] += 1
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])]


#: Of histories with more operations the orders that prove them valid are not kept in the verdict.
ORDERED_MAX: Final = 5_000
#: Findings of one verdict that become witnesses; all are counted.
WITNESSES_MAX: Final = 5


class Doubt(NamedTuple):
    """A reason why a verdict without a violation is `unknown` and not `valid`."""

    cause: Cause
    reason: str


def contradicted(contradictions: Sequence[str]) -> Doubt | None:
    """Return the doubt where two parts of a checker contradict each other, which says nothing about the system."""
    if not contradictions:
        return None
    more = f"; and {len(contradictions) - 1} more" if len(contradictions) > 1 else ""
    return Doubt(Cause.FAILED, f"{contradictions[0]}{more}; one of the two is a defect of fencepost")


def stopped(stops: Sequence[str | None], reason: str) -> Doubt | None:
    """Return the doubt where searches ended without an answer: by their budget, or by a defect of fencepost."""
    if not stops:
        return None
    return Doubt(Cause.FAILED if Stop.CONTRADICTED in stops else Cause.OUT_OF_BUDGET, reason)


class Conclusion(NamedTuple):
    """The rung at which the ladder ends; `cause` is given for `unknown`."""

    validity: Validity
    reason: str
    cause: Cause | None = None


def conclude(*, broken: str, doubt: Doubt | None = None, untested: str = "", kept: str = "") -> Conclusion:
    """Go up the ladder. Each text is the reason at its rung; a rung with an empty text (or None) is left out."""
    if broken:
        return Conclusion(Validity.INVALID, broken)
    if doubt is not None:
        return Conclusion(Validity.UNKNOWN, doubt.reason, doubt.cause)
    if untested:
        return Conclusion(Validity.UNKNOWN, untested, Cause.NO_EXPOSURE)
    return Conclusion(Validity.VALID, kept)


def too_few(exposure: int, exposure_of: str, facts: Facts, none: str = "") -> str:
    """Say why this little exposure makes a pass vacuous, by the text `none` where there was none; empty: enough."""
    least = facts.thresholds.exposure_min
    if exposure >= least:
        return ""
    return (not exposure and none) or f"{exposure} {exposure_of}; at least {least} are asked for"


def no_chance(rules: Sequence[Rule], facts: Facts) -> str:
    """Say why none of the rules could have fired; empty if one could, if there is none, or if no exposure is needed."""
    if not rules or any(rule.chances for rule in rules) or not facts.thresholds.exposure_min:
        return ""
    return "no rule could have fired: " + "; ".join(f"{rule.name}: {rule.lacks}" for rule in rules)
