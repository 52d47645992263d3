"""What the training runs of every Java server share: one process on loopback that is surely ended, and free ports."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
#: The JVM assembles the archive in a second process after the server has ended.
END_TIMEOUT_S: Final = 120.0


@contextmanager
def running(command: list[str], log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """The process of `command` in a session of its own, its output in `log`; killed at the end, however that comes."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Ports that no other program is given before the servers of a training come for them, some of them late.

    They stay bound here, without listening, which keeps nobody away who binds with SO_REUSEADDR, as Java's servers do.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((LOOPBACK, 0))
        yield [int(one.getsockname()[1]) for one in sockets]
