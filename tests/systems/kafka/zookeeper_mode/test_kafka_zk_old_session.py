"""A broker that was killed is started again only once its last session is over."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Node, Place
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK, old_session
from fencepost.systems.kafka.zookeeper_mode.administrator import open_administrator
from tests.fakes.fakes_runtime import FakeNode


class Registrations:
    """An administrator to whom a broker's registration shows for so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks, self.brokers, self.closed = looks, set[int](), False

    async def registered(self, broker: int) -> bool:
        self.brokers.add(broker)
        self.looks -= 1
        return self.looks >= 0

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def registrations(monkeypatch: pytest.MonkeyPatch) -> Registrations:
    shown = Registrations(3)

    async def opened(keepers: Sequence[Place]) -> Registrations:
        return shown

    monkeypatch.setattr(old_session, "open_administrator", opened)
    monkeypatch.setattr(old_session, "_LOOK_S", 0.0)
    return shown


def test_the_wait_lasts_until_the_registration_is_gone(registrations: Registrations) -> None:
    asyncio.run(old_session.await_end(8, []))
    assert (registrations.looks, registrations.brokers, registrations.closed) == (-1, {8}, True)


def test_a_session_that_never_ends_is_waited_for_no_longer_than_the_limit(
    registrations: Registrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    registrations.looks = 1 << 60
    monkeypatch.setattr(old_session, "_LIMIT_S", 0.05)
    asyncio.run(old_session.await_end(8, []))
    assert registrations.closed


def test_nobody_waits_where_no_zookeeper_answers() -> None:
    with pytest.raises(Definite):
        asyncio.run(open_administrator([]))
    asyncio.run(old_session.await_end(8, []))


@pytest.mark.parametrize(
    ("role", "incarnation", "waits"), [("broker", 0, True), ("broker", -1, False), ("zookeeper", 0, False)]
)
def test_only_a_broker_that_ran_before_waits(
    role: str, incarnation: int, waits: bool, registrations: Registrations
) -> None:
    class Standing(FakeNode):
        @property
        def place(self) -> Place:
            return replace(super().place, number=4, roles=(role,))

    node: Node = Standing("b1", incarnation=incarnation)
    asyncio.run(KAFKA_ZK.before_start(node, {}))
    assert registrations.brokers == ({4} if waits else set())
