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


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; another program may take one, then this training fails and leaves nothing."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in sockets]
