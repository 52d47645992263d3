"""The quorum's arithmetic against brute force, and its intervals from a history made by hand."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fencepost.checkers.derived.servers import quorum_losses
from fencepost.harness.base.quorum import Damage, QuorumView, as_pair, quorum_of, worst
from fencepost.harness.history import (
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    NodeChange,
    NodeEvent,
    NoteEvent,
)
from fencepost.harness.runtime.node import Member, electorates


@st.composite
def _clusters(draw: st.DrawFn) -> tuple[list[str], Damage]:
    voters = [f"n{i}" for i in range(1, draw(st.integers(1, 7)) + 1)]
    absent = frozenset(draw(st.sets(st.sampled_from(voters))))
    pairs = [(a, b) for a in [*voters, "client"] for b in [*voters, "client"] if a != b]
    return voters, Damage(absent=absent, severed=frozenset(draw(st.sets(st.sampled_from(pairs)))))


def _brute(voters: list[str], damage: Damage) -> QuorumView:
    least = len(voters) // 2 + 1

    def linked(a: str, b: str) -> bool:
        return (a, b) not in damage.severed and (b, a) not in damage.severed

    up = [v for v in voters if v not in damage.absent]
    groups = [g for size in range(least, len(up) + 1) for g in combinations(up, size)]
    if any(all(linked(a, b) for a, b in combinations(group, 2)) for group in groups):
        return QuorumView.MUTUAL
    if any(all(linked(hub, other) for other in group if other != hub) for group in groups for hub in group):
        return QuorumView.STAR
    return QuorumView.NONE


@given(_clusters())
def test_the_quorum_is_what_trying_every_group_finds(cluster: tuple[list[str], Damage]) -> None:
    voters, damage = cluster
    assert quorum_of(voters, damage) is _brute(voters, damage)


@given(_clusters())
def test_more_damage_never_mends_a_quorum(cluster: tuple[list[str], Damage]) -> None:
    voters, damage = cluster
    order = list(QuorumView)
    less = Damage(absent=frozenset(sorted(damage.absent)[1:]), severed=frozenset(sorted(damage.severed)[1:]))
    assert order.index(quorum_of(voters, less)) <= order.index(quorum_of(voters, damage))


def test_each_electorate_needs_a_majority_of_its_own() -> None:
    keepers = [Member(f"z{number}", ("zookeeper",)) for number in (1, 2, 3)]
    controllers = [Member(f"c{number}", ("controller",)) for number in (1, 2, 3)]
    groups = electorates([*keepers, Member("b1", ("broker",), votes=False), *controllers])
    assert groups == (("z1", "z2", "z3"), ("c1", "c2", "c3"))

    def state(*absent: str) -> QuorumView:
        return worst(groups, [[Damage(absent=frozenset(absent))]])

    assert state("z1", "c1") is QuorumView.MUTUAL
    assert state("z1", "z2") is QuorumView.NONE, "four of six are up, but only one of them is a ZooKeeper"


@given(_clusters(), _clusters())
def test_the_worst_of_two_faults_is_that_of_their_worst_combination(
    one: tuple[list[str], Damage], other: tuple[list[str], Damage]
) -> None:
    voters = one[0]
    alternatives = [[Damage(), one[1]], [Damage(), other[1]]]
    found = [quorum_of(voters, a | b) for a in alternatives[0] for b in alternatives[1]]
    assert worst([voters], alternatives) is max(found, key=list(QuorumView).index)


def test_a_ring_of_five_is_a_star_and_a_bridge_is_mutual() -> None:
    five = [f"n{i}" for i in range(1, 6)]
    ring = {(a, b) for i, a in enumerate(five) for j, b in enumerate(five) if (i - j) % 5 in (2, 3)}
    bridge = {(a, b) for a in five[:2] for b in five[3:]}
    assert quorum_of(five, Damage(severed=frozenset(ring))) is QuorumView.STAR
    assert quorum_of(five, Damage(severed=frozenset(bridge))) is QuorumView.MUTUAL


def test_the_intervals_of_a_run_are_those_in_which_faults_meet() -> None:
    """n1 is cut off from 10 to 40, n2 dead from 20 to 30: only together do they break three voters."""
    events: list[Event] = []

    def fault(action: FaultAction, stage: FaultStage, at_ns: int, outcome: FaultOutcome) -> None:
        events.append(
            FaultEvent(
                index=len(events),
                time_ns=at_ns,
                fault_id=0,
                fault="partition",
                action=action,
                stage=stage,
                outcome=outcome,
                target="n1",
                nodes=("n1",),
                severed=("n1>n2", "n2>n1", "n1>n3", "n3>n1"),
            )
        )

    def node(change: NodeChange, at_ns: int) -> None:
        events.append(NodeEvent(index=len(events), time_ns=at_ns, node="n2", change=change, incarnation=0))

    fault(FaultAction.INJECT, FaultStage.BEGIN, 5, FaultOutcome.PENDING)
    fault(FaultAction.INJECT, FaultStage.END, 10, FaultOutcome.INSTALLED)
    node(NodeChange.EXITED, 20)
    node(NodeChange.STARTED, 30)
    fault(FaultAction.HEAL, FaultStage.BEGIN, 40, FaultOutcome.PENDING)
    fault(FaultAction.HEAL, FaultStage.END, 45, FaultOutcome.HEALED)
    events.append(NoteEvent(index=len(events), time_ns=60, topic="end", text=""))
    (loss,) = quorum_losses(History(events), ("n1", "n2", "n3"))
    assert (loss.quorum, loss.from_ns, loss.to_ns) == (QuorumView.NONE, 20, 30)
    assert (loss.fault_ids, loss.absent) == ((0,), ("n2",))


def test_a_link_reads_as_a_pair() -> None:
    assert as_pair("n1>client") == ("n1", "client")
