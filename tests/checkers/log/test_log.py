"""The log checker on constructed histories of one partition: each finding, and what it must not be taken for."""

from typing import Any

import pytest

from fencepost.checkers import log
from fencepost.harness.history import Outcome, PhaseName
from fencepost.harness.verdict import Facts, Validity, Verdict
from tests.checkers.build import Tale, facts, only

Rows = list[list[int]]
OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO


class Partition(Tale):
    """Tells of one partition; each call is at a later time than the one before, in steps of 10 ms."""

    def __init__(self, key: str = "p0") -> None:
        super().__init__()
        self.key = key
        self.now = 0.0

    def append(self, value: int, offset: int | None, *, process: int = 1, type: Outcome = OK, **more: Any) -> None:
        self.now += 10
        stamps = {"position": offset, **more} if type is OK else more
        self.op("append", self.key, value, at=(self.now, self.now + 5), process=process, type=type, node="b1", **stamps)

    def poll(self, asked: int, rows: Rows, high_watermark: int = 100, *, f: str = "poll", **more: Any) -> None:
        self.now += 10
        fields = {"node": "b1", **more}
        self.op(f, self.key, asked, at=(self.now, self.now + 5), result=rows, position=high_watermark, **fields)

    def scan(self, *rows: Rows) -> None:
        """Healing, then the final scans: replies one after the other, and an empty one at the end."""
        end = max((row[0] + 1 for reply in rows for row in reply), default=0)
        self.heal()
        asked = 0
        for reply in rows:
            self.poll(asked, reply, end, f="scan")
            asked = reply[-1][0] + 1
        self.poll(end, [], end, f="scan")

    def heal(self) -> None:
        for phase in (PhaseName.HEAL, PhaseName.SETTLE, PhaseName.FINAL):
            self.now += 1
            self.phase(phase, self.now)


def judge(tale: Tale, **options: Any) -> list[Verdict]:
    return log.check(tale.history(), facts(options=options))


def found(tale: Tale, **options: Any) -> dict[str, dict[str, int]]:
    """Guarantee to anomalies, where there are any."""
    verdicts = judge(tale, **options)
    for verdict in verdicts:
        assert (verdict.validity is Validity.INVALID) == bool(verdict.anomalies)
        assert bool(verdict.witnesses) == bool(verdict.anomalies), "whoever says invalid shows why"
    return {verdict.guarantee: verdict.anomalies for verdict in verdicts if verdict.anomalies}


def test_a_log_that_keeps_everything_is_valid() -> None:
    tale = Partition()
    tale.append(1, 0, epoch=0)
    tale.poll(0, [[0, 1, 0]], 1)
    tale.append(2, 1, epoch=1, process=2)
    tale.append(3, 3, epoch=1)
    tale.poll(1, [[1, 2, 1], [3, 3]], 4)
    tale.append(4, 5, epoch=1)
    tale.scan([[0, 1, 0], [1, 2, 1]], [[3, 3, 1], [5, 4]])
    verdicts = judge(tale)
    assert {v.guarantee: v.validity for v in verdicts} == dict.fromkeys(
        (
            "log-durable",
            "log-offsets-stable",
            "log-order",
            "log-committed-reads",
            "log-leader-epochs",
            "log-no-duplicates",
        ),
        Validity.VALID,
    )
    assert only(verdicts, "log-durable").exposure == 4
    figures = only(verdicts, "log-durable").figures.plain()
    assert (figures["appends_ok"], figures["records_final"], figures["leader_changes"]) == (4, 4, 1)


def test_an_acknowledged_append_that_the_final_scan_passes_over_is_lost() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.append(3, 2)
    tale.scan([[0, 1], [2, 3]])
    (witness,) = only(judge(tale), "log-durable").witnesses
    assert witness.anomaly == "lost-append"
    assert witness.steps[0] == (
        "append of 2 in p0 by process 1 on b1 (event 2) was acknowledged at 0.025000 s with offset 1."
    )
    assert "offset 1 holds nothing" in witness.steps[2]


def test_a_lost_end_of_the_log_is_lost_when_the_scan_reached_its_end() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.scan([[0, 1]])
    assert found(tale) == {"log-durable": {"lost-append": 1}}


def test_what_the_final_scan_did_not_reach_is_unknown_and_not_lost() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.heal()
    tale.poll(0, [[0, 1]], 2, f="scan")
    durable = only(judge(tale), "log-durable")
    assert durable.validity is Validity.UNKNOWN
    assert durable.reason == "the final scan did not reach the end of p0"
    assert durable.figures.plain()["unseen"] == 1


def test_a_provable_loss_counts_although_the_scan_did_not_reach_the_end() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.append(3, 2)
    tale.heal()
    tale.poll(0, [[0, 1], [2, 3]], 9, f="scan")
    assert found(tale) == {"log-durable": {"lost-append": 1}}


@pytest.mark.parametrize("type", [FAIL, INFO])
def test_an_append_that_was_not_acknowledged_may_be_absent(type: Outcome) -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, None, type=type, process=2)
    tale.scan([[0, 1]])
    assert found(tale) == {}


def test_an_unanswered_append_may_be_there_and_a_refused_one_may_not() -> None:
    for type, want in ((INFO, {}), (FAIL, {"log-committed-reads": {"phantom-record": 1}})):
        tale = Partition()
        tale.append(1, 0)
        tale.append(2, None, type=type, process=2)
        tale.scan([[0, 1], [1, 2]])
        assert found(tale) == want, type


def test_a_value_that_nobody_appended_is_a_phantom() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.poll(0, [[0, 1], [1, 9]], 2)
    tale.scan([[0, 1], [1, 9]])
    assert found(tale) == {"log-committed-reads": {"phantom-record": 1}}


def test_two_acknowledgements_of_one_offset() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 0, process=2)
    tale.scan([[0, 2]])
    assert found(tale) == {"log-offsets-stable": {"reassigned-offset": 1}, "log-durable": {"lost-append": 1}}


def test_two_reads_of_one_offset_that_differ() -> None:
    tale = Partition()
    tale.append(1, None, type=INFO)
    tale.append(2, None, type=INFO, process=2)
    tale.poll(0, [[0, 1]], 1)
    tale.scan([[0, 2]])
    assert found(tale) == {
        "log-offsets-stable": {"reassigned-offset": 1},
        "log-committed-reads": {"vanished-read": 1},
    }


def test_a_record_that_was_read_above_the_high_watermark_and_is_gone() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, None, type=INFO, process=2)
    tale.poll(0, [[0, 1], [1, 2]], 1)
    tale.append(3, 1, process=3)
    tale.scan([[0, 1], [1, 3]])
    assert found(tale)["log-committed-reads"] == {"read-uncommitted": 1}


def test_a_record_above_its_reply_s_high_watermark_that_stays_is_a_figure() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.poll(0, [[0, 1], [1, 2]], 1)
    tale.scan([[0, 1], [1, 2]])
    assert found(tale) == {}
    assert only(judge(tale), "log-durable").figures.plain()["records_above_high_watermark"] == 1


def test_an_acknowledged_value_that_stands_elsewhere() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.scan([[0, 1], [2, 2]])
    assert found(tale) == {"log-offsets-stable": {"moved-record": 1}}


def test_a_value_that_stands_twice() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.scan([[0, 1], [1, 1]])
    assert found(tale) == {"log-no-duplicates": {"duplicated-record": 1}}
    assert found(tale, idempotence="off") == {"log-no-duplicates-without-idempotence": {"duplicated-record": 1}}
    assert found(tale, acks="1") == {"log-no-duplicates-without-idempotence": {"duplicated-record": 1}}


def test_appends_of_one_process_keep_their_order_and_those_of_two_are_a_figure() -> None:
    for process, want in ((1, {"log-order": {"append-order": 1}}), (2, {})):
        tale = Partition()
        tale.append(1, 1)
        tale.append(2, 0, process=process)
        tale.scan([[0, 2], [1, 1]])
        assert found(tale) == want
        assert only(judge(tale), "log-durable").figures.plain()["real_time_inversions"] == 1


@pytest.mark.parametrize("rows", [[[1, 2], [0, 1]], [[0, 1], [0, 1]]])
def test_a_reply_whose_offsets_do_not_ascend(rows: Rows) -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.poll(0, rows, 2)
    tale.scan([[0, 1], [1, 2]])
    assert found(tale) == {"log-order": {"unordered-poll": 1}}


def test_a_reply_that_begins_before_the_offset_asked_for() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.poll(1, [[0, 1], [1, 2]], 2)
    tale.scan([[0, 1], [1, 2]])
    assert found(tale) == {"log-order": {"unordered-poll": 1}}


def test_a_reply_that_leaves_a_record_out_but_not_one_that_ends_early_or_has_gaps() -> None:
    whole = [[0, 1], [4, 2], [9, 3]]
    for rows, want in (
        (whole, {}),
        ([[0, 1], [4, 2]], {}),
        ([[0, 1], [9, 3]], {"log-order": {"skipped-record": 1}}),
        ([[4, 2], [9, 3]], {"log-order": {"skipped-record": 1}}),
    ):
        tale = Partition()
        for offset, value in whole:
            tale.append(value, offset)
        tale.poll(0, rows, 10)
        tale.scan(whole)
        assert found(tale) == want, rows


def test_an_acknowledgement_in_a_superseded_epoch_by_its_stamp() -> None:
    """Sent before the new epoch was seen it proves nothing."""
    for late, want in ((True, {"stale-leader-epoch": 1}), (False, {})):
        tale = Partition()
        tale.append(1, 0, epoch=3)
        if not late:
            tale.append(2, 1, epoch=3)
        tale.append(7, 5, process=2, epoch=4)
        if late:
            tale.append(2, 6, process=3, epoch=3)
        tale.scan([[0, 1], [5, 7], [6, 2]] if late else [[0, 1], [1, 2], [5, 7]])
        assert found(tale).get("log-leader-epochs", {}) == want


def test_an_acknowledgement_in_a_superseded_epoch_by_its_record() -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.poll(0, [[0, 1, 4]], 1)
    tale.append(2, 1)
    tale.scan([[0, 1, 4], [1, 2, 3]])
    assert found(tale)["log-leader-epochs"] == {"stale-leader-epoch": 1, "epoch-went-back": 1}


def test_a_record_of_a_lower_epoch_behind_one_of_a_higher() -> None:
    tale = Partition()
    tale.append(1, None, type=INFO)
    tale.append(2, None, type=INFO, process=2)
    tale.scan([[0, 1, 5], [1, 2, 4]])
    assert found(tale) == {"log-leader-epochs": {"epoch-went-back": 1}}


def test_without_a_change_of_leader_the_epochs_were_not_put_to_the_test() -> None:
    tale = Partition()
    tale.append(1, 0, epoch=0)
    tale.scan([[0, 1, 0]])
    assert only(judge(tale), "log-leader-epochs").validity is Validity.UNKNOWN


@pytest.mark.parametrize("options", [{"acks": "1"}, {"min_isr": 1}])
def test_what_is_not_promised_goes_by_another_name(options: dict[str, Any]) -> None:
    tale = Partition()
    tale.append(1, 0)
    tale.append(2, 1)
    tale.scan([[0, 1]])
    assert found(tale, **options) == {"log-durable-unreplicated": {"lost-append": 1}}


def test_a_run_that_never_healed_says_so() -> None:
    tale = Partition()
    tale.append(1, 0)
    durable = only(judge(tale), "log-durable")
    assert (durable.validity, durable.reason) == (Validity.UNKNOWN, "the run never healed")


def test_a_history_without_a_log_is_unknown() -> None:
    given: Facts = facts()
    assert {v.validity for v in log.check(Tale().history(), given)} == {Validity.UNKNOWN}


def test_partitions_are_judged_apart() -> None:
    one, other = Partition("p0"), Partition("p1")
    one.append(1, 0)
    other._told = one._told
    other.now = one.now
    other.append(2, 0, process=2)
    other.scan([[0, 2]])
    one.now = other.now
    one.poll(0, [[0, 1]], 1, f="scan")
    one.poll(1, [], 1, f="scan")
    assert found(one) == {}


# What was put to the test


DISTURBED = ("log-durable", "log-offsets-stable", "log-no-duplicates")


def disturbed(tale: Partition, nemesis: tuple[str, ...] = ("partition:controller",)) -> dict[str, Verdict]:
    given = facts(nodes=("c1", "c2", "c3", "b1", "b2"), electorate=("c1", "c2", "c3"), nemesis=nemesis)
    return {verdict.guarantee: verdict for verdict in log.check(tale.history(), given)}


def quiet(epoch: int = 0) -> Partition:
    tale = Partition()
    tale.append(1, 0, epoch=0)
    tale.append(2, 1, epoch=epoch)
    tale.poll(0, [[0, 1, 0], [1, 2, epoch]], 2)
    tale.scan([[0, 1, 0], [1, 2, epoch]])
    return tale


def test_what_nothing_disturbed_says_nothing_of_durability() -> None:
    """Controllers are cut off from each other; no broker is touched, and no partition changes its leader."""
    tale = quiet()
    tale.fault("partition", ("c1",), (5, 6, 100, 101), severed=("c1>c2", "c2>c1", "c1>c3", "c3>c1"))
    verdicts = disturbed(tale)
    for guarantee in DISTURBED:
        assert (verdicts[guarantee].validity, verdicts[guarantee].exposure) == (Validity.UNKNOWN, 0)
        assert all(
            rule.chances == 0 and "no fault touched a broker" in rule.lacks for rule in verdicts[guarantee].rules
        )
    # Order and committed reads can be broken by servers that nothing disturbs.
    assert verdicts["log-order"].validity is Validity.VALID
    assert verdicts["log-committed-reads"].validity is Validity.VALID
    # A run that asks for no fault is judged by what it has.
    assert disturbed(tale, ("none",))["log-durable"].exposure == 2


@pytest.mark.parametrize(
    ("nodes", "severed", "until", "exposure"),
    [
        (("b1",), (), 15, 1),  # the first append was sent at 10 ms, the second at 20 ms
        (("b1",), (), 101, 2),
        (("c1",), ("c1>b1",), 101, 2),
        (("c1",), ("c1>c2",), 101, 0),
        (("c1",), (), 101, 0),
    ],
)
def test_a_fault_of_a_broker_puts_at_risk_what_was_sent_before_it_was_over(
    nodes: tuple[str, ...], severed: tuple[str, ...], until: float, exposure: int
) -> None:
    tale = quiet()
    tale.fault("partition" if severed else "kill", nodes, (5, 6, until - 1, until), severed=severed)
    assert disturbed(tale)["log-durable"].exposure == exposure


def test_a_change_of_the_leader_puts_at_risk_what_was_sent_before() -> None:
    tale = quiet(epoch=1)
    verdicts = disturbed(tale)
    assert verdicts["log-durable"].exposure == 2
    assert verdicts["log-durable"].validity is Validity.VALID


def test_a_clock_that_was_set_takes_no_record_away() -> None:
    tale = quiet()
    tale.fault("clock-skew", ("b1",), (5, 6, 100, 101))
    assert disturbed(tale, ("clock-skew",))["log-durable"].validity is Validity.UNKNOWN
