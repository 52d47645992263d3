"""A socket of our own between a run and its engine, so that the engine can go away or fall silent for one run."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PIECE_BYTES: Final = 1 << 16


class EngineRelay:
    """Listens at `path` and passes bytes on to the engine's socket, both ways, until it is cut or silenced."""

    def __init__(self, path: Path, engine: str) -> None:
        self._path, self._engine = path, engine
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        return f"unix://{self._path}"

    def cut(self) -> None:
        """As an engine that ends: no socket, and every connection closed."""
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self._flowing.set()

    def silence(self) -> None:
        """As an engine that hangs: connections are accepted, and nothing is answered."""
        self._flowing.clear()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._listener.accept()
            except OSError:
                return
            theirs = socket.socket(socket.AF_UNIX)
            theirs.connect(self._engine)
            with self._lock:
                if self._is_cut:
                    # It was accepted just before.
                    ours.close()
                    theirs.close()
                    return
                self._open |= {ours, theirs}
            for source, target in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                self._flowing.wait()
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.cut()
        self._accepting.join(5.0)
        with self._lock:
            for one in self._open:
                one.close()


@contextlib.contextmanager
def relay(folder: Path) -> Iterator[EngineRelay]:
    """Before the engine of this machine; its socket is in `folder`, whose path must be short."""
    from fencepost.harness.runtime.containers.engine.engine import connect, facts

    client = connect()
    address = facts(client).address
    client.close()
    made = EngineRelay(folder / f"e{os.getpid()}.sock", address.removeprefix("unix://"))
    try:
        yield made
    finally:
        made.close()
