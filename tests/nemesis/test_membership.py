"""Members removed and added, on nodes that are plain state: every way that asking, ending and coming back can go."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from random import Random
from typing import Any, cast

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quorum import Damage, QuorumView, majority, quorum_of
from fencepost.harness.faults.conductor import Conductor, damages_of
from fencepost.harness.faults.kind import Cluster, Proof, Resolved, Skip, View
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import Member, NodeState, members_alike
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.members.membership import MembershipChange, MembershipOptions
from tests.fakes import acting
from tests.fakes.fakes_runtime import FakeRuntime, KeptRecords, cluster_of
from tests.fakes.members import FakeLearners, FakeMembers, FakeSystem
from tests.fakes.virtual_time import run_virtual

#: A system that gives a member that returns another identity, in a release that is not known yet.
FORGETFUL = FakeSystem(FakeMembers(FakeRuntime(), ends_removed=True))
HELD = Resolved(nodes=("n3",), options=MembershipOptions())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_SEEN_S", 0.05), ("_REFUSED_S", 0.01), ("_POLL_S", 0.002)):
        monkeypatch.setattr(f"fencepost.harness.faults.change_requests.{name}", seconds)
    for name, seconds in (("_REMOVED_S", 60.0), ("_ENDED_S", 60.0), ("_REJOINED_S", 60.0), ("_POLL_S", 0.002)):
        monkeypatch.setattr(f"fencepost.nemesis.members.membership.{name}", seconds)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether it gives up soon: for what never comes, and only for that."""

    def set_to(soon: bool) -> None:
        for name in ("_REMOVED_S", "_REJOINED_S"):
            monkeypatch.setattr(f"fencepost.nemesis.members.membership.{name}", 0.2 if soon else 60.0)

    return set_to


class Scene:
    """A cluster of `count`, its members, and one fault on it."""

    def __init__(self, count: int = 3, **traits: Any) -> None:
        self.runtime = FakeRuntime(count)
        self.members = FakeMembers(self.runtime, **traits)
        self.leader: str | None = "n1"
        self.node = self.runtime.nodes["n3"]
        self.fault = MembershipChange()
        plain = cluster_of(self.runtime, view=self.view)
        self.cluster: Cluster = replace(plain, system=FakeSystem(self.members))  # type: ignore[arg-type]

    def view(self) -> View:
        return View(nodes=tuple(self.runtime.nodes), leader=self.leader, epoch=1)

    async def inject(self, resolved: Resolved = HELD) -> Proof:
        return await acting.inject(self.fault, 7, resolved, self.cluster)

    async def heal(self, resolved: Resolved = HELD) -> Proof:
        return await acting.heal(self.fault, 7, resolved, self.cluster)


def played(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """However slow the machine is, each step takes its own time alone."""

    @wraps(scenario)
    def play(*arguments: Any, **fixtures: Any) -> None:
        run_virtual(scenario(*arguments, **fixtures))

    return play


def test_whose_members_change() -> None:
    able = {name for name in registry.SYSTEMS if registry.system(name).member_changes}
    assert able == {"etcd", "kraft", "nats", "zookeeper"}


# The way it should go


@played
async def test_a_member_is_removed_ended_wiped_and_comes_back_as_a_new_one() -> None:
    scene = Scene()
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INSTALLED
    assert re.sub(r"\d+ ms", "T", injected.text) == (
        "n3 (n3-0) is to be removed: n1 did it in T; n1, n2 list n1, n2; its server was killed; its data was wiped"
    )
    assert scene.node.actions == ["kill", "wipe"]
    assert scene.node.spec.argv == ("join", "n1", "n2", "life 1")
    healed = await scene.heal()
    assert healed.outcome is FaultOutcome.HEALED
    assert "; n1, n2, n3 list n1, n2, n3, n3 as n3-1, no longer n3-0; it serves after " in healed.text
    assert scene.members.asked == ["remove n3 through n1", "add n3 through n1"]
    # It knows of itself only once it runs, so its start is told by the list that it comes to.
    # The cast undoes what mypy concluded from the comparison before the node was added.
    assert cast(tuple[str, ...], scene.node.spec.argv) == ("join", "n1", "n2", "n3", "life 1")
    assert (await scene.heal()).outcome is FaultOutcome.HEALED
    assert scene.node.actions.count("start") == 1


@played
async def test_a_server_that_votes_last_is_started_before_its_vote_is_asked_for() -> None:
    scene = Scene(votes_last=True, only_leader_answers=True)
    assert (await scene.inject()).outcome is FaultOutcome.INSTALLED
    assert (await scene.heal()).outcome is FaultOutcome.HEALED
    assert scene.node.spec.argv == ("join", "n1", "n2", "life 1")


@played
async def test_a_learner_is_admitted_before_it_runs_and_votes_at_last() -> None:
    scene = Scene()
    scene.members = FakeLearners(scene.runtime, votes_last=True, answers=["done", "no"])
    scene.cluster = replace(scene.cluster, system=FakeSystem(scene.members))  # type: ignore[arg-type]
    learner = replace(HELD, options=MembershipOptions(learner=True))
    assert (await scene.inject(learner)).outcome is FaultOutcome.INSTALLED
    assert (await scene.heal(learner)).outcome is FaultOutcome.HEALED
    assert [what.partition(" through")[0] for what in scene.members.asked] == [
        "remove n3", "admit n3", "admit n3", "add n3",
    ]  # fmt: skip
    assert scene.node.actions.count("start") == 1


@played
async def test_a_server_that_ends_by_itself_is_waited_for() -> None:
    scene = Scene(ends_removed=True)
    injected = await scene.inject()
    assert "its server ended by itself, " in injected.text
    assert "kill" not in scene.node.actions


@played
async def test_without_a_wipe_the_data_stay() -> None:
    scene = Scene(votes_last=True)
    kept = replace(HELD, options=MembershipOptions(wipe=False))
    injected = await scene.inject(kept)
    assert injected.outcome is FaultOutcome.INSTALLED
    assert "wiped" not in injected.text
    assert (await scene.heal(kept)).outcome is FaultOutcome.HEALED
    assert "wipe" not in scene.node.actions


# Whom it asks


@played
async def test_whoever_leads_is_asked_unless_it_is_the_member_itself() -> None:
    scene = Scene()
    scene.leader = "n2"
    await scene.inject()
    assert scene.members.asked == ["remove n3 through n2"]
    scene = Scene()
    scene.leader = "n3"
    await scene.inject()
    assert scene.members.asked == ["remove n3 through n1"]


@played
async def test_the_leader_is_asked_to_remove_itself_where_nobody_else_takes_that() -> None:
    scene = Scene(votes_last=True, only_leader_answers=True)
    scene.leader = scene.members.leader = "n3"
    running = asyncio.create_task(scene.inject())
    while "n3" in scene.members.current:
        await asyncio.sleep(0.001)
    # It tells itself that it is gone, which is not enough; then another one leads.
    await asyncio.sleep(0.02)
    assert scene.node.actions == []
    scene.leader = scene.members.leader = "n2"
    assert (await running).outcome is FaultOutcome.INSTALLED
    assert scene.members.asked[0] == "remove n3 through n3"


@played
async def test_a_member_that_leads_after_its_return_tells_of_itself() -> None:
    scene = Scene(votes_last=True, only_leader_answers=True)
    await scene.inject()
    scene.members.current["n3"] = "n3-5"
    await scene.node.start()
    scene.leader = scene.members.leader = "n3"
    assert (await scene.heal()).outcome is FaultOutcome.HEALED


# What goes wrong when it is removed


@played
async def test_a_refusal_is_told_and_the_next_one_asked() -> None:
    scene = Scene(answers=["no", "no"])
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INSTALLED
    assert scene.members.asked == [f"remove n3 through {name}" for name in ("n1", "n2", "n1")]
    assert "n1 refused (refused: not now), n2 refused (refused: not now), n1 did it" in injected.text


@played
async def test_equal_refusals_in_a_row_are_counted(impatient: Callable[[bool], None]) -> None:
    impatient(True)
    scene = Scene(answers=["no"] * 2)
    scene.runtime.nodes["n2"].state = NodeState.DEAD
    scene.members.mute.add("n2")
    asked = await scene.inject()
    assert "n1 refused (refused: not now) x 2, n1 did it" in asked.text


@played
async def test_a_member_that_may_still_be_one_keeps_its_server_and_its_data(impatient: Callable[[bool], None]) -> None:
    impatient(True)
    scene = Scene(answers=["no"] * 1000)
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INDETERMINATE
    assert "its server was left alone" in injected.text
    assert scene.node.actions == []
    impatient(False)
    healed = await scene.heal()
    assert healed.outcome is FaultOutcome.HEALED
    assert "n3 (n3-0) is still the same member" in healed.text
    assert scene.node.actions == []


@played
async def test_a_request_in_doubt_is_decided_by_the_lists() -> None:
    done = Scene(answers=["in doubt"], doubts_are_done=True)
    injected = await done.inject()
    assert injected.outcome is FaultOutcome.INSTALLED
    assert "n1 did not say whether it did it (timeout: no answer); n1, n2 list n1, n2" in injected.text
    lost = Scene(answers=["in doubt"])
    injected = await lost.inject()
    assert injected.outcome is FaultOutcome.INSTALLED
    assert "n1 did not say whether it did it (timeout: no answer), n2 did it" in injected.text


@played
async def test_a_removal_that_came_after_all_is_healed_like_any_other(impatient: Callable[[bool], None]) -> None:
    impatient(True)
    scene = Scene(answers=["in doubt"] * 1000)
    assert (await scene.inject()).outcome is FaultOutcome.INDETERMINATE
    impatient(False)
    scene.members.answers.clear()
    scene.members.current.pop("n3")
    healed = await scene.heal()
    assert healed.outcome is FaultOutcome.HEALED
    assert scene.node.actions == ["kill", "wipe", "wipe", "start"]
    assert "no longer n3-0" in healed.text


@played
async def test_one_list_that_still_names_it_forbids_the_proof(impatient: Callable[[bool], None]) -> None:
    impatient(True)
    scene = Scene(lagging={"n2"})
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INDETERMINATE
    assert "n1 lists n1, n2; n2 lists n1, n2, n3" in injected.text
    assert scene.node.actions == []


@played
async def test_too_few_that_tell_forbid_the_proof_and_are_named(impatient: Callable[[bool], None]) -> None:
    impatient(True)
    scene = Scene(mute={"n2"})
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INDETERMINATE
    assert "n2 gave no list (timeout: no answer)" in injected.text
    impatient(False)
    # Of five, three others are a majority of those that stay.
    wide = Scene(count=5, mute={"n2"})
    injected = await wide.inject()
    assert injected.outcome is FaultOutcome.INSTALLED
    assert "n2 gave no list" in injected.text


@played
async def test_a_removed_server_that_other_groups_still_name_is_ended_and_then_wiped() -> None:
    scene = Scene(votes_last=True, lingering={"n3"})
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INSTALLED
    ended = "n3 was removed, and went on in other groups; its server was killed"
    assert injected.text.endswith(f"; {ended}; n1, n2 list n1, n2; its data was wiped")
    assert scene.node.actions == ["kill", "wipe"]
    scene.members.lingering.clear()
    assert (await scene.heal()).outcome is FaultOutcome.HEALED
    assert scene.members.asked == ["remove n3 through n1", "add n3 through n1"]


@played
async def test_what_lingers_when_the_fault_ends_is_ended_by_the_healing(impatient: Callable[[bool], None]) -> None:
    impatient(True)
    scene = Scene(votes_last=True, answers=["in doubt"] * 1000)
    assert (await scene.inject()).outcome is FaultOutcome.INDETERMINATE
    impatient(False)
    scene.members.answers.clear()
    scene.members.lingering = {"n3"}
    scene.members.current.pop("n3")
    running = asyncio.create_task(scene.heal())
    while "start" not in scene.node.actions:
        await asyncio.sleep(0.001)
    scene.members.lingering.clear()
    healed = await running
    assert healed.outcome is FaultOutcome.HEALED
    assert healed.text.startswith(
        "n3 was removed, and went on in other groups; its server was killed; its data was wiped"
    )
    assert scene.node.actions == ["kill", "wipe", "wipe", "start"]


@played
async def test_a_server_that_one_node_calls_removed_is_left_alone(impatient: Callable[[bool], None]) -> None:
    impatient(True)
    scene = Scene(lingering={"n3"}, mute={"n2"})
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INDETERMINATE
    assert scene.node.actions == []


@played
async def test_a_node_that_nobody_lists_is_left_alone() -> None:
    scene = Scene()
    scene.members.current.pop("n3")
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INDETERMINATE
    assert "nothing was done: nobody lists n3" in injected.text
    assert (await scene.heal()).text == "nothing was done"


@played
async def test_a_server_that_cannot_be_ended_is_not_wiped() -> None:
    scene = Scene()
    scene.node.unkillable = True
    injected = await scene.inject()
    assert injected.outcome is FaultOutcome.INDETERMINATE
    assert "its server is not gone" in injected.text
    assert "wipe" not in scene.node.actions
    scene.node.unkillable = False
    assert (await scene.heal()).outcome is FaultOutcome.HEALED


# What goes wrong when it comes back


@pytest.mark.parametrize("votes_last", [False, True])
@played
async def test_healing_goes_on_where_it_was_when_it_is_tried_again(
    votes_last: bool, impatient: Callable[[bool], None]
) -> None:
    scene = Scene(votes_last=votes_last)
    await scene.inject()
    scene.members.lacking = "it has no leader"
    impatient(True)
    first = await scene.heal()
    impatient(False)
    assert first.outcome is FaultOutcome.INDETERMINATE
    assert re.search(r"not back after [\d.]+ s: it has no leader", first.text)
    scene.members.lacking = None
    assert (await scene.heal()).outcome is FaultOutcome.HEALED
    assert scene.node.actions.count("start") == 1
    assert scene.members.asked.count("add n3 through n1") == 1


@played
async def test_a_run_that_is_ended_by_hand_does_not_wait() -> None:
    scene = Scene()
    await scene.inject()
    scene.members.lacking = "it has no leader"
    scene.cluster = replace(scene.cluster, hurried=lambda: True)
    began_s = asyncio.get_running_loop().time()
    assert (await scene.heal()).outcome is FaultOutcome.INDETERMINATE
    assert asyncio.get_running_loop().time() - began_s < 3
    assert scene.node.state is NodeState.RUNNING


@pytest.mark.parametrize(
    ("mute", "lagging", "why"),
    [({"n3"}, set(), "n3 gave no list (timeout: no answer)"), (set(), {"n2"}, "n2 lists n1, n2")],
)
@played
async def test_a_member_that_not_all_list_or_that_does_not_tell_is_not_back(
    mute: set[str], lagging: set[str], why: str, impatient: Callable[[bool], None]
) -> None:
    scene = Scene()
    await scene.inject()
    impatient(True)
    scene.members.first.pop("n3")
    scene.members.mute, scene.members.lagging = mute, lagging
    healed = await scene.heal()
    assert (healed.outcome, why in healed.text) == (FaultOutcome.INDETERMINATE, True)


@played
async def test_a_refusal_to_add_is_waited_out() -> None:
    scene = Scene()
    await scene.inject()
    scene.members.answers = ["no", "in doubt"]
    healed = await scene.heal()
    assert healed.outcome is FaultOutcome.HEALED
    assert (
        "n1 refused (refused: not now), n2 did not say whether it did it (timeout: no answer), n1 did it" in healed.text
    )


@played
async def test_a_leader_that_is_gone_is_not_asked() -> None:
    scene = Scene(count=5)
    await scene.inject()
    scene.runtime.nodes["n1"].state = NodeState.DEAD
    scene.members.mute.add("n1")
    healed = await scene.heal()
    assert healed.outcome is FaultOutcome.HEALED
    assert scene.members.asked[-1] == "add n3 through n2"
    assert "n1 gave no list (it does not run)" in healed.text


@played
async def test_a_server_that_died_meanwhile_is_started_again(impatient: Callable[[bool], None]) -> None:
    scene = Scene()
    await scene.inject()
    scene.members.lacking = "it does not answer"
    impatient(True)
    await scene.heal()
    impatient(False)
    await scene.node.kill()
    scene.members.lacking = None
    assert (await scene.heal()).outcome is FaultOutcome.HEALED
    # What it had by then is a member's, and stays.
    assert scene.node.actions == ["kill", "wipe", "wipe", "start", "kill", "start"]


@played
async def test_a_member_that_was_not_taken_out_is_started_as_what_it_is(impatient: Callable[[bool], None]) -> None:
    impatient(True)
    scene = Scene(answers=["no"] * 1000)
    await scene.inject()
    impatient(False)
    await scene.node.kill()
    assert (await scene.heal()).outcome is FaultOutcome.HEALED
    assert scene.node.actions == ["kill", "start"]
    assert scene.node.spec.argv == ("true",)


@played
async def test_a_majority_that_does_not_tell_leaves_it_indeterminate(impatient: Callable[[bool], None]) -> None:
    scene = Scene()
    await scene.inject()
    impatient(True)
    scene.members.mute |= {"n1", "n2"}
    healed = await scene.heal()
    assert healed.outcome is FaultOutcome.INDETERMINATE
    assert "n1 gave no list" in healed.text
    assert scene.members.asked == ["remove n3 through n1"], "nothing is asked for in the dark"


# What it may be aimed at


def view(leader: str | None, members: tuple[Member, ...]) -> View:
    return View(
        nodes=tuple(m.name for m in members), leader=leader, epoch=1, members=members, leader_names=("controller",)
    )


MIXED = (*(Member(f"n{i}", ("controller",)) for i in (1, 2, 3)), Member("b1", ("broker",), votes=False))


def test_only_voters_are_meant() -> None:
    fault = MembershipChange()
    for seed in range(40):
        found = acting.aimed(fault, fault.spec("one"), view("n1", MIXED), Random(seed))
        assert found.nodes in {("n1",), ("n2",), ("n3",)}
        assert found.details == {"wipe": True, "led": found.nodes == ("n1",)}
    restarted = replace(view("n1", MIXED), restarted="b1")
    assert isinstance(fault.choose(fault.spec("restarted"), restarted, Random(1)), Skip)
    led = acting.aimed(fault, fault.spec("controller"), view("n2", MIXED), Random(1))
    assert led.nodes == ("n2",)


@pytest.mark.parametrize(
    ("text", "placement", "why"),
    [
        ("membership:b1", Placement(members=MIXED), "b1 does not vote; voters are n1, n2, n3"),
        ("membership:broker", Placement(members=MIXED), "broker does not vote"),
        ("membership", Placement(nodes=1, members=members_alike(1)), "fewer than three voters"),
        ("membership", Placement(system=FORGETFUL), "an image"),
        ("membership:wipe=no", Placement(system=FORGETFUL, version="1"), "it forgets"),
        ("membership:one:learner=yes", Placement(system=FORGETFUL, version="1"), "has no learners"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(text: str, placement: Placement, why: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_faults(text, {"membership": MembershipChange()}, placement)
    assert why in f"{told.value.message}; {told.value.hint}"


@pytest.mark.parametrize("target", ["all", "majority", "minority"])
def test_one_member_is_meant_and_no_more(target: str) -> None:
    with pytest.raises(UsageError, match="unknown target"):
        parse_faults(f"membership:{target}", {"membership": MembershipChange()}, Placement())


@pytest.mark.parametrize(
    ("system", "version", "options", "why"),
    [
        ("etcd", "3.4.23", {}, ""),
        ("etcd", "", {}, ""),
        ("zookeeper", "3.9.5", {}, ""),
        ("zookeeper", "3.5.3", {}, ""),
        ("zookeeper", "3.4.14", {}, "3.5.3 and later can change it"),
        ("zookeeper", "", {}, "in an image"),
        ("kraft", "4.3.1", {}, ""),
        ("kraft", "3.9.2", {}, ""),
        ("kraft", "3.8.0", {}, "3.9.0 and later can change it"),
        ("kraft", "4.3.1", {"combined": True}, "a voter is also a broker"),
        ("kraft", "", {}, "in an image"),
        ("nats", "2.15.2", {}, ""),
        ("nats", "", {}, ""),
        ("kafka-zk", "3.9.2", {}, "kafka-zk lacks the part member-changes, which membership needs; choose a system"),
    ],
)
def test_which_systems_can(system: str, version: str, options: dict[str, object], why: str) -> None:
    chosen = registry.system(system)
    placement = Placement(system=chosen, system_options=chosen.profile.parse_options(options), version=version)
    fault = MembershipChange()
    refusal = fault.refusal(fault.spec(), placement)
    assert why in str(refusal)
    assert bool(why) is bool(refusal)
    if not why:
        assert bool(fault.refusal(fault.spec(given={"wipe": "no"}), placement)) is (system in ("etcd", "nats"))


# The quorum


@pytest.mark.parametrize("count", [3, 5, 7])
def test_a_member_that_is_out_counts_as_one_that_is_down(count: int) -> None:
    """Of an odd number one less has the same majority, so nothing else needs to know of memberships."""
    voters = [f"n{i}" for i in range(1, count + 1)]
    left = voters[:-1]
    assert majority(left) == majority(voters)
    (out,) = damages_of(MembershipChange(), Resolved(nodes=(voters[-1],)))
    assert out == Damage(absent=frozenset(voters[-1:]))
    for more in range(count):
        damage = Damage(absent=frozenset(left[:more]))
        assert quorum_of(voters, out | damage) is quorum_of(left, damage)
    assert quorum_of(["n1", "n2", "n3"], Damage(absent=frozenset({"n3", "n1"}))) is QuorumView.NONE


def conduct(scene: Scene, entries: list[ScheduledFault], *, keep_quorum: bool) -> list[Any]:
    async def scenario() -> list[Any]:
        records = KeptRecords()
        cluster = replace(scene.cluster, records=records)
        conductor = Conductor(
            cluster=cluster, faults=registry.faults(), schedule_sink=lambda _: None, keep_quorum=keep_quorum
        )
        await conductor.run(entries, stop=asyncio.Event())
        return records.events

    return run_virtual(scenario())


def entry(fault: str, target: str, at_ms: int, for_ms: int, worker: int) -> ScheduledFault:
    return ScheduledFault(
        spec=registry.faults()[fault].spec(target),
        inject_ns=at_ms * 10**6,
        duration_ns=for_ms * 10**6,
        draw_seed=1,
        worker=worker,
    )


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("kill", "it would leave no quorum: of 3 voters n1, n3 would be down"),
        ("membership", "only one membership may be in force at a time, and fault 0 is"),
    ],
)
def test_nothing_else_is_taken_from_the_quorum_meanwhile(monkeypatch: pytest.MonkeyPatch, fault: str, why: str) -> None:
    monkeypatch.setattr("fencepost.harness.faults.conductor.HELD_WAIT_S", 0.1)
    events = conduct(
        Scene(), [entry("membership", "n3", 0, 400, 0), entry(fault, "n1", 50, 10, 1)], keep_quorum=fault == "kill"
    )
    skipped = [e for e in events if e.outcome is FaultOutcome.SKIPPED]
    assert [e.why.partition(", and the cuts")[0] for e in skipped] == [why]
    assert {e.outcome for e in events if e.fault_id == 0} == {
        FaultOutcome.PENDING,
        FaultOutcome.INSTALLED,
        FaultOutcome.HEALED,
    }


def test_it_is_repeated_from_its_record() -> None:
    """Whether data are wiped stands in the text, whom it meant is drawn from the seed again."""
    (spec,) = parse_faults("membership:one:wipe=no", {"membership": MembershipChange()}, Placement())
    assert spec.text == "membership:one:wipe=no"
    fault, seen = MembershipChange(), View(nodes=("n1", "n2", "n3"), leader="n1", epoch=1)
    assert fault.choose(spec, seen, Random(5)) == fault.choose(spec, seen, Random(5))
