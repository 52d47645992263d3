"""What the training runs of every Java server share: one process on loopback that is surely ended, and free ports."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from fencepost.harness.base.signals import ended_within, held_back
from fencepost.harness.runtime.linux.namespaces import die_with_parent

LOOPBACK: Final = "127.0.0.1"
#: The JVM assembles the archive in a second process after the server has ended.
END_TIMEOUT_S: Final = 120.0


class Training:
    """The process of one server that is trained."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def kill(self) -> None:
        """As a crash would."""
        self._process.kill()

    def stop(self) -> None:
        """Ask it to end and wait for that: its archive is written then. Raises TimeoutError."""
        with held_back() as stop_if_asked:
            self._process.terminate()
            if ended_within(self._process, END_TIMEOUT_S, stop_if_asked) is None:
                raise TimeoutError(f"the server of the training run does not end within {END_TIMEOUT_S:g} s")


@contextmanager
def running(command: list[str], log: Path) -> Iterator[Training]:
    """The process of `command` in a session of its own, its output in `log`; killed at the end, however that comes.

    Also with us, by the kernel: an exception may come between the end of this function and the caller's block.
    """
    process = None
    try:
        with log.open("wb") as output, held_back():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )
        yield Training(process)
    finally:
        if process is not None:
            with held_back():
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
