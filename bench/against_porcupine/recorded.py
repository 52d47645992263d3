"""Real histories, as runs recorded them: the registers among them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from fencepost.checkers.storage.register_anomalies import CAS_REGISTER, Columns, encode
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.reader import read_history

FOUND: Final = Path(__file__).resolve().parents[2] / "tests" / "histories" / "found"


def recorded(folders: Iterable[Path]) -> Iterator[tuple[str, Columns]]:
    """Name and columns of each run under these folders that read and wrote registers."""
    for folder in folders:
        for path in sorted({run.parent for name in (store.HISTORY, store.HISTORY_LINES) for run in folder.rglob(name)}):
            operations = read_history(path).operations
            if any(op.f == "write" for op in operations) and any(op.f == "read" for op in operations):
                yield str(path.relative_to(folder)), encode(operations, CAS_REGISTER)
