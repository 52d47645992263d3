"""Three nodes in memory that tell listeners of changes, correct unless a bug is planted, in virtual time.

The store is one log of transactions; each node applies it a little later, and tells its listeners as it does. In the
flavour "history" watches begin at any position that was not compacted, and are given bookmarks (as etcd's); in the
flavour "session" they end with their connection, reads are answered among the events, and there are one-shots (as
ZooKeeper's); in the flavour "merged" a report tells the newest change of each key, before a bookmark (as Consul's).
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

from fencepost.harness.coordination import (
    Bookmark,
    Change,
    Changes,
    Compacted,
    Definite,
    Heard,
    Indefinite,
    Reply,
    WatchBegun,
    WatchedKey,
    WatchedRead,
    WatchMode,
)

#: One request in so many is lost before, or its reply after.
_LOSS: Final = 150
_STRIKES_ONE_IN: Final = 30

#: Every planted bug: what it does, the flavour and options that show it, and what the checker must call it (any of
#: these, as guarantee:anomaly).
BUGS: Final[dict[str, tuple[str, str, dict[str, str], set[str]]]] = {
    "lost": ("an event is not told", "history", {}, {"watch-reliable:lost-event"}),
    "lost-in-session": ("an event is not told", "session", {}, {"watch-reliable:lost-event"}),
    "skips-on-resume": ("a resumed watch skips a change", "history", {}, {"watch-resumable:lost-event"}),
    "eaten-deletion": (
        "compaction at a deletion removes it from history",
        "history",
        {"compact_every": "400ms"},
        {"watch-resumable:lost-event"},
    ),
    "twice": ("an event is told twice", "history", {}, {"watch-unique:duplicate-event"}),
    "twice-in-session": ("an event is told twice", "session", {}, {"watch-unique:duplicate-event"}),
    "swapped": ("two transactions are told in the wrong order", "history", {}, {"watch-ordered:reordered-event"}),
    "early": (
        "a watch tells of the change before its start",
        "history",
        {},
        {"watch-ordered:event-from-before-the-start"},
    ),
    "impatient": (
        "a watch that begins in the future tells of changes before its start",
        "history",
        {"begin": "future", "again_every": "500ms"},
        {"watch-ordered:event-from-before-the-start"},
    ),
    "split": ("a transaction is told in two messages", "history", {}, {"watch-atomic:split-transaction"}),
    "torn": ("half a transaction is told", "history", {}, {"watch-atomic:split-transaction"}),
    "hasty-bookmark": ("a bookmark overtakes events", "history", {}, {"watch-bookmarkable:bookmark-ahead"}),
    "other-value": ("an event carries another value", "history", {}, {"watch-truthful:wrong-value"}),
    "other-kind": ("a put is told as a deletion", "session", {}, {"watch-truthful:wrong-kind"}),
    "refused-write": ("a refused write is told", "history", {}, {"watch-truthful:invented-event"}),
    "other-key": ("an event names another key", "history", {}, {"watch-truthful:invented-event"}),
    "late-event": (
        "an event comes after an answer that is newer",
        "session",
        {},
        {"watch-before-data:reply-before-event", "watch-before-data:data-before-event"},
    ),
    "sleepy-one-shot": (
        "a one-shot watch passes a change over",
        "session",
        {"watches": "one-shot"},
        {"watch-reliable:lost-event"},
    ),
    "one-shot-twice": (
        "a one-shot watch fires twice",
        "session",
        {"watches": "one-shot"},
        {"watch-unique:duplicate-event"},
    ),
    "lost-in-merge": ("the newest change of a key is not told", "merged", {}, {"watch-reliable:lost-event"}),
    "back-in-merge": ("an older state is told again", "merged", {}, {"watch-ordered:reordered-event"}),
    "other-in-merge": ("a report carries another value", "merged", {}, {"watch-truthful:wrong-value"}),
    "late-one-shot": (
        "a one-shot's event comes after the new data",
        "session",
        {"watches": "one-shot"},
        {"watch-before-data:data-before-event", "watch-before-data:reply-before-event"},
    ),
}

Pairs = tuple[tuple[str, int | None], ...]


class Node:
    """How far one node has applied the log, and who listens there."""

    def __init__(self) -> None:
        self.applied = 0
        self.up = True
        self.sessions: set[FakeWatchSession] = set()
        self.progress = asyncio.Event()


class FakeWatchStore:
    """The whole cluster; `bug` names an entry of `BUGS` or is None."""

    def __init__(self, *, seed: int, bug: str | None, flavour: str) -> None:
        self.random: Final = random.Random(f"watch-{seed}")
        self.bug: Final = bug
        self.flavour: Final = flavour
        self.nodes: Final = {name: Node() for name in ("n1", "n2", "n3")}
        #: Positions of transactions are 2, 3, ...; the p keys were made before.
        self.log: Final[list[Pairs]] = []
        self.numbers: Final[dict[str, int]] = {}
        self.compacted = 0
        self.eaten: Final[set[int]] = set()

    def strikes(self, *bugs: str, one_in: int = _STRIKES_ONE_IN) -> bool:
        return self.bug in bugs and self.random.randrange(one_in) == 0

    def commit(self, pairs: Pairs) -> int:
        self.log.append(pairs)
        for key, number in pairs:
            if number is None:
                del self.numbers[key]
            else:
                self.numbers[key] = number
        return len(self.log) + 1

    def state(self, applied: int) -> dict[str, tuple[int, int]]:
        """Key to (number, position), after so many transactions."""
        found: dict[str, tuple[int, int]] = {}
        for position, pairs in enumerate(self.log[:applied], 2):
            for key, number in pairs:
                if number is None:
                    found.pop(key, None)
                else:
                    found[key] = (number, position)
        return found

    def changes(self, position: int) -> tuple[Change, ...]:
        return tuple(self._change(position, key, number) for key, number in self.log[position - 2])

    def _change(self, position: int, key: str, number: int | None) -> Change:
        if self.strikes("other-key"):
            key = "k-other"
        if number is not None and self.strikes("other-value"):
            number -= 1
        told = self.flavour == "history"
        if number is None or self.strikes("other-kind"):
            return Change(position, "deleted", key)
        return Change(position, "put" if told else "changed", key, b"%d" % number if told else None)

    async def apply(self, node: Node, _: object) -> None:
        """Apply what was committed, a little later, as long as the run lasts."""
        while True:
            await asyncio.sleep(self.random.uniform(0.001, 0.02))
            if not node.up or node.applied >= len(self.log):
                continue
            upto = min(len(self.log), node.applied + self.random.randrange(1, 4))
            fresh = list(range(node.applied + 2, upto + 2))
            node.applied = upto
            if len(fresh) > 1 and self.strikes("swapped", one_in=4):
                fresh[0], fresh[1] = fresh[1], fresh[0]
            for session in list(node.sessions):
                session.tell(fresh)
            node.progress.set()
            node.progress.clear()

    async def cut(self, name: str, for_s: float) -> None:
        """The node applies nothing and loses its connections; then it goes on."""
        node = self.nodes[name]
        node.up = False
        for session in list(node.sessions):
            session.lose()
        await asyncio.sleep(for_s)
        node.up = True


class FakeWatchSession:
    """Implements `harness.coordination.Watchable` and `Watches`."""

    def __init__(self, store: FakeWatchStore, name: str) -> None:
        self._store = store
        self._node = store.nodes[name]
        if not self._node.up:
            raise Definite("not-connected")
        self._node.sessions.add(self)
        self._mode = WatchMode.PERSISTENT
        self._keys: tuple[str, ...] = ()
        self._now_ns: Callable[[], int] = lambda: 0
        self._lost = False
        self._watching = False
        self._queue: list[Heard] = []
        self._armed: dict[str, int] = {}
        self._fired: list[str] = []
        self._seen: dict[str, tuple[int, int]] = {}

    @property
    def session_id(self) -> int | None:
        return None

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> "FakeWatchSession":
        self._mode, self._keys, self._now_ns = mode, keys, now_ns
        return self

    async def close(self) -> None:
        self._node.sessions.discard(self)

    def lose(self) -> None:
        self._lost = True
        self._node.sessions.discard(self)

    # Writes

    async def put(self, key: str, value: bytes) -> Reply:
        return await self._write(lambda: ((key, int(value)),))

    async def delete(self, key: str) -> Reply:
        def change() -> Pairs:
            if key not in self._store.numbers:
                raise Definite("absent")
            return ((key, None),)

        return await self._write(change)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        def change() -> Pairs:
            if self._store.numbers.get(key) != int(old):
                if self._store.strikes("refused-write", one_in=2):
                    self._store.commit(((key, int(new)),))
                raise Definite("cas-mismatch")
            return ((key, int(new)),)

        return await self._write(change)

    async def put_all(self, pairs: tuple[tuple[str, bytes], ...]) -> Reply:
        return await self._write(lambda: tuple((key, int(value)) for key, value in pairs))

    async def _write(self, change: Callable[[], Pairs]) -> Reply:
        store = self._store
        await self._travel()
        fate = store.random.randrange(_LOSS)
        if fate == 0:
            raise Indefinite("connection-lost")
        position = store.commit(change())
        while self._node.applied + 1 < position:
            if self._lost:
                raise Indefinite("connection-lost")
            await asyncio.sleep(0.002)
        if fate == 1:
            raise Indefinite("connection-lost")
        await self._travel()
        return Reply(position=position, value_position=position)

    async def compact(self, position: int) -> None:
        await self._travel()
        if position <= self._store.compacted:
            raise Definite("out-of-range")
        self._store.compacted = position
        if self._store.bug == "eaten-deletion" and self._store.log[position - 2][0][1] is None:
            self._store.eaten.add(position)

    async def entries(self) -> tuple[WatchedKey, ...]:
        await self._travel()
        state = self._store.state(len(self._store.log))
        return tuple(WatchedKey(key, b"%d" % number, position) for key, (number, position) in state.items())

    # Watches

    async def watch(self, start: int | None) -> WatchBegun:
        await self._travel()
        store, now = self._store, self._node.applied + 1
        self._queue.clear()
        self._watching = True
        if self._mode is WatchMode.ONE_SHOT:
            for key in self._keys:
                self._look(key, arms=True)
            return WatchBegun(now, position=now)
        self._seen = store.state(self._node.applied)
        if start is None:
            return WatchBegun(now, position=now)
        if start < store.compacted:
            self._watching = False
            raise Compacted(store.compacted)
        backlog = [position for position in range(max(start, 2), now + 1) if position not in store.eaten]
        if backlog and store.strikes("skips-on-resume", one_in=3):
            del backlog[0]
        if start > 3 and store.strikes("early", one_in=3):
            backlog.insert(0, start - 1)
        self._after = start - 1
        self.tell(backlog)
        return WatchBegun(start - 1, position=now)

    async def hear(self, wait_s: float, confirm: str | None) -> tuple[Heard, ...]:
        if not self._watching:
            raise Definite("not-watching")
        if not self._lost:
            if confirm is not None and self._mode is not WatchMode.MERGED:
                self._confirm(confirm)
            fired, self._fired = self._fired, []
            for key in fired:
                self._look(key, arms=True)
            await asyncio.sleep(wait_s)
            if self._mode is WatchMode.MERGED:
                self._merge()
        if self._queue:
            heard, self._queue = tuple(self._queue), []
            return heard
        if self._lost:
            raise Indefinite("connection-lost")
        return ()

    def tell(self, positions: list[int]) -> None:
        """These transactions were applied here, in this order."""
        if not self._watching or self._mode is WatchMode.MERGED:
            return
        store = self._store
        if self._mode is WatchMode.ONE_SHOT:
            for position in positions:
                self._fire(position)
            return
        after = getattr(self, "_after", 0)
        changes: list[Change] = []
        for position in positions:
            if position <= after and store.bug not in ("early", "impatient"):
                continue
            own = list(store.changes(position))
            if store.strikes("lost", "lost-in-session"):
                continue
            if len(own) > 1 and store.strikes("torn", one_in=4):
                del own[0]
            if len(own) > 1 and (store.strikes("split", one_in=4) or store.flavour == "session"):
                self._message((*changes, own[0]))
                changes, own = [], own[1:]
            changes += own
            if store.strikes("twice", "twice-in-session"):
                changes += own
            if store.random.randrange(2) or store.flavour == "session":
                self._message(tuple(changes))
                changes = []
        self._message(tuple(changes))

    def _merge(self) -> None:
        """Tell what differs from the last report."""
        store, before = self._store, self._seen
        self._seen = store.state(self._node.applied)
        changes = [Change(None, "deleted", key) for key in before.keys() - self._seen.keys()]
        for key, (number, position) in self._seen.items():
            if before.get(key) == (number, position) or store.strikes("lost-in-merge"):
                continue
            number -= store.strikes("other-in-merge")
            changes.append(Change(position, "put", key, b"%d" % number))
            if key in before and store.strikes("back-in-merge"):
                changes.append(Change(before[key][1], "put", key, b"%d" % before[key][0]))
        now = self._node.applied + 1
        if changes:
            self._queue.append(Changes(self._now_ns(), now, tuple(changes)))
        self._queue.append(Bookmark(self._now_ns(), now))

    def _message(self, changes: tuple[Change, ...]) -> None:
        if not changes:
            return
        message = Changes(self._now_ns(), changes[-1].position, changes)
        if self._store.strikes("late-event", "late-one-shot", one_in=4):
            asyncio.get_running_loop().call_later(0.03, self._append_late, message)
        else:
            self._queue.append(message)

    def _append_late(self, message: Changes) -> None:
        self._queue.append(Changes(self._now_ns(), message.position, message.changes))

    def _fire(self, position: int) -> None:
        for change in self._store.changes(position):
            armed = self._armed.get(change.key)
            if armed is None or armed >= position or self._store.strikes("sleepy-one-shot", one_in=4):
                continue
            del self._armed[change.key]
            self._fired.append(change.key)
            self._message((change,))
            if self._store.strikes("one-shot-twice", one_in=4):
                self._message((change,))

    def _confirm(self, key: str) -> None:
        store = self._store
        if store.flavour == "session":
            self._look(key, arms=False)
            return
        ahead = len(store.log) if store.bug == "hasty-bookmark" else self._node.applied
        self._queue.append(Bookmark(self._now_ns(), ahead + 1))

    def _look(self, key: str, *, arms: bool) -> None:
        now = self._node.applied + 1
        found = self._store.state(self._node.applied).get(key)
        number = None if found is None or arms else b"%d" % found[0]
        self._queue.append(WatchedRead(self._now_ns(), now, key, number, None if found is None else found[1], arms))
        if arms:
            self._armed[key] = now

    async def _travel(self) -> None:
        await asyncio.sleep(self._store.random.uniform(0.0002, 0.002))
        if self._lost:
            raise Indefinite("connection-lost")
