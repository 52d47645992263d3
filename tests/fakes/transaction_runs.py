"""Runs of the election workload with Kafka's own session, through the real interpreter, against the fake brokers."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast
from unittest.mock import patch

from fencepost.harness.base.options import plain
from fencepost.harness.history import History
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import workload_options
from fencepost.harness.verdict import Facts
from fencepost.systems.kafka.client import peers
from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.client.elections import KafkaElections
from fencepost.systems.kafka.wire.connection import KafkaConnection
from fencepost.workloads.election import Election, ElectionOptions
from tests.fakes.playing import play
from tests.fakes.transaction_broker import NODES, TRANSACTION_TIMEOUT_S, FakeKafka


def options_of(given: Mapping[str, Any]) -> ElectionOptions:
    return workload_options(Election(), registry.system("kraft"), given)


def facts(**given: Any) -> Facts:
    workload, options = Election(), options_of(given)
    kraft = registry.system("kraft")
    return Facts(
        system="kraft",
        workload="election",
        nodes=NODES,
        guarantees=kraft.promises(),
        required=workload.requires(options),
        read_guarantee=workload.guarantee(kraft, options),
        options=plain(options),
    )


def run_transactions(bug: str | None, seed: int, **given: Any) -> History:
    """One run in virtual time: load, a wait until abandoned transactions have ended, then the final phase."""
    cluster = FakeKafka(seed, bug)

    def node(number: int) -> KafkaNode:
        return KafkaNode(cast(KafkaConnection, cluster.connect(number)))

    def session(name: str) -> KafkaElections:
        number = NODES.index(name) + 1
        return KafkaElections(node(number), number, connect_timeout_s=1.0)

    async def open_node(host: str, port: int, *, connect_timeout_s: float) -> KafkaNode:
        await asyncio.sleep(0.001)
        return node(port)

    with patch.object(peers, "open_node", open_node):
        return play(
            Election(),
            session,
            nodes=NODES,
            seed=seed,
            load_s=25.0,
            system="kraft",
            options=given,
            settle_s=TRANSACTION_TIMEOUT_S + 1,
            final_s=None,
            op_timeout_s=2.5,
        )
