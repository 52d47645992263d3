"""Three brokers in memory that keep a log of several partitions, correct unless a bug is planted, in virtual time.

Each partition has a leader, an epoch and a high watermark; a record is committed once it was copied, a little later.
When a leader is superseded it goes on believing for `ZOMBIE_S`: then it cannot commit, so it answers reads of what was
committed before, leaves appends with acks=all unanswered, and acknowledges those with acks=1 although they are lost.
"""

import asyncio
from typing import Final

from fencepost.harness.coordination import Appended, Definite, Indefinite, Polled, Record
from tests.fakes.store import PlantedStore, StoreSession

ZOMBIE_S: Final = 0.8
ELECTION_S: Final = 0.1
#: One request in so many is lost before, or its reply after.
_LOSS: Final = 300
_STRIKES_ONE_IN: Final = 40

#: Every planted bug, what it does, and what a checker must call it (any of these, as guarantee:anomaly).
BUGS: Final = {
    "lost": ("one acknowledged append in 40 leaves a gap", {"log-durable:lost-append"}),
    "early-acknowledgement": ("acknowledged before it is copied; an election loses it", {"log-durable:lost-append"}),
    "duplicated": ("one append in 40 is appended twice", {"log-no-duplicates:duplicated-record"}),
    "reordered-reply": ("a reply's records are swapped", {"log-order:unordered-poll"}),
    "filled-gap": ("an append takes an offset below one given before", {"log-order:append-order"}),
    "skipped": ("a reply leaves a record out", {"log-order:skipped-record"}),
    "reassigned": ("an append takes an offset that holds another value", {"log-offsets-stable:reassigned-offset"}),
    "moved": ("an append is acknowledged with a wrong offset", {"log-offsets-stable:moved-record"}),
    "phantom": ("an append is refused definitely, and is there", {"log-committed-reads:phantom-record"}),
    "above-high-watermark": ("a zombie shows what is not committed", {"log-committed-reads:read-uncommitted"}),
    "lone-commit": ("a zombie commits alone", {"log-committed-reads:vanished-read"}),
    "stale-epoch": ("a zombie's appends enter the log", {"log-leader-epochs:stale-leader-epoch"}),
    "zombie-acknowledgement": (
        "a zombie acknowledges what nobody else has",
        {"zombie-broker-does-not-act:lost-acknowledgement"},
    ),
}
#: Bugs that only a superseded leader shows, or that an election brings to light.
NEEDS_ELECTIONS: Final = {
    "early-acknowledgement",
    "above-high-watermark",
    "lone-commit",
    "stale-epoch",
    "zombie-acknowledgement",
}


class Replica:
    """One node's copy of one partition; an entry is (value, epoch), or None where an offset holds nothing."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int] | None] = []
        self.high_watermark = 0
        self.claims: int | None = None


class FakeLog(PlantedStore):
    """The whole cluster; `bug` names an entry of `BUGS` or is None."""

    def __init__(self, *, seed: int, bug: str | None, partitions: int) -> None:
        super().__init__("log", seed, bug)
        self.nodes: Final = ("b1", "b2", "b3")
        self.replicas: Final = {(n, p): Replica() for n in self.nodes for p in range(partitions)}
        self.leaders: Final = {p: self.nodes[p % 3] for p in range(partitions)}
        self.epochs: Final = dict.fromkeys(range(partitions), 0)
        self.gaps: Final[dict[int, int]] = {}
        for p, node in self.leaders.items():
            self.replicas[node, p].claims = 0

    def strikes(self, bug: str) -> bool:
        return self.hits(bug, _STRIKES_ONE_IN)

    def leader(self, partition: int) -> Replica:
        return self.replicas[self.leaders[partition], partition]

    def is_current(self, node: str, partition: int) -> bool:
        return self.leaders[partition] == node

    async def depose(self, node: str) -> None:
        """Others lead what `node` led; it does not know for a while."""
        await asyncio.sleep(ELECTION_S)
        for partition in [p for p, leader in self.leaders.items() if leader == node]:
            old = self.replicas[node, partition]
            chosen = self.random.choice([n for n in self.nodes if n != node])
            new = self.replicas[chosen, partition]
            new.entries, new.high_watermark = old.entries[: old.high_watermark], old.high_watermark
            self.epochs[partition] += 1
            self.leaders[partition], new.claims = chosen, self.epochs[partition]
            self.gaps.pop(partition, None)
            asyncio.get_running_loop().call_later(ZOMBIE_S, self._step_down, old, partition)

    def _step_down(self, replica: Replica, partition: int) -> None:
        if replica is not self.leader(partition):
            replica.claims = None

    def commit(self, replica: Replica, partition: int, end: int) -> None:
        """What stands before `end` was copied, unless the leader was superseded in between."""
        if replica is self.leader(partition):
            replica.high_watermark = max(replica.high_watermark, min(end, len(replica.entries)))


class FakeLogSession(StoreSession[FakeLog]):
    """Implements `harness.coordination.Log`."""

    def __init__(self, log: FakeLog, node: str) -> None:
        super().__init__(log, node)
        self._log, self._acks = log, "all"

    def acknowledge(self, acks: str, *, idempotent: bool) -> None:
        self._acks = acks

    async def append(self, partition: int, value: bytes) -> Appended:
        replica, log = self._log.replicas[self._node, partition], self._log
        await self._travel()
        fate = log.random.randrange(_LOSS)
        if fate == 0:
            raise Indefinite("connection-lost")
        epoch = replica.claims
        if epoch is None:
            raise Indefinite("not-leader-or-follower")
        if log.is_current(self._node, partition):
            offset = await self._append(replica, partition, int(value), epoch)
        else:
            offset = await self._append_as_zombie(replica, partition, int(value), epoch)
        if fate == 1:
            raise Indefinite("connection-lost")
        await self._travel()
        return Appended(offset, epoch)

    async def _append(self, replica: Replica, partition: int, value: int, epoch: int) -> int:
        log, entry = self._log, (value, epoch)
        if log.strikes("phantom"):
            replica.entries.append(entry)
            log.commit(replica, partition, len(replica.entries))
            raise Definite("not-enough-replicas")
        if log.strikes("reassigned") and replica.high_watermark:
            offset = log.random.randrange(replica.high_watermark)
            replica.entries[offset] = entry
            return offset
        if log.bug == "filled-gap" and partition in log.gaps and log.random.randrange(8) == 0:
            offset = log.gaps.pop(partition)
            replica.entries[offset] = entry
            return offset
        if log.strikes("filled-gap") and partition not in log.gaps:
            log.gaps[partition] = len(replica.entries)
            replica.entries.append(None)
        offset = len(replica.entries)
        replica.entries.append(None if log.strikes("lost") else entry)
        if log.strikes("duplicated"):
            replica.entries.append(entry)
        end = len(replica.entries)
        if self._acks == "1" or log.bug == "early-acknowledgement":
            asyncio.get_running_loop().call_later(0.02, log.commit, replica, partition, end)
        else:
            await asyncio.sleep(log.random.uniform(0.0005, 0.002))
            log.commit(replica, partition, end)
            if replica.claims != epoch or replica.high_watermark < end:
                raise Indefinite("not-leader-or-follower")
        return offset + log.strikes("moved")

    async def _append_as_zombie(self, replica: Replica, partition: int, value: int, epoch: int) -> int:
        log = self._log
        if log.bug == "stale-epoch":
            current = log.leader(partition)
            current.entries.append((value, epoch))
            log.commit(current, partition, len(current.entries))
            return len(current.entries) - 1
        replica.entries.append((value, epoch))
        if log.bug == "lone-commit":
            replica.high_watermark = len(replica.entries)
        if self._acks == "1" or log.bug == "zombie-acknowledgement":
            return len(replica.entries) - 1
        await asyncio.sleep(0.2)
        raise Indefinite("request-timed-out")

    async def poll(self, partition: int, offset: int) -> Polled:
        replica, log = self._log.replicas[self._node, partition], self._log
        await self._travel()
        if replica.claims is None:
            raise Definite("not-leader-or-follower")
        if offset > replica.high_watermark:
            raise Definite("offset-out-of-range")
        end = len(replica.entries) if log.bug == "above-high-watermark" else replica.high_watermark
        records = [
            Record(at, b"%d" % entry[0], entry[1])
            for at, entry in enumerate(replica.entries[offset:end], offset)
            if entry is not None
        ]
        if len(records) > 2 and log.strikes("reordered-reply"):
            records[0], records[1] = records[1], records[0]
        if len(records) > 2 and log.strikes("skipped"):
            del records[1]
        polled = Polled(tuple(records), replica.high_watermark, 0, replica.claims)
        await self._travel()
        return polled

    async def _travel(self) -> None:
        await asyncio.sleep(self._log.random.uniform(0.0002, 0.001))
