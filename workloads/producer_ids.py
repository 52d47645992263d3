"""`producer-ids`: every node gives out producer ids as fast as it is asked; none may be given twice.

A broker gives ids out of a block that the controllers allotted to it. A block that is allotted twice, by a controller
that was replaced or by one that forgot, lets two producers pass for one another, and the log then drops the records of
one of them as duplicates.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.harness.coordination import Interface
from fencepost.harness.coordination import ProducerIds as ProducerIdsSession
from fencepost.harness.generators import Draw, Generator, Offer, draws, each_worker, limit, reserve, stagger
from fencepost.harness.history import Completion, Outcome
from fencepost.harness.interpreter.client import Client
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.contract.system import System

KEY: Final = "producer-ids"
_BROKER: Final = "broker"
_FINAL_OF_EACH: Final = 20


class ProducerIds:
    name: Final = "producer-ids"
    about: Final = "producer ids from every node; never the same one twice"
    protocol: Final = Interface.PRODUCER_IDS
    #: An id that never arrived is lost, which harms nobody.
    effect_free: frozenset[str] = frozenset({"allocate"})

    def options(self, system: System) -> dict[str, Any]:
        return {"rate": 1000.0, "workers_per_node": 3}

    def choices(self, system: System) -> dict[str, tuple[str, ...]]:
        return {}

    def guarantee(self, system: System, options: Mapping[str, Any]) -> str:
        return "unique-producer-ids"

    def requires(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def refuse(self, options: Mapping[str, Any], members: tuple[Member, ...]) -> str | None:
        return None

    def notice(self, options: Mapping[str, Any]) -> str | None:
        return None

    def checkers(self, system: System, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("producer-ids",)

    def keys(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        brokers = tuple(member.name for member in members if _BROKER in member.roles)
        return brokers or tuple(member.name for member in members)

    def workers(self, options: Mapping[str, Any], node_count: int) -> int:
        return int(node_count * options["workers_per_node"])

    def timeout_s(self, options: Mapping[str, Any], node_count: int, worker: int, patient_s: float) -> float:
        return min(patient_s, 2.0)

    def system_options(self, system: System) -> dict[str, Any]:
        return {name: value for name, value in {"brokers": 3}.items() if name in system.options()}

    def generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        return stagger(round(1e9 / options["rate"]) if options["rate"] > 0 else 0, draws(_allocate))

    def final_generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        # Again from every node, so that blocks taken before a fault meet those that were allotted after it.
        return reserve((node_count, each_worker(limit(_FINAL_OF_EACH, draws(_allocate)))))

    def client(self, store: ProducerIdsSession, options: Mapping[str, Any], now_ns: Callable[[], int]) -> Client:
        return ProducerIdsClient(store)


def _allocate(worker: int, i: int, draw: Draw) -> Offer:
    return Offer("allocate", KEY)


class ProducerIdsClient:
    """One connection; the value of an ok allocation is the id."""

    def __init__(self, store: ProducerIdsSession) -> None:
        self._store = store

    async def invoke(self, offer: Offer) -> Completion:
        return Completion(Outcome.OK, await self._store.allocate())

    async def close(self) -> None:
        await self._store.close()
