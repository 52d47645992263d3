"""Tables of topic partitions: what superseded leaders did, which brokers were cut off, who led which partition."""

import msgspec

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import reigns_by_partition
from fencepost.harness.report.tables.table import Table, generic
from fencepost.harness.verdict.by_guarantee import figures_of
from fencepost.harness.verdict.figures import ZombieLeaderFigures


def partition_tables(case: ReportCase) -> list[Table]:
    """Make one table for each kind of figure that the verdicts contain."""
    reigns = [reign for own in reigns_by_partition(case).values() for reign in own]
    leaders = figures_of(case.verdicts, ZombieLeaderFigures)
    by_caption = {
        "what superseded partition leaders did": [d for f in leaders for d in f.deeds],
        "brokers that were cut off from the nodes that hold the metadata": [c for f in leaders for c in f.cut_leaders],
        "who led each topic partition that changed its leader": reigns,
    }
    shown = {caption: msgspec.to_builtins(rows) for caption, rows in by_caption.items() if rows}
    return [table for caption, rows in shown.items() for table in generic(caption, rows)]
