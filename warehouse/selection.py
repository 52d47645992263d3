"""Which parts of a warehouse answer a question: by table and night, without opening a file.

Two adds at the same time may have brought the same run. It counts once: in the add whose name sorts first.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.judging.run_facts import stored_tables
from fencepost.warehouse.store import Add, NightPart


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one part that are read, and the runs in them that are left out."""

    night: str
    system: str
    files: tuple[str, ...]
    left_out: frozenset[str] = frozenset()


def choose(adds: Sequence[Add], table: str, *, nights: Collection[str] | None = None) -> list[Chosen]:
    """The parts of a table of facts that hold rows of these nights; None: of all.

    Raises:
        UsageError: an add was made by a newer fencepost, whose table has other columns.
    """
    chosen = []
    seen: set[str] = set()
    for add in adds:
        _refuse_newer(add)
        for part in add.parts:
            own = set(part.runs)
            again, seen = own & seen, seen | own
            files = part.files.get(table)
            if own - again and files and (nights is None or part.night in nights):
                chosen.append(Chosen(night=part.night, system=part.system, files=files, left_out=frozenset(again)))
    return chosen


def latest_nights(adds: Iterable[Add]) -> list[NightPart]:
    """What is known of each night and shard: the add that knew most of it, the later one of equals."""
    latest: dict[tuple[str, int], NightPart] = {}
    for add in adds:
        for part in add.nights:
            known = latest.get((part.night, part.shard))
            if known is None or part.records >= known.records:
                latest[part.night, part.shard] = part
    return list(latest.values())


def _refuse_newer(add: Add) -> None:
    known = stored_tables()
    for name, version in add.tables.items():
        own = known.get(name)
        if own is not None and version > own.version:
            raise UsageError(
                f"the table {name} of {add.id} has version {version}, and this fencepost reads {own.version}",
                hint="use the newer fencepost, or build the warehouse again: fencepost warehouse build RESULTS",
            )
        if own is not None and version < own.version:
            raise UsageError(
                f"the table {name} of {add.id} has version {version}, and this fencepost reads {own.version}",
                hint="build the warehouse again from the runs: fencepost warehouse build RESULTS",
            )
