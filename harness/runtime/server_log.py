"""Reads the log of a server while the server writes it."""

from pathlib import Path
from typing import Final

#: The name of the file with what a node's server writes to its stdout and stderr, in the folder kept for the node.
SERVER_LOG: Final = "server.log"

_CHUNK: Final = 1 << 16


class LogFollower:
    """Returns each complete line of a growing file once, without waiting."""

    def __init__(self, path: Path, *, from_end: bool = False) -> None:
        self._path = path
        self._offset = path.stat().st_size if from_end and path.exists() else 0
        self._rest = b""

    def lines(self) -> list[str]:
        """Return the lines completed since the last call; none while the file does not exist."""
        lines: list[str] = []
        try:
            if self._path.stat().st_size == self._offset:
                return lines
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while chunk := file.read(_CHUNK):
                    self._offset += len(chunk)
                    *whole, self._rest = (self._rest + chunk).split(b"\n")
                    lines.extend(line.decode("utf-8", "replace") for line in whole)
        except FileNotFoundError:
            return []
        return lines
