"""Metadata of every kind, as the workload `metadata` changes it beside topics' settings and names.

The keys have the form "kind/name"; that of a topic's setting is the name alone. Settings of brokers, quotas and
credentials take unique numbers, as topics' settings do, and some are removed again. Things (topics, ACLs) belong to
moments, as names do: each is made once, and every other one is deleted once, a while later. One topic grows by a
partition at a time.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from fencepost.harness.generators.contract import PENDING, Context, Generator, Invocation, Offer, Step
from fencepost.harness.history import OpEvent, Outcome
from fencepost.systems.kafka.protocols import MetadataKind

#: No user has a quota and a credential: in ZooKeeper mode both stand in one znode, which the controller reads and
#: writes whole, so of two changes at the same time one may be undone (ZkAdminManager; nobody promises otherwise).
#: Names that are hard to keep: with spaces and signs that ZooKeeper's paths cannot hold, and the default ("").
VALUED: Final = ("broker/", "quota/alice", "quota/a b%c+ü/:", "quota/", "scram/bob", "scram/b c@d")
#: Of these one change in so many is a removal.
_REMOVED: Final = ("quota/", "scram/")
_REMOVED_ONE_IN: Final = 8
GROWING: Final = "grows"
GROWS: Final = f"partitions/{GROWING}"
#: Each partition costs the servers something.
_PARTITIONS_MAX: Final = 100
THINGS: Final = ("topic/x", "acl/x")
#: What is made in one slot is deleted so many slots later.
_LIVES: Final = 2
#: Deeds of one slot: each thing is made, each is perhaps deleted, and a partition is added.
_DEEDS: Final = 2 * len(THINGS) + 1


def valued(ctx: Context, worker: int) -> Offer:
    """A change of one of `VALUED`; now and then it is removed."""
    draw = ctx.draw(worker)
    key = draw.choice(VALUED)
    removed = key.startswith(_REMOVED) and draw.below(_REMOVED_ONE_IN) == 0
    return Offer("alter", key, None if removed else ctx.number(worker))


def things_at(time_ns: int, every_ns: int, *, most: int) -> tuple[str, ...]:
    """The newest things that may have been made by this moment, at most so many of each kind."""
    last = time_ns // (every_ns * _DEEDS)
    return tuple(f"{kind}{slot}" for kind in THINGS for slot in range(max(0, last - most + 1), last + 1))


class _Deeds(msgspec.Struct, frozen=True, kw_only=True):
    """One deed each `every_ns`, and each at most once, so that a value names the operation that made it.

    `by` offers the deed through a node that may be written now; `done` is the number of the newest deed. Each phase of
    a run begins with a new generator, which leaves out the deed of its first moment: the phase before may have done it.
    """

    every_ns: int
    by: Generator
    done: int | None = None

    def op(self, ctx: Context) -> Step:
        number = ctx.time_ns // self.every_ns
        if self.done is None:
            return PENDING, msgspec.structs.replace(self, done=number)
        if number <= self.done:
            return PENDING, self
        step, _ = self.by.op(ctx)
        return step, msgspec.structs.replace(self, done=number) if isinstance(step, Invocation) else self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return msgspec.structs.replace(self, by=self.by.update(ctx, event))


def deed(every_ns: int) -> Callable[[Context, int], Offer]:
    """The deed that belongs to this moment of the run."""

    def offer(ctx: Context, worker: int) -> Offer:
        slot, which = divmod(ctx.time_ns // every_ns, _DEEDS)
        if which < len(THINGS):
            return Offer("alter", f"{THINGS[which]}{slot}", 1)
        old = slot - _LIVES
        if which < 2 * len(THINGS) and old >= 0 and old % 2 == 0:
            return Offer("alter", f"{THINGS[which - len(THINGS)]}{old}", None)
        if which == 2 * len(THINGS) and slot < _PARTITIONS_MAX:
            return Offer("alter", GROWS, slot + 2)
        return Offer("describe", GROWS)

    return offer


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """Read one of these keys, or a thing of the last slots, through a node that offers reads of its kind.

    `refused` are the nodes and kinds for which a node said that it does not offer such reads.
    """

    keys: tuple[str, ...]
    every_ns: int
    nodes: int
    refused: frozenset[tuple[int, str]] = frozenset()

    def op(self, ctx: Context) -> Step:
        for worker in ctx.free:
            draw = ctx.draw(worker)
            things = things_at(ctx.time_ns, self.every_ns, most=_LIVES + 1)
            known = [key for key in (*self.keys, *things) if (worker % self.nodes, kind_of(key)) not in self.refused]
            if known:
                return Invocation(worker, Offer("describe", draw.choice(known)), ctx.time_ns), self
        return PENDING, self

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if event.type is not Outcome.FAIL or event.error != "unsupported-api" or event.key is None:
            return self
        refused = self.refused | {(ctx.worker_of(event) % self.nodes, kind_of(event.key))}
        return msgspec.structs.replace(self, refused=refused)


def split(key: str) -> tuple[MetadataKind, str]:
    """The kind of metadata and the name of a key."""
    kind, slash, name = key.partition("/")
    return (MetadataKind(kind), name) if slash else (MetadataKind.SETTING, key)


def kind_of(key: str) -> MetadataKind:
    return split(key)[0]
