"""`consumer-groups`: members join groups, commit offsets, fall behind and leave, while coordinators move.

Operations on group i have the key "g<i>":
  join          an ok has [generation, share].
  leave         the member leaves.
  beat          the member says that it lives, and may hear that it has to join again ("rebalance-in-progress").
  offset-commit value: a number that no other commit writes; an ok has [number, generation].
  late-commit   the same, as a member of the generation before its own, like a request that was under way for long.
  offset-fetch  an ok has the committed number, or None.

Every worker plays one member of one group, and the members of a group are on different nodes. A member that hears that
it has to join again mostly does. Sometimes it goes on committing instead, until it is refused: it is left out of the
next generation then, and its commits must not be accepted any more.
"""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.coordination import Keys
from fencepost.harness.generators import at_rate, stagger
from fencepost.harness.generators.contract import PENDING, Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload
from fencepost.systems.kafka.protocols import Groups, KafkaInterface

#: Refusals after which a member has to join again; a member that is told the first one is still in its generation.
_REBALANCE: Final = "rebalance-in-progress"
_OUT: Final = frozenset({"illegal-generation", "unknown-member-id", "not-a-member"})
#: One member in this many goes on although it has to join again.
_DEAF_ONE_IN: Final = 6
#: Of so many operations of a member: fetches, beats, late commits, and one that leaves; the rest are commits.
_OF: Final = 200
_FETCHES: Final = 50
_BEATS: Final = 40
_LATE: Final = 10
#: Pause between two reads of the final phase.
_FINAL_EVERY_NS: Final = 50_000_000
_FINAL_READS_ALIKE: Final = 3


class ConsumerGroupsOptions(Options, frozen=True, kw_only=True):
    groups: Annotated[int, about("how many groups there are", least=1, most=100)] = 3
    members_per_node: Annotated[int, about("members of each group on each node", least=1, most=100)] = 1
    rate: Annotated[
        float, about("operations per second, all members together; 0: as fast as they are answered", least=0, most=1e6)
    ] = 200.0
    group_timeout: Annotated[Duration, about("an operation is given up after this long", above=0)] = seconds(3)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(f"g{i}" for i in range(self.groups))


class ConsumerGroups(Workload[ConsumerGroupsOptions]):
    name = "consumer-groups"
    about = "members of groups commit offsets, fall behind and leave, while coordinators move"
    protocol = KafkaInterface.GROUPS
    options = ConsumerGroupsOptions
    effect_free = frozenset({"offset-fetch", "beat"})
    promise = "group-commits-durable"
    judges = ("consumer-groups",)
    roles = frozenset({"broker"})
    #: With a short session another broker becomes coordinator while a fault lasts.
    wants = {  # noqa: RUF012  # a read-only mapping
        "brokers": 3,
        "broker_session": "3s",
        "broker_heartbeat": "500ms",
    }

    def needs(self, options: ConsumerGroupsOptions) -> Keys:
        return Keys(options.keys)

    def workers(self, options: ConsumerGroupsOptions, node_count: int) -> int:
        return node_count * options.groups * options.members_per_node

    def timeout_s(self, options: ConsumerGroupsOptions, node_count: int, worker: int, patient_s: float) -> float:
        return options.group_timeout.seconds

    def generator(self, options: ConsumerGroupsOptions, node_count: int) -> Generator:
        return at_rate(options.rate, _Members(keys=options.keys, nodes=node_count))

    def final_generator(self, options: ConsumerGroupsOptions, node_count: int) -> Generator:
        return stagger(_FINAL_EVERY_NS, _LastReads(keys=options.keys, nodes=node_count))

    def client(self, store: Groups, options: ConsumerGroupsOptions, now_ns: Callable[[], int]) -> Client:
        return GroupsClient(store)


class _Members(msgspec.Struct, frozen=True, kw_only=True):
    """Each worker's member: `inside` are those in a generation, `called` have to join again, `deaf` do not hear it."""

    keys: tuple[str, ...]
    nodes: int
    inside: frozenset[int] = frozenset()
    called: frozenset[int] = frozenset()
    deaf: frozenset[int] = frozenset()

    def op(self, ctx: Context) -> Step:
        if not ctx.free:
            return PENDING, self
        worker = ctx.free[0]
        return Invocation(worker, self._offer(ctx, worker, ctx.draw(worker)), ctx.time_ns), self

    def _offer(self, ctx: Context, worker: int, draw: Draw) -> Offer:
        key = self.keys[worker // self.nodes % len(self.keys)]
        if worker not in self.inside or worker in self.called:
            return Offer("join", key)
        drawn = draw.below(_OF)
        if drawn == 0:
            return Offer("leave", key)
        if drawn <= _FETCHES:
            return Offer("offset-fetch", key)
        if drawn <= _FETCHES + _BEATS:
            return Offer("beat", key)
        late = drawn <= _FETCHES + _BEATS + _LATE
        return Offer("late-commit" if late else "offset-commit", key, ctx.number(worker))

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        worker = ctx.worker_of(event)
        alone = frozenset({worker})
        if event.type is Outcome.INFO or (event.error in _OUT and event.f != "late-commit"):
            return self._left(alone)
        if event.type is Outcome.OK and event.f in ("join", "leave"):
            left = self._left(alone)
            return left if event.f == "leave" else msgspec.structs.replace(left, inside=left.inside | alone)
        if event.error == _REBALANCE and event.f == "beat" and worker not in self.deaf:
            if ctx.draw(worker).below(_DEAF_ONE_IN) == 0:
                return msgspec.structs.replace(self, deaf=self.deaf | alone)
            return msgspec.structs.replace(self, called=self.called | alone)
        return self

    def _left(self, alone: frozenset[int]) -> "_Members":
        return msgspec.structs.replace(
            self, inside=self.inside - alone, called=self.called - alone, deaf=self.deaf - alone
        )


class _LastReads(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of every group, until the last three answers for each are the same; `seen` are its answers in a row."""

    keys: tuple[str, ...]
    nodes: int
    seen: tuple[tuple[int | None, ...], ...] = ()
    turn: int = 0

    def op(self, ctx: Context) -> Step:
        seen = self.seen or ((),) * len(self.keys)
        left = [i for i, own in enumerate(seen) if len(own) < _FINAL_READS_ALIKE]
        if not left:
            return None, self
        if not ctx.free:
            return PENDING, self
        after = msgspec.structs.replace(self, seen=seen, turn=self.turn + 1)
        # Idle workers in turn, so that every node is asked.
        return Invocation(
            ctx.free[0], Offer("offset-fetch", self.keys[left[self.turn % len(left)]]), ctx.time_ns
        ), after

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if event.f != "offset-fetch" or event.type is not Outcome.OK or event.key not in self.keys or not self.seen:
            return self
        at = self.keys.index(event.key)
        own = self.seen[at]
        own = (*own, event.value) if own[-1:] in ((), (event.value,)) else (event.value,)
        return msgspec.structs.replace(self, seen=(*self.seen[:at], own, *self.seen[at + 1 :]))


class GroupsClient(SessionClient[Groups]):
    """One member of one group."""

    async def invoke(self, offer: Offer) -> Completion:
        assert offer.key is not None
        match offer.f:
            case "join":
                joined = await self._store.join(offer.key)
                return Completion(Outcome.OK, [joined.generation, joined.share])
            case "leave":
                await self._store.leave(offer.key)
                return Completion(Outcome.OK)
            case "beat":
                await self._store.beat(offer.key)
                return Completion(Outcome.OK)
            case "offset-fetch":
                return Completion(Outcome.OK, await self._store.fetch_offset(offer.key))
        done = await self._store.commit_offset(offer.key, offer.value, late=offer.f == "late-commit")
        return Completion(Outcome.OK, [offer.value, done.generation])
