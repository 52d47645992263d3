"""A finding: one violation with what shows it, told in sentences, and drawn as a witness."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec

from fencepost.checkers.facts.evidence import Rows, row
from fencepost.checkers.facts.positions import events_of
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Proof, Witness


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One violation: its name, the operations that show it, and the sentences.

    Of `operations` the one at `about` stands for the violation where violations are counted; `counted_by` is the row of
    the history that does so where no operation can. `events` show it besides. `key`, `nodes`, `from_ns` and `to_ns`
    are those of the operations, unless they are given; `to_ns` is when the last of them ended.
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
        """The row that the violation is counted by; None where only a node's disk tells of it."""
        if self.counted_by is not None or not self.operations:
            return self.counted_by
        return row(self.counted)

    def witness(self) -> Witness:
        """The finding as events of the history."""
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


def violations(found: Iterable[Finding]) -> dict[str, Rows]:
    """The rows of anomalies, as a verdict's evidence names them: one for each finding that has one."""
    counted: dict[str, list[int]] = {}
    for finding in found:
        if finding.row is not None:
            counted.setdefault(f"anomalies.{finding.anomaly}", []).append(finding.row)
    return {name: tuple(own) for name, own in counted.items()}


def ranked(found: Iterable[N]) -> Iterator[tuple[int, N]]:
    """Each finding behind the number of those of its name that came before it."""
    before = Counter[str]()
    for one in found:
        yield before[one.anomaly], one
        before[one.anomaly] += 1


def one_of_each_first(found: Sequence[N]) -> list[N]:
    """The findings in an order that has every anomaly once before it has any of them twice."""
    return [one for _, one in sorted(ranked(found), key=lambda pair: pair[0])]


def few_of_each(found: Iterable[N], most: int) -> list[N]:
    """The first `most` findings of each anomaly."""
    return [one for rank, one in ranked(found) if rank < most]
