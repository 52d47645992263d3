"""`group-membership`: processes join a group, keep their membership, leave or fall silent; others list and listen.

Operations, all on one group, by KIP-30's interface (`harness.coordination.recipes`); member 7 is "m7":
  join   number            become a member with this id; `number` is the data. An ok carries [number, handle, ttl_ms]
  renew  [number, handle]  keep the membership alive; an ok carries the ttl_ms of the answer
  leave  [number, handle]  end the membership
  list   mode              all members by one read of this mode, each as [id, number, token]
  listen                   wait for the listener's next call; an ok carries all ids, or None when nothing changed

There are fewer ids than processes, so an id that becomes free is wanted. Each process stays for a drawn time; then half
of them leave. The others send nothing for longer than the time to live, like a process that is stopped, and then leave
as if nothing had happened: that must not touch whoever has the id by then.
"""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Interface, Keys, Memberships, ReadMode, Reply
from fencepost.harness.coordination.recipes import KeptMembership, LeasedMembership
from fencepost.harness.generators import at_rate, draws, limit, reserve, stagger
from fencepost.harness.generators.contract import Context, Draw, Generator, Invocation, Offer, Step
from fencepost.harness.history import Completion, OpEvent, Outcome, Value
from fencepost.harness.interpreter.client import Client, SessionClient
from fencepost.harness.plugins.workload import Workload, current_read
from fencepost.harness.runtime.node import Member

GROUP: Final = "group"
#: The stream of draws for what a member does, apart from those of operations.
_LIFE: Final = 41
#: One list in this many is a plain read of the node's own copy.
_PLAIN_ONE_IN: Final = 4
#: How long a process rests after a refusal, and how long a listener waits for its next call.
_AGAIN_NS: Final = 200_000_000
_LISTEN_S: Final = 0.5
_LISTENS_PER_SECOND: Final = 60.0
#: The final lists last until every membership must have ended, by the longest bound of a system.
_FINAL_LISTS: Final = 19
_FINAL_EVERY_NS: Final = 500_000_000

_LISTENS: Final = draws(lambda worker, i, draw: Offer("listen", GROUP))


class GroupMembershipOptions(Options, frozen=True, kw_only=True):
    ids: Annotated[int, about("ids that processes join with", least=1, most=1000)] = 3
    ttl: Annotated[Duration, about("a membership's time to live", above=0)] = seconds(3)
    renew_every: Annotated[Duration, about("a membership is renewed this often", above=0)] = seconds(0.5)
    stay: Annotated[Duration, about("mean time that a member stays", above=0)] = seconds(1.5)
    processes_per_node: Annotated[int, about("workers per node that join and leave", least=1, most=1000)] = 4
    lists_per_second: Annotated[float, about("lists per second, all workers together", above=0, most=1e6)] = 60.0
    lists: Annotated[ReadMode, about("how the members are listed")] = ReadMode.STRONG


class GroupMembership(Workload[GroupMembershipOptions]):
    name = "group-membership"
    about = "members of a group renew, leave or fall silent; each id has one, listeners learn of it"
    protocol = Interface.MEMBERSHIP
    options = GroupMembershipOptions
    effect_free = frozenset({"list", "listen"})
    promise = "renewing-member-stays"
    judges = ("group-membership",)

    def defaults(self, system: System) -> GroupMembershipOptions:
        return GroupMembershipOptions(lists=current_read(system))

    def refuse(self, options: GroupMembershipOptions, members: tuple[Member, ...]) -> Refusal | None:
        if 2 * options.renew_every > options.ttl:
            return Refusal(
                "a membership is renewed at least twice in its time to live", "shorten renew_every or lengthen ttl"
            )
        return None

    def needs(self, options: GroupMembershipOptions) -> Keys:
        return Keys((GROUP,))

    def workers(self, options: GroupMembershipOptions, node_count: int) -> int:
        return node_count * (2 + options.processes_per_node)

    def timeout_s(self, options: GroupMembershipOptions, node_count: int, worker: int, patient_s: float) -> float:
        # A member that waits long for one answer would lose what it asks to keep; a list may wait for a stopped node.
        return patient_s if worker < 2 * node_count else min(patient_s, options.ttl.seconds / 3)

    def generator(self, options: GroupMembershipOptions, node_count: int) -> Generator:
        def listed(worker: int, i: int, draw: Draw) -> Offer:
            return Offer("list", GROUP, (ReadMode.PLAIN if draw.below(_PLAIN_ONE_IN) == 0 else options.lists).value)

        return reserve(
            (node_count, at_rate(options.lists_per_second, draws(listed))),
            (node_count, at_rate(_LISTENS_PER_SECOND, _LISTENS)),
            (node_count * options.processes_per_node, _Processes(rules=options)),
        )

    def final_generator(self, options: GroupMembershipOptions, node_count: int) -> Generator:
        """Current lists through every node until every membership must have ended; listeners go on for as long."""
        lists = draws(lambda worker, i, draw: Offer("list", GROUP, options.lists.value))
        last = limit(_FINAL_LISTS * node_count, stagger(_FINAL_EVERY_NS // node_count, lists))
        return reserve(
            (node_count, last),
            (node_count, limit(_FINAL_LISTS * node_count, stagger(_FINAL_EVERY_NS // node_count, _LISTENS))),
        )

    def client(self, store: Memberships, options: GroupMembershipOptions, now_ns: Callable[[], int]) -> Client:
        return GroupClient(store, ttl_ms=options.ttl // 1_000_000, lists=options.lists)


class _Seat(msgspec.Struct, frozen=True, kw_only=True):
    """One process: what it does next, and when. `handle` is known while it believes that it is a member."""

    f: str = "join"
    due_ns: int = 0
    member: str = ""
    number: int = 0
    handle: str | None = None
    ends_ns: int = NEVER_NS


class _Processes(msgspec.Struct, frozen=True, kw_only=True):
    """Every worker is a process that joins, renews, and leaves or falls silent, again and again."""

    rules: GroupMembershipOptions
    #: By worker; copied for each change, since a generator is a value.
    seats: dict[int, _Seat] = {}

    def op(self, ctx: Context) -> Step:
        worker = min(ctx.free, key=lambda w: self._seat(w).due_ns)
        seat = self._seat(worker)
        at_ns = max(seat.due_ns, ctx.time_ns)
        if seat.f == "join":
            member = f"m{ctx.draw(worker).below(self.rules.ids)}"
            return Invocation(worker, Offer("join", member, ctx.number(worker)), at_ns), self
        return Invocation(worker, Offer(seat.f, seat.member, [seat.number, seat.handle]), at_ns), self

    def _seat(self, worker: int) -> _Seat:
        return self.seats.get(worker) or _Seat()

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        worker = ctx.worker_of(event)
        seat = self._seat(worker)
        # A membership of an earlier phase is not known to this generator; its lease will end it.
        if event.f != "join" and seat.handle is None:
            return self
        draw = Draw(ctx.seed, worker, ctx.counts[worker], _LIFE)
        return msgspec.structs.replace(self, seats={**self.seats, worker: self._after(seat, event, ctx.time_ns, draw)})

    def _after(self, seat: _Seat, event: OpEvent, now_ns: int, draw: Draw) -> _Seat:
        ok = event.type is Outcome.OK
        if event.f == "join":
            return self._joined(event, now_ns, draw) if ok else _Seat(due_ns=now_ns + _AGAIN_NS)
        if event.f == "leave" or event.error == "lease-expired":
            return _Seat(due_ns=now_ns + _AGAIN_NS)
        return self._next(seat, now_ns, draw)

    def _joined(self, event: OpEvent, now_ns: int, draw: Draw) -> _Seat:
        number, handle, _ = event.value
        stays_ns = draw.below(2 * self.rules.stay)
        seat = _Seat(member=event.key or "", number=number, handle=handle, ends_ns=now_ns + stays_ns)
        return self._next(seat, now_ns, draw)

    def _next(self, seat: _Seat, now_ns: int, draw: Draw) -> _Seat:
        due_ns = now_ns + self.rules.renew_every
        if due_ns < seat.ends_ns:
            return msgspec.structs.replace(seat, f="renew", due_ns=due_ns)
        if draw.below(2) == 0:
            return msgspec.structs.replace(seat, f="leave", due_ns=max(now_ns, seat.ends_ns))
        # Beyond its time to live, so that another process may have the id by then.
        due_ns = now_ns + self.rules.ttl * 3 // 2 + draw.below(self.rules.ttl)
        return msgspec.structs.replace(seat, f="leave", due_ns=due_ns)


class GroupClient(SessionClient[Memberships]):
    """One connection and KIP-30's client on it; a membership comes with the operation that is about it."""

    def __init__(self, store: Memberships, *, ttl_ms: int, lists: ReadMode) -> None:
        super().__init__(store)
        self._ttl_ms = ttl_ms
        self._client = LeasedMembership(store, GROUP, ttl_ms=ttl_ms, lists=lists)
        self._client.add_listener(self._hear)
        self._called_with: frozenset[str] | None = None

    def _hear(self, ids: frozenset[str]) -> None:
        self._called_with = ids

    async def invoke(self, offer: Offer) -> Completion:
        client, member = self._client, offer.key or ""
        match offer.f:
            case "join":
                await client.join(member, str(offer.value).encode())
                own = client.memberships[member]
                return self._completed([offer.value, own.handle, own.ttl_ms])
            case "renew":
                self._remember(member, offer.value)
                return self._completed(await client.renew(member))
            case "leave":
                self._remember(member, offer.value)
                await client.leave(member)
                return self._completed(offer.value)
            case "listen":
                self._called_with = None
                await client.deliver(_LISTEN_S)
                ids = self._called_with
                return Completion(Outcome.OK, None if ids is None else sorted(ids))
            case _:
                roster = await self._store.roster(GROUP, ReadMode(offer.value))
                return self._ok([[m.id, int(m.data), m.token] for m in roster.members], roster)

    def _remember(self, member: str, value: tuple[int, str]) -> None:
        _, handle = value
        self._client.memberships[member] = KeptMembership(handle=handle, ttl_ms=self._ttl_ms)

    def _completed(self, value: Value) -> Completion:
        answer = self._client.answer
        return self._ok(value, answer, answer.value_position if isinstance(answer, Reply) else None)
