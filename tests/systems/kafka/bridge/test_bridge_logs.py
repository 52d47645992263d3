"""The two logs of a migrating Kafka, and the modes of brokers that clients must tell apart."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.harness.history import LogEntry
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.bridge import session
from fencepost.systems.kafka.bridge.logs import of_one_store, without_copies
from fencepost.systems.kafka.client.client import ListenerRole
from fencepost.systems.kafka.protocols import KafkaInterface
from fencepost.systems.kafka.server.configuration import MIGRATES
from fencepost.systems.kafka.server.start import PROPERTIES
from fencepost.systems.kafka.wire.errors import RequestKind


def entries(words: str) -> list[LogEntry]:
    """Entries by their types; "begin:NAME" begins a metadata transaction."""
    made = []
    for offset, word in enumerate(words.split()):
        kind, _, name = word.partition(":")
        fields = {"name": name} if name else {}
        made.append(LogEntry(offset=offset, epoch=1, type=f"{kind}-transaction" if name else kind, fields=fields))
    return made


def test_what_was_copied_from_zookeeper_is_no_change_of_its_own() -> None:
    words = "topic begin:ZkMigration topic config end-transaction config"
    assert [entry.type for entry in without_copies(entries(words))] == [
        "topic",
        "begin-transaction",
        "copied-topic",
        "copied-config",
        "end-transaction",
        "config",
    ]


@pytest.mark.parametrize("words", ["begin:Bootstrap topic", "begin:ZkMigration abort-transaction topic"])
def test_other_transactions_and_what_follows_a_copy_that_was_given_up_are_changes(words: str) -> None:
    assert [entry.type for entry in without_copies(entries(words))][-1] == "topic"


def test_what_repeats_the_log_of_kraft_is_no_change_and_nodes_get_this_clusters_names() -> None:
    topic = LogEntry(offset=7, epoch=0, type="topic", fields={"name": "t1", "checked_version": 4})
    assert of_one_store(topic) == topic
    by_kraft = msgspec.structs.replace(topic, fields={**topic.fields, "by_kraft": True})
    assert of_one_store(by_kraft).type == "copied-topic"
    claim = LogEntry(offset=8, epoch=0, type="election", fields={"node": "b1", "broker": 4})
    assert of_one_store(claim).fields["node"] == "c1"


class Session:
    def __init__(self, role: ListenerRole) -> None:
        self.node: Any = self
        self.role, self.change = role, RequestKind.ZOOKEEPER


@pytest.mark.parametrize(
    ("role", "before", "after", "change"),
    [
        (ListenerRole.ZOOKEEPER_BROKER, "", "", RequestKind.ZOOKEEPER),
        (ListenerRole.ZOOKEEPER_BROKER, f"{MIGRATES}=true\n", "", RequestKind.FORWARDED),
        (ListenerRole.ZOOKEEPER_BROKER, "", f"{MIGRATES}=true\n", RequestKind.FORWARDED),
        (ListenerRole.ZOOKEEPER_BROKER, None, "", RequestKind.FORWARDED),
        (ListenerRole.CONTROLLER, f"{MIGRATES}=true\n", f"{MIGRATES}=true\n", RequestKind.ZOOKEEPER),
    ],
)
def test_a_broker_that_may_pass_changes_on_refuses_nothing_for_certain(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    role: ListenerRole,
    before: str | None,
    after: str,
    change: RequestKind,
) -> None:
    properties = tmp_path / PROPERTIES

    async def connected(*_: object, **__: object) -> Session:
        properties.write_text(after, encoding="utf-8")
        return Session(role)

    if before is not None:
        properties.write_text(before, encoding="utf-8")
    monkeypatch.setattr(session, "open_at", connected)
    place = Place(name="b1", number=7, address="10.0.0.7", folder=tmp_path, data=tmp_path, kept=tmp_path)
    opened = asyncio.run(session.open_session(place, KafkaInterface.METADATA, connect_timeout_s=1.0))
    assert opened.node.change is change
