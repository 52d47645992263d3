"""The training run: servers on free ports, the recorded one last, asked again after an error, ended by SIGTERM."""

import errno
import json
import socket
import sys
from pathlib import Path

import pytest

from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.coordination import Definite
from fencepost.harness.java import archive_training as training
from fencepost.harness.java.archive_training import LOOPBACK, TrainingCluster, held_ports, train
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place, members_alike

PORT = 7000
ARTIFACTS = Artifacts(version="1", paths={}, sha256={})
#: Listens where its file says, answers with its flags, and writes its "archive" when it is asked to end.
SERVER = """
import json, signal, socket, sys
own = json.load(open(sys.argv[1]))
def end(*_):
    open(own["archive"], "w").write(open(own["data"] + "/identity").read())
    sys.exit()
signal.signal(signal.SIGTERM, end)
with socket.create_server((own["address"], own["port"])) as listening:
    while True:
        listening.accept()[0].close()
"""


def test_a_held_port_is_its_servers_alone() -> None:
    with held_ports(3) as ports:
        assert len(set(ports)) == 3
        for port in ports:
            # As a program is told that was given it for a connection of its own, or asks for it.
            with socket.socket() as other, pytest.raises(OSError) as taken:
                other.bind((LOOPBACK, port))
            assert taken.value.errno == errno.EADDRINUSE
            # As Java's servers do.
            with socket.create_server((LOOPBACK, port)), socket.create_connection((LOOPBACK, port)):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((LOOPBACK, port))


def cluster(archive: Path, asked: list[str], refusals: int = 0) -> TrainingCluster:
    """Two servers on one port, of which the second is recorded; it refuses so many questions first."""
    left = iter(range(refusals))

    def spec(
        place: Place, layout: Layout, artifacts: Artifacts, options: SystemOptions, settings: Settings
    ) -> NodeSpec:
        return NodeSpec(
            name=place.name,
            argv=(sys.executable, "-c", SERVER, str(place.folder / "own.json")),
            listeners={"client": PORT},
            files={
                "own.json": json.dumps(
                    {
                        "address": place.address,
                        "port": PORT,
                        "data": str(place.data),
                        "archive": f"{archive}-{place.name}",
                    }
                )
            },
            data_files={"identity": f"{place.name} knows {len(layout)}"},
        )

    async def serves(place: Place) -> bool:
        host, port = place.dial(PORT)
        assert port != PORT
        socket.create_connection((host, port), timeout=1).close()
        asked.append(f"{place.name} serves")
        return True

    async def ask(place: Place) -> None:
        asked.append(place.name)
        if next(left, None) is not None:
            raise Definite("not-yet", "")

    return TrainingCluster(
        members=members_alike(2),
        recorded="n2",
        listeners={"client": PORT},
        spec=spec,
        options=SystemOptions(),
        serves=serves,
        ask=ask,
    )


def test_the_recorded_server_starts_last_is_asked_and_ends_by_itself(tmp_path: Path) -> None:
    asked: list[str] = []
    train(cluster(tmp_path / "archive", asked, refusals=2), ARTIFACTS, ["-B"])
    assert asked == ["n1 serves", "n2 serves", "n2", "n2", "n2"]
    assert (tmp_path / "archive-n2").read_text() == "n2 knows 2"
    assert not (tmp_path / "archive-n1").exists()


def test_a_server_that_never_answers_ends_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_SERVE_TIMEOUT_S", 2.0)
    with pytest.raises(TimeoutError, match=r"n2 of the training run does not serve within 2 s: .*not-yet"):
        train(cluster(tmp_path / "archive", [], refusals=10**6), ARTIFACTS, [])
