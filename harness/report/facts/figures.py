"""The reigns of topic partitions, which the table and the picture are made from."""

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.verdict.by_guarantee import figures_of
from fencepost.harness.verdict.figures import PartitionReign, ZombieLeaderFigures


def reigns_by_partition(case: ReportCase) -> dict[str, list[PartitionReign]]:
    """Who led each topic partition that changed its leader; first those that a superseded broker went on leading."""
    by_partition: dict[str, list[PartitionReign]] = {}
    for reign in (r for f in figures_of(case.verdicts, ZombieLeaderFigures) for r in f.reigns):
        by_partition.setdefault(reign.partition, []).append(reign)
    return dict(sorted(by_partition.items(), key=lambda item: not any(reign.claimed_samples for reign in item[1])))
