"""The shape of a story, and the checkers' figures that stories are made from."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.words.evidence import Traced
from fencepost.harness.verdict.figures import PartitionReign, rows_among


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What `node` did from `from_ns` to `to_ns`, by the figures of `checker`.

    Clauses are set off by semicolons; one that begins with a comma or a space goes on with the clause before it.
    """

    checker: str
    node: str
    from_ns: int
    to_ns: int
    clauses: tuple[Traced, ...]

    @property
    def said(self) -> str:
        return "".join(f"{joint}{clause}" for joint, clause in self.joined()) + "."

    def joined(self) -> Iterator[tuple[str, Traced]]:
        """Each clause with what stands before it."""
        for number, clause in enumerate(self.clauses):
            yield ("" if number == 0 or clause.startswith((",", " ")) else "; "), clause


def figures(case: ReportCase, checker: str, name: str) -> list[Mapping[str, Any]]:
    """The rows of a list among a checker's figures, where it has no type."""
    own = (v.figures.get(name, ()) for v in case.verdicts if checker in v.checker)
    return [row for rows in own if isinstance(rows, list | tuple) for row in rows if isinstance(row, Mapping)]


def reigns_by_partition(case: ReportCase) -> dict[str, list[PartitionReign]]:
    """Who led each topic partition that changed its leader; first those that a superseded broker went on leading."""
    found: dict[str, list[PartitionReign]] = {}
    for reign in rows_among(case.verdicts, PartitionReign):
        found.setdefault(reign.partition, []).append(reign)
    return dict(sorted(found.items(), key=lambda item: not any(reign.claimed_samples for reign in item[1])))


def some(number: int, one: str, more: str, counted: str) -> str:
    """ "1 read was", "14 reads were": `counted` is the number as it is written."""
    return f"{counted} {one if number == 1 else more}"
