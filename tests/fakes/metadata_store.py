"""A metadata quorum in memory: one log, a lagging copy of it on every node, and planted bugs.

Three voters, of which one is in charge, and a broker that forwards. The log is served to listeners by voters in turns.
Shortly before its turn ends a voter is superseded: it gets no more entries, and has one that is never committed.
Correct unless `bug` names one of `BUGS`.
"""

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite, NotSent, Reply
from fencepost.harness.history import BeliefEvent, CatchUp, CatchUpEvent, Claim, History, LogEntry
from fencepost.harness.plugins import registry
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Thresholds, Verdict
from fencepost.systems.kafka.protocols import LogPiece, MetadataKind
from fencepost.systems.kafka.workloads.metadata import MetadataWorkload
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

VOTERS: Final = ("n1", "n2", "n3")
NODES: Final = (*VOTERS, "b1")
PROMISED: Final = (
    "metadata-durable",
    "metadata-forward",
    "metadata-converges",
    "epochs-never-go-back",
    "snapshots-are-loaded",
    "metadata-listener-order",
    "metadata-listener-complete",
)
FACTS: Final = facts_of(
    "metadata",
    NODES,
    PROMISED,
    electorate=VOTERS,
    read_guarantee="metadata-durable",
    thresholds=Thresholds(ok_operations_min=40),
)

#: What each bug does, and the anomaly (checker:name) by which it must be found.
BUGS: Final = {
    "lost-change": ("one acknowledged setting in thirty is dropped", "metadata:lost-acknowledged-change"),
    "comes-back": ("one acknowledged removal in two is dropped", "metadata:lost-acknowledged-change"),
    "lost-name": ("one acknowledged name in three is dropped", "metadata:lost-acknowledged-change"),
    "went-back": ("a copy now and then answers from far behind", "metadata:view-went-back"),
    "skips": ("n3's copy misses one change in twenty for ever", "metadata:views-contradict"),
    "refused-effect": ("one refusal in three takes effect", "metadata:refused-change-took-effect"),
    "two-views": ("answers carry offsets, and n2's value differs at times", "metadata:two-views-of-one-offset"),
    "denies": ("n2 denies names for three seconds after they were taken", "topic-names:denied-taken-name"),
    "invents": ("a name is said to be taken before it is", "topic-names:invented-name"),
    "whole-log": ("n3 has a snapshot and reads the whole log when it starts", "snapshots:snapshot-not-loaded"),
    "listener-skips": ("one answer in twenty leaves its first entry out", "metadata-listeners:listener-missed-offset"),
    "listener-epoch": ("one entry in twenty is told with an older epoch", "metadata-listeners:listener-epoch-fell"),
    "withdraws": ("a later leader lacks committed entries", "metadata-listeners:committed-entry-withdrawn"),
    "tells-two": ("one entry in twenty is told with another value", "metadata-listeners:listeners-differ"),
    "listener-lacks": ("one acknowledged change in twenty is told to nobody", "metadata-listeners:change-not-heard"),
    "epoch": ("the node in charge now and then names an older epoch", "metadata:epoch-went-back"),
}
#: n3's copy stands still after four seconds: late for ever, and never proven wrong.
STUCK: Final = "stuck"


#: How long each voter serves the log, and for how long before that ends it is superseded.
_TURN_S: Final = 2.5
_TAIL_S: Final = 0.4
#: What only brokers show.
_BROKERS_ONLY: Final = ("quota/", "topic/", "partitions/")


class FakeQuorum(PlantedStore):
    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("metadata", seed, bug)
        self.leader = "n1"
        self.log: list[tuple[float, str, bytes | None]] = []
        self.skipped: set[int] = set()
        self.names: dict[str, float] = {}
        self.entries: list[LogEntry] = []
        #: Apart from the other draws, which listeners do not change.
        self.listen_random: Final = random.Random(f"metadata-listeners-{seed}")
        self.withdrawn = False

    def hits_listener(self, bug: str, one_in: int) -> bool:
        return self.bug == bug and self.listen_random.randrange(one_in) == 0

    @property
    def serving(self) -> int:
        """The epoch of the voter that serves the log."""
        return int(self.now_s() / _TURN_S) + 1

    @property
    def leading(self) -> int:
        """The epoch in which entries are appended."""
        return int((self.now_s() + _TAIL_S) / _TURN_S) + 1

    def log_entry(self, kind: str, **fields: str) -> None:
        """Append to the log that listeners fetch; each epoch begins with an entry of its own."""
        if not self.entries or self.entries[-1].epoch < self.leading:
            self._entry("leader-change", {})
        if kind and not self.hits_listener("listener-lacks", 20):
            self._entry(kind, fields)

    def _entry(self, kind: str, fields: dict[str, str]) -> None:
        self.entries.append(LogEntry(offset=len(self.entries), epoch=self.leading, type=kind, fields=fields))

    def piece(self, offset: int, last_epoch: int) -> LogPiece:
        """What the voter that serves the log answers."""
        self.log_entry("")
        epoch = self.serving
        log = [entry for entry in self.entries if entry.epoch <= epoch]
        end = len(log)
        if self.leading > epoch:
            log.append(LogEntry(offset=end, epoch=epoch, type="no-op"))
        parts_at = next((entry.offset for entry in log if entry.epoch > last_epoch), len(log))
        if self.bug == "withdraws" and not self.withdrawn and epoch > 1 and offset > 5:
            self.withdrawn = True
            parts_at = offset - 3
        if parts_at < offset:
            return LogPiece(epoch=epoch, high_watermark=end, parts_at=(last_epoch, parts_at))
        told = [self._told(entry) for entry in log[offset:]]
        left_out = len(told) > 1 and self.hits_listener("listener-skips", 20)
        return LogPiece(epoch=epoch, high_watermark=end, entries=tuple(told[left_out:]))

    def _told(self, entry: LogEntry) -> LogEntry:
        if entry.epoch > 1 and self.hits_listener("listener-epoch", 20):
            return LogEntry(offset=entry.offset, epoch=entry.epoch - 1, type=entry.type, fields=entry.fields)
        if entry.fields and self.hits_listener("tells-two", 20):
            return LogEntry(offset=entry.offset, epoch=entry.epoch, type=entry.type, fields={"value": "other"})
        return entry

    def append(self, key: str, value: bytes | None) -> None:
        if self.hits("lost-change", 30) or (value is None and self.hits("comes-back", 2)):
            return
        self.log.append((self.now_s(), key, value))
        if "/" not in key and value is not None:
            self.log_entry("config", resource_name=key, value=value.decode())
        elif key.startswith("topic/") and value is not None:
            self.log_entry("topic", name=key.removeprefix("topic/"))
        if key != "k-last" and self.hits("skips", 20):
            self.skipped.add(len(self.log) - 1)

    def view(self, node: str, key: str) -> tuple[bytes | None, int]:
        """What this node's copy holds, and how far it is."""
        lag_s = {"n1": 0.0, "n2": 0.03, "n3": 0.05}.get(node, 0.1)
        # Not the last setting: a copy that is late with everything is merely late.
        if key != "k-last" and self.hits("went-back", 200):
            lag_s = 5.0
        now_s = min(self.now_s(), 4.0) if self.bug == STUCK and node == "n3" else self.now_s()
        at = sum(entry[0] <= now_s - lag_s for entry in self.log)
        found = None
        for number in range(at - 1, -1, -1):
            if self.log[number][1] == key and not (node == "n3" and number in self.skipped):
                found = self.log[number][2]
                break
        return found, at


class FakeMetadata(StoreSession[FakeQuorum]):
    """Implements `systems.kafka.protocols.Metadata`."""

    async def _in_charge(self, *, change: bool) -> None:
        await self._travel()
        if self._node in VOTERS and self._node != self._store.leader:
            raise Indefinite("not-controller") if change else Definite("not-controller")

    async def alter(self, kind: MetadataKind, name: str, value: bytes | None) -> Reply:
        key = _key(kind, name)
        await self._in_charge(change=True)
        quorum = self._store
        fate = quorum.random.randrange(100)
        if fate == 0:
            raise Indefinite("connection-lost")
        if fate == 1:
            asyncio.get_running_loop().call_later(quorum.random.uniform(0, 0.5), quorum.append, key, value)
            raise Indefinite("connection-lost")
        if fate < 5:
            if quorum.hits("refused-effect", 3):
                quorum.append(key, value)
            raise Definite("throttling-quota-exceeded")
        quorum.append(key, value)
        await self._travel()
        return Reply()

    async def describe(self, kind: MetadataKind, name: str) -> Reply:
        key = _key(kind, name)
        await self._travel()
        if self._node in VOTERS and key.startswith(_BROKERS_ONLY):
            raise Definite("unsupported-api")
        value, at = self._store.view(self._node, key)
        if self._store.bug != "two-views":
            return Reply(value)
        if self._node == "n2" and self._store.hits("two-views", 20):
            value = b"1234567"
        return Reply(value, position=at)

    async def create_name(self, name: str, partitions: int = 1) -> Reply:
        await self._in_charge(change=True)
        quorum = self._store
        if name in quorum.names:
            raise Definite("topic-already-exists") if self._node in VOTERS else Indefinite("topic-already-exists")
        if not quorum.hits("lost-name", 3):
            quorum.names[name] = quorum.now_s()
            quorum.log_entry("topic", name=name)
        await self._travel()
        return Reply()

    async def name_taken(self, name: str) -> Reply:
        quorum = self._store
        if quorum.bug == "denies" and self._node == "n2":
            await self._travel()
            taken = quorum.names.get(name, 1e9) < quorum.now_s() - 3.0
            return Reply(b"1" if taken else None)
        await self._in_charge(change=False)
        taken = name in quorum.names or quorum.hits("invents", 10)
        reply = Reply(b"1" if taken else None)
        await self._travel()
        return reply

    async def listen(self, offset: int, last_epoch: int, wait_s: float) -> LogPiece:
        quorum = self._store
        if self._closed:
            raise NotSent("not-sent")
        await asyncio.sleep(quorum.listen_random.expovariate(1 / 0.002))
        if self._node not in VOTERS:
            raise Definite("no-metadata-log")
        if VOTERS.index(self._node) != quorum.serving % len(VOTERS):
            raise Definite("not-leader-or-follower")
        if quorum.listen_random.randrange(50) == 0:
            await asyncio.sleep(2.0)
        piece = quorum.piece(offset, last_epoch)
        if not piece.entries:
            await asyncio.sleep(wait_s)
        return piece


def _key(kind: MetadataKind, name: str) -> str:
    return name if kind is MetadataKind.SETTING else f"{kind}/{name}"


def run_fake_metadata(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 8 s of load, then the final phase; in every other one all kinds of metadata change."""
    quorum = FakeQuorum(seed, bug)
    kinds = "all" if bug == "comes-back" or seed % 2 == 1 else "settings"
    return play(
        MetadataWorkload(),
        lambda node: FakeMetadata(quorum, node),
        nodes=NODES,
        seed=seed,
        load_s=8.0,
        system="kraft",
        options={"window": "2s", "reads": 0.8, "kinds": kinds, "listeners": 2, **(options or {})},
        beside=[partial(_observe, quorum)],
    )


def judge_metadata(history: History) -> list[Verdict]:
    checkers = map(registry.checker, ("metadata", "topic-names", "snapshots", "metadata-listeners"))
    return [verdict for check in checkers for verdict in check(history, FACTS)]


async def _observe(quorum: FakeQuorum, recorder: Recorder) -> None:
    began = CatchUp.DIFFERENCE if quorum.bug == "whole-log" else CatchUp.LOADED
    for incarnation, how in enumerate((CatchUp.SAVED, began)):
        recorder.record(CatchUpEvent, node="n3", incarnation=incarnation, change=how, source="fake")
    while True:
        for node in VOTERS:
            leads = node == quorum.leader
            epoch = (7 - quorum.hits("epoch", 50)) if leads else None
            recorder.record(
                BeliefEvent,
                subject="raft",
                node=node,
                incarnation=0,
                claims=Claim.YES if leads else Claim.NO,
                asked_ns=recorder.now_ns(),
                source="fake",
                epoch=epoch,
            )
        await asyncio.sleep(0.05)
