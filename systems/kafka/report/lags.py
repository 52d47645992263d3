"""How far nodes' logs were behind the leader's high watermark, as the leader said."""

from typing import Final

from fencepost.harness.report.section import FAULTS, AddedTables, Column, ReportCase, TextTable, tabulated
from fencepost.harness.report.words import traced
from fencepost.systems.kafka.facts.replicas import LAGS

_COLUMNS: Final[tuple[Column, ...]] = (
    ("node", "node"),
    ("at most", lambda row: traced(f"{row['offsets_max']:,} offsets", [row["event"]])),
    ("at", "at_ns"),
    ("leader", "leader"),
    ("answers", lambda row: f"{row['answers']:,}"),
)


def lags_tables(case: ReportCase) -> list[TextTable]:
    """Tabulate how far each node's log was behind the leader's high watermark; nothing where no leader said so."""
    caption = "How far nodes were behind the leader's high watermark, as the leader knew"
    rows = case.rows(LAGS.name)
    return [tabulated(caption, _COLUMNS, rows)] if rows else []


TABLES: Final = AddedTables(within=FAULTS, make=lags_tables)
