"""The log of a server in a container, streamed into a file of this machine while it runs.

Read from the engine's own log and not from the server's pipes: a reader of those that falls behind would stop the
server. The engine keeps every line from the first on, so it does not matter that the reader comes after the start.
"""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.runtime.containers.engine.engine import close_stream

if TYPE_CHECKING:
    from docker import DockerClient

#: How much of a log is read to find its last lines.
_TAIL_BYTES: Final = 64 << 10


class ContainerLog:
    """Appends the output of one container to `path` until it has ended and everything was read."""

    def __init__(self, client: "DockerClient", container_id: str, path: Path) -> None:
        self._client, self._container_id, self._path = client, container_id, path
        self._stream: Any = None
        self._closed = False
        self._thread = threading.Thread(target=self._follow, name=f"log-{path.parent.name}", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait until everything was read. Returns whether it was, within the time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self) -> None:
        """Stop reading, for the case of an engine that does not end the stream."""
        self._closed = True
        if self._stream is not None and self._thread.is_alive():
            close_stream(self._stream)

    def _follow(self) -> None:
        # Unbuffered: observers read epochs from this file while it grows.
        with self._path.open("ab", buffering=0) as file:
            try:
                self._stream = self._client.api.logs(
                    self._container_id, stdout=True, stderr=True, stream=True, follow=True
                )
                if not self._closed:
                    for piece in self._stream:
                        file.write(piece)
            except Exception as error:
                if not self._closed:
                    file.write(f"[fencepost: the log could not be read further: {error}]\n".encode())
            finally:
                close_stream(self._stream)


def tail(path: Path, lines: int) -> str:
    """The last lines of a log; reads no more than its last 64 KiB."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
