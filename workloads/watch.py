"""`watch`: a listener on every node, while others put, delete, compare-and-set and change two keys at once.

Operations of writers, on the keys k0, k1, ... and, for transactions, p0 and p1:
  put       value: a number that no other write has
  cas       value: [old, new]
  delete    fails with "absent" where there was nothing
  put-all   value: [[key, number], ...], one transaction; its key is the first one
  compact   value: the position before which history is forgotten (`compact_every`)
Of listeners:
  watch     value: the position to begin at, None for now. ok has the position above which changes are told, and as
            `position` where the node's store was
  next      value: a key to be told of as well (or to be given a bookmark for), None for none; ok has what was heard
  entries   at the end: [[key, number, position], ...], all keys that are there, by a current read
What was heard stands in the order in which it came, each with the time at which it did:
  ["changes", at_ns, position, [[position, kind, key, number], ...]]     what came together
  ["bookmark", at_ns, position]                                         all changes up to here were told before
  ["look", at_ns, position, key, number, position of that number]       a read among the reports
  ["armed", at_ns, position, key, position of its number]               the same, which sets the key's one-shot watch

Reconnecting and resuming are done here and stand in the history: a listener whose watch broke begins another one,
behind the last change that it heard of where the system resumes watches, else from now on. A position that was
compacted is an answer of its own ("compacted", with the position where history begins), and no loss. Where watches can
be resumed, listeners also end theirs now and then and begin again, some of them where history begins; with compactions
at the positions of deletions this is the recipe of etcd#18089.

At the end one more change is written, and every listener must hear of it: so what came before it is either told or
lost, never on its way. Fresh listeners then hear all of history that is left, and every key is read.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.coordination import (
    Bookmark,
    Changes,
    Compacted,
    Heard,
    Interface,
    Look,
    Reply,
    Watchable,
    Watches,
    WatchMode,
)
from fencepost.harness.generators import (
    Draw,
    Generator,
    Offer,
    draws,
    each_worker,
    limit,
    on_workers,
    phases,
    reserve,
    stagger,
    time_limit,
    until_ok,
)
from fencepost.harness.history import Completion, Outcome, Value
from fencepost.harness.interpreter.client import Client
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.contract.listeners import OffersWatches
from fencepost.harness.systems.contract.system import System
from fencepost.workloads.watch_traffic import Follow, Listen, Told, Traffic, WatchMemory

KEY: Final = "watched"
_PAIR: Final = ("p0", "p1")
_NEVER: Final = "never"
_LAST_CHANGE_NS: Final = 3_000_000_000
_FOLLOW_NS: Final = 6_000_000_000


class Watch:
    name: Final = "watch"
    about: Final = "listeners on every node, and changes that each must hear of once and in order"
    protocol: Final = Interface.LISTENERS
    effect_free: frozenset[str] = frozenset({"watch", "next", "entries"})

    def __init__(self) -> None:
        # One run has several phases, and its listeners live through all of them.
        self._memory = WatchMemory()

    def options(self, system: System) -> dict[str, Any]:
        resumes = isinstance(system, OffersWatches) and system.resumes_watches
        return {
            "watches": _modes(system)[0].value,
            "rate": 150.0,
            "keys": 6,
            "writers_per_node": 3,
            "change_timeout": "1500ms",
            "wait": "100ms",
            "bookmarks": "on",
            "resume": "on" if resumes else "off",
            "again_every": "4s" if resumes else _NEVER,
            "compact_every": _NEVER,
        }

    def choices(self, system: System) -> dict[str, tuple[str, ...]]:
        choices = {
            "watches": tuple(mode.value for mode in _modes(system)),
            "bookmarks": ("on", "off"),
            "resume": ("on", "off"),
        }
        if isinstance(system, OffersWatches) and system.resumes_watches:
            return choices
        return {**choices, "resume": ("off",), "again_every": (_NEVER,), "compact_every": (_NEVER,)}

    def guarantee(self, system: System, options: Mapping[str, Any]) -> str:
        return "watch-reliable"

    def requires(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    def refuse(self, options: Mapping[str, Any], members: tuple[Member, ...]) -> str | None:
        for name in ("keys", "writers_per_node"):
            if options[name] < 1:
                return f"{name}={options[name]} is too small; {name} is at least 1"
        if options["rate"] <= 0:
            return f"rate={options['rate']} writes nothing; give a number above 0"
        if options["resume"] == "off" and _period_ns(options, "again_every"):
            return "again_every ends watches that resume=off does not resume; leave one of them out"
        return None

    def notice(self, options: Mapping[str, Any]) -> str | None:
        return None

    def checkers(self, system: System, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("watch",)

    def keys(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Those that are never deleted."""
        return _PAIR

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        return tuple(member.name for member in members)

    def workers(self, options: Mapping[str, Any], node_count: int) -> int:
        return int(node_count * (1 + options["writers_per_node"]))

    def timeout_s(self, options: Mapping[str, Any], node_count: int, worker: int, patient_s: float) -> float:
        # A write that is stuck at a leader that was cut off would hold its writer for longer than an election takes.
        if worker < node_count:
            return patient_s
        return parse_duration_ns(options["change_timeout"], what="change_timeout") / 1e9

    def system_options(self, system: System) -> dict[str, Any]:
        return {}

    def generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        traffic = Traffic(
            memory=self._memory,
            keys=_deletable(options),
            pair=_PAIR,
            compact_every_ns=_period_ns(options, "compact_every"),
        )
        return reserve(
            (node_count, self._listen(options, again_every_ns=_period_ns(options, "again_every"))),
            (node_count * options["writers_per_node"], stagger(round(1e9 / options["rate"]), traffic)),
        )

    def final_generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        workers, key = self.workers(options, node_count), _deletable(options)[0]
        # Writers have never listened: those of each node's first become fresh listeners, of all history that is left.
        writers = range(node_count, 2 * node_count)
        listeners = 2 * node_count if options["resume"] == "on" else node_count

        def last(worker: int, i: int, draw: Draw) -> Offer:
            # Below zero, where no number of the load is.
            return Offer("put", key, -(i * workers + worker + 1))

        written = on_workers(writers, Told(memory=self._memory, inner=until_ok(limit(1, draws(last)))))
        follow = Follow(memory=self._memory, listen=self._listen(options, first=1))
        return phases(
            time_limit(_LAST_CHANGE_NS, written),
            time_limit(_FOLLOW_NS, reserve((listeners, follow))),
            reserve((node_count, each_worker(limit(1, draws(_entries))))),
        )

    def client(self, store: Watchable, options: Mapping[str, Any], now_ns: Callable[[], int]) -> Client:
        watches = store.watching(WatchMode(options["watches"]), (*_deletable(options), *_PAIR), now_ns)
        return WatchClient(watches, wait_s=parse_duration_ns(options["wait"], what="wait") / 1e9)

    def _listen(self, options: Mapping[str, Any], *, again_every_ns: int = 0, first: int | None = None) -> Listen:
        return Listen(
            memory=self._memory,
            keys=(*_deletable(options), *_PAIR),
            key=KEY,
            resumes=options["resume"] == "on",
            bookmarks=options["bookmarks"] == "on",
            again_every_ns=again_every_ns,
            first=first,
        )


class WatchClient:
    """One connection to one node; numbers are decimal on the wire."""

    def __init__(self, watches: Watches, *, wait_s: float) -> None:
        self._watches = watches
        self._wait_s = wait_s

    async def invoke(self, offer: Offer) -> Completion:
        try:
            return await self._invoke(offer)
        except Compacted as refused:
            return Completion(Outcome.FAIL, error=refused.code, position=refused.position)

    async def _invoke(self, offer: Offer) -> Completion:
        watches, key, value = self._watches, offer.key or "", offer.value
        match offer.f:
            case "put":
                return self._changed(await watches.put(key, _encoded(value)), value)
            case "cas":
                return self._changed(await watches.cas(key, _encoded(value[0]), _encoded(value[1])), value)
            case "delete":
                return self._changed(await watches.delete(key), value)
            case "put-all":
                pairs = tuple((one, _encoded(number)) for one, number in value)
                return self._changed(await watches.put_all(pairs), value)
            case "compact":
                await watches.compact(value)
                return Completion(Outcome.OK, value)
            case "entries":
                found = [[entry.key, _decoded(entry.value), entry.value_position] for entry in await watches.entries()]
                return Completion(Outcome.OK, found, session=watches.session_id)
            case "watch":
                begun = await watches.watch(value)
                return Completion(
                    Outcome.OK, begun.after, position=begun.position, epoch=begun.epoch, session=watches.session_id
                )
            case _:
                heard = await watches.hear(self._wait_s, value)
                return Completion(Outcome.OK, [_row(one) for one in heard], session=watches.session_id)

    async def close(self) -> None:
        await self._watches.close()

    def _changed(self, reply: Reply, value: Value) -> Completion:
        return Completion(
            Outcome.OK,
            value,
            position=reply.position,
            value_position=reply.value_position,
            epoch=reply.epoch,
            session=self._watches.session_id,
        )


def _row(heard: Heard) -> list[Value]:
    """What was heard, as the module's docstring has it."""
    match heard:
        case Changes():
            changes = [[one.position, one.kind, one.key, _decoded(one.value)] for one in heard.changes]
            return ["changes", heard.at_ns, heard.position, changes]
        case Bookmark():
            return ["bookmark", heard.at_ns, heard.position]
        case Look(arms=True):
            return ["armed", heard.at_ns, heard.position, heard.key, heard.value_position]
        case _:
            number = _decoded(heard.value)
            return ["look", heard.at_ns, heard.position, heard.key, number, heard.value_position]


def _encoded(number: int) -> bytes:
    return b"%d" % number


def _decoded(value: bytes | None) -> int | None:
    return int(value) if value else None


def _entries(worker: int, i: int, draw: Draw) -> Offer:
    return Offer("entries", KEY)


def _deletable(options: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"k{i}" for i in range(options["keys"]))


def _period_ns(options: Mapping[str, Any], name: str) -> int:
    """0 for never."""
    return 0 if options[name] == _NEVER else max(1, parse_duration_ns(options[name], what=name))


def _modes(system: System) -> tuple[WatchMode, ...]:
    return system.watch_modes if isinstance(system, OffersWatches) else (WatchMode.PERSISTENT,)
