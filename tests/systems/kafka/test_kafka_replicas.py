"""What one broker holds, read from it alone: each record of each replica, and how far its high watermark is."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.client import replicas
from fencepost.systems.kafka.wire.records import BatchRecord
from fencepost.systems.kafka.wire.values import ClusterMetadata, Fetched, ToldPartition, TopicView


class Broker:
    """Serves two records at a time; partition 1 has left it, and it knows an internal topic."""

    def __init__(self, values: list[bytes], high_watermark: int) -> None:
        self.logs, self.values, self.high_watermark = self, values, high_watermark

    async def metadata(self, _: None) -> ClusterMetadata:
        def told(partition: int) -> ToldPartition:
            return ToldPartition(partition=partition, leader=2, leader_epoch=0, replicas=(1, 2), isr=(1, 2))

        log = TopicView("log", b"", (told(0), told(1)))
        return ClusterMetadata(None, 1, (), (log, TopicView("__consumer_offsets", b"", (told(0),))))

    async def fetch(self, topic: str, partition: int, offset: int) -> Fetched:
        if partition:
            raise Definite("not-replica")
        ends = min(offset + 2, self.high_watermark)
        records = tuple(BatchRecord(n, 3, 0, None, self.values[n], producer_id=7) for n in range(offset, ends))
        return Fetched(records, ends, self.high_watermark, ends, 0)

    def close(self) -> None:
        pass


def read(monkeypatch: pytest.MonkeyPatch, broker: Broker, roles: tuple[str, ...] = ("broker",)) -> list[Any]:
    async def opened(*_: Any, **__: Any) -> Broker:
        return broker

    monkeypatch.setattr(replicas, "open_node", opened)
    folder = Path("/nowhere")
    place = Place(name="b1", number=1, address="127.0.0.1", folder=folder, data=folder, kept=folder, roles=roles)
    return asyncio.run(replicas.replica_states(place))


def test_each_record_below_the_high_watermark_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    (state,) = read(monkeypatch, Broker([b"1", b"2", b"3", b"4"], 3))
    assert (state.subject, state.position) == ("log-0", 3)
    assert state.entries["offset 2"] == "b'3' of epoch 3, by producer 7" and len(state.entries) == 3
    (other,) = read(monkeypatch, Broker([b"1", b"9", b"3"], 3))
    assert {key for key in state.entries if state.entries[key] != other.entries[key]} == {"offset 1"}
    (empty,) = read(monkeypatch, Broker([], 0))
    assert (empty.entries, empty.position) == ({}, 0)
    assert read(monkeypatch, Broker([], 0), roles=("controller",)) == []
