"""`set`: unique elements are added; lost is what was acknowledged and is absent from a strong read after healing.

Each element is a key (etcd) or child (ZooKeeper) of its own, so adds never contend and only durability is asked for.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.coordination import Interface, Locks, ReadMode
from fencepost.harness.generators import (
    Draw,
    Generator,
    Offer,
    draws,
    each_worker,
    limit,
    phases,
    reserve,
    sleep,
    stagger,
)
from fencepost.harness.history import Completion, Outcome
from fencepost.harness.interpreter.client import Client
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.contract.system import System

NAME: Final = "s"


class Set:
    name: Final = "set"
    about: Final = "unique adds; acknowledged elements must be in a strong read after healing"
    protocol: Final = Interface.STORAGE
    effect_free: frozenset[str] = frozenset({"members"})

    def options(self, system: System) -> dict[str, Any]:
        strong = ReadMode.STRONG if ReadMode.STRONG in system.read_modes else ReadMode.BARRIER
        return {
            "rate": 150.0,
            "adders_per_node": 3,
            "add_timeout": "1500ms",
            "members": strong.value,
            "members_every": "1s",
        }

    def choices(self, system: System) -> dict[str, tuple[str, ...]]:
        return {"members": tuple(mode.value for mode in system.read_modes)}

    def guarantee(self, system: System, options: Mapping[str, Any]) -> str:
        return "no-lost-acknowledged-writes"

    def requires(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def refuse(self, options: Mapping[str, Any], members: tuple[Member, ...]) -> str | None:
        return None

    def notice(self, options: Mapping[str, Any]) -> str | None:
        return None

    def checkers(self, system: System, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("set",)

    def keys(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (NAME,)

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        return tuple(member.name for member in members)

    def workers(self, options: Mapping[str, Any], node_count: int) -> int:
        return int(node_count * (options["adders_per_node"] + 1))

    def timeout_s(self, options: Mapping[str, Any], node_count: int, worker: int, patient_s: float) -> float:
        adds = worker < node_count * options["adders_per_node"]
        return parse_duration_ns(options["add_timeout"], what="add_timeout") / 1e9 if adds else patient_s

    def system_options(self, system: System) -> dict[str, Any]:
        return {}

    def generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        workers = self.workers(options, node_count)

        def add(worker: int, i: int, draw: Draw) -> Offer:
            return Offer("add", NAME, i * workers + worker + 1)

        reads_ns = parse_duration_ns(options["members_every"], what="members_every")
        return reserve(
            (node_count * options["adders_per_node"], stagger(round(1e9 / options["rate"]), draws(add))),
            (node_count, each_worker(stagger(reads_ns, draws(_members)))),
        )

    def final_generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        # Twice, a little apart, on every node: an element that comes and goes shows.
        twice = phases(limit(1, draws(_members)), sleep(300_000_000), limit(1, draws(_members)))
        return reserve((node_count, each_worker(twice)))

    def client(self, store: Locks, options: Mapping[str, Any], now_ns: Callable[[], int]) -> Client:
        return SetClient(store, ReadMode(options["members"]))


def _members(worker: int, i: int, draw: Draw) -> Offer:
    return Offer("members", NAME)


class SetClient:
    """One connection; `members` reads strongly."""

    def __init__(self, store: Locks, strong: ReadMode) -> None:
        self._store = store
        self._strong = strong

    async def invoke(self, offer: Offer) -> Completion:
        session = self._store.session_id
        if offer.f == "members":
            found = await self._store.members(NAME, self._strong)
            return Completion(
                Outcome.OK, list(found.elements), position=found.position, epoch=found.epoch, session=session
            )
        reply = await self._store.add(NAME, offer.value)
        return Completion(Outcome.OK, offer.value, position=reply.position, epoch=reply.epoch, session=session)

    async def close(self) -> None:
        await self._store.close()
