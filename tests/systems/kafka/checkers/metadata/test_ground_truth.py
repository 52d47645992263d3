"""Logs on disk against the history and each other: both sides of every rule. Times are in ms."""

import random
from typing import Any

import msgspec
import pytest

from fencepost.harness.history import NEW_DISK, Effects, History, LogEntry, NodeLog, Outcome
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers.metadata import ground_truth
from tests.checkers.build import NODES, Tale, facts, only

FACTS = facts(nodes=(*NODES, "b1"), electorate=NODES)

#: An entry in one word: "3:k=7" a setting, "3:t5" a name, "3:-" nothing of anybody's; 3 is the epoch.
Words = str


def log(node: str, words: Words, start: int = 0, **more: Any) -> NodeLog:
    entries = []
    for offset, word in enumerate(words.split(), start):
        epoch, _, rest = word.partition(":")
        key, equals, value = rest.partition("=")
        if equals:
            kind, fields = "config", {"resource_name": key, "value": value}
        else:
            kind, fields = ("no-op", {}) if rest == "-" else ("topic", {"name": rest})
        entries.append(LogEntry(offset=offset, epoch=int(epoch), type=kind, fields=fields))
    return NodeLog(node=node, start_offset=start, entries=tuple(entries), **more)


def judged(tale: Tale, logs: dict[str, Words | NodeLog]) -> list[Verdict]:
    history = tale.history()
    history.logs = {node: log(node, kept) if isinstance(kept, str) else kept for node, kept in logs.items()}
    return ground_truth.check(history, FACTS)


def agreement(tale: Tale, logs: dict[str, Words | NodeLog]) -> Verdict:
    return only(judged(tale, logs), "metadata-log-agrees")


def durability(tale: Tale, logs: dict[str, Words | NodeLog]) -> Verdict:
    return only(judged(tale, logs), "metadata-durable")


def two_changes() -> Tale:
    tale = Tale()
    tale.op("alter", "k", 1, at=(10, 20))
    tale.op("create", "t5", 1, at=(30, 40))
    return tale


SAME = "1:- 1:k=1 1:t5 1:-"


@pytest.mark.parametrize(("began_ms", "lost"), [(5, True), (25, False)])
def test_what_was_acknowledged_before_a_node_got_a_new_disk_is_not_missed_there(began_ms: int, lost: bool) -> None:
    tale = two_changes()
    for node in ("n1", "n2"):
        at = (began_ms, began_ms, began_ms, began_ms)
        tale.fault("migrate", (node,), at, effects=Effects(), details={NEW_DISK: True})
    found = judged(tale, {"n1": "1:- 1:t5", "n2": "1:- 1:t5", "n3": SAME})
    assert only(found, "metadata-durable").anomalies == ({"lost-acknowledged-change": 1} if lost else {})


@pytest.mark.parametrize(("of", "lost"), [("", True), ("other", False)])
def test_a_kind_that_only_one_of_two_stores_shows_is_not_missed(of: str, lost: bool) -> None:
    tale = Tale()
    tale.op("alter", "quota/u", 7, at=(10, 20))
    tale.op("alter", "quota/u", 8, at=(30, 40))
    quota = {"key": "producer_byte_rate", "value": 8.0, "entity": [{"entity_name": "u"}]}
    shows = NodeLog(
        node="n1", start_offset=0, entries=(LogEntry(offset=0, epoch=1, type="client-quota", fields=quota),)
    )
    kept: dict[str, Words | NodeLog] = {"n1": shows, **{node: log(node, "1:-", of=of) for node in ("n2", "n3")}}
    anomalies = {verdict.guarantee: verdict.anomalies for verdict in judged(tale, kept)}
    assert bool(anomalies.get("metadata-durable")) is lost


def test_logs_that_agree_and_hold_everything() -> None:
    verdicts = judged(two_changes(), {"n1": SAME, "n2": SAME, "n3": "1:- 1:k=1", "b1": "1:-"})
    assert [v.validity for v in verdicts] == [Validity.VALID, Validity.VALID]
    assert [v.exposure for v in verdicts] == [4, 2]
    assert verdicts[0].figures.plain()["logs"]["n3"] == {"start_offset": 0, "end_offset": 2, "last_epoch": 1}


@pytest.mark.parametrize(
    ("nodes", "validity", "exposure"), [(("b1",), Validity.UNKNOWN, 0), (("n2",), Validity.VALID, 1)]
)
def test_logs_show_durability_only_of_what_something_disturbed(
    nodes: tuple[str, ...], validity: Validity, exposure: int
) -> None:
    tale = two_changes()
    tale.fault("kill", nodes, (1, 2, 24, 25))
    history = tale.history()
    history.logs = {node: log(node, SAME) for node in NODES}
    verdicts = ground_truth.check(history, msgspec.structs.replace(FACTS, nemesis=("kill",)))
    durable = only(verdicts, "metadata-durable")
    assert (durable.validity, durable.exposure) == (validity, exposure)
    assert [rule.chances for rule in durable.rules if rule.name == "lost-acknowledged-change"] == [exposure]


def test_without_logs_nothing_is_known() -> None:
    (verdict,) = ground_truth.check(two_changes().history(), FACTS)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.guarantee == "metadata-log-agrees"


# -- agreement ----------------------------------------------------------------------------------------------------


def test_the_uncommitted_tail_of_a_superseded_leader_may_differ() -> None:
    kept = {"n1": "1:- 1:k=1 1:k=8 1:k=9", "n2": "1:- 1:k=1 2:- 2:t5", "n3": "1:- 1:k=1 2:- 2:t5"}
    tale = two_changes()
    tale.op("alter", "k", 8, at=(50, 60), type=Outcome.INFO)
    assert agreement(tale, dict(kept)).validity is Validity.VALID


@pytest.mark.parametrize("other", ["1:- 1:k=2 1:t5", "1:- 1:k=1 1:- 1:t5"])
def test_one_epoch_has_one_entry_at_an_offset(other: str) -> None:
    verdict = agreement(two_changes(), {"n1": SAME, "n2": other})
    assert verdict.anomalies["logs-differ"] == 1
    assert set(verdict.witnesses[0].nodes) == {"n1", "n2"}


def test_what_agrees_again_must_agree_before() -> None:
    kept = {"n1": "1:- 1:k=3 3:- 3:-", "n2": "1:- 2:k=4 3:- 3:-"}
    verdict = agreement(Tale(), dict(kept))
    assert verdict.anomalies == {"logs-differ": 1}
    assert "agree again at offset 3" in verdict.witnesses[0].steps[-1]


def test_a_later_leader_must_have_what_was_acknowledged() -> None:
    kept = {"n1": SAME, "n2": "1:- 2:- 2:t5", "n3": "1:-"}
    verdict = agreement(two_changes(), dict(kept))
    assert verdict.anomalies == {"committed-overwritten": 1}
    assert verdict.witnesses[0].steps[-1].startswith("n2 holds no-op() of epoch 2 there")


#: Handed over twice: the tail of a superseded leader holds it (n1), and so does the log of the next one, acknowledged.
TWICE = {"n1": "1:- 1:k=4 1:k=5", "n2": "1:- 2:- 2:- 2:k=5", "n3": "1:- 2:- 2:- 2:k=5"}


def test_a_change_that_stands_twice_was_not_overwritten() -> None:
    tale = Tale()
    tale.op("alter", "k", 5, at=(30, 40))
    # The broker b1 lags: what it holds at that offset is of the leader that acknowledged the change further on.
    assert agreement(tale, {**TWICE, "b1": "1:- 2:- 2:-"}).anomalies == {}


def test_the_tail_of_a_superseded_leader_commits_nothing_below_it() -> None:
    tale = Tale()
    tale.op("alter", "k", 4, at=(10, 20), type=Outcome.FAIL, error="policy-violation")
    tale.op("alter", "k", 5, at=(30, 40))
    assert durability(tale, dict(TWICE)).anomalies == {}


def test_two_entries_of_one_change_are_no_majority() -> None:
    tale = two_changes()
    tale.op("alter", "k", 2, at=(50, 60), type=Outcome.INFO)
    kept = {"n1": f"{SAME} 1:k=2", "n2": f"{SAME} 2:- 2:k=2", "n3": f"{SAME} 2:-"}
    assert agreement(tale, dict(kept)).figures.plain()["info_undecided"] == 1


def test_epochs_grow_along_a_log() -> None:
    assert agreement(Tale(), {"n1": "1:- 3:- 2:-", "n2": "1:- 3:-"}).anomalies == {"epoch-went-back": 1}


def test_the_order_of_the_log_is_that_of_time_where_time_decides() -> None:
    kept = {"n1": "1:t5 1:k=1", "n2": "1:t5 1:k=1"}
    assert agreement(two_changes(), dict(kept)).anomalies == {"order-contradicts-time": 1}
    overlapping = Tale()
    overlapping.op("alter", "k", 1, at=(10, 35))
    overlapping.op("create", "t5", 1, at=(30, 40))
    assert agreement(overlapping, dict(kept)).validity is Validity.VALID


# -- durability ---------------------------------------------------------------------------------------------------


def test_what_no_majority_holds_is_lost() -> None:
    lacking = "1:- 1:- 1:t5"
    verdict = durability(two_changes(), {"n1": SAME, "n2": lacking, "n3": lacking})
    assert verdict.anomalies == {"lost-acknowledged-change": 1}
    assert "alter of k to 1" in verdict.witnesses[0].steps[0]
    assert verdict.witnesses[0].key == "k"


@pytest.mark.parametrize(
    "kept",
    [
        {"n1": SAME, "n2": SAME, "n3": "1:-"},
        {"n1": SAME, "n3": "1:-"},
        {"n1": SAME, "n2": "1:- 1:-", "b1": "1:-"},
    ],
    ids=["a voter lags", "a log is not known", "a node without a vote does not count"],
)
def test_what_a_majority_may_hold_is_not_lost(kept: dict[str, str]) -> None:
    assert durability(two_changes(), dict(kept)).validity is Validity.VALID


def test_what_a_snapshot_took_in_is_not_lost() -> None:
    logs: dict[str, Any] = {node: log(node, "1:t5", start=30, snapshot_end=30) for node in NODES}
    verdict = durability(two_changes(), logs)
    # Nor could its loss be seen.
    assert (verdict.validity, verdict.anomalies, verdict.exposure) == (Validity.UNKNOWN, {}, 1)
    assert "kept whole" in verdict.reason
    state = log("n1", "1:k=1").entries
    logs = {node: log(node, "1:t5", start=30, snapshot_end=30, snapshot=state) for node in NODES}
    assert agreement(two_changes(), logs).figures.plain()["acknowledged_not_found"] == 0


def test_unknown_outcomes_are_settled() -> None:
    tale = two_changes()
    tale.op("alter", "k", 2, at=(50, 60), type=Outcome.INFO)
    tale.op("alter", "k", 3, at=(50, None))
    tale.op("alter", "k", 4, at=(50, 60), type=Outcome.FAIL)
    kept = SAME + " 1:k=2 2:k=2"
    figures = agreement(tale, {"n1": kept, "n2": kept}).figures.plain()
    assert figures["info_took_effect"] == 1
    assert figures["info_took_no_effect"] == 1
    assert figures["settings_applied_twice"] == 1
    assert figures["acknowledged_found"] == 2
    assert figures["epochs"] == [1, 2]


def test_a_tail_that_nobody_committed_settles_nothing() -> None:
    tale = two_changes()
    tale.op("alter", "k", 2, at=(50, 60), type=Outcome.INFO)
    figures = agreement(tale, {"n1": SAME + " 1:k=2", "n2": SAME}).figures.plain()
    assert figures["info_undecided"] == 1


def test_a_name_is_taken_by_one_request_of_several() -> None:
    tale = two_changes()
    tale.op("create", "t5", 1, at=(25, 38), type=Outcome.INFO, error="topic-already-exists")
    tale.op("alter", "k", 2, at=(50, 60))
    tale.op("create", "t5", 1, at=(70, 80), type=Outcome.INFO, error="topic-already-exists")
    kept = SAME + " 1:k=2"
    verdict = agreement(tale, {"n1": kept, "n2": kept})
    assert verdict.validity is Validity.VALID
    assert verdict.figures.plain()["info_took_no_effect"] == 2


def test_what_was_refused_must_not_be_committed() -> None:
    tale = Tale()
    tale.op("alter", "k", 4, at=(10, 20), type=Outcome.FAIL, error="policy-violation")
    tale.op("alter", "k", 5, at=(30, 40))
    found = durability(tale, {"n1": "1:k=4 1:k=5", "n2": "1:k=4 1:k=5"})
    assert found.anomalies == {"refused-change-took-effect": 1}
    # Behind everything acknowledged it may be an uncommitted tail.
    assert durability(tale, {"n1": "1:k=5 1:k=4", "n2": "1:k=5"}).validity is Validity.VALID


# -- a quorum in memory -------------------------------------------------------------------------------------------


def quorum_run(seed: int) -> tuple[History, dict[str, list[tuple[int, str]]]]:
    """Three voters that elect, replicate and truncate as Raft does; changes end ok, info, or are never answered."""
    drawn = random.Random(seed)
    logs: dict[str, list[tuple[int, str]]] = {node: [] for node in NODES}
    tale = Tale()
    epoch, leader = 1, "n1"
    for value in range(1, 61):
        at = 10 * value
        up_to_date = [
            node
            for node in NODES
            if sum((ours := logs[node])[-1:] >= other[-1:] and len(ours) >= len(other) for other in logs.values()) >= 2
        ]
        if drawn.random() < 0.1 and up_to_date:
            leader, epoch = drawn.choice(up_to_date), epoch + 1
            logs[leader].append((epoch, "-"))
        logs[leader].append((epoch, f"k={value}"))
        reached = drawn.sample([node for node in NODES if node != leader], drawn.choice([0, 1, 1, 2]))
        for node in reached:
            logs[node] = list(logs[leader])
        acknowledged = bool(reached) and drawn.random() < 0.8
        outcome = Outcome.OK if acknowledged else Outcome.INFO
        tale.op("alter", "k", value, at=(at, at + 5), type=outcome)
    history = tale.history()
    history.logs = kept(logs)
    return history, logs


def kept(logs: dict[str, list[tuple[int, str]]]) -> dict[str, NodeLog]:
    return {node: log(node, " ".join(f"{epoch}:{what}" for epoch, what in own)) for node, own in logs.items()}


@pytest.mark.parametrize("seed", range(200))
def test_a_correct_quorum_passes_and_a_forgetful_one_does_not(seed: int) -> None:
    history, logs = quorum_run(seed)
    assert all(v.validity is Validity.VALID for v in ground_truth.check(history, FACTS)), seed
    acknowledged = [o.value for o in history.operations if o.type is Outcome.OK]
    value = random.Random(seed).choice(acknowledged)
    holders = [node for node in NODES if any(what == f"k={value}" for _, what in logs[node])]
    # Forgotten by enough voters, in its place something of the same leader.
    for node in holders[: len(holders) - 1]:
        logs[node] = [(epoch, "-" if what == f"k={value}" else what) for epoch, what in logs[node]]
    history.logs = kept(logs)
    verdicts = ground_truth.check(history, FACTS)
    assert only(verdicts, "metadata-durable").anomalies == {"lost-acknowledged-change": 1}
    assert only(verdicts, "metadata-log-agrees").anomalies["logs-differ"] >= 1


# -- a cluster that moves from one log to another -----------------------------------------------------------------

#: Three voters of each log; the first change stands in the old log, the second one in the new.
MOVED = {"n1": "1:- 1:k=1", "n2": "1:- 1:k=1", "n3": "1:-", "c1": "9:- 9:t5", "c2": "9:- 9:t5", "c3": "9:-"}


def moved(**kept: Words) -> list[Verdict]:
    history = two_changes().history()
    history.logs = {
        node: log(node, words, of="old" if node in NODES else "new") for node, words in {**MOVED, **kept}.items()
    }
    voters = (*NODES, "c1", "c2", "c3")
    return ground_truth.check(history, facts(nodes=(*voters, "b1"), electorate=voters))


def test_each_change_stands_on_a_majority_of_one_of_two_logs() -> None:
    assert {v.guarantee: v.validity for v in moved()} == {
        "metadata-log-agrees": Validity.VALID,
        "metadata-durable": Validity.VALID,
    }


def test_a_change_that_no_majority_of_either_log_holds_is_lost() -> None:
    verdict = only(moved(n2="1:-"), "metadata-durable")
    assert verdict.anomalies == {"lost-acknowledged-change": 1}
    assert "no majority of 3 or of 3 voters" in verdict.witnesses[0].steps[-1]


def test_copies_of_one_log_are_compared_and_different_logs_are_not() -> None:
    assert only(moved(c2="9:- 9:t6"), "metadata-log-agrees").anomalies["logs-differ"] >= 1
    assert only(moved(c1="1:- 1:t5", c2="1:- 1:t5", c3="1:-"), "metadata-log-agrees").validity is Validity.VALID
