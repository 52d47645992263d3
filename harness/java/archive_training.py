"""The training run for a start-up archive: a system's own servers on loopback, one of which is recorded.

The servers run from the same specs as in a cluster, with free ports in the place of their own. The recorded one starts
last, serves, is asked what runs ask, and ends by SIGTERM, at which the JVM writes the archive.
"""

import asyncio
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.signals import ended_within, held_back
from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.linux.namespaces import die_with_parent
from fencepost.harness.runtime.node import Layout, Member, NodeSpec, Place

LOOPBACK: Final = "127.0.0.1"
#: The JVM assembles the archive in a second process after the server has ended.
END_TIMEOUT_S: Final = 120.0
_SERVE_TIMEOUT_S: Final = 90.0
_ATTEMPT_S: Final = 30.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class TrainingCluster:
    """The smallest cluster whose `recorded` server loads the classes that runs need.

    Where a leader is named, it is killed once the recorded server follows it, so that this one is elected.
    """

    members: tuple[Member, ...]
    recorded: str
    #: Ports by listener, as the specs have them.
    listeners: Mapping[str, int]
    #: The system's own, with options for a training.
    spec: Callable[[Place, Layout, Artifacts, Any, Settings], NodeSpec]
    options: SystemOptions
    #: Whether a server serves; may raise anything while it does not answer.
    serves: Callable[[Place], Awaitable[bool]]
    #: Asks the recorded server what runs ask, so that the classes behind it are loaded too. It is asked again after an
    #: error.
    ask: Callable[[Place], Awaitable[None]]
    leader: str = ""
    leads: Callable[[Place], Awaitable[bool]] | None = None


def train(cluster: TrainingCluster, artifacts: Artifacts, flags: Sequence[str]) -> None:
    """Run the cluster from these artifacts; the recorded server gets the further JVM `flags`.

    Raises TimeoutError when a server does not come up, or does not answer what it is asked.
    """
    with tempfile.TemporaryDirectory(prefix="fencepost-training-") as folder, ExitStack() as stack:
        free = stack.enter_context(held_ports(len(cluster.listeners)))
        ports = dict(zip(cluster.listeners.values(), free, strict=True))
        layout = {
            member.name: _place(Path(folder) / member.name, member, number, ports)
            for number, member in enumerate(cluster.members, 1)
        }
        specs = {
            name: _with_ports(cluster.spec(place, layout, artifacts, cluster.options, NO_SETTINGS), ports)
            for name, place in layout.items()
        }
        servers: dict[str, Training] = {}

        def start(name: str, more: Sequence[str] = ()) -> None:
            spec, place = specs[name], layout[name]
            for home, files in ((place.folder, spec.files), (place.data, spec.data_files)):
                for relative, content in files.items():
                    path = home / relative
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content if isinstance(content, bytes) else content.encode())
            command = [spec.argv[0], *more, *spec.argv[1:]]
            servers[name] = stack.enter_context(running(command, place.kept / "log", spec.environment))

        recorded = layout[cluster.recorded]
        others = [name for name in layout if name != cluster.recorded]
        for name in others:
            start(name)
        for name in others:
            _run(_until(cluster.serves, layout[name]))
        start(cluster.recorded, flags)
        _run(_until(cluster.serves, recorded))
        _run(_until(cluster.ask, recorded))
        if cluster.leads is not None:
            servers[cluster.leader].kill()
            _run(_until(cluster.leads, recorded))
            _run(_until(cluster.ask, recorded))
        servers[cluster.recorded].stop()


def _run(waiting: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end on a loop of its own, also when the caller is on one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, waiting).result()


def _place(home: Path, member: Member, number: int, ports: Mapping[int, int]) -> Place:
    """An address for each server, so that all of them have the same ports."""
    address = f"127.0.0.{number}"
    data = home / "data"
    data.mkdir(parents=True)
    return Place(
        name=member.name,
        number=number,
        address=address,
        folder=home,
        data=data,
        kept=home,
        roles=member.roles,
        endpoints={port: (address, free) for port, free in ports.items()},
    )


def _with_ports(spec: NodeSpec, ports: Mapping[int, int]) -> NodeSpec:
    """The same server on free ports: the numbers of its own may be taken on this machine."""
    own = re.compile(rf"\b({'|'.join(map(str, ports))})\b")

    def moved(text: str) -> str:
        return own.sub(lambda match: str(ports[int(match[0])]), text)

    return replace(
        spec,
        argv=tuple(map(moved, spec.argv)),
        files={name: moved(text) for name, text in spec.files.items()},
    )


async def _until(call: Callable[[Place], Awaitable[object]], place: Place) -> None:
    """Repeat the call until it ends without an error, and with no False."""
    why = "no answer"
    try:
        async with asyncio.timeout(_SERVE_TIMEOUT_S):
            while True:
                try:
                    async with asyncio.timeout(_ATTEMPT_S):
                        if await call(place) is not False:
                            return
                except (Definite, Indefinite, OSError, TimeoutError, ValueError) as error:
                    why = str(error) or why
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise TimeoutError(
            f"{place.name} of the training run does not serve within {_SERVE_TIMEOUT_S:g} s: {why}"
        ) from None


class Training:
    """The process of one server in a training run."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def kill(self) -> None:
        """Kill the process, like a crash."""
        self._process.kill()

    def stop(self) -> None:
        """Ask the process to end and wait until it has, since it writes its archive then. Raises TimeoutError."""
        with held_back() as stop_if_asked:
            self._process.terminate()
            if ended_within(self._process, END_TIMEOUT_S, stop_if_asked) is None:
                raise TimeoutError(f"the server of the training run does not end within {END_TIMEOUT_S:g} s")


@contextmanager
def running(command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[Training]:
    """Run `command` in a session of its own with its output in `log`, and kill it at the end in every case.

    The kernel also kills it when this process ends: an exception may come before the caller's block begins.
    """
    process = None
    try:
        with log.open("wb") as output, held_back():
            process = subprocess.Popen(
                command,
                env={**os.environ, **(environment or {})},
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
    """Reserve ports for the servers of a training, some of which start late.

    The ports stay bound here without listening. Programs that bind with SO_REUSEADDR, as Java's servers do, can still
    use them; other programs do not get them.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((LOOPBACK, 0))
        yield [int(one.getsockname()[1]) for one in sockets]
