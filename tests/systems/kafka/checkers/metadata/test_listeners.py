"""What is put together of listeners' answers. The verdicts are in `tests/cases/kafka-listeners.case`."""

from typing import Any

from fencepost.harness.history import Outcome
from fencepost.systems.kafka.checkers.metadata.listeners import HeardLog, heard_logs
from tests.checkers.build import Tale
from tests.systems.kafka.checkers.metadata.test_ground_truth import log

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


def test_what_a_later_leader_told_takes_the_place_of_what_was_committed_before() -> None:
    tale = whole(changes())
    listen(tale, 60, (4, 1), entries("1:k=2 1:k=3", 4), hw=4)
    listen(tale, 70, (6, 1), [["parts", 1, 4]], hw=-1, epoch=2, node="n2")
    listen(tale, 80, (4, 1), entries("2:- 2:k=4", 4), hw=6, epoch=2, node="n2")
    (heard,) = heard_logs(tale.history())
    assert [heard.committed[offset].entry.epoch for offset in range(6)] == [1, 1, 1, 1, 2, 2]


def test_an_unanswered_fetch_tells_nothing() -> None:
    tale = whole(changes())
    tale.op("listen", "listener0", [4, 1], at=(60, 65), type=Outcome.FAIL, error="not-leader-or-follower")
    (heard,) = heard_logs(tale.history())
    assert isinstance(heard, HeardLog)
    assert len(heard.answers) == 1
