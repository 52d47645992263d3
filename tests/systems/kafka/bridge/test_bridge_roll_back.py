"""The znodes of a roll-back, on a ZooKeeper in memory: what is raised, what is deleted, in which order."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.bridge.migration import BridgeMigration
from fencepost.systems.kafka.server import znodes
from tests.systems.kafka.bridge.test_bridge_system import ARTIFACTS, OPTIONS, layout


class Memory:
    """The calls of a session that a roll-back needs. `done` are those that change something."""

    def __init__(self, znodes: dict[str, bytes]) -> None:
        self.znodes = znodes
        self.done: list[str] = []

    async def sync(self, path: str) -> int:
        return 0

    async def exists(self, path: str) -> object | None:
        return self._stat if path in self.znodes else None

    async def get(self, path: str) -> tuple[bytes, object]:
        return self.znodes[path], self._stat

    async def set(self, path: str, data: bytes, version: int) -> object:
        assert version == 3, "only what was read is replaced"
        self.znodes[path] = data
        self.done.append(f"set {path}")
        return self._stat

    async def delete(self, path: str) -> None:
        del self.znodes[path]
        self.done.append(f"delete {path}")

    @property
    def _stat(self) -> object:
        return SimpleNamespace(ephemeral_owner=0, version=3)


def released(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    epoch: int,
    kraft: int,
    leaves: bool = False,
    behind: bool = False,
) -> tuple[Memory, str]:
    controller = {"version": 2, "brokerid": 4, "timestamp": "1", "kraftControllerEpoch": kraft}
    migration = {"kraft_controller_id": 4, "kraft_controller_epoch": kraft, "kraft_metadata_offset": 7}
    memory = Memory(
        {
            "/controller": json.dumps(controller).encode(),
            "/controller_epoch": str(epoch).encode(),
            "/migration": json.dumps(migration).encode(),
        }
    )

    @asynccontextmanager
    async def session(keepers: Sequence[Place]) -> AsyncIterator[Memory]:
        yield memory

    monkeypatch.setattr(znodes, "_session", session)
    migration_of_it = BridgeMigration(layout(tmp_path), ARTIFACTS, OPTIONS, {})
    return memory, asyncio.run(migration_of_it.release(leaves=leaves, behind=behind))


def test_the_epoch_is_raised_above_that_of_kraft_before_a_broker_can_become_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-20488."""
    memory, text = released(tmp_path, monkeypatch, epoch=3, kraft=17)
    assert memory.done == ["set /controller_epoch", "delete /controller", "delete /migration"]
    assert memory.znodes == {"/controller_epoch": b"18"}
    assert text == "raised /controller_epoch from 3 to 18; deleted /controller and /migration"


@pytest.mark.parametrize(("epoch", "behind"), [(18, False), (3, True)])
def test_an_epoch_stays_that_is_high_enough_or_is_to_stay_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int, behind: bool
) -> None:
    memory, text = released(tmp_path, monkeypatch, epoch=epoch, kraft=17, behind=behind)
    assert memory.znodes == {"/controller_epoch": str(epoch).encode()}
    assert text == "deleted /controller and /migration"


def test_the_state_of_the_migration_may_be_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, _ = released(tmp_path, monkeypatch, epoch=17, kraft=17, leaves=True)
    assert set(memory.znodes) == {"/controller_epoch", "/migration"}
    assert memory.znodes["/controller_epoch"] == b"18"
