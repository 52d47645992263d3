"""`lock`: a lease or session lock guards the read-modify-write of one value in the same store.

One operation `critical` is a whole critical section: acquire the lock, read the list of elements, work, write the list
with one more element, release. Now and then the holder works for longer than its lease without renewing it, like a
process that stalls. With `fencing=on` the write is one transaction that also checks the lock. With `fencing=off` it
does not check, like a resource that does not know the lock, and updates are expected to be lost (Jepsen, etcd 3.4.3).
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Final, Literal

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Definite, Held, Indefinite, Interface, Keys, Locks, ReadMode
from fencepost.harness.generators import Draw, Generator, Offer, at_rate, draws, each_worker, limit, numbered, reserve
from fencepost.harness.history import Completion, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload, current_read

LOCK: Final = "lock"
KEY: Final = "guarded"

_NO_FENCING: Final = (
    "without fencing this run is expected to be invalid: a holder that stalls for longer than its lease overwrites the"
    " next holder's update"
)


class LockOptions(Options, frozen=True, kw_only=True):
    fencing: Annotated[Literal["on", "off"], about("whether a write also checks that the lock is held")] = "on"
    workers_per_node: Annotated[int, about("workers per node that take the lock", least=1, most=1000)] = 2
    rate: Annotated[float, about("critical sections begun per second, all workers together", above=0, most=1e6)] = 60.0
    work: Annotated[Duration, about("mean time that a holder works", least=0)] = seconds(0.01)
    stall: Annotated[Duration, about("how long a holder that stalls works", least=0)] = seconds(3.5)
    stall_one_in: Annotated[int, about("one holder in this many stalls", least=1)] = 60
    members: Annotated[ReadMode, about("how the guarded value is read")] = ReadMode.STRONG


class Lock(Workload[LockOptions]):
    name = "lock"
    about = "a lock guards the read-modify-write of one set; fencing on or off"
    protocol = Interface.LOCKS
    options = LockOptions
    effect_free = frozenset({"members"})
    judges = ("lock",)
    #: Leases that are longer than a stall would test nothing, and a lost holder would block the others for long.
    wants = {"lock_ttl": "2s", "session_timeout": "2500ms"}  # noqa: RUF012  # a read-only mapping

    def defaults(self, system: System) -> LockOptions:
        return LockOptions(members=current_read(system))

    def guarantee(self, system: System, options: LockOptions) -> str:
        return "fenced-lock" if options.fencing == "on" else "lock-mutual-exclusion"

    def requires(self, options: LockOptions) -> tuple[str, ...]:
        return ("lock-mutual-exclusion",) if options.fencing == "off" else ()

    def notice(self, options: LockOptions) -> str | None:
        return _NO_FENCING if options.fencing == "off" else None

    def needs(self, options: LockOptions) -> Keys:
        return Keys((KEY,))

    def workers(self, options: LockOptions, node_count: int) -> int:
        return node_count * options.workers_per_node

    def generator(self, options: LockOptions, node_count: int) -> Generator:
        return at_rate(options.rate, numbered(lambda number: Offer("critical", KEY, number)))

    def final_generator(self, options: LockOptions, node_count: int) -> Generator:
        members = draws(lambda worker, i, draw: Offer("members", KEY))
        return reserve((node_count, each_worker(limit(2, members))))

    def client(self, store: Locks, options: LockOptions, now_ns: Callable[[], int]) -> Client:
        return LockClient(store, options, now_ns)


class LockClient(SessionClient[Locks]):
    """One connection for the lock and for the guarded value.

    The value of `critical` is the element. Its result is [token, acquired_ns, last_held_ns]: between these two times of
    the history's clock the client believed that it held the lock.
    """

    def __init__(self, store: Locks, options: LockOptions, now_ns: Callable[[], int]) -> None:
        super().__init__(store)
        self._options = options
        self._now_ns = now_ns

    async def invoke(self, offer: Offer) -> Completion:
        if offer.f == "members":
            reply = await self._store.read(KEY, self._options.members)
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
        before = await self._store.read(KEY, self._options.members)
        await asyncio.sleep(self._work_s(element))
        value = _encode([*_decode(before.value), element])
        last_held_ns = self._now_ns()
        if self._options.fencing == "on":
            reply = await self._store.guarded_write(KEY, value, LOCK, held)
        else:
            reply = await self._store.write(KEY, value)
        return reply.epoch, reply.position, last_held_ns

    async def _let_go(self, held: Held) -> bool:
        """Release the lock; False when that fails, and the end of the lease or session will release it."""
        try:
            await self._store.release(LOCK, held)
        except (Definite, Indefinite):
            return False
        return True

    def _work_s(self, element: int) -> float:
        """How long the holder works; it depends only on the element, so that a plan and a seed repeat it."""
        draw, options = Draw(0, 0, element), self._options
        if draw.below(options.stall_one_in) == 0:
            return options.stall.seconds
        return draw.below(2 * (options.work // 1_000_000) + 1) / 1000


def _encode(elements: list[int]) -> bytes:
    return b",".join(b"%d" % element for element in elements)


def _decode(value: bytes | None) -> list[int]:
    return [int(part) for part in value.split(b",")] if value else []
