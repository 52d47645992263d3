"""Group membership: each id has one member, who stays while it renews and goes when it does not, and all learn of it.

Nine guarantees, each with its own verdict. A membership is a lease with an id: how long it certainly lives, and when it
is certainly over, is counted as for leases, by the clocks of the nodes. Where the system states no bound, the verdict
about members that outlive it is `unknown`.

Sources: KIP-30, Group Membership (what `join`, `leave`, `membershipList`, `membership` and listeners mean); Gray &
Cheriton, "Leases" (1989); Chockler, Keidar & Vitenberg, "Group Communication Specifications" (2001), for accuracy and
completeness of a membership.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import Intervals, grouped, row, rows
from fencepost.checkers.derived.positions import in_final
from fencepost.checkers.derived.reigns import first_subject, reigns_of
from fencepost.checkers.leases import findings as of_leases
from fencepost.checkers.leases.exposure import looks_after_an_end, looks_after_the_bound, looks_at_the_living
from fencepost.checkers.leases.findings import JudgedLease, LeaseFinding
from fencepost.checkers.leases.lives import Lives
from fencepost.checkers.leases.view import LookAtKeys
from fencepost.checkers.membership.view import JoinedMember, Listing, listings_of, memberships_of
from fencepost.checkers.rules import Judged, Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, seconds
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, LeaseBound, Verdict
from fencepost.harness.verdict.figures import Figures, tallies

DUPLICATE: Final = Rule.of(
    "one-member-per-id",
    "duplicate-member",
    "joins that were answered while a member with that id was certainly alive",
    "nobody tried to join with an id whose member was certainly alive",
)
UNSEEN: Final = Rule.of(
    "joined-member-listed",
    "member-not-seen",
    "joins whose member had to be in the first current list that was asked for after the answer",
    "no current list was asked for soon enough after a join",
)
STALE_LEAVE: Final = Rule.of(
    "leave-ends-own-membership",
    "stale-leave",
    "leaves of ended memberships while another member had the id",
    "nobody left late, while another member had the id",
)
EVICTED: Final = Rule.of(
    "renewing-member-stays",
    "early-eviction",
    "current lists that had to show some member",
    "no list had to show a member",
)
GHOST: Final = Rule.of(
    "silent-member-goes",
    "ghost-member",
    "current lists after the bound of a member that did not renew, while nothing disturbed the cluster",
    "no list came after the bound",
)
TORN: Final = Rule.of(
    "member-data-belongs", "torn-member", "lists that show a member with its data", "no list shows a member"
)
WENT_BACK: Final = Rule.of(
    "member-lists-in-order",
    "membership-went-back",
    "lists by processes that had listed members before in this mode",
    "no process listed twice",
)
BACK: Final = Rule.of(
    "member-lists-in-order", "ended-member-came-back", "current lists after an end", "no current list came after an end"
)
STUCK: Final = Rule.of(
    "group-listener-converges",
    "listener-stuck",
    "listeners that listened until well after the last change",
    "no listener listened until well after the last change",
)
UNAWARE: Final = Rule.of(
    "member-told-of-its-end",
    "unaware-ghost",
    "joins with an id whose last member had not left",
    "no id was taken over from a member that had not left",
)

#: A refusal by which an owner learns that its membership has ended.
EXPIRED: Final = "lease-expired"
#: A listener gets this long after the last change was seen.
_NEWS_NS: Final = 2_000_000_000


class JudgedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A membership with what was judged of its lease."""

    membership: JoinedMember
    judged: JudgedLease

    @property
    def alive(self) -> Intervals:
        return self.judged.alive


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every acknowledged membership of a group.

    Args:
        history: joins, renewals, leaves, lists and what listeners were called with.
        facts: `leases` has the longest time in nanoseconds that a membership may outlive its time to live.

    Returns:
        Nine verdicts, one for each guarantee; the first one carries the figures.

    Raises:
        MalformedHistory: a list's result has another form, or two joins have one number; names the event.

    Cost: O(n log n) in operations and in members that lists showed, and joins times memberships of an id.
    """
    subject = first_subject(history, facts)
    bound = facts.leases if facts.leases is not None else LeaseBound(extra_ns=1 << 60, source="nothing bounds it")
    lives = Lives(history, facts, reigns_of(history, subject), bound)
    listings = listings_of(history)
    looks = [listing.look for listing in listings]
    owns = [
        JudgedMember(membership=m, judged=of_leases.judge(m.lease, lives, looks))
        for m in memberships_of(history, listings)
    ]
    unbounded = Doubt(Cause.NOT_APPLICABLE, f"{facts.system} does not say when a membership is over")
    shown = [listing.op for listing in listings if listing.ids]
    stuck, listened = last_calls(history, listings)
    pairs = successions(owns)
    unwarned = [finding for before, after in pairs if (finding := unaware(before, after)) is not None]
    return [
        verdict(facts, _duplicates(history, owns), figures=_figures(history)),
        *(
            verdict(facts, each, doubt=unbounded if facts.leases is None and each.rule is GHOST else None)
            for each in _lived(owns, listings, lives)
        ),
        verdict(facts, TORN.tally(torn(history, listings), rows(shown))),
        verdict(facts, *_order(owns, listings)),
        verdict(facts, STUCK.tally(stuck, rows(listened))),
        verdict(facts, UNAWARE.tally(unwarned, rows(after.membership.join for _, after in pairs))),
    ]


def _duplicates(history: History, owns: Sequence[JudgedMember]) -> Judged:
    tried = joins_over_the_living(history, owns)
    findings = [duplicate(join, own) for join, own in tried if join.type is Outcome.OK]
    return DUPLICATE.tally(findings, rows(join for join, _ in tried))


def _lived(owns: Sequence[JudgedMember], listings: Sequence[Listing], lives: Lives) -> list[Judged]:
    """Judge what follows from how long each membership certainly lives."""
    evicted, stolen, ghosts = [], [], []
    for own in owns:
        for finding in own.judged.findings:
            if finding.anomaly == of_leases.OUTLIVED:
                ghosts.append(renamed(finding, own, GHOST))
            elif finding.anomaly == of_leases.REVOKED:
                leave = stale(finding, own, owns)
                if leave is not None:
                    stolen.append(renamed(finding, own, STALE_LEAVE, (leave,)))
                else:
                    evicted.append(renamed(finding, own, EVICTED))
    current = [listing.look for listing in listings if listing.look.current]
    judged = [own.judged for own in owns]
    listed = [(own, look) for own in owns if (look := first_due(own, current)) is not None]
    missing = [unseen(own, look) for own, look in listed if own.membership.number not in look.numbers]
    return [
        UNSEEN.tally(missing, rows(own.membership.join for own, _ in listed)),
        STALE_LEAVE.tally(stolen, rows(leave for leave, _ in late_leaves(owns))),
        EVICTED.tally(evicted, looks_at_the_living(judged, current)),
        GHOST.tally(ghosts, looks_after_the_bound(judged, lives, current)),
    ]


def _order(owns: Sequence[JudgedMember], listings: Sequence[Listing]) -> tuple[Judged, Judged]:
    findings, later = went_back(listings)
    back = [renamed(f, own, BACK) for own in owns for f in own.judged.findings if f.anomaly == of_leases.BACK]
    current = [listing.look for listing in listings if listing.look.current]
    after = looks_after_an_end([own.judged for own in owns], current)
    return WENT_BACK.tally(findings, rows(later)), BACK.tally(back, len(after))


def _figures(history: History) -> Figures:
    requests = (op for op in history.operations if op.f in ("join", "renew", "leave"))
    return tallies((f"{op.f}_{op.type.value}", row(op)) for op in requests)


def lived_throughout(own: JudgedMember, op: Operation) -> bool:
    """Whether the membership was certainly alive, and its join acknowledged, from `op`'s invocation to its answer."""
    joined_ns = own.membership.join.completed_ns or own.membership.join.invoked_ns
    end_ns = op.completed_ns
    return end_ns is not None and any(
        max(start, joined_ns) <= op.invoked_ns and end_ns < end for start, end in own.alive
    )


def joins_over_the_living(history: History, owns: Sequence[JudgedMember]) -> list[tuple[Operation, JudgedMember]]:
    """List the answered joins with an id whose member was certainly alive throughout, with that member."""
    of_id = grouped(owns, lambda own: own.membership.id)
    tried = []
    for op in history.operations:
        if op.f != "join" or not (op.type is Outcome.OK or op.error == "exists"):
            continue
        living = (o for o in of_id.get(op.key or "", ()) if o.membership.number != op.value and lived_throughout(o, op))
        other = next(living, None)
        if other is not None:
            tried.append((op, other))
    return tried


def duplicate(join: Operation, own: JudgedMember) -> Finding:
    first = own.membership
    return DUPLICATE.finding(
        first.join,
        join,
        steps=(
            f"Process {first.join.process} joined as {first.id} through {first.join.node} at "
            f"{seconds(first.join.completed_ns or first.join.invoked_ns)}, and certainly stayed a member.",
            f"Meanwhile process {join.process} asked {join.node} at {seconds(join.invoked_ns)} to join as {first.id}, "
            f"and was told at {seconds(join.completed_ns or join.invoked_ns)} that it had.",
        ),
    )


def first_due(own: JudgedMember, current: Sequence[LookAtKeys]) -> LookAtKeys | None:
    """Return the first of these looks that was asked for after the join, if it certainly had to show the member."""
    joined_ns = own.membership.join.completed_ns or own.membership.join.invoked_ns
    first = min((x for x in current if x.invoked_ns >= joined_ns), key=lambda x: x.invoked_ns, default=None)
    return first if first is not None and lived_throughout(own, first.op) else None


def unseen(own: JudgedMember, look: LookAtKeys) -> Finding:
    member = own.membership
    return UNSEEN.finding(
        member.join,
        look.op,
        steps=(
            f"{member.join.node} acknowledged at {seconds(member.join.completed_ns or 0)} that process "
            f"{member.join.process} had joined as {member.id}, and it certainly stayed a member.",
            f"{look.op.node} answered a list without it that was asked for later, at {seconds(look.invoked_ns)}.",
        ),
    )


def late_leaves(owns: Sequence[JudgedMember]) -> list[tuple[Operation, JudgedMember]]:
    """List the answered leaves of ended memberships while another member with the id was alive, with that member."""
    late = []
    for own in owns:
        for leave in own.membership.leaves:
            if leave.type is Outcome.INFO:
                continue
            others = (o for o in owns if o is not own and o.membership.id == own.membership.id)
            other = next((o for o in others if lived_throughout(o, leave)), None)
            if other is not None:
                late.append((leave, other))
    return late


def stale(finding: LeaseFinding, own: JudgedMember, owns: Sequence[JudgedMember]) -> Operation | None:
    """Return the leave of another membership of the id that came when this one vanished; None if there is none."""
    others = (o.membership for o in owns if o is not own and o.membership.id == own.membership.id)
    leaves = (leave for other in others for leave in other.leaves if leave.type is not Outcome.FAIL)
    return next(
        (
            leave
            for leave in leaves
            if leave.invoked_ns <= finding.by_ns and (leave.completed_ns or finding.by_ns) >= finding.since_ns
        ),
        None,
    )


def renamed(finding: LeaseFinding, own: JudgedMember, rule: Rule, also: tuple[Operation, ...] = ()) -> Finding:
    """The finding about a membership's lease as one about the membership."""
    member = own.membership
    steps = [f"Process {member.join.process} joined as {member.id}; lease {member.number} is that of its membership."]
    steps += [
        f"At {seconds(o.invoked_ns)} process {o.process} left as {member.id}, of which it had an older membership."
        for o in also
    ]
    return rule.finding(
        *also,
        *finding.operations,
        steps=(*steps, *finding.steps),
        from_ns=finding.since_ns,
        to_ns=finding.by_ns,
        key=member.id,
    )


def torn(history: History, listings: Sequence[Listing]) -> list[Finding]:
    """Find the lists that pair an id with the data of a join with another id."""
    joined = {o.value: o.key for o in history.operations if o.f == "join"}
    findings = []
    for listing in listings:
        wrong = next(((number, i) for number, i in listing.ids.items() if joined.get(number) != i), None)
        if wrong is not None:
            number, member = wrong
            owner = joined.get(number)
            how = f"joined as {owner}" if owner else "never joined"
            findings.append(
                TORN.finding(
                    listing.op,
                    steps=(f"{listing.op.node} listed {member} with the data of number {number}, who {how}.",),
                )
            )
    return findings


def went_back(listings: Sequence[Listing]) -> tuple[list[Finding], list[Operation]]:
    """Find lists that show a member again that the same process saw before, and then saw gone; and all later lists.

    Lists of one mode are compared: a store may promise more for one than for another.
    """
    findings, later = [], []
    seen: dict[tuple[int, object], dict[int, Listing]] = {}
    gone: dict[tuple[int, object], dict[int, Listing]] = {}
    for listing in listings:
        process = listing.op.process
        reader = (process, listing.op.value)
        own_seen, own_gone = seen.setdefault(reader, {}), gone.setdefault(reader, {})
        if own_seen:
            later.append(listing.op)
        back = next((number for number in listing.ids if number in own_gone), None)
        if back is not None:
            without = own_gone[back]
            findings.append(
                WENT_BACK.finding(
                    own_seen[back].op,
                    without.op,
                    listing.op,
                    steps=(
                        f"Process {process} saw {listing.ids[back]} (number {back}) at "
                        f"{seconds(own_seen[back].look.completed_ns)}, and no more at "
                        f"{seconds(without.look.completed_ns)}.",
                        f"A list that it asked for later, at {seconds(listing.op.invoked_ns)}, shows it again.",
                    ),
                )
            )
        for number in own_seen.keys() - listing.ids.keys():
            own_gone.setdefault(number, listing)
        for number in listing.ids:
            own_seen[number] = listing
            own_gone.pop(number, None)
    return findings, later


def last_calls(history: History, listings: Sequence[Listing]) -> tuple[list[Finding], list[Operation]]:
    """Compare each listener's last call with the members that were there at the end.

    Returns:
        The findings, and the last `listen` of each listener that had long enough to hear of the last change.
    """
    last = [x for x in listings if x.look.current and in_final(history, x.op)]
    if not last:
        return [], []
    members = frozenset(last[-1].ids.values())
    settled = last[-1]
    for listing in reversed(last):
        if frozenset(listing.ids.values()) != members:
            break
        settled = listing
    findings, tested = [], []
    for listens in _listens(history).values():
        calls = [o for o in listens if o.type is Outcome.OK and o.result is not None]
        end = listens[-1]
        heard_until_ns = end.completed_ns
        if not calls or end.type is not Outcome.OK or heard_until_ns is None:
            continue
        if heard_until_ns < settled.look.completed_ns + _NEWS_NS:
            continue
        tested.append(end)
        if frozenset(calls[-1].result) != members:
            findings.append(
                STUCK.finding(
                    calls[-1],
                    settled.op,
                    end,
                    steps=(
                        f"The listener of process {end.process} on {end.node} was last called at "
                        f"{seconds(calls[-1].completed_ns or 0)}, with {_ids(calls[-1].result)}.",
                        f"Every current list from {seconds(settled.op.invoked_ns)} on shows {_ids(members)}.",
                        f"It listened until {seconds(heard_until_ns)}, and was not called again.",
                    ),
                )
            )
    return findings, tested


def _listens(history: History) -> dict[int, list[Operation]]:
    of_process = grouped((o for o in history.operations if o.f == "listen"), lambda o: o.process)
    return of_process


def _ids(ids: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(ids)) or "no member"


def successions(owns: Sequence[JudgedMember]) -> list[tuple[JudgedMember, JudgedMember]]:
    """List the memberships that ended without a leave, each with the next acknowledged one of the same id."""
    last: dict[str, JudgedMember] = {}
    pairs = []
    for own in owns:
        before = last.get(own.membership.id)
        if before is not None and not any(leave.type is not Outcome.FAIL for leave in before.membership.leaves):
            pairs.append((before, own))
        last[own.membership.id] = own
    return pairs


def unaware(before: JudgedMember, after: JudgedMember) -> Finding | None:
    """Return the finding if the owner had not learned of its end when its successor's join was acknowledged."""
    owner, successor = before.membership, after.membership
    refused = [o for o in (*owner.renews, *owner.leaves) if o.error == EXPIRED]
    learned = min(refused, key=row, default=None)
    joined_ns = successor.join.completed_ns or successor.join.invoked_ns
    if learned is not None and (learned.completed_ns or learned.ended_ns or learned.invoked_ns) <= joined_ns:
        return None
    learned_words = "and was never told" if learned is None else f"and was told at {seconds(learned.ended_ns or 0)}"
    return UNAWARE.finding(
        owner.join,
        successor.join,
        steps=(
            f"Process {owner.join.process} joined as {owner.id} at {seconds(owner.join.completed_ns or 0)} and did not "
            "leave.",
            f"Process {successor.join.process} became {owner.id} at {seconds(joined_ns)}.",
            f"The first one did not know by then that its membership had ended, {learned_words}.",
        ),
    )
