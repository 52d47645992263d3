"""A write that its server gave up, that a serial read did not show, and that took effect later."""

import msgspec
import pytest

from fencepost.checkers.storage import registers
from fencepost.harness.history import History, OpEvent, Outcome
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.systems.cassandra.checkers.late_effects import ANOMALY, check
from tests.histories.language import parse

SERIAL = Facts(
    system="fake", workload="register", nodes=("n1", "n2", "n3"), guarantees=(), read_guarantee="linearizable"
)


def history(words: str, error: str = "write-timeout: 1 of 2 answered") -> History:
    """What the words tell; a write of unknown outcome ended with this error."""
    return History(
        [
            msgspec.structs.replace(event, error=error)
            if isinstance(event, OpEvent) and event.type is Outcome.INFO
            else event
            for event in parse(words).events
        ]
    )


def verdict(words: str, error: str = "write-timeout: 1 of 2 answered") -> Verdict:
    (one,) = check(history(words, error), SERIAL)
    return one


@pytest.mark.parametrize(
    "words",
    [
        "a:w1 b(w2 b? c:r1 d:r2",
        "a:w1 b(w2 b? c:r1 d:c2,3",
        "a:w1 b(c1,2 b? c:r1 e:r1 d:r2 d:r2",
        # The write was given up before the read began, though others overlap it.
        "a:w1 e(r b(w2 b? c(r c)1 e)1 d:r2",
    ],
)
def test_an_effect_after_a_serial_read_is_late(words: str) -> None:
    late = verdict(words)
    assert late.validity is Validity.INVALID and late.anomalies == {ANOMALY: 1}
    assert "took effect after the read" in late.witnesses[0].steps[-1]


@pytest.mark.parametrize("words", ["a:w1 b(w2 b? c:r1 d:r2", "a:w1 b(c1,2 b? c:r1 e:r1 d:r2"])
def test_it_is_linearizable_all_the_same(words: str) -> None:
    (judged,) = registers.check(history(words), SERIAL)
    assert judged.validity is Validity.VALID


@pytest.mark.parametrize(
    "words",
    [
        "a:w1 b(w2 b? c:r1 d:r1",
        # Another write of the key took its place.
        "a:w1 b(w2 b? c:r1 a:w3 d:r3",
    ],
)
def test_a_write_that_is_never_seen_again_is_settled(words: str) -> None:
    kept = verdict(words)
    assert kept.validity is Validity.VALID and kept.exposure == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        # Somebody else may have seen it before, or at the same time as, the read that does not show it.
        ("a:w1 b(w2 b? e:r2 c:r1 d:r2", "write-timeout"),
        ("a:w1 b(w2 b? e(r c:r1 e)2 d:r2", "write-timeout"),
        # The read was under way when the server gave up.
        ("a:w1 b(w2 c(r b? c)1 d:r2", "write-timeout"),
        # The caller gave up, or lost its connection: the server may still be at work.
        ("a:w1 b(w2 b? c:r1 d:r2", "timeout"),
        ("a:w1 b(w2 b? c:r1 d:r2", "connection-lost: reset"),
        # Two writes of one value: which of them was seen?
        ("a:w1 b(w2 b? c:r1 a:w2 d:r2", "write-timeout"),
        # Nobody looked again, or nobody looked at all.
        ("a:w1 b(w2 b? c:r1", "write-timeout"),
        ("a:w1 b(w2 b?", "write-timeout"),
    ],
)
def test_nothing_is_said_of_what_proves_nothing(words: str, error: str) -> None:
    unexposed = verdict(words, error)
    assert unexposed.validity is Validity.UNKNOWN and unexposed.exposure == 0 and not unexposed.anomalies


def test_reads_that_are_not_serial_settle_nothing() -> None:
    plain = msgspec.structs.replace(SERIAL, read_guarantee="fresh-by-quorum")
    assert check(history("a:w1 b(w2 b? c:r1 d:r2"), plain) == []
