"""One connection to one node of the fake cluster: the protocols of `harness.coordination`, with losses on the way."""

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from fencepost.harness.coordination import Definite, Held, Indefinite, Members, NotSent, ReadMode, Reply
from fencepost.harness.history.operation import GaveUp
from tests.fakes.cluster import LOCK_TTL_S, Cell, FakeCluster, FakeNode, Lock

T = TypeVar("T")

#: Keys of the workload `register`.
_REGISTERS: Final = frozenset(f"r{number}" for number in range(100))
#: One request in so many is lost before, or its reply after, or its effect comes late.
LOSS: Final = 400


class FakeSession:
    """Implements `harness.coordination.Locks`."""

    def __init__(self, cluster: FakeCluster, node: FakeNode) -> None:
        self._cluster = cluster
        self._node = node
        self._incarnation = node.incarnation
        self._number = cluster.next_session()
        self._closed = False

    @property
    def session_id(self) -> int | None:
        return self._number

    async def close(self) -> None:
        self._closed = True

    # --- the way of a request -------------------------------------------------------------------------------------

    async def _strong(
        self,
        effect: Callable[[], T],
        *,
        again: bool = False,
        gives_up: bool = False,
        zombie: Callable[[], T] | None = None,
    ) -> T:
        """Carry a request to the leader, through this node: `effect` happens at one instant, once, or never.

        `zombie` is what a superseded leader that does not know does instead, when the planted bug lets it. With
        `gives_up` the answer may be that the server does not know what became of it.
        """
        cluster = self._cluster
        await self._arrive()
        if cluster.is_zombie(self._node):
            if zombie is None:
                raise Definite("not-leader")
            return zombie()
        await self._served()
        fate = cluster.random.randrange(LOSS)
        if fate == 0:
            await asyncio.sleep(0.05)
            raise Indefinite("request-lost")
        if fate == 1:
            late_s = cluster.random.uniform(0.0, 0.5)
            asyncio.get_running_loop().call_later(late_s, _ignoring_refusal, effect)
            raise Indefinite("request-delayed")
        if gives_up and (fate == 3 or cluster.hits("late-effect", 20)):
            return await self._give_up(effect)
        answer = effect()
        await self._travel()
        self._check_connection()
        if fate == 2 or (again and cluster.hits("double-apply", 40)):
            if again and cluster.bug == "double-apply":
                asyncio.get_running_loop().call_later(0.1, _ignoring_refusal, effect)
            raise Indefinite("reply-lost")
        return answer

    async def _give_up(self, effect: Callable[[], T]) -> NoReturn:
        """Answer that the outcome is unknown; what has not taken effect by then never does, unless a bug says so."""
        cluster = self._cluster
        if cluster.bug == "late-effect":
            asyncio.get_running_loop().call_later(cluster.random.uniform(0.2, 0.8), _ignoring_refusal, effect)
        elif cluster.random.random() < 0.5:
            _ignoring_refusal(effect)
        await self._travel()
        self._check_connection()
        raise Indefinite(GaveUp.WRITE_TIMEOUT)

    async def _arrive(self) -> None:
        if self._closed or not self._node.alive or self._node.incarnation != self._incarnation:
            raise NotSent("connection-closed")
        await self._travel()
        await self._node.running.wait()
        self._check_connection()

    async def _served(self) -> None:
        await self._cluster.serving.wait()
        await self._node.running.wait()
        self._check_connection()

    async def _travel(self) -> None:
        await asyncio.sleep(self._cluster.random.expovariate(1 / 0.002))

    def _check_connection(self) -> None:
        if not self._node.alive or self._node.incarnation != self._incarnation:
            raise Indefinite("connection-lost")

    def _reply(self, cell: Cell | None) -> Reply:
        position = self._cluster.position
        if cell is None:
            return Reply(position=position, epoch=position >> 32)
        return Reply(cell.value, position, cell.position, position >> 32, cell.version)

    def _wrote(self, cell: Cell) -> Reply:
        self._node.copied = max(self._node.copied, cell.position)
        return Reply(None, cell.position, cell.position, cell.position >> 32, cell.version)

    # --- key-value storage ----------------------------------------------------------------------------------------

    async def read(self, key: str, mode: ReadMode) -> Reply:
        cluster, node = self._cluster, self._node
        if mode is ReadMode.PLAIN:
            return await self._plain(key)
        if cluster.bug == "stale-read" and node.name == "n2":
            await self._arrive()
            return self._copy(key, cluster.copied(node, lag_s=0.05))

        def old_state() -> Reply:
            return self._copy(key, node.frozen_at)

        return await self._strong(
            lambda: self._reply(cluster.get(key)), zombie=old_state if cluster.bug == "zombie-answer" else None
        )

    async def _plain(self, key: str) -> Reply:
        await self._arrive()
        at = self._cluster.copied(self._node, lag_s=0.02)
        if self._cluster.hits("session-goes-back", 20):
            at = max(at - 20, 0)
        reply = self._copy(key, at)
        if reply.version is not None and reply.version > 1 and self._cluster.hits("two-values", 20):
            reply = Reply(b"-1", reply.position, reply.value_position, reply.epoch, reply.version)
        await self._travel()
        return reply

    def _copy(self, key: str, at: int) -> Reply:
        cell = self._cluster.get(key, at, self._node.skipped)
        if cell is None:
            return Reply(position=at, epoch=at >> 32)
        return Reply(cell.value, at, cell.position, at >> 32, cell.version)

    async def write(self, key: str, value: bytes) -> Reply:
        cluster = self._cluster

        def effect() -> Reply:
            if cluster.hits("lost-write", 50) or cluster.hits("small-values-lost-write", 50):
                position = cluster.next_position()
                return Reply(None, position, position, position >> 32)
            cell = cluster.put(key, value)
            if cluster.hits("phantom-write", 50):
                raise Definite("refused")
            if cluster.hits("early-position", 40):
                return Reply(None, cell.position - 20, cell.position - 20, cell.position >> 32)
            return self._wrote(cell)

        def old_epoch() -> Reply:
            """Acknowledged in the epoch that is over; nobody else ever hears of it."""
            self._node.frozen_at += 1
            return Reply(None, self._node.frozen_at, self._node.frozen_at, self._node.frozen_at >> 32)

        zombie = old_epoch if cluster.bug == "zombie-stamp" else None
        return await self._strong(effect, again=True, gives_up=key in _REGISTERS, zombie=zombie)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        cluster = self._cluster

        def effect() -> Reply:
            cell = cluster.get(key)
            if (cell is None or cell.value != old) and not cluster.hits("cas-ignores-old", 5):
                raise Definite("cas-mismatch")
            return self._wrote(cluster.put(key, new))

        return await self._strong(effect)

    async def create(self, key: str, value: bytes) -> Reply:
        cluster = self._cluster

        def effect() -> Reply:
            there = cluster.get(key) is not None or key in cluster.remembered
            if there and not cluster.hits("double-create", 10):
                raise Definite("exists")
            return self._wrote(cluster.put(key, value))

        if cluster.hits("put-remembered", 20):
            cluster.remembered.add(key)
            raise Indefinite("reply-lost")
        return await self._strong(effect)

    async def update(self, key: str, value: bytes) -> Reply:
        cluster = self._cluster

        def effect() -> Reply:
            absent = cluster.get(key) is None or cluster.hits("update-blind", 10)
            if absent and not cluster.hits("update-creates", 10):
                raise Definite("absent")
            return self._wrote(cluster.put(key, value))

        return await self._strong(effect)

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        def effect() -> Reply:
            cell = self._cluster.get(key)
            if (None if cell is None else cell.position) != value_position:
                raise Definite("cas-mismatch")
            return self._wrote(self._cluster.put(key, value))

        return await self._strong(effect)

    # --- sets -----------------------------------------------------------------------------------------------------

    async def add(self, name: str, element: int) -> Reply:
        cluster, node = self._cluster, self._node

        def effect() -> Reply:
            if cluster.has(name, element):
                raise Definite("exists")
            dropped = cluster.hits("set-lost-element", 50)
            position = cluster.next_position() if dropped else cluster.insert(name, element)
            if cluster.hits("set-phantom-element", 50):
                raise Definite("refused")
            return Reply(None, position, position, position >> 32)

        def unheard() -> Reply:
            node.frozen_at += 1
            return Reply(None, node.frozen_at, node.frozen_at, node.frozen_at >> 32)

        def old_epoch() -> Reply:
            """Everybody sees it, though its place is in the epoch that is over."""
            cluster.insert(name, element)
            return unheard()

        zombies = {"zombie-write": unheard, "set-zombie-stamp": old_epoch}
        return await self._strong(effect, zombie=zombies.get(cluster.bug or ""))

    async def members(self, name: str, mode: ReadMode) -> Members:
        cluster = self._cluster
        return await self._strong(lambda: Members(cluster.members(name), cluster.position, cluster.epoch))

    # --- locks ----------------------------------------------------------------------------------------------------

    async def acquire(self, name: str) -> Held:
        cluster = self._cluster

        def effect() -> Held:
            lock, now_s = cluster.locks.get(name), cluster.now_s()
            if lock is not None and now_s < lock.ends_s:
                if cluster.bug in ("double-grant", "double-grant-unfenced") and cluster.random.randrange(10) == 0:
                    return Held(lock.token, str(lock.token), cluster.epoch, cluster.position)
                raise Definite("held")
            token = cluster.next_position()
            if lock is not None and cluster.hits("token-goes-back", 3):
                token = lock.token - 1
            cluster.locks[name] = Lock(token, self._number, now_s + LOCK_TTL_S)
            return Held(token, str(token), cluster.epoch, cluster.position)

        return await self._strong(effect)

    async def renew(self) -> Reply:
        def effect() -> Reply:
            ends_s = self._cluster.now_s() + LOCK_TTL_S
            for name, lock in self._cluster.locks.items():
                if lock.holder == self._number:
                    self._cluster.locks[name] = Lock(lock.token, lock.holder, ends_s)
            return self._reply(None)

        return await self._strong(effect)

    async def release(self, name: str, held: Held) -> Reply:
        def effect() -> Reply:
            if not self._holds(name, held):
                raise Definite("not-held")
            del self._cluster.locks[name]
            return self._reply(None)

        return await self._strong(effect)

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        def effect() -> Reply:
            if not self._holds(name, held) and self._cluster.bug != "fencing-ignored":
                raise Definite("fenced")
            return self._wrote(self._cluster.put(key, value))

        return await self._strong(effect)

    def _holds(self, name: str, held: Held) -> bool:
        lock = self._cluster.locks.get(name)
        return lock is not None and lock.token == held.token and self._cluster.now_s() < lock.ends_s


def _ignoring_refusal(effect: Callable[[], object]) -> None:
    """A late effect that the store refuses has nobody to be told."""
    try:
        effect()
    except Definite:
        return
