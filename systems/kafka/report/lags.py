"""How far nodes' logs were behind the leader's high watermark, as the leader said."""

from typing import Final

from fencepost.harness.report.section import FAULTS, AddedTables, ReportCase, TextTable
from fencepost.harness.report.words import clock, traced
from fencepost.systems.kafka.facts.replicas import LAGS


def lags_table(case: ReportCase) -> TextTable | None:
    """Tabulate how far each node's log was behind the leader's high watermark; None where no leader said so."""
    rows = case.rows(LAGS.name)
    if not rows:
        return None
    return TextTable(
        caption="How far nodes were behind the leader's high watermark, as the leader knew",
        columns=("node", "at most", "at", "leader", "answers"),
        rows=tuple(
            (
                row["node"],
                traced(f"{row['offsets_max']:,} offsets", [row["event"]]),
                clock(row["at_ns"]),
                row["leader"],
                f"{row['answers']:,}",
            )
            for row in rows
        ),
    )


def _tables(case: ReportCase) -> list[TextTable]:
    table = lags_table(case)
    return [] if table is None else [table]


TABLES: Final = AddedTables(within=FAULTS, make=_tables)
