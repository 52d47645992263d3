"""`election`: candidates campaign, one leads for a term and acts again and again, followers observe who leads.

Operations, all on one election and one trail of deeds:
  campaign            one attempt to lead; ok carries the term as [token, handle]
  renew  [token, handle]             keep the lease alive
  act    [token, handle, number]     append a numbered deed to the trail, under that term
  resign [token, handle]             end the term
  observe             the token of the term that a node sees, None for none
  members             at the end: every deed of the trail in the store's order, each as `act` carried it

Where terms are held by locks a campaign fails while somebody leads. On Kafka it supersedes whoever does, so there
candidates campaign less often, and terms are shorter, lest none of them last until its leader resigns or stalls.

A term is a value: a leader whose connection broke goes on with it over the next one, as a process does that knows its
token but not yet that it was replaced. Some terms end in a stall longer than the lease, after which the leader acts on,
as a process would that was stopped (Kleppmann, "How to do distributed locking", 2016). With `fencing=on` an act is one
transaction that also checks the term; with `fencing=off` it is blind, and acts of old terms are expected among those of
new ones.

`lock` guards short critical sections, in which a single write may come too late. Here a term has many acts, so there
are leaders that go on acting, and terms that can be seen mixed.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.coordination import TRAIL, Definite, Elections, Held, Indefinite, Interface, NotSent, ReadMode
from fencepost.harness.generators import (
    Context,
    Draw,
    Generator,
    Invocation,
    Offer,
    draws,
    each_worker,
    limit,
    reserve,
    stagger,
)
from fencepost.harness.generators.contract import Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client
from fencepost.harness.runtime.node import Member
from fencepost.harness.systems.contract.system import System

T = TypeVar("T")

ELECTION: Final = "election"

#: How often a leader acts on after a stall or a refusal before it believes what it is told.
BACKLOG: Final = 3
#: A leader that cannot act at all gives its term up after so many attempts.
_FAILURES_MAX: Final = 20
_AFTER_FAILURE_NS: Final = 100_000_000
_NEVER_NS: Final = 1 << 62
#: The stream of draws that decides lengths and ends of terms, apart from those of operations.
_TERMS: Final = 17

#: Refusals that say that the term is over.
_OVER: Final = frozenset({"fenced", "not-held", "lease-expired"})
#: A campaign that is not sent, for the lease it would use.
_LEASE_IN_USE: Final = "lease-in-use"
_BROKER: Final = "broker"
#: Where nodes are brokers: three, so that a deed can be on two while one is away, superseded within a fault's seconds.
_BROKERS: Final = {"brokers": 3, "broker_session_ms": 3000, "broker_heartbeat_ms": 500}
#: Between the parts of a deed: token, handle, number.
_BETWEEN: Final = "-"

_NO_FENCING: Final = (
    "without fencing this run is expected to be invalid: a leader that stalls past its lease acts on in the term of"
    " the next one"
)


class Election:
    name: Final = "election"
    about: Final = "leaders act in terms that last, followers observe who leads; fencing on or off"
    protocol: Final = Interface.ELECTION
    effect_free: frozenset[str] = frozenset({"observe", "members"})

    def options(self, system: System) -> dict[str, Any]:
        locked = Interface.LOCKS in system.interfaces
        return {
            "fencing": "on",
            "candidates_per_node": 1,
            "observers_per_node": 1,
            "rate": 60.0,
            "observe_rate": 60.0,
            "acts_per_term": 20 if locked else 8,
            "stall": "3500ms",
            "stall_one_in": 6,
            "renew_every": "200ms" if locked else "50ms",
            "campaign_every": "150ms" if locked else "2s",
            "observe": ReadMode.PLAIN.value,
            "members": _strong(system).value,
        }

    def choices(self, system: System) -> dict[str, tuple[str, ...]]:
        modes = tuple(mode.value for mode in system.read_modes)
        return {
            "fencing": ("on", "off"),
            "observe": modes,
            "members": tuple(dict.fromkeys((*modes, _strong(system).value))),
        }

    def guarantee(self, system: System, options: Mapping[str, Any]) -> str:
        return "one-acting-leader" if options["fencing"] == "on" else "one-believed-leader"

    def requires(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("one-believed-leader",) if options["fencing"] == "off" else ()

    def refuse(self, options: Mapping[str, Any], members: tuple[Member, ...]) -> str | None:
        return None

    def notice(self, options: Mapping[str, Any]) -> str | None:
        return _NO_FENCING if options["fencing"] == "off" else None

    def checkers(self, system: System, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("election",)

    def keys(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (TRAIL,)

    def nodes(self, members: tuple[Member, ...]) -> tuple[str, ...]:
        brokers = tuple(member.name for member in members if _BROKER in member.roles)
        return brokers or tuple(member.name for member in members)

    def workers(self, options: Mapping[str, Any], node_count: int) -> int:
        return int(node_count * (options["candidates_per_node"] + options["observers_per_node"]))

    def timeout_s(self, options: Mapping[str, Any], node_count: int, worker: int, patient_s: float) -> float:
        # An act that waits in a stopped node, until others have led, is what this workload is after.
        return patient_s

    def system_options(self, system: System) -> dict[str, Any]:
        # A lease that outlives a stall would show nothing.
        short = {"lock_ttl_s": 2, "session_timeout_ms": 2500, **_BROKERS}
        return {name: value for name, value in short.items() if name in system.options()}

    def generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        rules = _Rules(
            act_every_ns=round(1e9 / options["rate"]),
            renew_every_ns=parse_duration_ns(options["renew_every"], what="renew_every"),
            campaign_every_ns=parse_duration_ns(options["campaign_every"], what="campaign_every"),
            stall_ns=parse_duration_ns(options["stall"], what="stall"),
            stall_one_in=options["stall_one_in"],
            acts_per_term=max(1, options["acts_per_term"]),
        )
        return reserve(
            (node_count * options["candidates_per_node"], _Candidates(rules=rules)),
            (
                node_count * options["observers_per_node"],
                stagger(round(1e9 / options["observe_rate"]), draws(_observe)),
            ),
        )

    def final_generator(self, options: Mapping[str, Any], node_count: int) -> Generator:
        return reserve((node_count, each_worker(limit(2, draws(_members)))))

    def client(self, store: Elections, options: Mapping[str, Any], now_ns: Callable[[], int]) -> Client:
        return ElectionClient(
            store,
            guarded=options["fencing"] == "on",
            observe=ReadMode(options["observe"]),
            strong=ReadMode(options["members"]),
        )


def _strong(system: System) -> ReadMode:
    """How the whole trail is read in the end."""
    return ReadMode.STRONG if ReadMode.STRONG in system.read_modes else ReadMode.BARRIER


def _observe(worker: int, i: int, draw: Draw) -> Offer:
    return Offer("observe", ELECTION)


def _members(worker: int, i: int, draw: Draw) -> Offer:
    return Offer("members", TRAIL)


class _Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How candidates behave; all times in nanoseconds."""

    act_every_ns: int
    renew_every_ns: int
    campaign_every_ns: int
    stall_ns: int
    stall_one_in: int
    acts_per_term: int


class _Seat(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate: what it believes and what it does next. `term` is [token, handle] while it believes to lead."""

    term: tuple[int, str] | None = None
    due_ns: int = 0
    renew_ns: int = 0
    acts_left: int = 0
    stalls: bool = False
    refusals: int = 0
    failures: int = 0

    def offer(self, number: int, at_ns: int) -> Offer:
        if self.term is None:
            return Offer("campaign", ELECTION)
        if self.acts_left == 0:
            return Offer("resign", ELECTION, [*self.term])
        if self.renew_ns <= at_ns:
            return Offer("renew", ELECTION, [*self.term])
        return Offer("act", TRAIL, [*self.term, number])


class _Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Every worker is a candidate, and a leader as long as it believes that it leads."""

    rules: _Rules
    #: By worker; copied when one changes, since a generator is a value.
    seats: dict[int, _Seat] = {}
    #: How many were granted. Every so many-th stalls, and is not drawn to, so that no run goes without.
    terms: int = 0

    def op(self, ctx: Context) -> Step:
        worker = min(ctx.free, key=lambda w: self._seat(w).due_ns)
        seat = self._seat(worker)
        at_ns = max(seat.due_ns, ctx.time_ns)
        number = ctx.counts[worker] * ctx.total + worker + 1
        return Invocation(worker, seat.offer(number, at_ns), at_ns), self

    def _seat(self, worker: int) -> _Seat:
        return self.seats.get(worker) or _Seat()

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        worker = ctx.worker_of(event)
        seat = self._seat(worker)
        # A term of a phase before this generator's is not known here; its lease will end it.
        if event.f != "campaign" and seat.term is None:
            return self
        draw = Draw(ctx.seed, worker, ctx.counts[worker], _TERMS)
        after = self._after(seat, event, ctx.time_ns, draw)
        granted = event.f == "campaign" and event.type is Outcome.OK
        return msgspec.structs.replace(self, seats={**self.seats, worker: after}, terms=self.terms + granted)

    def _after(self, seat: _Seat, event: OpEvent, now_ns: int, draw: Draw) -> _Seat:
        match event.f:
            case "campaign":
                return self._campaigned(event, now_ns, draw)
            case "renew":
                return self._renewed(seat, event, now_ns)
            case "act":
                return self._acted(seat, event, now_ns, draw)
            case _:
                return self._candidate(now_ns, draw)

    def _candidate(self, now_ns: int, draw: Draw) -> _Seat:
        every_ns = self.rules.campaign_every_ns
        return _Seat(due_ns=now_ns + every_ns // 2 + draw.below(every_ns + 1))

    def _campaigned(self, event: OpEvent, now_ns: int, draw: Draw) -> _Seat:
        if event.type is not Outcome.OK:
            return self._candidate(now_ns, draw)
        token, handle = event.value
        rules = self.rules
        return _Seat(
            term=(token, handle),
            due_ns=now_ns,
            renew_ns=now_ns + rules.renew_every_ns,
            acts_left=1 + draw.below(2 * rules.acts_per_term),
            stalls=rules.stall_one_in > 0 and self.terms % rules.stall_one_in == rules.stall_one_in // 2,
        )

    def _renewed(self, seat: _Seat, event: OpEvent, now_ns: int) -> _Seat:
        if event.error == "lease-expired":
            # Or the connection that knew the lease is gone. The term may yet hold; it is not told so again.
            left = min(seat.acts_left, BACKLOG)
            return msgspec.structs.replace(seat, acts_left=left, renew_ns=_NEVER_NS, stalls=False)
        return msgspec.structs.replace(seat, renew_ns=now_ns + self.rules.renew_every_ns)

    def _acted(self, seat: _Seat, event: OpEvent, now_ns: int, draw: Draw) -> _Seat:
        rules = self.rules
        if event.type is Outcome.FAIL and event.error != "fenced":
            if seat.failures + 1 >= _FAILURES_MAX:
                return self._candidate(now_ns, draw)
            return msgspec.structs.replace(seat, failures=seat.failures + 1, due_ns=now_ns + _AFTER_FAILURE_NS)
        refusals = seat.refusals + (event.type is Outcome.FAIL)
        if refusals >= BACKLOG:
            return self._candidate(now_ns, draw)
        left = seat.acts_left - 1
        if refusals:
            left = max(left, 1)
        due_ns = max(now_ns, seat.due_ns + rules.act_every_ns)
        if left == 0 and seat.stalls:
            # Nothing is renewed in a stall, and what was to be done waits behind it.
            return msgspec.structs.replace(
                seat, acts_left=BACKLOG, stalls=False, renew_ns=_NEVER_NS, due_ns=now_ns + rules.stall_ns, failures=0
            )
        return msgspec.structs.replace(seat, acts_left=left, refusals=refusals, due_ns=due_ns, failures=0)


class ElectionClient:
    """One connection of one candidate or observer; it knows no term but those that its operations carry.

    Of its lease it knows whether a term may hang on it. A candidate that has given a term up must not campaign with
    that lease, since whatever it asks would keep the term alive (on ZooKeeper every request does); it gives the
    connection up, and with it the lease.
    """

    def __init__(self, store: Elections, *, guarded: bool, observe: ReadMode, strong: ReadMode) -> None:
        self._store = store
        self._guarded = guarded
        self._observe = observe
        self._strong = strong
        self._bound = False

    async def invoke(self, offer: Offer) -> Completion:
        match offer.f:
            case "campaign":
                return await self._campaign()
            case "renew":
                reply = await self._unbind(self._store.renew())
                return self._done(offer.value, reply.position, reply.epoch)
            case "act":
                return await self._act(offer.value)
            case "resign":
                reply = await self._unbind(self._store.release(ELECTION, _held(offer.value)))
                self._bound = False
                return self._done(offer.value, reply.position, reply.epoch)
            case "observe":
                seen = await self._store.leader(ELECTION, self._observe)
                return self._done(seen.token, seen.position, seen.epoch)
            case _:
                trail = await self._store.deeds(TRAIL, self._strong)
                return self._done([_parsed(deed) for deed in trail.deeds], trail.position, trail.epoch)

    async def _campaign(self) -> Completion:
        """Renew the lease of an earlier attempt, lest the term begin with one that has nearly ended; then try once."""
        if self._bound:
            raise NotSent(_LEASE_IN_USE)
        await self._keep_lease()
        held = await self._unbind(self._store.acquire(ELECTION))
        self._bound = True
        return self._done([held.token, held.handle], held.position, held.epoch)

    async def _keep_lease(self) -> None:
        try:
            await self._store.renew()
        except NotSent:
            raise
        except Definite:
            pass  # none yet, or it has ended: the attempt gets a new one
        except Indefinite as error:
            raise NotSent(error.code, "at the renewal") from None

    async def _unbind(self, request: Awaitable[T]) -> T:
        """Carry a request out, and note when it is refused because the term is over."""
        try:
            return await request
        except Definite as refused:
            if refused.code in _OVER:
                self._bound = False
            raise

    async def _act(self, value: list[Any]) -> Completion:
        deed = f"{value[0]}{_BETWEEN}{value[1]}{_BETWEEN}{value[2]}"
        reply = await self._unbind(self._store.act(TRAIL, deed, ELECTION, _held(value), guarded=self._guarded))
        return msgspec.structs.replace(
            self._done(value, reply.position, reply.epoch), value_position=reply.value_position
        )

    def _done(self, value: Any, position: int | None, epoch: int | None) -> Completion:
        return Completion(Outcome.OK, value, position=position, epoch=epoch, session=self._store.session_id)

    async def close(self) -> None:
        await self._store.close()


def _held(value: list[Any]) -> Held:
    return Held(token=value[0], handle=value[1])


def _parsed(deed: str) -> list[Any]:
    token, handle, number = deed.split(_BETWEEN)
    return [int(token), handle, int(number)]
