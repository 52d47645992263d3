"""Runs of the election workload with Kafka's own session, through the real interpreter, against the fake brokers."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast
from unittest.mock import patch

from fencepost.harness.base.options import plain
from fencepost.harness.generators import time_limit
from fencepost.harness.history import Event, History, PhaseEvent, PhaseName
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import clients_of, workload_options
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Facts
from fencepost.systems.kafka.client import peers
from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.client.elections import KafkaElections
from fencepost.systems.kafka.wire.connection import KafkaConnection
from fencepost.workloads.election import Election, ElectionOptions
from tests.fakes.transaction_broker import NODES, TRANSACTION_TIMEOUT_S, FakeKafka
from tests.fakes.virtual_time import run_virtual, virtual_clock_ns

_MAIN_NS: Final = 25_000_000_000


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
    return run_virtual(_run(bug, seed, options_of(given)))


async def _run(bug: str | None, seed: int, options: ElectionOptions) -> History:
    cluster, workload = FakeKafka(seed, bug), Election()
    recorder = Recorder(None, clock_ns=virtual_clock_ns)
    events: list[Event] = []
    recorder.listeners.append(events.append)

    def node(number: int) -> KafkaNode:
        return KafkaNode(cast(KafkaConnection, cluster.connect(number)))

    async def open_node(host: str, port: int, *, connect_timeout_s: float) -> KafkaNode:
        await asyncio.sleep(0.001)
        return node(port)

    async def open_client(process: int, name: str) -> Client:
        await asyncio.sleep(0.001)
        number = NODES.index(name) + 1
        return workload.client(KafkaElections(node(number), number, connect_timeout_s=1.0), options, recorder.now_ns)

    interpreter = Interpreter(
        clients_of(workload, options, NODES, open_client, op_timeout_s=2.5, open_timeout_s=0.5),
        recorder=recorder,
        seed=seed,
    )
    with patch.object(peers, "open_node", open_node):
        try:
            recorder.record(PhaseEvent, phase=PhaseName.MAIN)
            await interpreter.run(time_limit(_MAIN_NS, workload.generator(options, len(NODES))))
            recorder.record(PhaseEvent, phase=PhaseName.HEAL)
            recorder.record(PhaseEvent, phase=PhaseName.SETTLE)
            await asyncio.sleep(TRANSACTION_TIMEOUT_S + 1)
            recorder.record(PhaseEvent, phase=PhaseName.FINAL)
            await interpreter.run(workload.final_generator(options, len(NODES)))
        finally:
            await interpreter.close()
    return History(events, source=f"fake transactions {bug} {seed}")
