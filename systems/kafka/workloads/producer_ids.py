"""`producer-ids`: every node gives out producer ids; none may be given out twice.

A broker takes ids from a block that a controller gave to it. If a controller that was replaced, or that lost its state,
gives the same block again, two producers share an id, and the log drops the records of one of them as duplicates.
"""

from collections.abc import Callable
from typing import Annotated, Final

from fencepost.harness.base.options import Options, about
from fencepost.harness.generators import Generator, Offer, at_rate, draws, each_worker, limit, reserve
from fencepost.harness.history import Completion, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload
from fencepost.systems.kafka.protocols import GrantsProducerIds as ProducerIdsSession
from fencepost.systems.kafka.protocols import KafkaInterface

KEY: Final = "producer-ids"
_FINAL_OF_EACH: Final = 20
_ALLOCATE: Final = draws(lambda worker, i, draw: Offer("allocate", KEY))


class ProducerIdsOptions(Options, frozen=True, kw_only=True):
    rate: Annotated[
        float, about("ids requested per second, all workers together; 0: as fast as they come", least=0, most=1e6)
    ] = 1000.0
    workers_per_node: Annotated[int, about("workers per node that ask for ids", least=1, most=1000)] = 3


class ProducerIds(Workload[ProducerIdsOptions]):
    name = "producer-ids"
    about = "producer ids from every node; no id may come twice"
    protocol = KafkaInterface.PRODUCER_IDS
    options = ProducerIdsOptions
    #: An id that never arrived is lost, which does no harm.
    effect_free = frozenset({"allocate"})
    promise = "unique-producer-ids"
    judges = ("producer-ids",)
    roles = frozenset({"broker"})
    wants = {"brokers": 3}  # noqa: RUF012  # a read-only mapping

    def workers(self, options: ProducerIdsOptions, node_count: int) -> int:
        return node_count * options.workers_per_node

    def timeout_s(self, options: ProducerIdsOptions, node_count: int, worker: int, patient_s: float) -> float:
        return min(patient_s, 2.0)

    def generator(self, options: ProducerIdsOptions, node_count: int) -> Generator:
        return at_rate(options.rate, _ALLOCATE)

    def final_generator(self, options: ProducerIdsOptions, node_count: int) -> Generator:
        # Again from every node, so that blocks from before a fault meet blocks that were given after it.
        return reserve((node_count, each_worker(limit(_FINAL_OF_EACH, _ALLOCATE))))

    def client(self, store: ProducerIdsSession, options: ProducerIdsOptions, now_ns: Callable[[], int]) -> Client:
        return ProducerIdsClient(store)


class ProducerIdsClient(SessionClient[ProducerIdsSession]):
    """One connection; the value of an ok allocation is the id."""

    async def invoke(self, offer: Offer) -> Completion:
        return Completion(Outcome.OK, await self._store.allocate())
