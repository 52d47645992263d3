"""`lock`: a lease or session lock guards the read-modify-write of one value in the same store.

One operation `critical` is a whole critical section: acquire, read the list of elements, work, write the list with one
element more, release. Now and then the holder works longer than its lease lasts without renewing it, as a stalled
process would. With `fencing=on` the write is one transaction that also checks the lock; with `fencing=off` it is
blind, as with a resource that knows nothing of the lock, and updates are expected to be lost (Jepsen, etcd 3.4.3).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.coordination import Definite, Held, Indefinite, Interface, Locks, ReadMode
from fencepost.harness.generators import Draw, Generator, Offer, draws, each_worker, limit, reserve, stagger
from fencepost.harness.history import Completion, Outcome
from fencepost.harness.interpreter.client import Client
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.contract.system import System

LOCK: Final = "lock"
KEY: Final = "guarded"

_NO_FENCING: Final = (
    "without fencing this run is expected to be invalid: a holder that stalls past its lease overwrites the next one's"
    " update"
)


class Lock:
    name: Final = "lock"
    about: Final = "a lock guards the read-modify-write of one set; fencing on or off"
    protocol: Final = Interface.LOCKS
    effect_free: frozenset[str] = frozenset({"members"})

    def options(self, system: System) -> dict[str, Any]:
        strong = ReadMode.STRONG if ReadMode.STRONG in system.read_modes else ReadMode.BARRIER
        return {
            "fencing": "on",
            "workers_per_node": 2,
            "rate": 60.0,
            "work": "10ms",
            "stall": "3500ms",
            "stall_one_in": 60,
            "members": strong.value,
        }

    def choices(self, system: System) -> dict[str, tuple[str, ...]]:
        return {"fencing": ("on", "off"), "members": tuple(mode.value for mode in system.read_modes)}

    def guarantee(self, system: System, options: Mapping[str, Any]) -> str:
        return "fenced-lock" if options["fencing"] == "on" else "lock-mutual-exclusion"

    def requires(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("lock-mutual-exclusion",) if options["fencing"] == "off" else ()

    def refuse(self, options: Mapping[str, Any], members: tuple[Member, ...]) -> str | None:
        return None

    def notice(self, options: Mapping[str, Any]) -> str | None:
        return _NO_FENCING if options["fencing"] == "off" else None

    def checkers(self, system: System, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("lock",)

    def keys(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (KEY,)

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        return tuple(member.name for member in members)

    def workers(self, options: Mapping[str, Any], node_count: int) -> int:
        return int(node_count * options["workers_per_node"])

    def timeout_s(self, options: Mapping[str, Any], node_count: int, worker: int, patient_s: float) -> float:
        return patient_s

    def system_options(self, system: System) -> dict[str, Any]:
        # Leases that outlive a stall would show nothing, and a lost holder would block the others for long.
        short = {"lock_ttl_s": 2, "session_timeout_ms": 2500}
        return {name: value for name, value in short.items() if name in system.options()}

    def generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        workers = self.workers(options, node_count)

        def critical(worker: int, i: int, draw: Draw) -> Offer:
            return Offer("critical", KEY, i * workers + worker + 1)

        return stagger(round(1e9 / options["rate"]), draws(critical))

    def final_generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        return reserve((node_count, each_worker(limit(2, draws(_members)))))

    def client(self, store: Locks, options: Mapping[str, Any], now_ns: Callable[[], int]) -> Client:
        return LockClient(
            store,
            ReadMode(options["members"]),
            fencing=options["fencing"] == "on",
            work=_Work(
                work_ms=parse_duration_ns(options["work"], what="work") // 1_000_000,
                stall_ms=parse_duration_ns(options["stall"], what="stall") // 1_000_000,
                stall_one_in=options["stall_one_in"],
            ),
            now_ns=now_ns,
        )


def _members(worker: int, i: int, draw: Draw) -> Offer:
    return Offer("members", KEY)


class _Work(msgspec.Struct, frozen=True, kw_only=True):
    """How long a holder works, decided by the element alone so that a plan and seed repeat it."""

    work_ms: int
    stall_ms: int
    stall_one_in: int

    def seconds(self, element: int) -> float:
        draw = Draw(0, 0, element)
        return (self.stall_ms if draw.below(self.stall_one_in) == 0 else draw.below(2 * self.work_ms + 1)) / 1000


class LockClient:
    """One connection for the lock and for the guarded value.

    The value of `critical` is the element; its result [token, acquired_ns, last_held_ns]: between the two times, on
    the history's clock, the client believed that it held the lock.
    """

    def __init__(
        self, store: Locks, strong: ReadMode, *, fencing: bool, work: _Work, now_ns: Callable[[], int]
    ) -> None:
        self._store = store
        self._strong = strong
        self._fencing = fencing
        self._work = work
        self._now_ns = now_ns

    async def invoke(self, offer: Offer) -> Completion:
        if offer.f == "members":
            reply = await self._store.read(KEY, self._strong)
            return Completion(Outcome.OK, _decode(reply.value), position=reply.position, epoch=reply.epoch)
        element = offer.value
        held = await self._store.acquire(LOCK)
        acquired_ns = self._now_ns()
        try:
            epoch, position, last_held_ns = await self._update(element, held)
        except Definite:
            await self._let_go(held)
            raise
        released = await self._let_go(held)
        return Completion(
            Outcome.OK,
            [held.token, acquired_ns, last_held_ns],
            error=None if released else "not-released",
            position=position,
            epoch=epoch,
            session=self._store.session_id,
        )

    async def _update(self, element: int, held: Held) -> tuple[int | None, int | None, int]:
        before = await self._store.read(KEY, self._strong)
        await asyncio.sleep(self._work.seconds(element))
        value = _encode([*_decode(before.value), element])
        last_held_ns = self._now_ns()
        if self._fencing:
            reply = await self._store.guarded_write(KEY, value, LOCK, held)
        else:
            reply = await self._store.write(KEY, value)
        return reply.epoch, reply.position, last_held_ns

    async def _let_go(self, held: Held) -> bool:
        """Release; when that fails the lease or session ends the lock in its own time."""
        try:
            await self._store.release(LOCK, held)
        except (Definite, Indefinite):
            return False
        return True

    async def close(self) -> None:
        await self._store.close()


def _encode(elements: list[int]) -> bytes:
    return b",".join(b"%d" % element for element in elements)


def _decode(value: bytes | None) -> list[int]:
    return [int(part) for part in value.split(b",")] if value else []
