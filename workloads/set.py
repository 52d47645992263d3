"""`set`: workers add unique elements; an acknowledged element that a strong read after healing lacks is lost.

Each element is a key (etcd) or child (ZooKeeper) of its own, so adds never conflict and only durability is tested.
"""

from collections.abc import Callable
from typing import Annotated, Final

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Interface, Keys, KeyValue, ReadMode
from fencepost.harness.generators import (
    Generator,
    Offer,
    at_rate,
    draws,
    each_worker,
    numbered,
    once,
    phases,
    reserve,
    sleep,
    stagger,
)
from fencepost.harness.history import Completion
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload, current_read

NAME: Final = "s"
_MEMBERS: Final = Offer("members", NAME)


class SetOptions(Options, frozen=True, kw_only=True):
    rate: Annotated[float, about("adds per second, all workers together", above=0, most=1e6)] = 150.0
    adders_per_node: Annotated[int, about("workers per node that add", least=1, most=1000)] = 3
    add_timeout: Annotated[Duration, about("an add is given up after this long", above=0)] = seconds(1.5)
    members: Annotated[ReadMode, about("how the whole set is read")] = ReadMode.STRONG
    members_every: Annotated[Duration, about("mean time between two reads of the whole set on one node", above=0)] = (
        seconds(1)
    )


class Set(Workload[SetOptions]):
    name = "set"
    about = "unique adds; acknowledged elements must be in a strong read after healing"
    protocol = Interface.STORAGE
    options = SetOptions
    effect_free = frozenset({"members"})
    promise = "no-lost-acknowledged-writes"
    judges = ("set",)

    def defaults(self, system: System) -> SetOptions:
        return SetOptions(members=current_read(system))

    def needs(self, options: SetOptions) -> Keys:
        return Keys((NAME,))

    def workers(self, options: SetOptions, node_count: int) -> int:
        return node_count * (options.adders_per_node + 1)

    def timeout_s(self, options: SetOptions, node_count: int, worker: int, patient_s: float) -> float:
        return options.add_timeout.seconds if worker < node_count * options.adders_per_node else patient_s

    def generator(self, options: SetOptions, node_count: int) -> Generator:
        adds = numbered(lambda number: Offer("add", NAME, number))
        reads = draws(lambda worker, i, draw: _MEMBERS)
        return reserve(
            (node_count * options.adders_per_node, at_rate(options.rate, adds)),
            (node_count, each_worker(stagger(options.members_every, reads))),
        )

    def final_generator(self, options: SetOptions, node_count: int) -> Generator:
        # Twice on every node, a little apart, so that an element that comes and goes is seen.
        twice = phases(once(_MEMBERS), sleep(300_000_000), once(_MEMBERS))
        return reserve((node_count, each_worker(twice)))

    def client(self, store: KeyValue, options: SetOptions, now_ns: Callable[[], int]) -> Client:
        return SetClient(store, options.members)


class SetClient(SessionClient[KeyValue]):
    """One connection; `members` reads strongly."""

    def __init__(self, store: KeyValue, strong: ReadMode) -> None:
        super().__init__(store)
        self._strong = strong

    async def invoke(self, offer: Offer) -> Completion:
        if offer.f == "members":
            members = await self._store.members(NAME, self._strong)
            return self._ok(list(members.elements), members)
        return self._ok(offer.value, await self._store.add(NAME, offer.value))
