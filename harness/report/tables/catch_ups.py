"""How nodes caught up with the others; a way that none took in this run is said, since its code was not tested."""

from typing import Final

from fencepost.harness.contract.catching_up import LogsCatchUps
from fencepost.harness.history import CatchUp
from fencepost.harness.plugins import registry
from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.table import Table
from fencepost.harness.report.words.evidence import traced
from fencepost.harness.verdict.fact_tables import CATCH_UPS

_WORDS: Final = {
    CatchUp.DIFFERENCE: "by the changes that it lacked",
    CatchUp.SNAPSHOT: "by a snapshot of the whole state",
    CatchUp.TRUNCATION: "by cutting off what it had too much",
    CatchUp.LOADED: "by reading a snapshot, its own or one it was sent",
    CatchUp.SAVED: "(before that) it saved a snapshot of its own",
}


def catch_ups_table(case: ReportCase) -> Table | None:
    """Tabulate each way that the system's logs tell apart; None where they tell none."""
    name = str(case.fact("system") or "")
    if name not in registry.SYSTEMS:
        return None
    system = registry.system(name)
    if not isinstance(system, LogsCatchUps):
        return None
    rows = case.rows(CATCH_UPS.name)
    by_way = {way: [row for row in rows if row["how"] == way] for way in system.catch_ups}
    return Table(
        caption="How nodes caught up",
        columns=("how", "times", "nodes"),
        rows=tuple(
            (
                _WORDS[way],
                traced(f"{len(own):,}", [row["event"] for row in own]) if own else "never in this run",
                ", ".join(sorted({row["node"] for row in own})),
            )
            for way, own in by_way.items()
        ),
    )
