"""`topics`: topics are made, written, dropped, and made again under the same name.

The key of an operation is the name of its topic, "n<i>":
  make-topic   an ok: there is a topic of this name now; its value is the topic's id, where the node tells it.
  drop-topic   an ok: the topic is gone, with all its records.
  put-record   value: a number that no other record has; an ok has `position` (the offset).
  list-topics  (final phase, no key) an ok has the names that the node knows.
  read-topic   (final phase) value: the first offset; an ok has the records as [offset, value], and `position` (the high
               watermark).

Each name has `lives` lives, and then a new name takes its turn. Mostly it stays dropped; the last topic of one name in
eight is left as it is. Only one worker at a time makes or drops a topic of one name, while others may still write to
it. In the final phase every node is asked for its topics and for the records of every topic that any node knows.
"""

import re
from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.generators import at_rate, stagger
from fencepost.harness.generators.contract import PENDING, Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload
from fencepost.systems.kafka.protocols import KafkaInterface, Topics

#: The names of this workload, among those that servers use themselves.
_NAME: Final = re.compile(r"n\d+")
#: Errors that tell whether the topic is there.
_EXISTS: Final = "exists"
_ABSENT: Final = "unknown-topic-or-partition"
#: The last topic of one name in this many is not dropped.
_STAYS_ONE_IN: Final = 8
#: A stream of draws; the numbers of `generators.contract.Stream` are smaller.
_STREAM: Final = 18
#: How often a worker draws before it is skipped.
_DRAWS: Final = 8
_FINAL_EVERY_NS: Final = 2_000_000
#: The final phase begins with this pause: nodes delete logs, and forget topics, some time after the answer. It is a
#: little longer than what `systems.kafka.checkers.topics` leaves to them.
_PAUSE_NS: Final = 10_500_000_000
#: Each node lists its topics this often at least, and this far apart: what is deleted goes piece by piece.
_LISTS: Final = 2
_LISTS_APART_NS: Final = 1_300_000_000


class TopicsOptions(Options, frozen=True, kw_only=True):
    names: Annotated[int, about("how many names are in use at a time", least=1, most=1000)] = 8
    lives: Annotated[int, about("how often a topic of one name is made", least=1)] = 2
    records: Annotated[int, about("records of one topic before it is dropped, on average", least=1)] = 8
    rate: Annotated[
        float, about("operations per second, all workers together; 0: as fast as they are answered", least=0, most=1e6)
    ] = 100.0
    workers_per_node: Annotated[int, about("workers per node", least=1, most=1000)] = 4
    topic_timeout: Annotated[Duration, about("an operation is given up after this long", above=0)] = seconds(3)


class TopicsWorkload(Workload[TopicsOptions]):
    name = "topics"
    about = "topics are made, written, dropped, and made again under the same names"
    protocol = KafkaInterface.TOPICS
    options = TopicsOptions
    effect_free = frozenset({"list-topics", "read-topic"})
    promise = "topics-stay-dropped"
    judges = ("topics",)
    final_pause_ns = _PAUSE_NS
    roles = frozenset({"broker"})
    wants = {  # noqa: RUF012  # a read-only mapping
        "brokers": 3,
        "broker_session": "3s",
        "broker_heartbeat": "500ms",
        "replica_lag": "3s",
    }

    def workers(self, options: TopicsOptions, node_count: int) -> int:
        return node_count * options.workers_per_node

    def timeout_s(self, options: TopicsOptions, node_count: int, worker: int, patient_s: float) -> float:
        return options.topic_timeout.seconds

    def generator(self, options: TopicsOptions, node_count: int) -> Generator:
        slots = tuple(_Slot(name=_name(number)) for number in range(options.names))
        lives = _Lives(slots=slots, nodes=node_count, lives=options.lives, records=options.records, names=options.names)
        return at_rate(options.rate, lives)

    def final_generator(self, options: TopicsOptions, node_count: int) -> Generator:
        return stagger(_FINAL_EVERY_NS, _LastLooks(nodes=node_count))

    def client(self, store: Topics, options: TopicsOptions, now_ns: Callable[[], int]) -> Client:
        return TopicsClient(store)


def _name(number: int) -> str:
    return f"n{number}"


class _Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One name in use: whether its topic is there, how often it was dropped, and which node leads it, where known.

    `busy`: a worker makes or drops it.
    """

    name: str
    there: bool = False
    drops: int = 0
    leads: int | None = None
    busy: bool = False

    @property
    def stays(self) -> bool:
        """Whether the last topic of this name is not dropped."""
        return int(self.name[1:]) % _STAYS_ONE_IN == 0


class _Lives(msgspec.Struct, frozen=True, kw_only=True):
    """The names in use; `names` is the number of names so far."""

    slots: tuple[_Slot, ...]
    nodes: int
    lives: int
    records: int
    names: int

    def op(self, ctx: Context) -> Step:
        begun, now = sum(ctx.counts), self
        for worker in ctx.free:
            # A worker that is skipped must not repeat its draw: the draw depends on all operations so far. While none
            # is under way these stay the same, and if nobody's draws suited, nobody would ever begin another one.
            draw = Draw(ctx.seed, worker, begun, _STREAM)
            for _ in range(_DRAWS):
                at = draw.below(len(now.slots))
                slot = now.slots[at]
                if slot.busy:
                    continue
                over = slot.there and draw.below(self.records + 1) == 0
                if over and slot.stays and slot.drops + 1 >= self.lives:
                    now = now._next(at)
                    continue
                if over or not slot.there:
                    offer = Offer("drop-topic" if slot.there else "make-topic", slot.name)
                    return Invocation(worker, offer, ctx.time_ns), now._with(at, slot, busy=True)
                if slot.leads in (None, worker % self.nodes):
                    return Invocation(worker, Offer("put-record", slot.name, ctx.number(worker)), ctx.time_ns), now
        return PENDING, now

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        at = next((i for i, slot in enumerate(self.slots) if slot.name == event.key), None)
        if at is None:
            return self
        slot, node, ok = self.slots[at], ctx.worker_of(event) % self.nodes, event.type is Outcome.OK
        if event.f == "put-record":
            if ok:
                return self if slot.leads == node else self._with(at, slot, leads=node)
            return self._with(at, slot, leads=None) if slot.leads == node else self
        if event.type is Outcome.INFO:
            # Nobody knows whether the topic is there, and a late request may change it again.
            return self._next(at)
        if event.f == "make-topic":
            return self._with(at, slot, busy=False, there=ok or event.error == _EXISTS, leads=None)
        if not ok and event.error != _ABSENT:
            return self._with(at, slot, busy=False)
        if slot.drops + 1 >= self.lives:
            return self._next(at)
        return self._with(at, slot, busy=False, there=False, drops=slot.drops + 1, leads=None)

    def _with(self, at: int, slot: _Slot, **changes: object) -> "_Lives":
        slots = (*self.slots[:at], msgspec.structs.replace(slot, **changes), *self.slots[at + 1 :])
        return msgspec.structs.replace(self, slots=slots)

    def _next(self, at: int) -> "_Lives":
        """Give up a name, and begin with the next one."""
        slots = (*self.slots[:at], _Slot(name=_name(self.names)), *self.slots[at + 1 :])
        return msgspec.structs.replace(self, slots=slots, names=self.names + 1)


class _LastLooks(msgspec.Struct, frozen=True, kw_only=True):
    """A pause, each node's topics, some times; then the records of every topic that a node knows, through each node.

    `left` are the reads that are still to be made, by node; None: the topics are not known yet.
    """

    nodes: int
    listed: tuple[int, ...] = ()
    known: frozenset[str] = frozenset()
    not_before_ns: int = 0
    left: tuple[tuple[int, str], ...] | None = None

    def op(self, ctx: Context) -> Step:
        now = self
        if not self.listed:
            not_before_ns = ctx.time_ns + _PAUSE_NS
            now = msgspec.structs.replace(self, listed=(0,) * self.nodes, not_before_ns=not_before_ns)
        listed = now.listed
        if self.left is None and min(listed) >= _LISTS:
            names = sorted(self.known, key=lambda name: (len(name), name))
            now = msgspec.structs.replace(now, left=tuple((node, name) for name in names for node in range(self.nodes)))
        if now.left == ():
            return None, now
        for worker in ctx.free:
            node = worker % self.nodes
            if now.left is not None:
                mine = next((pair for pair in now.left if pair[0] == node), None)
                if mine is not None:
                    after = msgspec.structs.replace(now, left=tuple(pair for pair in now.left if pair != mine))
                    return Invocation(worker, Offer("read-topic", mine[1], 0), ctx.time_ns), after
            elif listed[node] <= min(listed) and ctx.time_ns >= now.not_before_ns:
                return Invocation(worker, Offer("list-topics"), ctx.time_ns), now
        return PENDING, now

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        if event.f != "list-topics" or event.type is not Outcome.OK or not self.listed:
            return self
        node = ctx.worker_of(event) % self.nodes
        listed = (*self.listed[:node], self.listed[node] + 1, *self.listed[node + 1 :])
        later = min(listed) > min(self.listed)
        return msgspec.structs.replace(
            self,
            listed=listed,
            known=self.known | frozenset(name for name in event.value if _NAME.fullmatch(name)),
            not_before_ns=ctx.time_ns + _LISTS_APART_NS if later else self.not_before_ns,
        )


class TopicsClient(SessionClient[Topics]):
    """One connection; the values of records are decimal numbers."""

    async def invoke(self, offer: Offer) -> Completion:
        name = offer.key or ""
        match offer.f:
            case "make-topic":
                return Completion(Outcome.OK, await self._store.make_topic(name))
            case "drop-topic":
                await self._store.drop_topic(name)
                return Completion(Outcome.OK)
            case "list-topics":
                return Completion(Outcome.OK, list(await self._store.list_topics()))
            case "put-record":
                done = await self._store.put_record(name, b"%d" % offer.value)
                return Completion(Outcome.OK, offer.value, position=done.offset)
        polled = await self._store.read_topic(name, offer.value)
        rows = [[record.offset, int(record.value)] for record in polled.records]
        return Completion(Outcome.OK, rows, position=polled.high_watermark)
