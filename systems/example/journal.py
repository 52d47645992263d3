"""What a node of the example keeps on disk: its term, its vote and its log; each change is synced before it is used.

Each line is a JSON array: ["vote", term, candidate] or ["entry", index, term, command], which replaces the entries from
that index on. A line that a crash cut off is the last one, and nobody has acted on it.
"""

import json
import os
from pathlib import Path

from fencepost.systems.example.store import Command

Entry = tuple[int, Command]


class Journal:
    """Term, vote and log, read back after a crash; entry i of the log (from 1) is `entries[i - 1]`."""

    def __init__(self, path: Path, *, keeps: bool = True) -> None:
        self.term, self.vote = 0, ""
        self.entries: list[Entry] = []
        if keeps and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
                if line.endswith("\n"):
                    self._take(json.loads(line))
        self._file = path.open("a" if keeps else "w", encoding="utf-8")

    def keep_vote(self, term: int, candidate: str) -> None:
        """Keep a new term and the vote in it ("": none yet)."""
        self._keep(["vote", term, candidate])

    def keep_entries(self, first: int, entries: list[Entry]) -> None:
        """Keep these entries from index `first` on, in place of all that stood there before."""
        for index, (term, command) in enumerate(entries, first):
            self._keep(["entry", index, term, command], sync=False)
        self._sync()

    def close(self) -> None:
        self._file.close()

    def last(self) -> tuple[int, int]:
        """(term, index) of the last entry."""
        return (self.entries[-1][0] if self.entries else 0, len(self.entries))

    def term_at(self, index: int) -> int:
        return self.entries[index - 1][0] if index else 0

    def _keep(self, record: list[object], *, sync: bool = True) -> None:
        self._take(record)
        self._file.write(json.dumps(record) + "\n")
        if sync:
            self._sync()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def _take(self, record: list[object]) -> None:
        match record:
            case ["vote", int(term), str(candidate)]:
                self.term, self.vote = term, candidate
            case ["entry", int(index), int(term), dict(command)]:
                del self.entries[index - 1 :]
                self.entries.append((term, command))
            case _:
                raise ValueError(f"not a record of a journal: {record!r}")
