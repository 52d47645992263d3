"""`lease`: keys that are bound to leases (etcd) or sessions (ZooKeeper), which clients keep alive through any node.

Operations; lease 7 has the key "lease-7", and its handle is the one that the grant returned:
  grant           make a new lease; an ok carries [handle, ttl_ms]
  attach handle   bind the lease's key, once
  keep handle     send one keep-alive; an ok carries the ttl_ms of the answer
  revoke handle   end the lease at once
  look mode       the numbers of all keys that exist, with one read of this mode

The node is drawn for each request; only the keep-alives of every second lease all go through one drawn node.
Keep-alives are sent at a steady pace and do not wait for each other, so a keep-alive that waits for a silent node does
not stop the next one. Nothing is sent twice. `steady` leases are kept alive for the whole load. `passing` leases are
kept alive for a drawn time; then half of them are revoked, and for the others nothing more is sent. After a revoke one
more keep-alive is sent, which must be refused.

On ZooKeeper a keep-alive resumes the session on the drawn node, since an answered ping proves nothing about the leader
(`systems/zookeeper/leases.py`).
"""

from collections.abc import Callable
from typing import Annotated, Final, Literal

import msgspec

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Interface, Keys, Leases, ReadMode
from fencepost.harness.generators import at_rate, draws, limit, reserve, stagger
from fencepost.harness.generators.contract import PENDING, Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload, current_read
from fencepost.harness.runtime.node import Member

PREFIX: Final = "lease-"
#: The set of the elements that are bound to leases.
BOUND: Final = "bound"

#: Streams of draws for what a lease does, apart from those of operations.
_ROUTE: Final = 31
_LIFE: Final = 32
_NODE: Final = 33
_AGAIN_NS: Final = 200_000_000
#: One look in this many is a plain read of the node's own copy.
_PLAIN_ONE_IN: Final = 4
#: The final looks last until every lease must have ended, by the longest bound of a system.
_FINAL_LOOKS: Final = 19
_FINAL_EVERY_NS: Final = 500_000_000


class LeaseOptions(Options, frozen=True, kw_only=True):
    ttl: Annotated[Duration, about("a lease's time to live", above=0)] = seconds(3)
    keep_every: Annotated[Duration, about("a lease is kept alive this often", above=0)] = seconds(0.5)
    steady: Annotated[int, about("leases that are kept alive for as long as the load lasts", least=0)] = 4
    passing: Annotated[int, about("leases at a time that are kept alive for a while", least=0)] = 8
    kept_for: Annotated[Duration, about("mean length of that while", above=0)] = seconds(1.5)
    through: Annotated[
        Literal["mixed", "one", "any"],
        about("keep-alives: of every other lease through a single node, of all, of none"),
    ] = "mixed"
    keepers_per_node: Annotated[int, about("workers per node that grant, keep and revoke", least=1, most=1000)] = 4
    looks_per_second: Annotated[
        float, about("looks at all keys per second, all workers together", above=0, most=1e6)
    ] = 60.0
    looks: Annotated[ReadMode, about("how a look at the present keys reads")] = ReadMode.STRONG


class LeaseWorkload(Workload[LeaseOptions]):
    name = "lease"
    about = "keys on leases or sessions must live while they are kept alive, and no longer"
    protocol = Interface.LEASES
    options = LeaseOptions
    effect_free = frozenset({"look"})
    promise = "live-lease-lives"
    judges = ("lease",)

    def defaults(self, system: System) -> LeaseOptions:
        return LeaseOptions(looks=current_read(system))

    def refuse(self, options: LeaseOptions, members: tuple[Member, ...]) -> Refusal | None:
        if 2 * options.keep_every > options.ttl:
            return Refusal(
                "a lease is kept alive at least twice in its time to live", "shorten keep_every or lengthen ttl"
            )
        if options.steady + options.passing < 1:
            return Refusal("there is no lease to look at", "give steady or passing above 0")
        return None

    def needs(self, options: LeaseOptions) -> Keys:
        return Keys((BOUND,))

    def workers(self, options: LeaseOptions, node_count: int) -> int:
        return node_count * (options.keepers_per_node + 1)

    def timeout_s(self, options: LeaseOptions, node_count: int, worker: int, patient_s: float) -> float:
        # An answer about a lease is useless after its time to live; a look may wait for a stopped node.
        return min(patient_s, options.ttl.seconds) if worker < node_count * options.keepers_per_node else patient_s

    def generator(self, options: LeaseOptions, node_count: int) -> Generator:
        def look(worker: int, i: int, draw: Draw) -> Offer:
            return Offer("look", BOUND, (ReadMode.PLAIN if draw.below(_PLAIN_ONE_IN) == 0 else options.looks).value)

        seats = tuple(_Seat(steady=i < options.steady) for i in range(options.steady + options.passing))
        return reserve(
            (node_count * options.keepers_per_node, _Lessees(rules=options, nodes=node_count, seats=seats)),
            (node_count, at_rate(options.looks_per_second, draws(look))),
        )

    def final_generator(self, options: LeaseOptions, node_count: int) -> Generator:
        """Current looks through every node, until every lease must have ended."""
        looks = draws(lambda worker, i, draw: Offer("look", BOUND, options.looks.value))
        return reserve((node_count, limit(_FINAL_LOOKS * node_count, stagger(_FINAL_EVERY_NS // node_count, looks))))

    def client(self, store: Leases, options: LeaseOptions, now_ns: Callable[[], int]) -> Client:
        return LeaseClient(store, ttl_ms=options.ttl // 1_000_000)


class _Seat(msgspec.Struct, frozen=True, kw_only=True):
    """One lease after another: what is done next with the present one, and when.

    `number` is known from the grant on, `handle` from its answer on. `step` counts the requests, so that each one is
    drawn afresh. `busy`: nothing is sent until the answer is there (keep-alives never wait).
    """

    steady: bool
    f: str = "grant"
    due_ns: int = 0
    number: int | None = None
    handle: str | None = None
    route: int | None = None
    ends_ns: int = NEVER_NS
    revokes: bool = False
    step: int = 0
    busy: bool = False


class _Lessees(msgspec.Struct, frozen=True, kw_only=True):
    """Give what is due for a lease to a free worker on the node that is drawn for it."""

    rules: LeaseOptions
    nodes: int
    seats: tuple[_Seat, ...]

    def op(self, ctx: Context) -> Step:
        waiting = sorted((seat.due_ns, place) for place, seat in enumerate(self.seats) if not seat.busy)
        for due_ns, place in waiting:
            seat = self.seats[place]
            worker = self._worker(seat, place, ctx)
            if worker is None:
                continue
            at_ns = max(due_ns, ctx.time_ns)
            number = seat.number if seat.number is not None else ctx.number(worker)
            after = self._sent(seat, place, number, at_ns, ctx)
            return Invocation(worker, Offer(seat.f, f"{PREFIX}{number}", seat.handle), at_ns), self._with(place, after)
        return PENDING, self

    def _worker(self, seat: _Seat, place: int, ctx: Context) -> int | None:
        """A free worker on the node for this request; where any node will do, on the next one with a free worker."""
        nodes = self.nodes
        if seat.f == "keep" and seat.route is not None:
            return next((w for w in ctx.free if w % nodes == seat.route), None)
        first = Draw(ctx.seed, place, (seat.number or 0) * 4096 + seat.step, _NODE).below(nodes)
        return min(ctx.free, key=lambda w: (w - first) % nodes, default=None)

    def _sent(self, seat: _Seat, place: int, number: int, at_ns: int, ctx: Context) -> _Seat:
        sent = msgspec.structs.replace(seat, number=number, step=seat.step + 1)
        if seat.f != "keep":
            return msgspec.structs.replace(sent, busy=True)
        if seat.ends_ns <= at_ns:
            return self._over(seat, at_ns)
        return self._keeping(sent, at_ns + self.rules.keep_every)

    def _keeping(self, seat: _Seat, due_ns: int) -> _Seat:
        """The next keep-alive, or the end where that comes first."""
        if due_ns < seat.ends_ns:
            return msgspec.structs.replace(seat, f="keep", due_ns=due_ns, busy=False)
        if seat.revokes:
            return msgspec.structs.replace(seat, f="revoke", due_ns=seat.ends_ns, busy=False)
        return self._over(seat, seat.ends_ns)

    def _over(self, seat: _Seat, due_ns: int) -> _Seat:
        return _Seat(steady=seat.steady, due_ns=due_ns + _AGAIN_NS, step=seat.step)

    def _with(self, place: int, seat: _Seat) -> "_Lessees":
        seats = (*self.seats[:place], seat, *self.seats[place + 1 :])
        return msgspec.structs.replace(self, seats=seats)

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        number = int((event.key or PREFIX + "0").removeprefix(PREFIX))
        place = next((i for i, seat in enumerate(self.seats) if seat.number == number), None)
        # A lease that was given up, or of an earlier phase, is not known here.
        return self if place is None else self._with(place, self._after(self.seats[place], place, event, ctx))

    def _after(self, seat: _Seat, place: int, event: OpEvent, ctx: Context) -> _Seat:
        now_ns, ok = ctx.time_ns, event.type is Outcome.OK
        if event.f == "grant":
            return self._granted(seat, event, ctx) if ok else self._over(seat, now_ns)
        if event.f == "attach":
            if event.type is Outcome.FAIL:
                return self._over(seat, now_ns)
            return self._keeping(seat, now_ns + self.rules.keep_every)
        if event.f == "revoke":
            # One more keep-alive, of a lease that has ended.
            return msgspec.structs.replace(seat, f="keep", due_ns=now_ns, ends_ns=now_ns, route=None, busy=False)
        if event.error == "lease-expired":
            return self._over(seat, now_ns)
        return seat

    def _granted(self, seat: _Seat, event: OpEvent, ctx: Context) -> _Seat:
        assert seat.number is not None
        route = Draw(ctx.seed, seat.number, 0, _ROUTE)
        one = self.rules.through == "one" or (self.rules.through == "mixed" and route.below(2) == 0)
        life = Draw(ctx.seed, seat.number, 0, _LIFE)
        kept_ns = self.rules.keep_every + life.below(2 * self.rules.kept_for)
        return msgspec.structs.replace(
            seat,
            f="attach",
            due_ns=ctx.time_ns,
            handle=event.value[0],
            route=route.below(self.nodes) if one else None,
            ends_ns=NEVER_NS if seat.steady else ctx.time_ns + kept_ns,
            revokes=life.below(2) == 0,
            busy=False,
        )


class LeaseClient(SessionClient[Leases]):
    """One connection; it holds no lease itself and sends each request once."""

    def __init__(self, store: Leases, *, ttl_ms: int) -> None:
        super().__init__(store)
        self._ttl_ms = ttl_ms

    async def invoke(self, offer: Offer) -> Completion:
        handle = offer.value
        match offer.f:
            case "grant":
                granted = await self._store.grant(self._ttl_ms)
                return self._ok([granted.handle, granted.ttl_ms], granted)
            case "keep":
                kept = await self._store.keep_alive(handle)
                return self._ok(kept.ttl_ms, kept)
            case "attach":
                number = int((offer.key or "").removeprefix(PREFIX))
                reply = await self._store.attach(BOUND, number, handle)
                return self._ok(handle, reply, reply.value_position)
            case "revoke":
                return self._ok(handle, await self._store.revoke(handle))
            case _:
                seen = await self._store.members(BOUND, ReadMode(offer.value))
                return self._ok(list(seen.elements), seen)
