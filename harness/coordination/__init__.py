"""The protocols that workloads are written against (KIP-30: key-value storage, leader election, ...).

A *session* here is one client connection to one given node. It never retries, reconnects, fails over or queues behind
the caller's back. Every request ends in one of three ways: it returns a `Reply` (took effect), raises `Definite` (did
not take effect and never will), or raises `Indefinite` (unknown). In doubt, `Indefinite`.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from fencepost.harness.coordination.interface import Interface as Interface


class Definite(Exception):
    """Nothing happened and nothing will. `code` is a row of the client's error table."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code


class NotSent(Definite):
    """Nothing was sent, because this connection is of no more use; its owner must close it and open another."""


class Indefinite(Exception):
    """It may have happened, or may still happen. `code` is a row of the client's error table."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code


class ReadMode(StrEnum):
    """How a read is made; each system says which modes it has and what each promises.

    `STRONG` is the system's own current read (etcd: linearizable). `PLAIN` asks the node alone (ZooKeeper: its own
    copy). `SYNC` is `sync` then read, sent together. `BARRIER` is a write by the same session, then the read.
    """

    STRONG = "strong"
    PLAIN = "plain"
    SYNC = "sync"
    BARRIER = "barrier"


class Reply(msgspec.Struct, frozen=True):
    """What a node answered. `value` is None for an absent key; the other fields as in `operation.OpEvent`."""

    value: bytes | None = None
    position: int | None = None
    value_position: int | None = None
    epoch: int | None = None
    version: int | None = None


class Members(msgspec.Struct, frozen=True):
    """What a set held when one node was asked: the elements in ascending order, with the reply's stamps."""

    elements: tuple[int, ...]
    position: int | None = None
    epoch: int | None = None


class Session(Protocol):
    """A client connection to one node: opened once, used by one process, closed, never reopened."""

    @property
    def session_id(self) -> int | None:
        """The server's name for this session, None where there is none."""
        ...

    async def close(self) -> None:
        """Close at once and without waiting for the server; never raises."""
        ...


class KeyValue(Session, Protocol):
    """Key-value storage. Keys are short ASCII words ("r12"); values are bytes. One request each, in order."""

    async def read(self, key: str, mode: ReadMode) -> Reply: ...

    async def write(self, key: str, value: bytes) -> Reply:
        """Write blindly; the key is created if it is absent (see `create` for the systems that must be asked first)."""
        ...

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        """Write `new` if the value is `old`; raises `Definite("cas-mismatch")` when it is not."""
        ...

    async def create(self, key: str, value: bytes) -> Reply:
        """Create the key; raises `Definite("exists")` when it is there."""
        ...

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """Write if the key is unchanged since the read whose reply carried these; else `Definite("cas-mismatch")`."""
        ...

    async def add(self, name: str, element: int) -> Reply:
        """Add to the set, as one key (etcd) or child (ZooKeeper); raises `Definite("exists")` when it is there."""
        ...

    async def members(self, name: str, mode: ReadMode) -> Members:
        """Read the whole set in one request of this mode."""
        ...


class Held(msgspec.Struct, frozen=True):
    """A lock that was granted: `token` grows with every grant (the fencing token); `handle` names it to the store."""

    token: int
    handle: str
    epoch: int | None = None
    position: int | None = None


class Locks(KeyValue, Protocol):
    """Leader election as a lock bound to a lease (etcd) or session (ZooKeeper) that ends by time unless renewed."""

    async def acquire(self, name: str) -> Held:
        """Take the lock or raise `Definite("held")` when another holds it: one attempt, no queueing."""
        ...

    async def renew(self) -> Reply:
        """Keep the lease or session alive by one round trip; nothing renews it behind the caller's back.

        Raises `Definite("lease-expired")` when the server says that it has ended (or was never granted).
        """
        ...

    async def release(self, name: str, held: Held) -> Reply: ...

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        """Write in one transaction that also checks that the lock is still held: the fenced write.

        Raises `Definite("fenced")` when the lock was lost.
        """
        ...


class Granted(msgspec.Struct, frozen=True):
    """A lease that was granted or kept alive: for `ttl_ms` from some instant between the request and its answer.

    `handle` names it to every node, and whoever knows it can keep it alive, bind keys to it and end it.
    """

    handle: str
    ttl_ms: int
    position: int | None = None
    epoch: int | None = None


#: The key by which `System.prepare` is told of the set that keys bound to leases belong to.
BOUND: Final = "bound"


class Leases(Session, Protocol):
    """Keys that are bound to a lease (etcd) or a session (ZooKeeper), and vanish when it ends.

    A lease belongs to no connection: any node can be asked about it, one request and one answer each. Nothing keeps it
    alive behind the caller's back.
    """

    async def grant(self, ttl_ms: int) -> Granted:
        """A new lease; the server may grant another time to live than was asked for."""
        ...

    async def keep_alive(self, handle: str) -> Granted:
        """Raises `Definite("lease-expired")` when the server says that it has ended (or never was)."""
        ...

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        """Add to the set, bound to the lease; raises `Definite("lease-expired")` as above."""
        ...

    async def revoke(self, handle: str) -> Reply:
        """End the lease at once; raises `Definite("lease-expired")` as above."""
        ...

    async def members(self, name: str, mode: ReadMode) -> Members:
        """Read the whole set in one request of this mode."""
        ...


class Leading(msgspec.Struct, frozen=True):
    """Who leads, as one node answered: the token of the term that has not ended, None when there is none."""

    token: int | None
    position: int | None = None
    epoch: int | None = None


class Deeds(msgspec.Struct, frozen=True):
    """All that was done on a trail, in the store's own order."""

    deeds: tuple[str, ...]
    position: int | None = None
    epoch: int | None = None


#: The key by which `System.prepare` is told of an election's trail.
TRAIL: Final = "trail"


class Elections(Session, Protocol):
    """Leader election with terms that last; `Held.token` is the term, and tokens grow.

    Where terms are held by a lock, who holds it leads, and the token is the position of the grant in the store's order
    of changes, as `Reply.position` is of an act; so of every act it can be told from positions alone whether its term
    had ended when it took effect. Elsewhere a grant has no position: then the trail's order tells, and the order in
    time of requests and answers. A campaign may supersede a leader that lives.
    """

    async def acquire(self, name: str) -> Held:
        """Begin a term, or raise `Definite` when another holds one that cannot be superseded: one attempt."""
        ...

    async def renew(self) -> Reply:
        """Keep alive, by one round trip, what the term of this session hangs on.

        Raises `Definite("lease-expired")` when the server says that it has ended (or never began).
        """
        ...

    async def release(self, name: str, held: Held) -> Reply:
        """End the term; raises `Definite("not-held")` when it had ended before."""
        ...

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        """Who leads, by one read of this mode."""
        ...

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        """Append a deed (an ASCII word without "/", used once) to the trail, which keeps all of them.

        `guarded`: in one transaction that also checks that the term has not ended; raises `Definite("fenced")` when
        it has.
        """
        ...

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        """The whole trail by one read of this mode."""
        ...


class Metadata(Session, Protocol):
    """What a metadata quorum keeps: names that are taken (topics), and settings by key (dynamic configurations).

    `describe` reads the node's own copy, which may lag on every system that offers this protocol; `name_taken` goes
    through the quorum leader's queue of changes, without changing anything.
    """

    async def alter(self, key: str, value: bytes) -> Reply:
        """Set the setting `key` blindly."""
        ...

    async def describe(self, key: str) -> Reply:
        """The setting as this node knows it; value None when it is not set."""
        ...

    async def create_name(self, name: str) -> Reply:
        """Take the name; raises `Definite("exists")` when it is taken."""
        ...

    async def name_taken(self, name: str) -> Reply:
        """Value b"1" when the name is taken, else None."""
        ...


class ProducerIds(Session, Protocol):
    """Numbers that are given out once: a cluster that gives one twice lets two producers pass for one another."""

    async def allocate(self) -> int: ...


class Appended(msgspec.Struct, frozen=True):
    """Where a record was acknowledged: `offset` in its partition, under the partition leader's `epoch` where told."""

    offset: int
    epoch: int | None = None


class Record(msgspec.Struct, frozen=True):
    """One record as a reader got it."""

    offset: int
    value: bytes
    epoch: int | None = None


class Polled(msgspec.Struct, frozen=True):
    """What one read of a partition gave: records in the order of the reply; the offsets below are committed."""

    records: tuple[Record, ...]
    high_watermark: int
    log_start: int
    epoch: int | None = None


class Log(Session, Protocol):
    """An append-only log of several partitions; each is written and read through the node that leads it.

    `System.prepare` makes it of the workload's keys: one "p<i>" for each partition, and "min_isr=<n>", how many
    in-sync replicas an append that waits for all of them needs. An `epoch` in a reply is exact or None.
    """

    def acknowledge(self, acks: str, *, idempotent: bool) -> None:
        """How this session appends ("all", "1"); called once, before its first request, and sends nothing."""
        ...

    async def append(self, partition: int, value: bytes) -> Appended:
        """One record, one request."""
        ...

    async def poll(self, partition: int, offset: int) -> Polled:
        """The records from `offset` on, as many as one reply holds; none at the end.

        The epoch of the reply is the one in which the node led when it answered, the epoch of a record the one in which
        it was appended.
        """
        ...


class WatchMode(StrEnum):
    """How changes are listened for; each system says which modes it has.

    `PERSISTENT` goes on until it is ended. `ONE_SHOT` is over with the first change of its key, and is set again by the
    next look at it, so changes in between are seen by that look alone.
    """

    PERSISTENT = "persistent"
    ONE_SHOT = "one-shot"


class Change(msgspec.Struct, frozen=True, gc=False):
    """One change of one key as a watch reports it.

    `kind`: "put" or "deleted", or where the system tells them apart "created" or "changed". `position` is None where
    the release does not tell it, `value` where the system never does.
    """

    position: int | None
    kind: str
    key: str
    value: bytes | None = None


class Changes(msgspec.Struct, frozen=True, gc=False):
    """Changes that came together, at `at_ns` of the history's clock; `position` is the message's own, if it has one."""

    at_ns: int
    position: int | None
    changes: tuple[Change, ...]


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """The store's word that every change up to `position` has been reported before."""

    at_ns: int
    position: int


class Look(msgspec.Struct, frozen=True, gc=False):
    """A read of one key that was answered among the reports of its own connection.

    `value_position` is None for an absent key, `value` also where it was not asked for. `arms`: this look has set the
    key's watch, which is a one-shot.
    """

    at_ns: int
    position: int
    key: str
    value: bytes | None
    value_position: int | None
    arms: bool = False


Heard = Changes | Bookmark | Look


class WatchBegun(msgspec.Struct, frozen=True):
    """A watch that was set: it reports changes after `after`; `position` is where the node's store was."""

    after: int
    position: int | None = None
    epoch: int | None = None


class Compacted(Definite):
    """The watch cannot go on, or begin, where it was to: history begins at `position`, which can still be watched."""

    def __init__(self, position: int, detail: str = "") -> None:
        super().__init__("compacted", detail)
        self.position = position


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A key that is there, with the position of the write that made its value."""

    key: str
    value: bytes
    value_position: int


class Watches(Session, Protocol):
    """Data-change listeners, and the changes that they are told of. One watch at a time, of all keys of this protocol.

    `Reply.value_position` of a write is the position of its change. A watch never begins again by itself.
    """

    async def put(self, key: str, value: bytes) -> Reply:
        """Write blindly, creating the key where it is absent."""
        ...

    async def delete(self, key: str) -> Reply:
        """Raises `Definite("absent")` when there is nothing to delete."""
        ...

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        """As in `KeyValue`."""
        ...

    async def put_all(self, pairs: tuple[tuple[str, bytes], ...]) -> Reply:
        """All of them in one transaction; the keys are among those that were prepared."""
        ...

    async def compact(self, position: int) -> None:
        """Forget what was before `position`; only where watches can be resumed."""
        ...

    async def entries(self) -> tuple[Entry, ...]:
        """Those of the keys that are there, by a current read."""
        ...

    async def watch(self, start: int | None) -> WatchBegun:
        """Listen from the position `start` on where watches can be resumed, else and with None from now on.

        Ends the watch before it. Raises `Compacted`.
        """
        ...

    async def hear(self, wait_s: float, confirm: str | None) -> tuple[Heard, ...]:
        """What came since the last call and within `wait_s` more, in the order in which it came.

        `confirm` is a key: the node is asked for a bookmark (where watches can be resumed) or for that key. The answer
        may come with a later call. What came before the watch broke is told first; then every call raises why.
        """
        ...


class Watchable(Session, Protocol):
    """A session that can listen; what it hears is stamped by the history's clock."""

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> Watches:
        """The same connection as `Watches` of these keys; asked for once."""
        ...
