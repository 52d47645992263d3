"""The watch checker on constructed histories: every anomaly with its witness, and what must not be taken for one."""

from typing import Any

import pytest

from fencepost.checkers import watches
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import Outcome, PhaseName
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.systems.etcd import system as etcd
from fencepost.systems.zookeeper import system as zookeeper
from tests.checkers.build import Tale, facts, ns, only

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO
Row = list[Any]


class Watching(Tale):
    """Tells of writers and of listeners; each call is 10 ms after the one before. What is heard came at that time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def _at(self) -> tuple[float, float]:
        self.now += 10
        return (self.now, self.now + 5)

    def put(self, key: str, number: int, position: int | None, *, type: Outcome = OK) -> None:
        stamps: dict[str, Any] = {"value_position": position} if type is OK else {}
        self.op("put", key, number, at=self._at(), type=type, **stamps)

    def pair(self, number: int, position: int | None, *, type: Outcome = OK) -> None:
        stamps: dict[str, Any] = {"value_position": position} if type is OK else {}
        pairs = [["p0", number], ["p1", number]]
        self.op("put-all", "p0", pairs, at=self._at(), type=type, **stamps)

    def delete(self, key: str, position: int | None, *, type: Outcome = OK) -> None:
        stamps: dict[str, Any] = {"value_position": position} if type is OK else {}
        self.op("delete", key, at=self._at(), type=type, **stamps)

    def watch(self, start: int | None, after: int, *, store: int | None = None, process: int = 1) -> None:
        at = self._at()
        self.op(
            "watch", "watched", start, at=at, process=process, result=after, position=after if store is None else store
        )

    def next(self, *rows: Row, process: int = 1, type: Outcome = OK, error: str | None = None) -> None:
        at = self._at()
        stamped = [[row[0], ns(at[0]), *row[1:]] for row in rows]
        more: dict[str, Any] = {"error": error} if error else {"result": stamped}
        self.op("next", "watched", None, at=at, process=process, type=type, **more)

    def entries(self, *rows: Row) -> None:
        self.op("entries", "watched", None, at=self._at(), result=list(rows))

    def final(self) -> None:
        for phase in (PhaseName.MAIN, PhaseName.FINAL):
            self.phase(phase, self.now + 6 if phase is PhaseName.FINAL else 0)


def changes(*told: tuple[int, str, int | None]) -> Row:
    """One message; a number of None is a deletion."""
    rows = [[position, "deleted" if number is None else "put", key, number] for position, key, number in told]
    return ["changes", told[-1][0], rows]


def fired(position: int, kind: str, key: str) -> Row:
    return ["changes", position, [[position, kind, key, None]]]


def bookmark(position: int) -> Row:
    return ["bookmark", position]


def look(position: int, key: str, number: int | None, at: int | None) -> Row:
    return ["look", position, key, number, at]


def armed(position: int, key: str, at: int | None) -> Row:
    return ["armed", position, key, at]


ETCD: Facts = facts(guarantees=etcd.ETCD.promises("main"), workload="watch")
ZOOKEEPER: Facts = facts(guarantees=zookeeper.ZOOKEEPER.promises(), workload="watch")
ONE_SHOT: Facts = facts(guarantees=zookeeper.ZOOKEEPER.promises(), workload="watch", options={"watches": "one-shot"})


def judge(tale: Watching, of: Facts = ETCD) -> list[Verdict]:
    return watches.check(tale.history(), of)


def found(tale: Watching, of: Facts = ETCD) -> dict[str, dict[str, int]]:
    """Guarantee to anomalies, where there are any."""
    verdicts = judge(tale, of)
    events = len(tale.history().events)
    for verdict in verdicts:
        assert (verdict.validity is Validity.INVALID) == bool(verdict.anomalies)
        assert bool(verdict.witnesses) == bool(verdict.anomalies), "whoever says invalid shows why"
        for anomaly, count in verdict.anomalies.items():
            assert len(verdict.evidence[f"anomalies.{anomaly}"]) == count
        assert all(0 <= index < events for own in verdict.evidence.values() for index in own)
    return {verdict.guarantee: verdict.anomalies for verdict in verdicts if verdict.anomalies}


def steps(tale: Watching, guarantee: str, of: Facts = ETCD) -> str:
    return " ".join(only(judge(tale, of), guarantee).witnesses[0].steps)


def test_a_listener_that_hears_all_is_valid_and_every_guarantee_has_its_exposure() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, 11)
    tale.pair(2, 12)
    tale.next(changes((11, "k0", 1)), changes((12, "p0", 2), (12, "p1", 2)))
    tale.next(type=FAIL, error="connection-lost")
    tale.delete("k0", 13)
    tale.watch(13, 12, store=13)
    tale.put("k0", 3, 14)
    tale.next(changes((13, "k0", None), (14, "k0", 3)), bookmark(14))
    tale.final()
    tale.entries(["k0", 3, 14], ["p0", 2, 12], ["p1", 2, 12])
    tale.next()
    verdicts = judge(tale)
    assert {v.guarantee: (v.validity, v.exposure) for v in verdicts} == {
        "watch-ordered": (Validity.VALID, 5),
        "watch-unique": (Validity.VALID, 5),
        "watch-reliable": (Validity.VALID, 5),
        "watch-atomic": (Validity.VALID, 1),
        "watch-resumable": (Validity.VALID, 1),
        "watch-bookmarkable": (Validity.VALID, 1),
        "watch-truthful": (Validity.VALID, 5),
    }
    figures = only(verdicts, "watch-reliable").figures.plain()
    assert (figures["watches"], figures["watches_resumed"], figures["events"]) == (2, 1, 5)
    # Of 11, 12, 12 and 14; what was missed meanwhile is no measure of delay.
    assert figures["lag_ns_max"] == ns(20 - 5)


def _heard(*rows: Row, of: Facts = ETCD) -> dict[str, dict[str, int]]:
    """Changes 11 (k0 = 1), 12 (both p = 2), 13 (k0 deleted), 14 (k1 = 4), and one watch above 10 that heard `rows`."""
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, 11)
    tale.pair(2, 12)
    tale.delete("k0", 13)
    tale.put("k1", 4, 14)
    tale.final()
    tale.next(*rows)
    return found(tale, of)


ELEVEN = changes((11, "k0", 1))
TWELVE = changes((12, "p0", 2), (12, "p1", 2))
THIRTEEN = changes((13, "k0", None))
FOURTEEN = changes((14, "k1", 4))


@pytest.mark.parametrize(
    ("rows", "anomalies"),
    [
        ((ELEVEN, TWELVE, THIRTEEN, FOURTEEN), {}),
        ((changes((11, "k0", 1), (12, "p0", 2), (12, "p1", 2), (13, "k0", None), (14, "k1", 4)),), {}),
        ((ELEVEN, TWELVE, FOURTEEN), {"watch-reliable": {"lost-event": 1}}),
        ((FOURTEEN,), {"watch-reliable": {"lost-event": 4}}),
        ((ELEVEN, TWELVE, THIRTEEN), {}),
        ((ELEVEN, ELEVEN, TWELVE, THIRTEEN, FOURTEEN), {"watch-unique": {"duplicate-event": 1}}),
        ((TWELVE, ELEVEN, THIRTEEN, FOURTEEN), {"watch-ordered": {"reordered-event": 1}}),
        # Told from the beginning again: each change twice, and behind later ones.
        (
            (ELEVEN, TWELVE, THIRTEEN, ELEVEN, TWELVE, THIRTEEN, FOURTEEN),
            {"watch-unique": {"duplicate-event": 4}, "watch-ordered": {"reordered-event": 3}},
        ),
        (
            (ELEVEN, changes((12, "p0", 2)), changes((12, "p1", 2)), THIRTEEN, FOURTEEN),
            {"watch-atomic": {"split-transaction": 1}},
        ),
        ((ELEVEN, changes((12, "p1", 2)), THIRTEEN, FOURTEEN), {"watch-atomic": {"split-transaction": 1}}),
        ((ELEVEN, changes((12, "p1", 2))), {"watch-atomic": {"split-transaction": 1}}),
        ((bookmark(11), ELEVEN, TWELVE, THIRTEEN, FOURTEEN), {"watch-bookmarkable": {"bookmark-ahead": 1}}),
        ((ELEVEN, bookmark(11), TWELVE, bookmark(12), bookmark(11), THIRTEEN, FOURTEEN, bookmark(14)), {}),
        ((ELEVEN, TWELVE, bookmark(13)), {"watch-bookmarkable": {"bookmark-ahead": 1}}),
        # What a later event has passed over is lost, and that alone.
        ((ELEVEN, TWELVE, FOURTEEN, bookmark(14)), {"watch-reliable": {"lost-event": 1}}),
        ((changes((11, "k0", 9)), TWELVE, THIRTEEN, FOURTEEN), {"watch-truthful": {"wrong-value": 1}}),
        ((changes((11, "k0", None)), TWELVE, THIRTEEN, FOURTEEN), {"watch-truthful": {"wrong-kind": 1}}),
        (
            (ELEVEN, changes((11, "k1", 4)), TWELVE, THIRTEEN, FOURTEEN),
            {"watch-atomic": {"split-transaction": 1}, "watch-truthful": {"invented-event": 1}},
        ),
        (
            (ELEVEN, TWELVE, THIRTEEN, FOURTEEN, changes((15, "k9", 77))),
            {"watch-truthful": {"invented-event": 1}},
        ),
        ((ELEVEN, TWELVE, THIRTEEN, FOURTEEN, changes((15, "k0", None))), {"watch-truthful": {"invented-event": 1}}),
    ],
)
def test_what_one_watch_of_etcd_heard(rows: tuple[Row, ...], anomalies: dict[str, dict[str, int]]) -> None:
    assert _heard(*rows) == anomalies


def test_zookeeper_tells_a_transaction_piece_by_piece_and_answers_prove_silence() -> None:
    pieces = (ELEVEN, changes((12, "p0", 2)), changes((12, "p1", 2)), THIRTEEN)
    assert _heard(*pieces, FOURTEEN, of=ZOOKEEPER) == {}
    assert _heard(*pieces[:2], of=ZOOKEEPER) == {}, "the other half may come yet"
    assert _heard(*pieces[:2], THIRTEEN, of=ZOOKEEPER) == {"watch-reliable": {"lost-event": 1}}
    assert _heard(*pieces, look(14, "k0", None, None), of=ZOOKEEPER) == {"watch-reliable": {"lost-event": 1}}
    assert _heard(*pieces, look(14, "k1", 4, 14), FOURTEEN, of=ZOOKEEPER) == {
        "watch-before-data": {"data-before-event": 1}
    }
    assert _heard(*pieces, look(14, "k0", None, None), FOURTEEN, of=ZOOKEEPER) == {
        "watch-before-data": {"reply-before-event": 1}
    }
    assert _heard(*pieces, look(13, "k0", None, None), FOURTEEN, look(14, "k1", 4, 14), of=ZOOKEEPER) == {}


def test_a_watch_owes_nothing_from_before_its_start() -> None:
    tale = Watching()
    tale.put("k0", 1, 9)
    tale.watch(None, 10, store=12)
    tale.put("k0", 2, 11)
    tale.put("k0", 3, 12)
    tale.final()
    tale.next(bookmark(10))
    assert found(tale) == {}
    verdicts = judge(tale)
    assert only(verdicts, "watch-bookmarkable").exposure == 0
    assert only(verdicts, "watch-reliable").figures.plain()["late"] == 2
    # It was not resumed: what it loses was not made while it was away.
    tale.next(changes((12, "k0", 3)))
    assert found(tale) == {"watch-reliable": {"lost-event": 1}}


def test_what_was_made_before_a_watch_that_heard_nothing_is_not_late() -> None:
    tale = Watching()
    tale.put("k0", 1, 11)
    tale.watch(None, 11)
    tale.final()
    tale.next()
    assert only(judge(tale), "watch-reliable").figures.plain()["late"] == 0


def test_a_transaction_that_came_in_three_pieces_came_apart_once() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.op("put-all", "p0", [["p0", 1], ["p1", 1], ["p2", 1]], at=tale._at(), type=OK, value_position=11)
    tale.next(*(changes((11, key, 1)) for key in ("p0", "p1", "p2")))
    assert found(tale) == {"watch-atomic": {"split-transaction": 1}}


def test_a_watch_that_was_refused_ends_the_one_before() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.op("watch", "watched", None, at=tale._at(), process=1, type=FAIL, error="unavailable")
    tale.next(changes((11, "k9", 7)))
    assert found(tale) == {}
    assert only(judge(tale), "watch-ordered").exposure == 0


def test_an_event_at_the_position_of_another_s_acknowledged_write_is_invented() -> None:
    """Even where a write of unknown outcome would explain it elsewhere."""
    tale = Watching()
    tale.watch(None, 10)
    tale.delete("k0", None, type=INFO)
    tale.put("k1", 1, 11)
    tale.next(changes((11, "k1", 1), (11, "k0", None)))
    assert found(tale) == {"watch-truthful": {"invented-event": 1}}
    assert "which did not change k0" in steps(tale, "watch-truthful")


@pytest.mark.parametrize(("kind", "anomalies"), [("changed", 1), ("deleted", 0)])
def test_an_event_without_a_number_is_explained_by_its_own_kind_of_write_only(kind: str, anomalies: int) -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.delete("k0", None, type=INFO)
    tale.next(armed(10, "k0", 9), fired(11, kind, "k0"))
    assert sum(found(tale, ONE_SHOT).get("watch-truthful", {}).values()) == anomalies


def test_a_read_among_the_events_proves_that_a_write_of_unknown_outcome_was_made() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, None, type=INFO)
    tale.next(look(12, "k0", 1, 11))
    assert found(tale, ZOOKEEPER) == {"watch-reliable": {"lost-event": 1}}


def test_what_is_acknowledged_is_a_change_at_its_own_position_alone() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, 11)
    tale.put("k1", 2, 13)
    tale.next(changes((11, "k0", 1)), changes((13, "k1", 2)))
    tale.entries(["k0", 1, 12])
    assert found(tale) == {}


def test_why_nothing_can_be_said_of_what_was_not_told() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.next()
    reasons = [only(judge(tale), "watch-reliable").reason]
    tale.final()
    tale.next()
    reasons.append(only(judge(tale), "watch-reliable").reason)
    assert reasons == [
        "the run has no final phase, so what was not told may be late",
        "no change was acknowledged",
    ]


def test_of_one_transaction_another_one_shot_may_fire_yet() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.pair(1, 11)
    tale.final()
    tale.next(armed(10, "p0", None), armed(10, "p1", None), fired(11, "created", "p0"))
    assert found(tale, ONE_SHOT) == {}


def test_an_event_at_or_below_the_start_is_from_before_it() -> None:
    tale = Watching()
    tale.put("k0", 1, 11)
    tale.put("k0", 2, 12)
    tale.watch(12, 11)
    tale.next(changes((11, "k0", 1), (12, "k0", 2)))
    assert found(tale) == {"watch-ordered": {"event-from-before-the-start": 1}}
    assert "asked to begin at position 12" in steps(tale, "watch-ordered")


def test_what_a_resumed_watch_loses_of_the_time_away_breaks_the_resumption() -> None:
    tale = Watching()
    tale.delete("k0", 11)
    tale.put("k1", 2, 12)
    tale.watch(11, 10, store=12)
    tale.put("k1", 3, 13)
    tale.put("k1", 4, 14)
    tale.next(changes((12, "k1", 2)), changes((14, "k1", 4)))
    assert found(tale) == {"watch-resumable": {"lost-event": 1}, "watch-reliable": {"lost-event": 1}}
    told = steps(tale, "watch-resumable")
    assert "There was the deletion of k0 at position 11, acknowledged by the delete of k0" in told
    assert "The next it heard of was the event 'put k1 = 2' at position 12" in told


def test_what_was_told_before_the_break_is_told_again_only_if_asked_for() -> None:
    tale = Watching()
    tale.put("k0", 1, 11)
    tale.put("k0", 2, 12)
    tale.watch(None, 10)
    tale.next(changes((11, "k0", 1), (12, "k0", 2)))
    tale.watch(11, 10)
    tale.next(changes((11, "k0", 1), (12, "k0", 2)))
    assert found(tale) == {}


def test_after_a_failure_nothing_is_heard_until_the_next_watch() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, 11)
    tale.next(type=FAIL, error="connection-lost")
    tale.put("k0", 2, 12)
    tale.watch(None, 12)
    tale.put("k0", 3, 13)
    tale.final()
    tale.next(changes((13, "k0", 3)))
    assert found(tale) == {}
    assert only(judge(tale), "watch-reliable").exposure == 1


def test_a_compacted_start_is_an_answer_and_no_loss() -> None:
    tale = Watching()
    tale.put("k0", 1, 11)
    tale.put("k0", 2, 12)
    tale.op("watch", "watched", 5, at=(100, 101), process=1, type=FAIL, error="compacted", position=12)
    tale.now = 110
    tale.watch(12, 11)
    tale.final()
    tale.next(changes((12, "k0", 2)))
    assert found(tale) == {}
    assert only(judge(tale), "watch-reliable").figures.plain()["watches_compacted"] == 1


def test_a_write_of_unknown_outcome_may_be_told_of_and_may_not() -> None:
    def tale(*rows: Row) -> Watching:
        told = Watching()
        told.watch(None, 10)
        told.put("k0", 1, None, type=INFO)
        told.delete("k0", None, type=INFO)
        told.pair(3, None, type=INFO)
        told.put("k1", 4, 14)
        told.final()
        told.next(*rows)
        return told

    last = changes((14, "k1", 4))
    assert found(tale(last)) == {}, "that nobody was told proves nothing"
    assert found(tale(changes((11, "k0", 1)), last)) == {}
    assert found(tale(changes((11, "k0", 1)), changes((12, "k0", 1)), last)) == {
        "watch-truthful": {"invented-event": 1}
    }
    assert found(tale(changes((11, "k0", None)), changes((12, "k0", None)), last)) == {}, "which deletion is not told"
    assert found(tale(changes((11, "p0", 3)), last)) == {"watch-atomic": {"split-transaction": 1}}


def test_what_one_listener_was_told_of_another_must_be_told_of_too() -> None:
    tale = Watching()
    tale.put("k0", 1, None, type=INFO)
    tale.put("k0", 2, 12)
    tale.watch(1, 0, process=1)
    tale.watch(1, 0, process=2)
    tale.final()
    tale.next(changes((11, "k0", 1), (12, "k0", 2)), process=1)
    tale.next(changes((12, "k0", 2)), process=2)
    assert found(tale) == {"watch-reliable": {"lost-event": 1}}
    assert "shown by the next of watched by process 1" in steps(tale, "watch-reliable")


def test_an_entry_proves_that_a_write_of_unknown_outcome_was_made() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, None, type=INFO)
    tale.put("k1", 2, 12)
    tale.final()
    tale.next(changes((12, "k1", 2)))
    assert found(tale) == {}
    tale.entries(["k0", 1, 11], ["k1", 2, 12])
    assert found(tale) == {"watch-reliable": {"lost-event": 1}}


@pytest.mark.parametrize(
    ("type", "why"),
    [(FAIL, "failed definitely"), (INFO, "was invoked only later"), (OK, "was acknowledged, at position")],
)
def test_an_event_of_a_write_that_cannot_have_made_it_is_invented(type: Outcome, why: str) -> None:
    tale = Watching()
    tale.watch(None, 10)
    if type is not INFO:
        tale.put("k0", 1, 12, type=type)
    tale.next(changes((11, "k0", 1)))
    if type is INFO:
        tale.put("k0", 1, None, type=INFO)
    assert found(tale)["watch-truthful"] == {"invented-event": 1}
    assert why in steps(tale, "watch-truthful")


def test_late_is_unknown_and_never_lost() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, 11)
    tale.final()
    tale.next()
    reliable = only(judge(tale), "watch-reliable")
    assert reliable.validity is Validity.UNKNOWN
    assert reliable.reason == (
        "the listener of process 1 on n1 had not come to 1 changes, up to position 11, when the run ended:"
        " late, not lost"
    )
    assert reliable.figures.plain()["late"] == 1


def test_a_listener_that_did_not_listen_to_the_end_leaves_it_unknown() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, 11)
    tale.next(changes((11, "k0", 1)))
    tale.final()
    reliable = only(judge(tale), "watch-reliable")
    assert (reliable.validity, reliable.reason) == (Validity.UNKNOWN, "no listener on n1 listened to the end")


def test_events_without_a_position_leave_everything_open() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, 11)
    tale.final()
    tale.next(["changes", None, [[None, "changed", "k0", None]]])
    reliable = only(judge(tale, ZOOKEEPER), "watch-reliable")
    assert reliable.validity is Validity.UNKNOWN
    assert reliable.reason.startswith("1 events carry no position")


# One-shot watches: k0 changes at 11, 12 and 13 (deleted), k1 at 14; watches set at 10.


def _fired(*rows: Row) -> Watching:
    tale = Watching()
    tale.watch(None, 10)
    tale.put("k0", 1, 11)
    tale.put("k0", 2, 12)
    tale.delete("k0", 13)
    tale.put("k1", 4, 14)
    tale.final()
    tale.next(armed(10, "k0", None), armed(10, "k1", 5), *rows)
    return tale


K0, K1 = fired(11, "created", "k0"), fired(14, "changed", "k1")


@pytest.mark.parametrize(
    ("rows", "anomalies"),
    [
        ((K0, armed(12, "k0", 12), fired(13, "deleted", "k0"), armed(13, "k0", None), K1), {}),
        # What happens between an event and the next look is not told, only looked at.
        ((K0, armed(14, "k0", None), K1), {"watch-before-data": {"reply-before-event": 1}}),
        ((K0, K1, armed(14, "k0", None), armed(14, "k1", 14)), {}),
        (
            (fired(12, "changed", "k0"), K1, armed(14, "k0", None), armed(14, "k1", 14)),
            {"watch-reliable": {"lost-event": 1}},
        ),
        ((K0, fired(12, "changed", "k0"), K1), {"watch-unique": {"duplicate-event": 1}}),
        ((K1, K0), {"watch-ordered": {"reordered-event": 1}}),
        ((look(11, "k0", 1, 11), K0, K1), {"watch-before-data": {"data-before-event": 1}}),
        ((K1,), {"watch-reliable": {"lost-event": 1}}),
        ((K0,), {}),
        # A watch that was set stays set, however often one looks; and it is late once.
        ((armed(12, "k0", 12), K0, K1), {"watch-before-data": {"reply-before-event": 1}}),
        ((armed(12, "k0", 12), look(13, "k0", None, 13), K0, K1), {"watch-before-data": {"reply-before-event": 1}}),
        ((K0, armed(12, "k0", 12), K1), {"watch-reliable": {"lost-event": 1}}),
        (
            (K0, armed(12, "k0", 12), fired(12, "changed", "k0"), K1),
            {"watch-ordered": {"event-from-before-the-start": 1}},
        ),
        ((K0, armed(12, "k0", 12), fired(13, "changed", "k0"), K1), {"watch-truthful": {"wrong-kind": 1}}),
        (
            (fired(11, "created", "k7"), K0, K1),
            {"watch-ordered": {"event-from-before-the-start": 1}, "watch-truthful": {"invented-event": 1}},
        ),
    ],
)
def test_what_one_shots_of_zookeeper_told(rows: tuple[Row, ...], anomalies: dict[str, dict[str, int]]) -> None:
    assert found(_fired(*rows), ONE_SHOT) == anomalies


def test_a_one_shot_that_slept_says_which_change_it_passed_over() -> None:
    told = steps(_fired(fired(12, "changed", "k0"), K1), "watch-reliable", ONE_SHOT)
    assert "The watch of k0 was set at position 10" in told
    assert "The first change after that was the k0 = 1 at position 11" in told


def test_what_is_no_message_is_refused_with_its_event() -> None:
    tale = Watching()
    tale.watch(None, 10)
    tale.next(["rumour", 3])
    with pytest.raises(MalformedHistory, match=r"event 3: .* is nothing that a listener hears"):
        judge(tale)


def test_a_system_without_these_guarantees_is_not_judged() -> None:
    assert watches.check(Watching().history(), facts()) == []
