"""Who wrote what to ZooKeeper after a KRaft controller had claimed /controller, and what each write checked."""

from typing import Final

from fencepost.harness.report.section import EPISODES, AddedTables, ReportCase, TextTable, generic
from fencepost.systems.kafka.figures import WRITES


def writes_after_claims(case: ReportCase) -> list[TextTable]:
    """One row for each claim, node, kind of write and guard; nothing without a claim."""
    rows = [row for verdict in case.verdicts for row in verdict.figures.get(WRITES, ())]
    return generic("Transactions in ZooKeeper's log after a claim", rows) if rows else []


TABLES: Final = AddedTables(within=EPISODES, make=writes_after_claims, shows=frozenset({WRITES}))
