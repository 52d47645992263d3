"""Topic partitions as tables: what superseded leaders did, which brokers were cut off, who led which partition."""

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import reigns_by_partition
from fencepost.harness.report.tables.table import Table, generic
from fencepost.harness.verdict.figures import BrokerDeeds, CutBroker, plain, rows_among


def partition_tables(case: ReportCase) -> list[Table]:
    """A table for each kind of figure that there is."""
    reigns = [reign for own in reigns_by_partition(case).values() for reign in own]
    found = {
        "what superseded partition leaders did": plain(rows_among(case.verdicts, BrokerDeeds)),
        "brokers that were cut off from the metadata's keepers": plain(rows_among(case.verdicts, CutBroker)),
        "who led each topic partition that changed its leader": plain(reigns),
    }
    return [table for caption, rows in found.items() if rows for table in generic(caption, rows)]
