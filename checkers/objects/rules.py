"""Which rules about an object could have fired, and how often: counted by the functions that were called.

A rule is named for the anomaly that it finds. Its chances are the ok answers that could have shown it; some need
another operation on the same object, that may have taken effect.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from fencepost.checkers.facts.positions import is_ok, not_failed
from fencepost.checkers.findings.finding import rule
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Rule


class Chance(msgspec.Struct, frozen=True):
    """What can show the anomaly `name`: an ok answer of `answers`, beside another operation of `others` if these are
    given."""

    name: str
    answers: frozenset[str]
    others: frozenset[str] = frozenset()

    def count(self, operations: Sequence[Operation]) -> int:
        """The chances in the operations on one object."""
        calls = Counter(op.f for op in not_failed(operations))
        others = sum(calls[f] for f in self.others)
        answers = [op for op in operations if op.f in self.answers and is_ok(op)]
        return sum(not self.others or others > (op.f in self.others) for op in answers)

    @property
    def lacks(self) -> str:
        """What an object lacked where there was no chance."""
        beside = f" beside another {' or '.join(sorted(self.others))}" if self.others else ""
        return f"no {' or '.join(sorted(self.answers))} was answered{beside}"


def rules_of(chances: Sequence[Chance], objects: Mapping[str | None, Sequence[Operation]]) -> tuple[Rule, ...]:
    """The rules, each with its chances in the operations on all objects."""
    return tuple(
        rule(chance.name, sum(chance.count(own) for own in objects.values()), chance.lacks) for chance in chances
    )
