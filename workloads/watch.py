"""`watch`: a listener on every node, while writers put, delete, compare-and-set and change two keys at once.

Operations of writers, on the keys k0, k1, ... and, in transactions, on p0 and p1:
  put       value: a number that no other write has
  cas       value: [old, new]
  delete    fails with "absent" where there was no key
  put-all   value: [[key, number], ...], one transaction; its key is the first one
  compact   value: the position before which history is discarded (`compact_every`)
Operations of listeners:
  watch     value: the position to begin at, None for the present one. An ok has the position after which changes are
            reported, and as `position` where the node's store stood
  next      value: a key to read as well (or to ask a bookmark for), None for none; an ok has the reports
  entries   at the end: [[key, number, position], ...], all keys that exist, by a current read
Reports stand in the order in which they came, each with its time:
  ["changes", at_ns, position, [[position, kind, key, number], ...]]     changes that came together
  ["bookmark", at_ns, position]                                         all changes up to here were reported before
  ["look", at_ns, position, key, number, position of that number]       a read among the reports
  ["armed", at_ns, position, key, position of its number]               a read that also sets the key's one-shot watch

The workload itself reconnects and resumes, and the history shows it. A listener whose watch broke begins another one:
after the last change that was reported to it where the system can resume watches, otherwise from the present. The
answer "compacted" (with the position where history begins) is not a loss. Where watches can be resumed, listeners also
end their watch now and then and begin again, some of them where history begins. Together with compactions at the
positions of deletions this is the recipe of etcd#18089. With `begin` they begin in the past, or at a position that does
not exist yet, whose earlier changes they must not be told; the shorter `again_every`, the more of them begin on members
that are cut off.

At the end one more change is written, and every listener must see it. So each earlier change was either reported or
lost, and none is still on its way. New listeners then read all of history that is left, and every key is read.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import NEVER, Duration, Options, about, seconds
from fencepost.harness.contract.system import System, WatchKinds
from fencepost.harness.coordination import (
    Bookmark,
    Changes,
    Compacted,
    Heard,
    Interface,
    Keys,
    Watchable,
    WatchedRead,
    Watches,
    WatchMode,
)
from fencepost.harness.generators import (
    Generator,
    Offer,
    at_rate,
    each_worker,
    limit,
    numbered,
    on_workers,
    once,
    phases,
    reserve,
    time_limit,
    until_ok,
)
from fencepost.harness.history import Completion, Outcome, Value
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload
from fencepost.harness.runtime.node import Member
from fencepost.workloads.watch_traffic import BeginWatch, Follow, Listen, Remembered, Traffic, WatchMemory

KEY: Final = "watched"
#: The keys that transactions change together and that are never deleted.
PAIR: Final = ("p0", "p1")
#: The only values of these options where watches cannot be resumed.
_NOT_RESUMED: Final = {"again_every": (NEVER,), "compact_every": (NEVER,), "begin": (BeginWatch.CONTINUE.value,)}
_LAST_CHANGE_NS: Final = 3_000_000_000
_FOLLOW_NS: Final = 6_000_000_000


class WatchOptions(Options, frozen=True, kw_only=True):
    watches: Annotated[WatchMode, about("the kind of watch")] = WatchMode.PERSISTENT
    rate: Annotated[float, about("changes per second, all writers together", above=0, most=1e6)] = 150.0
    keys: Annotated[int, about("keys that are changed and deleted, beside the pair of the transactions", least=1)] = 6
    transactions: Annotated[
        Literal["on", "off"], about("whether some changes are transactions, of two keys that are never deleted")
    ] = "on"
    listeners_per_node: Annotated[int, about("listeners on each node", least=1, most=1000)] = 1
    writers_per_node: Annotated[int, about("workers per node that change keys", least=1, most=1000)] = 3
    change_timeout: Annotated[Duration, about("a change is given up after this long", above=0)] = seconds(1.5)
    wait: Annotated[Duration, about("a listener waits this long for reports", above=0)] = seconds(0.1)
    bookmarks: Annotated[Literal["on", "off"], about("whether listeners ask for bookmarks")] = "on"
    resume: Annotated[Literal["on", "off"], about("whether a listener continues where its last watch broke")] = "off"
    again_every: Annotated[
        Duration | None, about("a listener ends its watch this often and begins another", above=0)
    ] = None
    begin: Annotated[
        BeginWatch, about("where such a listener begins: where it ended, in the past or in the future")
    ] = BeginWatch.CONTINUE
    compact_every: Annotated[Duration | None, about("history is compacted this often", above=0)] = None

    @property
    def deletable(self) -> tuple[str, ...]:
        return tuple(f"k{i}" for i in range(self.keys))

    @property
    def watched(self) -> tuple[str, ...]:
        return (*self.deletable, *PAIR)


class WatchWorkload(Workload[WatchOptions]):
    name = "watch"
    about = "listeners on every node; each must see every change once and in order"
    protocol = Interface.LISTENERS
    parts = frozenset({"watches"})
    options = WatchOptions
    effect_free = frozenset({"watch", "next", "entries"})
    promise = "watch-reliable"
    judges = ("watch",)

    def __init__(self) -> None:
        # One run has several phases, and its listeners live through all of them.
        self._memory = WatchMemory()

    def defaults(self, system: System) -> WatchOptions:
        mode, transactions = _kinds(system).modes[0], _transactions(system)[0]
        if _kinds(system).resumes:
            return WatchOptions(watches=mode, transactions=transactions, resume="on", again_every=seconds(4))
        return WatchOptions(watches=mode, transactions=transactions)

    def choices(self, system: System) -> Mapping[str, tuple[str, ...]]:
        modes: dict[str, tuple[str, ...]] = {
            "watches": tuple(mode.value for mode in _kinds(system).modes),
            "transactions": _transactions(system),
        }
        return modes if _kinds(system).resumes else {**modes, "resume": ("off",), **_NOT_RESUMED}

    def refuse(self, options: WatchOptions, members: tuple[Member, ...]) -> Refusal | None:
        if options.resume == "off" and options.again_every is not None:
            return Refusal("again_every ends watches that resume=off does not resume", "leave one of them out")
        if options.again_every is None and options.begin is not BeginWatch.CONTINUE:
            return Refusal(f"begin={options.begin} is for listeners that begin again", "give again_every, such as 1s")
        return None

    def needs(self, options: WatchOptions) -> Keys:
        return Keys(PAIR)

    def workers(self, options: WatchOptions, node_count: int) -> int:
        return node_count * (options.listeners_per_node + options.writers_per_node)

    def timeout_s(self, options: WatchOptions, node_count: int, worker: int, patient_s: float) -> float:
        # A write that waits for a leader that was cut off would block its writer for longer than an election takes.
        return patient_s if worker < node_count * options.listeners_per_node else options.change_timeout.seconds

    def generator(self, options: WatchOptions, node_count: int) -> Generator:
        traffic = Traffic(
            memory=self._memory,
            keys=options.deletable,
            pair=PAIR if options.transactions == "on" else (),
            compact_every_ns=_period_ns(options.compact_every),
        )
        return reserve(
            (
                node_count * options.listeners_per_node,
                self._listen(options, again_every_ns=_period_ns(options.again_every)),
            ),
            (node_count * options.writers_per_node, at_rate(options.rate, traffic)),
        )

    def final_generator(self, options: WatchOptions, node_count: int) -> Generator:
        # Writers have never listened: the first one of each node becomes a new listener, for all history that is left.
        listeners = node_count * options.listeners_per_node
        writers = range(listeners, listeners + node_count)
        if options.resume == "on":
            listeners += node_count
        # Negative numbers, which the load never writes.
        last = numbered(lambda number: Offer("put", options.deletable[0], -number))
        written = on_workers(writers, Remembered(memory=self._memory, inner=until_ok(limit(1, last))))
        follow = Follow(memory=self._memory, listen=self._listen(options, first=1))
        return phases(
            time_limit(_LAST_CHANGE_NS, written),
            time_limit(_FOLLOW_NS, reserve((listeners, follow))),
            reserve((node_count, each_worker(once(Offer("entries", KEY))))),
        )

    def client(self, store: Watchable, options: WatchOptions, now_ns: Callable[[], int]) -> Client:
        return WatchClient(store.watching(options.watches, options.watched, now_ns), wait_s=options.wait.seconds)

    def _listen(self, options: WatchOptions, *, again_every_ns: int = 0, first: int | None = None) -> Listen:
        return Listen(
            memory=self._memory,
            keys=options.watched,
            key=KEY,
            resumes=options.resume == "on",
            bookmarks=options.bookmarks == "on",
            again_every_ns=again_every_ns,
            first=first,
            begin=options.begin,
        )


class WatchClient(SessionClient[Watches]):
    """One connection to one node; numbers are decimal on the wire."""

    def __init__(self, watches: Watches, *, wait_s: float) -> None:
        super().__init__(watches)
        self._wait_s = wait_s

    async def invoke(self, offer: Offer) -> Completion:
        try:
            return await self._invoke(offer)
        except Compacted as refused:
            return Completion(Outcome.FAIL, error=refused.code, position=refused.position)

    async def _invoke(self, offer: Offer) -> Completion:
        watches, key, value = self._store, offer.key or "", offer.value
        session = watches.session_id
        match offer.f:
            case "put":
                reply = await watches.put(key, _encoded(value))
            case "cas":
                reply = await watches.cas(key, _encoded(value[0]), _encoded(value[1]))
            case "delete":
                reply = await watches.delete(key)
            case "put-all":
                reply = await watches.put_all(tuple((one, _encoded(number)) for one, number in value))
            case "compact":
                await watches.compact(value)
                return Completion(Outcome.OK, value)
            case "entries":
                entries = [
                    [entry.key, _decoded(entry.value), entry.value_position] for entry in await watches.entries()
                ]
                return Completion(Outcome.OK, entries, session=session)
            case "watch":
                begun = await watches.watch(value)
                return self._ok(begun.after, begun)
            case _:
                heard = await watches.hear(self._wait_s, value)
                return Completion(Outcome.OK, [_row(one) for one in heard], session=session)
        return self._ok(value, reply, reply.value_position)


def _row(heard: Heard) -> list[Value]:
    """One report as a row of the history (see the module's docstring)."""
    match heard:
        case Changes():
            changes = [[one.position, one.kind, one.key, _decoded(one.value)] for one in heard.changes]
            return ["changes", heard.at_ns, heard.position, changes]
        case Bookmark():
            return ["bookmark", heard.at_ns, heard.position]
        case WatchedRead(arms=True):
            return ["armed", heard.at_ns, heard.position, heard.key, heard.value_position]
        case _:
            number = _decoded(heard.value)
            return ["look", heard.at_ns, heard.position, heard.key, number, heard.value_position]


def _encoded(number: int) -> bytes:
    return b"%d" % number


def _decoded(value: bytes | None) -> int | None:
    return int(value) if value else None


def _period_ns(every: Duration | None) -> int:
    """The period in nanoseconds; 0 for never."""
    return 0 if every is None else max(1, every)


def _kinds(system: System) -> WatchKinds:
    assert system.watches is not None, "refused before the run"
    return system.watches


def _transactions(system: System) -> tuple[Literal["on", "off"], ...]:
    """The choices of the option `transactions`, the default first."""
    return ("on", "off") if _kinds(system).keys_together else ("off",)
