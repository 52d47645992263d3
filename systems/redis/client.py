"""The client of Redis: one connection to one server, one request for each call, outcomes by the table of `wire`.

There are no time-outs here: the caller cancels a call at its own deadline, which leaves the outcome unknown. Redis
numbers no writes, so replies have no positions: the replication offset counts bytes, and after a fail-over two masters
count on from the same number. A server does not know the configuration epoch, so replies have none either.

A strong read is a transaction of ROLE and the read: a replica answers ROLE with its own role, and the read is then
refused here. A master asks nobody whether it still is one, so a master that was cut off answers too.

A lock is redis.io's "SET resource my_random_value NX PX 30000", and every change that depends on it is a script that
compares the value first. The value begins with a fencing token, which the script takes from a counter beside the lock.
"""

import secrets
from typing import Any, Final

from fencepost.harness.coordination import Deeds, Definite, Held, Leading, Members, ReadMode, Reply
from fencepost.harness.history import CAS_MISMATCH
from fencepost.systems.redis.options import RedisOptions
from fencepost.systems.redis.wire import RedisConnection, Word

NOT_MASTER: Final = "not-leader"
EXISTS: Final = "exists"
ABSENT: Final = "absent"
HELD: Final = "held"
NOT_HELD: Final = "not-held"
FENCED: Final = "fenced"
LEASE_EXPIRED: Final = "lease-expired"
NO_VERSIONS: Final = "no-versions"

_ACQUIRE: Final = """
local value = redis.call('INCR', KEYS[2]) .. ':' .. ARGV[1]
return redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[2]) and value"""
#: What is done if a key has a value: KEYS[1] and ARGV[1], then the arguments of the command.
_IF: Final = "if redis.call('GET', KEYS[1]) == ARGV[1] then return {} end return false"
_CAS: Final = _IF.format("redis.call('SET', KEYS[1], ARGV[2])")
_RENEW: Final = _IF.format("redis.call('PEXPIRE', KEYS[1], ARGV[2])")
_RELEASE: Final = _IF.format("redis.call('DEL', KEYS[1])")
_WRITE: Final = _IF.format("redis.call('SET', KEYS[2], ARGV[2])")
_ACT: Final = _IF.format("redis.call('RPUSH', KEYS[2], ARGV[2])")


class RedisClient:
    """`harness.coordination.Elections` and `Locks` on Redis; it renews what it acquired last."""

    def __init__(self, connection: RedisConnection, options: RedisOptions) -> None:
        self._connection = connection
        self._ttl_ms = options.lock_ttl.ms
        self._lock: tuple[str, Held] | None = None

    @property
    def session_id(self) -> int | None:
        """A lock of Redis is not bound to a connection."""
        return None

    async def close(self) -> None:
        self._connection.close()

    # Key-value storage.

    async def read(self, key: str, mode: ReadMode) -> Reply:
        return Reply(await self._read(mode, "GET", key))

    async def write(self, key: str, value: bytes) -> Reply:
        return await self._change("SET", key, value)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        return await self._change("EVAL", _CAS, 1, key, old, new, otherwise=CAS_MISMATCH)

    async def create(self, key: str, value: bytes) -> Reply:
        return await self._change("SET", key, value, "NX", otherwise=EXISTS)

    async def update(self, key: str, value: bytes) -> Reply:
        """See `harness.coordination.storage.UpdatesKeys`."""
        return await self._change("SET", key, value, "XX", otherwise=ABSENT)

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        raise Definite(NO_VERSIONS, "Redis does not count the writes of a key")

    async def add(self, name: str, element: int) -> Reply:
        return await self._change("SADD", name, element, otherwise=EXISTS)

    async def members(self, name: str, mode: ReadMode) -> Members:
        return Members(tuple(sorted(map(int, await self._read(mode, "SMEMBERS", name)))))

    # Locks, and elections by a lock.

    async def acquire(self, name: str) -> Held:
        command = ("EVAL", _ACQUIRE, 2, _lock(name), f"token:{name}", secrets.token_hex(8), self._ttl_ms)
        value = await self._connection.command(command)
        if value is None:
            raise Definite(HELD)
        token, _, handle = value.decode().partition(":")
        held = Held(token=int(token), handle=handle)
        self._lock = name, held
        return held

    async def renew(self) -> Reply:
        if self._lock is None:
            raise Definite(LEASE_EXPIRED, "this client holds no lock")
        name, held = self._lock
        return await self._if_held(_RENEW, name, held, self._ttl_ms, otherwise=LEASE_EXPIRED)

    async def release(self, name: str, held: Held) -> Reply:
        return await self._if_held(_RELEASE, name, held, otherwise=NOT_HELD)

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        return await self._if_held(_WRITE, name, held, value, key=key, otherwise=FENCED)

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        value = await self._read(mode, "GET", _lock(name))
        return Leading(None if value is None else int(value.partition(b":")[0]))

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        if guarded:
            return await self._if_held(_ACT, name, held, deed, key=trail, otherwise=FENCED)
        return await self._change("RPUSH", trail, deed)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        return Deeds(tuple(deed.decode() for deed in await self._read(mode, "LRANGE", trail, 0, -1)))

    async def _if_held(self, script: str, name: str, held: Held, *rest: Word, key: str = "", otherwise: str) -> Reply:
        """Run a script that does nothing unless the lock has the value of this grant."""
        keys = [_lock(name), key] if key else [_lock(name)]
        value = f"{held.token}:{held.handle}"
        return await self._change("EVAL", script, len(keys), *keys, value, *rest, otherwise=otherwise)

    async def _change(self, *command: Word, otherwise: str = "") -> Reply:
        """Carry out one command; an answer of none, or of zero, says that it changed nothing: `otherwise`."""
        answer = await self._connection.command(command)
        if otherwise and not answer:
            raise Definite(otherwise)
        return Reply()

    async def _read(self, mode: ReadMode, *command: Word) -> Any:
        if mode is ReadMode.PLAIN:
            return await self._connection.command(command)
        role, value = await self._connection.command(("MULTI",), ("ROLE",), command, ("EXEC",))
        if role[0] != b"master":
            raise Definite(NOT_MASTER, role[0].decode())
        return value


def _lock(name: str) -> str:
    return f"lock:{name}"
