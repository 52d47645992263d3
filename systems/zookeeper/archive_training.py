"""The training run for ZooKeeper's start-up archive: a small cluster whose one recorded server plays every part.

Three servers on loopback, one of them recorded. It starts last and follows, answers a client, and is elected when the
leader is killed; so the archive holds the classes of both roles and of an election. It ends by SIGTERM, at which the
JVM writes the archive.
"""

import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from fencepost.harness.base.options import seconds
from fencepost.harness.java.archive_training import LOOPBACK, Training, held_ports, running
from fencepost.harness.runtime.artifacts.java import find_java
from fencepost.systems.zookeeper.configuration import argv, log_files, zoo_cfg
from fencepost.systems.zookeeper.options import ZooKeeperOptions
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.jute import Op

_ROLE_TIMEOUT_S: Final = 60.0
#: On a busy machine an attempt to lead may fail, which costs `init_limit` ticks, and a follower be late for a while.
_OPTIONS: Final = ZooKeeperOptions(tick=seconds(0.2), init_limit=50, sync_limit=100, session_timeout=seconds(10))
_RECORDED: Final = 3


def train(jars: list[Path], flags: list[str]) -> None:
    """Run the cluster; `flags` go to the recorded server. Raises TimeoutError when it does not come up."""
    with tempfile.TemporaryDirectory(prefix="fencepost-training-") as folder, ExitStack() as stack:
        ports = stack.enter_context(held_ports(9))
        servers = {n: f"{LOOPBACK}:{ports[n + 2]}:{ports[n + 5]}" for n in (1, 2, 3)}

        def start(number: int, more: list[str]) -> Training:
            home = Path(folder) / str(number)
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(f"{number}\n", encoding="utf-8")
            port = ports[number - 1]
            text = zoo_cfg(address=LOOPBACK, client_port=port, data=home / "data", servers=servers, options=_OPTIONS)
            for name, content in (log_files(jars) | {"zoo.cfg": text}).items():
                (home / name).write_text(content, encoding="utf-8")
            return stack.enter_context(running(argv(find_java(), jars, None, home, tuple(more)), home / "log"))

        start(1, [])
        leader = start(2, [])
        _wait_for_mode(ports[1], "leader")
        recorded = start(_RECORDED, flags)
        _wait_for_mode(ports[_RECORDED - 1], "follower")
        _converse(ports[_RECORDED - 1], b"/as-follower")
        leader.kill()
        _wait_for_mode(ports[_RECORDED - 1], "leader")
        _converse(ports[_RECORDED - 1], b"/as-leader")
        recorded.stop()


def _wait_for_mode(port: int, mode: str) -> None:
    deadline = time.monotonic() + _ROLE_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1.0) as connection:
                connection.sendall(b"srvr")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            answer = b""
        if f"Mode: {mode}".encode() in answer:
            return
        time.sleep(0.05)
    raise TimeoutError(f"no {mode} within {_ROLE_TIMEOUT_S:g} s")


def _converse(port: int, path: bytes) -> None:
    """One session: create, read, sync, a multi; so that their classes are loaded too."""
    where = wire.text(path)
    set_it = wire.set_record(where, b"y", -1)
    requests = [
        (Op.CREATE_WITH_STAT, wire.create_record(where, b"x", 0)),
        (Op.SYNC, where),
        (Op.GET_DATA, wire.path_and_watch(where, True)),
        (Op.SET_DATA, set_it),
        (Op.MULTI, wire.multi_record([(Op.CHECK, wire.version_record(where, 1)), (Op.SET_DATA, set_it)])),
        (Op.GET_CHILDREN, wire.path_and_watch(where, False)),
        (Op.CLOSE_SESSION, b""),
    ]
    frames = b"".join(wire.frame(xid, op, record) for xid, (op, record) in enumerate(requests, 1))
    with socket.create_connection((LOOPBACK, port), timeout=_ROLE_TIMEOUT_S) as connection:
        connection.sendall(wire.connect_frame(wire.Ticket(_OPTIONS.session_timeout.ms)) + wire.PING_FRAME + frames)
        while connection.recv(4096):
            """Until the server closes, as it does at the end of a session."""
