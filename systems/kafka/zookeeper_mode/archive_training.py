"""The training runs for Kafka in ZooKeeper mode: one ZooKeeper, one broker on it, asked a bit of everything.

There is an archive for each of the two programs, so the pair is run twice and another one is recorded each time.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from fencepost.harness.base.options import seconds
from fencepost.harness.java.archive_training import LOOPBACK, Training, held_ports, running
from fencepost.harness.runtime.artifacts.java import find_java
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.archive_training import converse_with_broker, in_thread
from fencepost.systems.kafka.zookeeper_mode.configuration import KEEPER_CLASS
from fencepost.systems.zookeeper.configuration import zoo_cfg
from fencepost.systems.zookeeper.options import ZooKeeperOptions

_HEAP_MIB: Final = 256
_OPTIONS: Final = ZooKeeperOptions(session_timeout=seconds(10))


def train(recorded: str, jars: list[Path], flags: list[str]) -> None:
    """Run both; `flags` go to the program of this main class. Raises TimeoutError when the broker does not come up."""
    with tempfile.TemporaryDirectory(prefix="fencepost-training-") as name, ExitStack() as stack:
        home = Path(name)
        client, keeper, peer, election = stack.enter_context(held_ports(4))

        def start(main_class: str, file: str, text: str) -> Training:
            (home / file).write_text(text, encoding="utf-8")
            more = tuple(flags) if main_class == recorded else ()
            command = server.argv(
                find_java(), jars, None, home / file, heap_mib=_HEAP_MIB, main_class=main_class, more=more
            )
            return stack.enter_context(running(command, home / f"{file}.log"))

        (home / "keeper").mkdir()
        (home / "keeper" / "myid").write_text("1\n", encoding="utf-8")
        servers = {1: f"{LOOPBACK}:{peer}:{election}"}
        text = zoo_cfg(address=LOOPBACK, client_port=keeper, data=home / "keeper", servers=servers, options=_OPTIONS)
        processes = {
            KEEPER_CLASS: start(KEEPER_CLASS, "zoo.cfg", text),
            server.MAIN_CLASS: start(
                server.MAIN_CLASS, server.PROPERTIES, server.properties(_settings(home, client, keeper))
            ),
        }
        in_thread(lambda: converse_with_broker(client))
        processes[recorded].stop()


def _settings(home: Path, client: int, keeper: int) -> dict[str, object]:
    return {
        "broker.id": 1,
        "zookeeper.connect": f"{LOOPBACK}:{keeper}",
        "listeners": f"CLIENT://{LOOPBACK}:{client}",
        "advertised.listeners": f"CLIENT://{LOOPBACK}:{client}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "log.dirs": home / "data",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
    }
