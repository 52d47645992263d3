"""The shape of a story, and the reigns of topic partitions that stories and tables are made from."""

from collections.abc import Iterator

import msgspec

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.words.evidence import Traced
from fencepost.harness.verdict.figure_rows import PartitionReign
from fencepost.harness.verdict.figures import ZombieBrokerFigures
from fencepost.harness.verdict.reading import figures_of


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
    def sentence(self) -> str:
        """The whole story as one sentence."""
        return "".join(f"{joint}{clause}" for joint, clause in self.joined()) + "."

    def joined(self) -> Iterator[tuple[str, Traced]]:
        """Each clause with what stands before it."""
        for number, clause in enumerate(self.clauses):
            yield ("" if number == 0 or clause.startswith((",", " ")) else "; "), clause


def reigns_by_partition(case: ReportCase) -> dict[str, list[PartitionReign]]:
    """Who led each topic partition that changed its leader; first those that a superseded broker went on leading."""
    by_partition: dict[str, list[PartitionReign]] = {}
    for reign in (r for f in figures_of(case.verdicts, ZombieBrokerFigures) for r in f.reigns):
        by_partition.setdefault(reign.partition, []).append(reign)
    return dict(sorted(by_partition.items(), key=lambda item: not any(reign.claimed_samples for reign in item[1])))


def some(number: int, one: str, more: str, counted: str) -> str:
    """ "1 read was", "14 reads were": `counted` is the number as it is written."""
    return f"{counted} {one if number == 1 else more}"
