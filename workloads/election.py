"""`election`: candidates campaign, one of them leads for a term and acts many times, followers observe who leads.

Operations, all on one election and one trail of deeds:
  campaign            one attempt to lead; an ok carries the term as [token, handle]
  renew  [token, handle]             keep the lease alive
  act    [token, handle, number]     append a numbered deed to the trail, under that term
  resign [token, handle]             end the term
  confirm [token, handle]            once in a term, after its grant: [the token of the present term], as observers ask
  observe             the token of the present term as a node sees it, None for none
  members             at the end: every deed of the trail in the store's order, each as `act` carried it

Where a term is a lock, a campaign fails while somebody leads. On Kafka it supersedes the leader. So candidates campaign
less often there, and terms are shorter; otherwise no term would last until its leader resigns or stalls.

A term is a value: a leader whose connection broke continues with its term over the next connection, like a process that
knows its token and does not know yet that it was replaced. Some terms end in a stall longer than the lease, after which
the leader continues to act, like a process that was stopped (Kleppmann, "How to do distributed locking", 2016). With
`fencing=on` an act is one transaction that also checks the term. With `fencing=off` it does not check, and acts of old
terms are expected among those of new ones. A leader that was refused resigns, late: that must end nobody else's term.

`lock` guards short critical sections, in which a single write may come too late. Here a term has many acts, so a leader
can continue to act after its term, and acts of two terms can be seen mixed.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import (
    TRAIL,
    Definite,
    Elections,
    Held,
    Indefinite,
    Interface,
    Keys,
    NotSent,
    ReadMode,
)
from fencepost.harness.generators import at_rate, draws, each_worker, limit, reserve
from fencepost.harness.generators.contract import Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload, current_read

T = TypeVar("T")

ELECTION: Final = "election"

#: How often a leader still acts after a stall or a refusal before it accepts that its term is over.
BACKLOG: Final = 3
#: A leader whose acts all fail gives up its term after this many attempts.
_FAILURES_MAX: Final = 20
_AFTER_FAILURE_NS: Final = 100_000_000
#: The stream of draws that decides lengths and ends of terms, apart from those of operations.
_TERMS: Final = 17

#: Refusals by which a leader learns that its term is over.
_OVER: Final = frozenset({"fenced", "not-held", "lease-expired"})
#: A campaign that is not sent, since it would use a lease that a term may depend on.
_LEASE_IN_USE: Final = "lease-in-use"
#: Between the parts of a deed: token, handle, number.
_BETWEEN: Final = "-"

_NO_FENCING: Final = (
    "without fencing this run is expected to be invalid: a leader that stalls for longer than its lease continues to"
    " act during the next leader's term"
)


#: Shorter than a broker's session, so that its successor as coordinator is asked while it sleeps.
_COORDINATOR_SLEEPS: Final = seconds(1.5)


class ElectionOptions(Options, frozen=True, kw_only=True):
    fencing: Annotated[Literal["on", "off"], about("whether an act also checks that its term holds")] = "on"
    candidates_per_node: Annotated[int, about("workers per node that campaign and lead", least=1, most=1000)] = 1
    observers_per_node: Annotated[int, about("workers per node that ask who leads", least=0, most=1000)] = 1
    rate: Annotated[float, about("acts per second of a leader", above=0, most=1e6)] = 60.0
    observe_rate: Annotated[float, about("observations per second, all observers together", above=0, most=1e6)] = 60.0
    acts_per_term: Annotated[int, about("mean number of acts in a term", least=1)] = 20
    stall: Annotated[Duration, about("how long a leader stalls", least=0)] = seconds(3.5)
    stall_one_in: Annotated[int, about("one term in so many ends in a stall; 0: none", least=0)] = 6
    renew_every: Annotated[Duration, about("a leader renews its lease this often", above=0)] = seconds(0.2)
    campaign_every: Annotated[Duration, about("mean time between two attempts of a candidate", above=0)] = seconds(0.15)
    give_up: Annotated[
        Duration, about("an operation is given up after this long; 0: after the plan's op_timeout", least=0)
    ] = seconds(0)
    leads_within: Annotated[Duration, about("how soon after a fault somebody must lead again", above=0)] = seconds(10)
    observe: Annotated[ReadMode, about("how observers read who leads")] = ReadMode.PLAIN
    members: Annotated[ReadMode, about("how the whole trail is read at the end")] = ReadMode.STRONG


class Election(Workload[ElectionOptions]):
    name = "election"
    about = "leaders act many times in a term, followers observe who leads; fencing on or off"
    protocol = Interface.ELECTION
    options = ElectionOptions
    effect_free = frozenset({"observe", "confirm", "members"})
    judges = ("election",)
    #: A lease that is longer than a stall would test nothing.
    wants = {"lock_ttl": "2s", "session_timeout": "2500ms"}  # noqa: RUF012  # a read-only mapping

    def defaults(self, system: System) -> ElectionOptions:
        members, has_locks = current_read(system), Interface.LOCKS in system.profile.interfaces
        if system.lease_bound is not None:
            if has_locks:
                return ElectionOptions(members=members)
            # Where a term is no lock, an act is a transaction of its own kind, and takes longer.
            return ElectionOptions(members=members, acts_per_term=8, renew_every=seconds(0.1))
        # Who waits long for a coordinator that sleeps sees nothing of the one that is elected meanwhile.
        return ElectionOptions(
            members=members,
            # A term is over when somebody else campaigns. Longer ones hardly ever end by a resignation.
            acts_per_term=4,
            renew_every=seconds(0.05),
            campaign_every=seconds(2),
            give_up=_COORDINATOR_SLEEPS,
        )

    def guarantee(self, system: System, options: ElectionOptions) -> str:
        return "one-acting-leader" if options.fencing == "on" else "one-believed-leader"

    def requires(self, options: ElectionOptions) -> tuple[str, ...]:
        return ("one-believed-leader",) if options.fencing == "off" else ()

    def notice(self, options: ElectionOptions) -> str | None:
        return _NO_FENCING if options.fencing == "off" else None

    def needs(self, options: ElectionOptions) -> Keys:
        return Keys((TRAIL,))

    def workers(self, options: ElectionOptions, node_count: int) -> int:
        return node_count * (options.candidates_per_node + options.observers_per_node)

    def timeout_s(self, options: ElectionOptions, node_count: int, worker: int, patient_s: float) -> float:
        return options.give_up.seconds if options.give_up else patient_s

    def generator(self, options: ElectionOptions, node_count: int) -> Generator:
        observe = draws(lambda worker, i, draw: Offer("observe", ELECTION))
        return reserve(
            (node_count * options.candidates_per_node, _Candidates(rules=options)),
            (node_count * options.observers_per_node, at_rate(options.observe_rate, observe)),
        )

    def final_generator(self, options: ElectionOptions, node_count: int) -> Generator:
        members = draws(lambda worker, i, draw: Offer("members", TRAIL))
        return reserve((node_count, each_worker(limit(2, members))))

    def client(self, store: Elections, options: ElectionOptions, now_ns: Callable[[], int]) -> Client:
        return ElectionClient(store, guarded=options.fencing == "on", observe=options.observe, strong=options.members)


class _Seat(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate: what it believes and does next. `term` is (token, handle) while it believes that it leads."""

    term: tuple[int, str] | None = None
    confirmed: bool = False
    due_ns: int = 0
    renew_ns: int = 0
    acts_left: int = 0
    stalls: bool = False
    refusals: int = 0
    failures: int = 0

    def offer(self, number: int, at_ns: int) -> Offer:
        if self.term is None:
            return Offer("campaign", ELECTION)
        if not self.confirmed:
            return Offer("confirm", ELECTION, [*self.term])
        if self.acts_left == 0:
            return Offer("resign", ELECTION, [*self.term])
        if self.renew_ns <= at_ns:
            return Offer("renew", ELECTION, [*self.term])
        return Offer("act", TRAIL, [*self.term, number])


class _Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Every worker is a candidate, and a leader for as long as it believes that it leads."""

    rules: ElectionOptions
    #: By worker; copied for each change, since a generator is a value.
    seats: dict[int, _Seat] = {}
    #: How many terms were granted. Every n-th one stalls; this is not drawn, so that every run has stalls.
    terms: int = 0

    def op(self, ctx: Context) -> Step:
        worker = min(ctx.free, key=lambda w: self._seat(w).due_ns)
        seat = self._seat(worker)
        at_ns = max(seat.due_ns, ctx.time_ns)
        return Invocation(worker, seat.offer(ctx.number(worker), at_ns), at_ns), self

    def _seat(self, worker: int) -> _Seat:
        return self.seats.get(worker) or _Seat()

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        worker = ctx.worker_of(event)
        seat = self._seat(worker)
        # A term of an earlier phase is not known to this generator; its lease will end it.
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
            case "confirm":
                return msgspec.structs.replace(seat, confirmed=True)
            case "renew":
                return self._renewed(seat, event, now_ns)
            case "act":
                return self._acted(seat, event, now_ns, draw)
            case _:
                return self._candidate(now_ns, draw)

    def _candidate(self, now_ns: int, draw: Draw) -> _Seat:
        every_ns = self.rules.campaign_every
        return _Seat(due_ns=now_ns + every_ns // 2 + draw.below(every_ns + 1))

    def _campaigned(self, event: OpEvent, now_ns: int, draw: Draw) -> _Seat:
        if event.type is not Outcome.OK:
            return self._candidate(now_ns, draw)
        token, handle = event.value
        rules = self.rules
        return _Seat(
            term=(token, handle),
            due_ns=now_ns,
            renew_ns=now_ns + rules.renew_every,
            acts_left=1 + draw.below(2 * max(1, rules.acts_per_term)),
            stalls=rules.stall_one_in > 0 and self.terms % rules.stall_one_in == rules.stall_one_in // 2,
        )

    def _renewed(self, seat: _Seat, event: OpEvent, now_ns: int) -> _Seat:
        if event.error == "lease-expired":
            # Or the connection that knew the lease is gone, and the term still holds; the leader cannot tell which.
            left = min(seat.acts_left, BACKLOG)
            return msgspec.structs.replace(seat, acts_left=left, renew_ns=NEVER_NS, stalls=False)
        return msgspec.structs.replace(seat, renew_ns=now_ns + self.rules.renew_every)

    def _acted(self, seat: _Seat, event: OpEvent, now_ns: int, draw: Draw) -> _Seat:
        rules = self.rules
        if event.type is Outcome.FAIL and event.error != "fenced":
            if seat.failures + 1 >= _FAILURES_MAX:
                return self._candidate(now_ns, draw)
            return msgspec.structs.replace(seat, failures=seat.failures + 1, due_ns=now_ns + _AFTER_FAILURE_NS)
        refusals = seat.refusals + (event.type is Outcome.FAIL)
        if refusals >= BACKLOG:
            # It gives up its term as a leader does whose time has come, and must end nobody else's.
            return msgspec.structs.replace(seat, acts_left=0, renew_ns=NEVER_NS, due_ns=now_ns, refusals=0)
        left = seat.acts_left - 1
        if refusals:
            left = max(left, 1)
        due_ns = max(now_ns, seat.due_ns + round(1e9 / rules.rate))
        if left == 0 and seat.stalls:
            # Nothing is renewed during a stall, and the acts that were due wait until its end.
            return msgspec.structs.replace(
                seat, acts_left=BACKLOG, stalls=False, renew_ns=NEVER_NS, due_ns=now_ns + rules.stall, failures=0
            )
        return msgspec.structs.replace(seat, acts_left=left, refusals=refusals, due_ns=due_ns, failures=0)


class ElectionClient(SessionClient[Elections]):
    """One connection of one candidate or observer; it knows a term only from the operations that carry one.

    `_bound` says whether a term may depend on the connection's lease. A candidate that has given up a term must not
    campaign with that lease, since its requests would keep the old term alive (on ZooKeeper every request does). It
    closes the connection instead, and the lease with it.
    """

    def __init__(self, store: Elections, *, guarded: bool, observe: ReadMode, strong: ReadMode) -> None:
        super().__init__(store)
        self._guarded = guarded
        self._observe = observe
        self._strong = strong
        self._bound = False

    async def invoke(self, offer: Offer) -> Completion:
        match offer.f:
            case "campaign":
                return await self._campaign()
            case "renew":
                return self._ok(offer.value, await self._unbind(self._store.renew()))
            case "act":
                return await self._act(offer.value)
            case "resign":
                reply = await self._unbind(self._store.release(ELECTION, _held(offer.value)))
                self._bound = False
                return self._ok(offer.value, reply)
            case "confirm":
                seen = await self._store.leader(ELECTION, self._observe)
                return self._ok([] if seen.token is None else [seen.token], seen)
            case "observe":
                seen = await self._store.leader(ELECTION, self._observe)
                return self._ok(seen.token, seen)
            case _:
                trail = await self._store.deeds(TRAIL, self._strong)
                return self._ok([_parsed(deed) for deed in trail.deeds], trail)

    async def _campaign(self) -> Completion:
        """Renew the lease of an earlier attempt, so that the term gets its full time; then try once."""
        if self._bound:
            raise NotSent(_LEASE_IN_USE)
        await self._keep_lease()
        held = await self._unbind(self._store.acquire(ELECTION))
        self._bound = True
        return self._ok([held.token, held.handle], held)

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
        """Carry out a request; note a refusal that says that the term is over."""
        try:
            return await request
        except Definite as refused:
            if refused.code in _OVER:
                self._bound = False
            raise

    async def _act(self, value: list[Any]) -> Completion:
        deed = f"{value[0]}{_BETWEEN}{value[1]}{_BETWEEN}{value[2]}"
        reply = await self._unbind(self._store.act(TRAIL, deed, ELECTION, _held(value), guarded=self._guarded))
        return self._ok(value, reply, reply.value_position)


def _held(value: list[Any]) -> Held:
    return Held(token=value[0], handle=value[1])


def _parsed(deed: str) -> list[Any]:
    token, handle, number = deed.split(_BETWEEN)
    return [int(token), handle, int(number)]
