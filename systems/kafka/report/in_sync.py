"""How small the sets of in-sync replicas became, by the metadata log on disk; whoever is alone in one stands last."""

from collections.abc import Iterator
from typing import Any, Final

from fencepost.harness.report.section import FAULTS, AddedTables, ReportCase, TextTable
from fencepost.systems.kafka.facts.replicas import IN_SYNC

_SHOWN_MAX: Final = 40


def in_sync_table(case: ReportCase) -> TextTable | None:
    """Tabulate the partitions whose in-sync replicas changed; None where none did, or no log was kept."""
    by_partition: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in case.rows(IN_SYNC.name):
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    changed = {which: own for which, own in by_partition.items() if len({row["in_sync"] for row in own}) > 1}
    if not changed:
        return None
    return TextTable(
        caption="How in-sync replicas changed, by the metadata log",
        columns=("partition", "changes", "leaders", "fewest in sync", "stood alone", "without a leader", "eligible"),
        rows=tuple(_rows(changed)),
        note="A replica that stands alone holds the only copy that may lead. Eligible: out of sync, but complete"
        " (KIP-966). The table in_sync of the run's facts has every change.",
    )


def _rows(changed: dict[tuple[str, int], list[dict[str, Any]]]) -> Iterator[tuple[str, ...]]:
    for (topic, partition), own in list(changed.items())[:_SHOWN_MAX]:
        sets = [row["in_sync"].split() for row in own]
        alone = sorted({one[0] for one in sets if len(one) == 1})
        eligible = sorted({node for row in own for node in row["eligible"].split()})
        leaders = list(dict.fromkeys(row["leader"] for row in own if row["leader"]))
        yield (
            f"{topic}-{partition}",
            f"{len(own) - 1:,}",
            ", ".join(leaders),
            str(min(map(len, sets))),
            ", ".join(alone),
            f"{sum(not row['leader'] for row in own):,}",
            ", ".join(eligible),
        )


def _tables(case: ReportCase) -> list[TextTable]:
    table = in_sync_table(case)
    return [] if table is None else [table]


TABLES: Final = AddedTables(within=FAULTS, make=_tables)
