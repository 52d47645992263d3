"""A finding: one violation with the operations that show it, the sentences that explain it, and its witness."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from fencepost.checkers.facts.evidence import Rows, row
from fencepost.checkers.facts.positions import events_of
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Proof, Witness

#: Of each anomaly so many findings become witnesses where anomalies are many.
WITNESSES_OF_EACH: Final = 2


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
    proof: Proof | None = None

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


class Named(Protocol):
    """Anything that has the name of an anomaly."""

    @property
    def anomaly(self) -> str: ...


N = TypeVar("N", bound=Named)


def violations(findings: Iterable[Finding]) -> dict[str, Rows]:
    """Map the names of a verdict's evidence to rows: one for each finding that has a row."""
    counted: dict[str, list[int]] = {}
    for finding in findings:
        if finding.row is not None:
            counted.setdefault(f"anomalies.{finding.anomaly}", []).append(finding.row)
    return {name: tuple(own) for name, own in counted.items()}


def ranked(findings: Iterable[N]) -> Iterator[tuple[int, N]]:
    """Yield each finding with the number of findings of the same name before it."""
    before = Counter[str]()
    for one in findings:
        yield before[one.anomaly], one
        before[one.anomaly] += 1


def one_of_each_first(findings: Sequence[N]) -> list[N]:
    """Order the findings so that every anomaly comes once before any comes twice."""
    return [one for _, one in sorted(ranked(findings), key=lambda pair: pair[0])]


def few_of_each(findings: Iterable[N], most: int = WITNESSES_OF_EACH) -> list[N]:
    """Return the first `most` findings of each anomaly."""
    return [one for rank, one in ranked(findings) if rank < most]
