"""Superseded controllers by ZooKeeper's order: fenced, stamped, unfenced; both sides of every rule."""

from typing import Any

import pytest

from fencepost.harness.history import AttemptEvent, LogEntry, NodeLog, Outcome
from fencepost.harness.verdict import Standing, Validity, Verdict
from fencepost.systems.kafka.checkers.metadata import zombie_controllers
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK
from tests.checkers.build import Tale, facts, only

KEEPERS = ("z1", "z2", "z3")
FACTS = facts(nodes=(*KEEPERS, "b1", "b2"), electorate=KEEPERS)
#: Of each broker in its first session.
OLD, NEW = "0x1", "0x2"


def entry(at: int, type: str, session: str, **fields: Any) -> LogEntry:
    return LogEntry(offset=at, epoch=1, type=type, fields={"session": session, **fields})


def elected(at: int, node: str, epoch: int, session: str) -> LogEntry:
    return entry(at, "election", session, node=node, controller_epoch=epoch, version=epoch)


def refused(at: int, session: str, *errors: int, multi: bool = True) -> LogEntry:
    return entry(at, "refused", session, multi=multi, errors=list(errors))


def state(at: int, session: str, epoch: int, checked: int | None = None) -> LogEntry:
    more = {} if checked is None else {"checked_version": checked}
    return entry(at, "partition-state", session, topic="k0", partition=0, controller_epoch=epoch, **more)


#: b1 is the controller of epoch 1 from 12 on, b2 of epoch 2 from 20 on.
ELECTIONS = (
    entry(10, "registration", OLD, node="b1"),
    entry(11, "registration", NEW, node="b2"),
    elected(12, "b1", 1, OLD),
    state(13, OLD, 1, 1),
    elected(20, "b2", 2, NEW),
)


def judged(*more: LogEntry, tale: Tale | None = None, only_on: tuple[str, ...] = KEEPERS) -> list[Verdict]:
    """With `more` on these servers' disks only."""
    history = (tale or Tale()).history()
    history.logs = {
        node: NodeLog(node=node, start_offset=0, entries=ELECTIONS + (more if node in only_on else ()))
        for node in KEEPERS
    }
    return zombie_controllers.check(history, FACTS)


def as_controllers(verdicts: list[Verdict]) -> Verdict:
    return only(verdicts, "superseded-leader-does-not-act")


def for_clients(verdicts: list[Verdict]) -> Verdict:
    return only(verdicts, "client-changes-are-fenced")


def verdict(*more: LogEntry, **options: Any) -> Verdict:
    return as_controllers(judged(*more, **options))


def counts(verdicts: list[Verdict]) -> tuple[int, int, int]:
    assert {found.checker for found in verdicts} == {"zombie-controllers"}
    own, other = as_controllers(verdicts).figures.plain(), for_clients(verdicts).figures.plain()
    return own["attempted_but_fenced"], own["acted"], other["unfenced_changes_for_clients"]


def test_without_elections_on_disk_there_is_nothing_to_say() -> None:
    history = Tale().history()
    assert zombie_controllers.check(history, FACTS) == []
    history.logs = {"n1": NodeLog(node="n1", start_offset=0, entries=(LogEntry(offset=0, epoch=1, type="no-op"),))}
    assert zombie_controllers.check(history, FACTS) == []


def test_controllers_that_tried_nothing_leave_it_unknown_and_do_not_weigh() -> None:
    found = verdict()
    assert (found.validity, found.weighs, found.exposure) == (Validity.UNKNOWN, False, 0)
    assert found.figures.plain()["controllers"] == 2


@pytest.mark.parametrize(
    ("deed", "fenced", "acted", "unfenced"),
    [
        # A controller's write begins with a check of /controller_epoch: its failing is the fence.
        (refused(21, OLD, -103, -2), 1, 0, 0),
        (refused(21, OLD, 0, -103), 0, 0, 0),
        (refused(21, OLD, -110, -2), 0, 0, 0),
        (refused(21, OLD, -103, multi=False), 0, 0, 0),
        (refused(21, NEW, -103, -2), 0, 0, 0),
        (refused(19, OLD, -103, -2), 0, 0, 0),
        (refused(21, "0x9", -103, -2), 0, 0, 0),
        # Checked by version, whatever the data say.
        (state(21, OLD, 1, 1), 0, 1, 0),
        (state(21, OLD, 2, 1), 0, 1, 0),
        (state(21, NEW, 1, 2), 0, 0, 0),
        (state(19, OLD, 1, 1), 0, 0, 0),
        (entry(21, "delete", OLD, path="/admin/delete_topics/t1", checked_version=1), 0, 1, 0),
        # Without any check, as before 2.2: the stamp in the data, in that controller's own hand.
        (state(21, OLD, 1), 0, 1, 0),
        (state(21, NEW, 1), 0, 0, 0),
        (state(21, NEW, 2), 0, 0, 0),
        # What clients ask for carries no epoch.
        (entry(21, "topic", OLD, name="t7"), 0, 0, 1),
        (entry(21, "remove-topic", OLD, name="t7"), 0, 0, 1),
        (entry(19, "topic", OLD, name="t7"), 0, 0, 0),
        (entry(21, "topic", NEW, name="t7"), 0, 0, 0),
        (entry(21, "topic", "0x9", name="t7"), 0, 0, 0),
        (entry(21, "config", OLD, resource_name="k0", value="7"), 0, 0, 0),
    ],
)
def test_deeds_on_disk(deed: LogEntry, fenced: int, acted: int, unfenced: int) -> None:
    verdicts = judged(deed)
    assert counts(verdicts) == (fenced, acted, unfenced)
    found = as_controllers(verdicts)
    assert found.exposure == fenced + acted
    expected = Validity.INVALID if acted else Validity.VALID if fenced else Validity.UNKNOWN
    assert found.validity is expected
    assert found.anomalies == ({"stamped-effect": 1} if acted else {})
    assert len(found.witnesses) == acted
    for row in (*found.figures.plain()["attempts"], *for_clients(verdicts).figures.plain()["attempts"]):
        assert (row["node"], row["epoch"], row["superseded_by"], row["zxid"]) == ("b1", 1, 2, "0x15")


def test_a_topic_that_a_superseded_controller_made_for_a_client_is_never_held() -> None:
    """Made by b1 behind b2's election and acknowledged: nothing fences it, and no other guarantee is held by it."""
    tale = elections(Tale())
    tale.op("create", "t7", 1, at=(1100, 1500), node="b1")
    verdicts = judged(entry(21, "topic", OLD, name="t7"), tale=tale)
    found = for_clients(verdicts)
    assert (found.validity, found.anomalies, found.exposure) == (Validity.INVALID, {"unfenced-change": 1}, 1)
    assert found.reason == "1 change that superseded controllers made for clients took effect: nothing fences them"
    (witness,) = found.witnesses
    assert witness.nodes == ("b1", "b2")
    assert "The client's create of t7 through b1 ended ok (event 3)." in witness.steps
    assert {1, 3} <= set(witness.events)
    assert as_controllers(verdicts).validity is Validity.UNKNOWN
    guarantee = next(g for g in KAFKA_ZK.promises() if g.name == found.guarantee)
    assert guarantee.standing is Standing.MEASURED


def test_without_a_change_for_a_client_its_guarantee_is_not_held_either() -> None:
    found = for_clients(judged(refused(21, OLD, -103, -2)))
    assert (found.validity, found.exposure) == (Validity.UNKNOWN, 0)


def test_a_topic_that_two_clients_asked_for_names_no_request() -> None:
    tale = elections(Tale())
    tale.op("create", "t7", 1, at=(1100, 1500), node="b1")
    tale.op("create", "t7", 1, at=(1200, 1500), node="b1", type=Outcome.INFO, error="timeout")
    (row,) = for_clients(judged(entry(21, "topic", OLD, name="t7"), tale=tale)).figures.plain()["attempts"]
    assert row["indexes"] == ()


def test_what_was_refused_adds_up_beside_a_change_for_a_client() -> None:
    tale = elections(Tale())
    attempt(tale, 1100, f="LeaderAndIsr", error="stale-controller-epoch", epoch=1, source="b3's log")
    verdicts = judged(
        refused(21, OLD, -103, -2), refused(22, OLD, -103, -2), entry(23, "topic", OLD, name="t7"), tale=tale
    )
    found, clients = as_controllers(verdicts), for_clients(verdicts)
    assert (found.exposure, clients.exposure, clients.validity) == (3, 1, Validity.INVALID)
    assert found.reason == (
        "superseded controllers tried to act 3 times and were refused each time "
        "(2 by controller-epoch, 1 by stale-controller-epoch)"
    )


def test_a_new_session_of_the_same_broker_is_the_same_hand() -> None:
    again = entry(21, "registration", "0x3", node="b1")
    assert counts(judged(again, refused(22, "0x3", -103, -2), entry(23, "topic", "0x3", name="t7"))) == (1, 0, 1)


def test_one_that_leads_again_is_no_superseded_controller() -> None:
    again = elected(21, "b1", 3, OLD)
    assert counts(judged(again, refused(22, OLD, -103, -2), state(23, OLD, 3, 3))) == (0, 0, 0)
    # But a write that checked its first election's version is one of its first reign.
    assert counts(judged(again, state(22, OLD, 1, 1))) == (0, 1, 0)


@pytest.mark.parametrize(("holders", "acted"), [(("z1",), 0), (("z1", "z3"), 1)])
def test_only_what_a_majority_has_on_disk_took_effect(holders: tuple[str, ...], acted: int) -> None:
    assert counts(judged(state(21, OLD, 1, 1), only_on=holders)) == (0, acted, 0)


@pytest.mark.parametrize(("third", "acted"), [((), 0), ((state(21, OLD, 1, 1),), 1), ((state(21, NEW, 2, 2),), 0)])
def test_holders_of_one_zxid_hold_one_entry_only_if_it_is_the_same(third: tuple[LogEntry, ...], acted: int) -> None:
    """A ZooKeeper that diverged holds a write that no majority has; what took effect there is another one."""
    history = Tale().history()
    own = {"z1": (state(21, OLD, 1, 1),), "z2": (state(21, NEW, 2, 2),), "z3": third}
    history.logs = {node: NodeLog(node=node, start_offset=0, entries=ELECTIONS + more) for node, more in own.items()}
    assert counts(zombie_controllers.check(history, FACTS)) == (0, acted, 0)


def elections(tale: Tale) -> Tale:
    tale.log("b1", 1, 100)
    tale.log("b2", 2, 1000)
    return tale


def attempt(tale: Tale, at_ms: float, **fields: Any) -> None:
    tale.tell(AttemptEvent, at_ms, **{"node": "b1", "source": "b1's log", **fields})


def test_the_line_that_tells_of_a_refusal_on_disk_is_its_row() -> None:
    tale = elections(Tale())
    attempt(tale, 1100, f="TopicChange", error="controller-epoch")
    found = verdict(refused(21, OLD, -103, -2), tale=tale)
    assert found.figures.plain()["attempted_but_fenced"] == 1
    (row,) = found.figures.plain()["attempts"]
    assert row["zxid"] == "0x15"
    assert [type(tale.history().events[i]) for i in row["indexes"]] == [AttemptEvent]
    assert found.evidence["attempted_but_fenced"] == tuple(row["indexes"])


def test_a_line_counts_alone_when_the_disk_does_not_show_it() -> None:
    tale = elections(Tale())
    attempt(tale, 1100, f="TopicChange", error="controller-epoch")
    found = verdict(tale=tale)
    assert found.figures.plain()["fenced_by"] == {"controller-epoch": 1}


@pytest.mark.parametrize(("epoch", "fenced"), [(1, 1), (2, 0)])
def test_a_broker_refuses_a_request_of_an_earlier_epoch(epoch: int, fenced: int) -> None:
    tale = elections(Tale())
    attempt(tale, 1100, f="LeaderAndIsr", error="stale-controller-epoch", epoch=epoch, source="b3's log")
    assert counts(judged(tale=tale)) == (fenced, 0, 0)


@pytest.mark.parametrize(
    ("read_at", "node", "type", "made_by", "fenced"),
    [
        # The line was read more than a second, by which reading may lag, after the later epoch had begun.
        (2100, "b1", Outcome.INFO, None, 1),
        (2100, "b1", Outcome.FAIL, None, 1),
        (1900, "b1", Outcome.INFO, None, 0),
        (2100, "b1", Outcome.OK, None, 0),
        (2100, "b2", Outcome.INFO, None, 0),
        (2100, "b1", Outcome.INFO, OLD, 0),
        (2100, "b1", Outcome.INFO, NEW, 1),
    ],
)
def test_a_topic_that_an_expired_session_could_not_make(
    read_at: float, node: str, type: Outcome, made_by: str | None, fenced: int
) -> None:
    tale = elections(Tale())
    tale.op("create", "t7", 1, at=(900, 950), node=node, type=type, error="timeout")
    attempt(tale, read_at, f="create", key="t7", error="session-expired")
    made = () if made_by is None else (entry(21, "topic", made_by, name="t7"),)
    verdicts = judged(*made, tale=tale)
    assert for_clients(verdicts).figures.plain()["attempted_but_fenced"] == fenced
    # It carries no epoch, so its failing says nothing of what is fenced by one.
    assert as_controllers(verdicts).exposure == 0


def test_a_looks_refusal_is_no_attempt() -> None:
    tale = elections(Tale())
    tale.op("exists", "t7", None, at=(900, 950), node="b1", type=Outcome.FAIL, error="unknown-server-error")
    attempt(tale, 2100, f="create", key="t7", error="session-expired")
    assert for_clients(judged(tale=tale)).figures.plain()["attempted_but_fenced"] == 0


def test_a_change_counts_once_however_many_lines_name_its_topic() -> None:
    tale = elections(Tale())
    tale.op("create", "t7", 1, at=(900, 950), node="b1", type=Outcome.INFO, error="timeout")
    for read_at in (2100, 2101):
        attempt(tale, read_at, f="create", key="t7", error="session-expired")
    assert for_clients(judged(tale=tale)).figures.plain()["attempted_but_fenced"] == 1
