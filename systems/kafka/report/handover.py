"""Who wrote what to ZooKeeper after a KRaft controller had claimed /controller, and what each write checked."""

from typing import Final

import msgspec

from fencepost.harness.report.section import EPISODES, AddedTables, ReportCase, TextTable, generic
from fencepost.harness.verdict.by_guarantee import figures_of
from fencepost.systems.kafka.figures import HandoverFigures


def writes_after_claims(case: ReportCase) -> list[TextTable]:
    """One row for each claim, node, kind of write and guard; nothing without a claim."""
    rows = [msgspec.to_builtins(row) for f in figures_of(case.verdicts, HandoverFigures) for row in f.writes]
    return generic("Transactions in ZooKeeper's log after a claim", rows) if rows else []


TABLES: Final = AddedTables(within=EPISODES, make=writes_after_claims)
