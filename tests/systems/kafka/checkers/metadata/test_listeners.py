"""What listeners of the metadata log were told: both sides of every rule. Times are in ms."""

from typing import Any

import pytest

from fencepost.harness.history import Outcome
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers.metadata import listeners
from fencepost.systems.kafka.checkers.metadata.heard_log import HeardLog, heard_logs
from tests.checkers.build import NODES, Tale, facts, only
from tests.systems.kafka.checkers.metadata.test_ground_truth import log

FACTS = facts(nodes=(*NODES, "b1"), electorate=NODES)
#: Two acknowledged changes in epoch 1, in the words of `test_ground_truth.log`.
LOG = "1:- 1:k=1 1:t5 1:-"


def changes() -> Tale:
    tale = Tale()
    tale.op("alter", "k", 1, at=(10, 20))
    tale.op("create", "t5", 1, at=(30, 40))
    return tale


def entries(words: str, start: int = 0) -> list[Any]:
    """Entries of a log, as an answer tells them."""
    return [["entry", e.offset, e.epoch, e.type, e.fields] for e in log("n1", words, start).entries]


def listen(
    tale: Tale,
    at_ms: float,
    asked: tuple[int, int],
    said: list[Any],
    *,
    hw: int,
    epoch: int = 1,
    key: str = "listener0",
    node: str = "n1",
) -> None:
    tale.op("listen", key, list(asked), at=(at_ms, at_ms + 5), result=[epoch, hw, said], node=node)


def whole(tale: Tale, key: str = "listener0", words: str = LOG) -> Tale:
    listen(tale, 50, (0, 0), entries(words), hw=4, key=key)
    return tale


def judged(tale: Tale, disks: dict[str, str] | None = None) -> list[Verdict]:
    history = tale.history()
    history.logs = {node: log(node, words) for node, words in (disks or {}).items()}
    return listeners.check(history, FACTS)


def order(tale: Tale, disks: dict[str, str] | None = None) -> Verdict:
    return only(judged(tale, disks), listeners.ORDER)


def complete(tale: Tale) -> Verdict:
    return only(judged(tale), listeners.COMPLETE)


def test_a_listener_that_was_told_everything_is_content() -> None:
    tale = whole(whole(changes()), key="listener1")
    verdicts = judged(tale, {"n1": LOG, "n2": LOG})
    assert [v.validity for v in verdicts] == [Validity.VALID, Validity.VALID]
    chances = {rule.name: rule.chances for v in verdicts for rule in v.rules}
    assert chances == {
        "listener-missed-offset": 2,
        "listener-epoch-fell": 6,
        "committed-entry-withdrawn": 0,
        "listeners-differ": 4,
        "listener-differs-from-disk": 16,
        "change-not-heard": 4,
    }
    # Told 10 ms and 30 ms after they were acknowledged, at most 35 ms.
    assert verdicts[1].figures.plain()["heard_after_ns_max"] == 35_000_000


def test_without_listeners_nothing_is_known() -> None:
    assert {v.validity for v in judged(changes())} == {Validity.UNKNOWN}


@pytest.mark.parametrize(
    ("asked", "words", "start", "missed"),
    [(4, "1:k=2", 4, 0), (4, "1:k=2", 5, 1), (4, "1:-", 3, 1), (2, "1:t5 1:-", 2, 0)],
    ids=["the next one", "one was left out", "one comes again", "asked for again"],
)
def test_offsets_go_forward_by_one(asked: int, words: str, start: int, missed: int) -> None:
    tale = whole(changes())
    listen(tale, 60, (asked, 1), entries(words, start), hw=4)
    assert order(tale).anomalies == ({"listener-missed-offset": missed} if missed else {})


def test_an_entry_left_out_within_an_answer_is_missed() -> None:
    tale = changes()
    listen(tale, 50, (0, 0), [*entries("1:- 1:k=1"), *entries("1:-", 3)], hw=4)
    assert order(tale).anomalies == {"listener-missed-offset": 1}


@pytest.mark.parametrize(
    ("told", "high_watermarks"),
    [(("1:- 1:k=1 1:t5 1:-", ""), (0, 4)), (("1:- 1:k=1", "1:t5 1:-"), (4, 4))],
    ids=["committed by a later answer", "told below a known high watermark"],
)
def test_what_is_committed_is_known_by_the_high_watermark(
    told: tuple[str, str], high_watermarks: tuple[int, int]
) -> None:
    tale, at = changes(), 0
    for number, (words, hw) in enumerate(zip(told, high_watermarks, strict=True)):
        listen(tale, 50 + 10 * number, (at, min(at, 1)), entries(words, at) if words else [], hw=hw)
        at += len(words.split())
    assert [v.validity for v in judged(tale)] == [Validity.VALID, Validity.VALID]
    assert order(tale).figures.others["entries_told"] == 4


def test_epochs_never_fall() -> None:
    tale = whole(changes())
    listen(tale, 60, (4, 1), entries("3:k=2 2:k=3", 4), hw=4)
    verdict = order(tale)
    assert verdict.anomalies == {"listener-epoch-fell": 1}
    assert "offset 5, has epoch 2" in verdict.witnesses[0].steps[1]


@pytest.mark.parametrize(
    ("parts", "withdrawn"),
    [((1, 4), False), ((1, 3), True), ((0, 9), True)],
    ids=["behind what is committed", "below it", "in an epoch before it"],
)
def test_what_was_committed_is_in_every_later_leaders_log(parts: tuple[int, int], withdrawn: bool) -> None:
    tale = whole(changes())
    listen(tale, 60, (4, 1), entries("1:k=2 1:k=3", 4), hw=4)
    listen(tale, 70, (6, 1), [["parts", *parts]], hw=-1, epoch=2, node="n2")
    listen(tale, 80, (4, 1), entries("2:- 2:k=4", 4), hw=6, epoch=2, node="n2")
    verdict = order(tale)
    assert verdict.anomalies == ({"committed-entry-withdrawn": 1} if withdrawn else {})
    # One answer of a later leader, and one that says where the logs part.
    assert verdict.rules[2].chances == 2
    if not withdrawn:
        (heard,) = heard_logs(tale.history())
        assert [heard.committed[offset].entry.epoch for offset in range(6)] == [1, 1, 1, 1, 2, 2]


def test_another_entry_in_place_of_a_committed_one_is_a_withdrawal() -> None:
    tale = whole(changes())
    listen(tale, 60, (3, 1), entries("2:k=9", 3), hw=4, epoch=2, node="n2")
    verdict = order(tale)
    assert verdict.anomalies == {"committed-entry-withdrawn": 1}
    # A later leader answered, and told again of what was committed.
    assert verdict.rules[2].chances == 2


@pytest.mark.parametrize(("hw", "differ"), [(4, True), (3, False)], ids=["committed", "not yet"])
def test_two_listeners_are_told_the_same(hw: int, differ: bool) -> None:
    tale = whole(changes())
    listen(tale, 60, (0, 0), entries("1:- 1:k=1 1:t5 2:k=7"), hw=hw, key="listener1", node="n2")
    assert order(tale).anomalies == ({"listeners-differ": 1} if differ else {})


@pytest.mark.parametrize(
    ("disk", "differs"),
    [
        (LOG, False),
        ("1:- 1:k=1 1:t5", False),
        ("1:- 1:k=1 1:t5 0:k=9", False),
        ("1:- 1:k=1 1:t5 1:k=9", True),
        ("1:- 1:k=1 1:t5 2:k=9", True),
        ("1:- 0:k=9 1:t5 1:-", True),
    ],
    ids=["the same", "shorter", "an old tail", "same epoch", "a later epoch", "they agree again later"],
)
def test_the_disks_hold_what_listeners_were_told(disk: str, differs: bool) -> None:
    assert order(whole(changes()), {"n1": LOG, "n2": disk}).anomalies == (
        {"listener-differs-from-disk": 1} if differs else {}
    )


def test_an_acknowledged_change_is_told_before_any_later_one() -> None:
    tale = changes()
    listen(tale, 50, (0, 0), entries("1:- 1:t5"), hw=2)
    verdict = complete(tale)
    assert verdict.anomalies == {"change-not-heard": 1}
    assert "told of the second one, at offset 1, and of no entry of the first" in verdict.witnesses[0].steps[2]


@pytest.mark.parametrize(
    ("words", "hw"),
    [("1:- 1:k=1", 2), (LOG, 2)],
    ids=["it has less", "the newest is not committed, as far as it knows"],
)
def test_a_listener_that_is_behind_at_the_end_leaves_the_verdict_open(words: str, hw: int) -> None:
    tale = changes()
    listen(tale, 50, (0, 0), entries(words), hw=hw)
    verdict = complete(tale)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.reason == "not told of every acknowledged change by the end: listener0"


def test_changes_without_an_entry_of_their_own_are_not_looked_for() -> None:
    tale = changes()
    tale.op("alter", "quota/alice", None, at=(42, 44))
    tale.op("alter", "k", 3, at=(45, 46), type=Outcome.INFO)
    tale.op("alter", "k", 4, at=(45, 46), type=Outcome.FAIL)
    assert complete(whole(tale)).validity is Validity.VALID


@pytest.mark.parametrize(
    ("state", "missing"),
    [([["config", {"resource_name": "k", "value": "2"}], ["topic", {"name": "t5"}]], False), ([], True)],
    ids=["overwritten before", "a later change is missing"],
)
def test_a_snapshot_stands_for_what_was_before_it(state: list[Any], missing: bool) -> None:
    tale = changes()
    tale.op("alter", "k", 2, at=(60, 65))
    listen(tale, 100, (0, 0), [["snapshot", 5, 1, state]], hw=5)
    tale.op("create", "t6", 1, at=(110, 120))
    tale.op("create", "t7", 1, at=(130, 140))
    told = entries("1:t7", 5) if missing else entries("1:t6 1:t7", 5)
    listen(tale, 150, (5, 1), told, hw=5 + len(told))
    assert complete(tale).anomalies == ({"change-not-heard": 1} if missing else {})
    assert not order(tale).anomalies


def test_an_unanswered_fetch_tells_nothing() -> None:
    tale = whole(changes())
    tale.op("listen", "listener0", [4, 1], at=(60, 65), type=Outcome.FAIL, error="not-leader-or-follower")
    (heard,) = heard_logs(tale.history())
    assert isinstance(heard, HeardLog)
    assert len(heard.answers) == 1
