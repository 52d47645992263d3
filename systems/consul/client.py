"""The Consul client: one connection to one agent, one request for each call, outcomes by the table of `wire/errors.py`.

Nothing retries, reconnects or queues (`harness.http`). There are no time-outs here: the caller cancels a call
at its own deadline, which ends the connection and leaves the outcome unknown.

Every write is a transaction, even of one key, since only the answer to a transaction names the raft index of the write.
That index is `value_position`. An answer about a key that exists does not say where the store stands as a whole, so
`position` is given only where the key is absent. Consul stamps no answer with raft's term, so `epoch` is None.

A lock is a key that exists while a session holds it: a transaction checks that it is absent and locks it, its release
and the end of its session delete it. The index of that transaction is the fencing token, and guarded writes compare it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fencepost.harness.coordination import (
    Deeds,
    Definite,
    Granted,
    Held,
    Indefinite,
    Leading,
    ListedMember,
    Members,
    NotSent,
    ReadMode,
    Reply,
    Roster,
    WatchMode,
)
from fencepost.systems.consul.options import ConsulOptions
from fencepost.systems.consul.watches import ConsulWatches
from fencepost.systems.consul.wire import errors
from fencepost.systems.consul.wire.calls import ConsulCalls
from fencepost.systems.consul.wire.messages import Pair, TxnOperation

#: Consul's own words for its modes of reading; "default" is what it does without a word.
MODES: Final[Mapping[ReadMode, str]] = {
    ReadMode.STRONG: "consistent",
    ReadMode.LEADER: "",
    ReadMode.PLAIN: "stale",
}


class ConsulClient:
    """`harness.coordination.Elections` on Consul."""

    def __init__(self, calls: ConsulCalls, options: ConsulOptions) -> None:
        self._calls = calls
        self._options = options
        self._session: str | None = None
        self._watched_group: str | None = None
        self._watched_index = 0

    @property
    def session_id(self) -> int | None:
        """A session of Consul is not bound to a connection."""
        return None

    async def close(self) -> None:
        self._calls.close()

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> ConsulWatches:
        """See `harness.coordination.Watchable`. There is one mode, and it covers all keys below one prefix."""
        return ConsulWatches(self._calls, now_ns)

    # Key-value storage.

    async def read(self, key: str, mode: ReadMode) -> Reply:
        pairs, index = await self._calls.pairs(key, mode_query(mode))
        if not pairs:
            return Reply(position=index)
        return Reply(value=pairs[0].value or b"", value_position=pairs[0].modify_index)

    async def write(self, key: str, value: bytes) -> Reply:
        return await self._calls.write(TxnOperation("set", key, value))

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        """Read, then write if the key's index is unchanged: two requests, of which the first has no effect."""
        try:
            seen = await self.read(key, ReadMode.STRONG)
        except Indefinite as error:
            raise NotSent(error.code, "at the read") from None
        if seen.value != old:
            raise Definite(errors.CAS_MISMATCH, "at the read")
        return await self.write_if(key, new, seen.value_position, None)

    async def create(self, key: str, value: bytes) -> Reply:
        return await self._calls.write(_absent(key), TxnOperation("set", key, value), otherwise=errors.EXISTS)

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """Compare the key's ModifyIndex; 0 stands for an absent key."""
        return await self._calls.write(
            TxnOperation("cas", key, value, index=value_position or 0), otherwise=errors.CAS_MISMATCH
        )

    async def add(self, name: str, element: int) -> Reply:
        key = f"{name}/{element}"
        return await self._calls.write(_absent(key), TxnOperation("set", key, b""), otherwise=errors.EXISTS)

    async def members(self, name: str, mode: ReadMode) -> Members:
        prefix = f"{name}/"
        pairs, index = await self._calls.pairs(prefix, f"recurse&{mode_query(mode)}")
        return Members(tuple(sorted(int(pair.key[len(prefix) :]) for pair in pairs)), position=index)

    # Leases are sessions. They belong to no connection, so whoever knows the id may ask any agent.

    async def grant(self, ttl_ms: int) -> Granted:
        return Granted(await self._calls.make_session(ttl_ms, 0), ttl_ms)

    async def keep_alive(self, handle: str) -> Granted:
        return Granted(handle, await self._calls.renew_session(handle))

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        key = f"{name}/{element}"
        return await self._calls.write(TxnOperation("lock", key, handle.encode(), session=handle))

    async def revoke(self, handle: str) -> Reply:
        """Destroy the session; Consul acknowledges that for a session that it does not know, too."""
        await self._calls.destroy_session(handle)
        return Reply()

    # Groups: a member is a key that a session locks.

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        """Lock the key where it is absent: a transaction that checks that first."""
        key = f"{_below(group)}{member}"
        lock = TxnOperation("lock", key, data, session=handle)
        return await self._calls.write(_absent(key), lock, otherwise=errors.EXISTS)

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        pairs, index = await self._calls.pairs(_below(group), f"recurse&{mode_query(mode)}")
        return _roster(group, pairs, None if pairs else index)

    async def watch_roster(self, group: str) -> Roster:
        pairs, self._watched_index = await self._calls.pairs(_below(group), "recurse&stale")
        self._watched_group = group
        return _roster(group, pairs, None if pairs else self._watched_index)

    async def roster_changed(self, wait_s: float) -> bool:
        """Ask once, in a query that blocks until the index of the group's keys is another one."""
        if self._watched_group is None:
            raise Definite(errors.NOT_WATCHING)
        _, index = await self._calls.pairs(_below(self._watched_group), f"recurse&{self._watched_query(wait_s)}")
        return index != self._watched_index

    def _watched_query(self, wait_s: float) -> str:
        return f"stale&index={max(self._watched_index, 1)}&wait={max(1, round(wait_s * 1000))}ms"

    # Leader election, by a lock bound to a session.

    async def acquire(self, name: str) -> Held:
        """Lock the key with this client's session, which a request before the first lock makes.

        If the outcome of that request is unknown, the session holds nothing, so the failure is definite.
        """
        session = self._session if self._session is not None else await self._new_session()
        key = _lock_key(name)
        lock = TxnOperation("lock", key, session.encode(), session=session)
        try:
            reply = await self._calls.write(_absent(key), lock, otherwise=errors.HELD)
        except Definite as refused:
            if refused.code == errors.LEASE_EXPIRED:
                self._session = None
            raise
        assert reply.position is not None
        # Without the dashes of a UUID: handles are parts of words that others join by dashes.
        return Held(token=reply.position, handle=session.replace("-", ""), position=reply.position)

    async def _new_session(self) -> str:
        options = self._options
        try:
            session = await self._calls.make_session(options.session_ttl.ms, options.lock_delay.ms)
        except (Definite, Indefinite) as error:
            if isinstance(error, NotSent):
                raise
            raise Definite(errors.LEASE_NOT_GRANTED, str(error)) from None
        self._session = session
        return session

    async def renew(self) -> Reply:
        if self._session is None:
            raise Definite(errors.LEASE_EXPIRED, "this client holds no session")
        try:
            await self._calls.renew_session(self._session)
        except Definite as refused:
            if refused.code == errors.LEASE_EXPIRED:
                self._session = None
            raise
        return Reply()

    async def release(self, name: str, held: Held) -> Reply:
        key = _lock_key(name)
        return await self._calls.write(
            _held(key, held), TxnOperation("delete", key), self._calls.stamp(), otherwise=errors.NOT_HELD
        )

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        check = _held(_lock_key(name), held)
        return await self._calls.write(check, TxnOperation("set", key, value), otherwise=errors.FENCED)

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        pairs, index = await self._calls.pairs(_lock_key(name), mode_query(mode))
        return Leading(pairs[0].modify_index if pairs else None, position=None if pairs else index)

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        """Write one key for each deed, so that nothing is overwritten; its CreateIndex orders the deeds."""
        key = f"{trail}/{deed}"
        check = _held(_lock_key(name), held) if guarded else _absent(key)
        otherwise = errors.FENCED if guarded else errors.EXISTS
        return await self._calls.write(check, TxnOperation("set", key, b""), otherwise=otherwise)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        prefix = f"{trail}/"
        pairs, index = await self._calls.pairs(prefix, f"recurse&{mode_query(mode)}")
        ordered = sorted(pairs, key=lambda pair: pair.create_index)
        return Deeds(tuple(pair.key[len(prefix) :] for pair in ordered), position=index)


def mode_query(mode: ReadMode) -> str:
    """How a read of this mode is asked for; raises ValueError for one that Consul does not have."""
    if mode not in MODES:
        raise ValueError(f"Consul has no reads of mode {mode.value!r}; it has {', '.join(MODES)} ones")
    return MODES[mode]


def _below(group: str) -> str:
    return f"groups/{group}/"


def _roster(group: str, pairs: Sequence[Pair], position: int | None) -> Roster:
    first = len(_below(group))
    # The index at which the lock was taken: nothing changes a member's key until it is deleted.
    members = (ListedMember(pair.key[first:], pair.value or b"", pair.modify_index) for pair in pairs)
    return Roster(tuple(members), position=position)


def _lock_key(name: str) -> str:
    return f"lock/{name}"


def _absent(key: str) -> TxnOperation:
    return TxnOperation("check-not-exists", key)


def _held(key: str, held: Held) -> TxnOperation:
    """Check that the lock's key was not changed since this grant; every release and every new grant changes it."""
    return TxnOperation("check-index", key, index=held.token)
