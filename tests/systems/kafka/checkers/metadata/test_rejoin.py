"""To whom a broker is attached, in words. The verdicts are in `tests/cases/kafka-rejoin.case`. Times are in ms."""

from typing import Any

from fencepost.checkers.derived.reigns import reigns_of
from fencepost.harness.history import Claim, Outcome
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChanges
from fencepost.systems.kafka.checkers.metadata.rejoin import attached_words, attachments
from fencepost.systems.kafka.checkers.metadata.staleness import staleness
from fencepost.systems.kafka.figures import Attachment
from tests.checkers.build import NODES, Tale, facts

FACTS = facts(nodes=(*NODES, "b1"), electorate=NODES)


def polls(from_ms: int, to_ms: int) -> list[float]:
    return [float(at) for at in range(from_ms, to_ms, 50)]


def cut_and_back(*, deposed_at: int | None, epoch: int = 10, leader: str = "n2") -> Tale:
    """n1 leads epoch 3, is cut off from 1 s to 11 s; n2 leads epoch 4 from 2.5 s; `leader` leads `epoch` in the end."""
    tale = Tale()
    tale.health(0, 20_000)
    tale.claims("n1", 3, polls(0, 2_400), subject="raft")
    tale.cut("n1", 1_000, 11_000)
    tale.claims("n2", 4, polls(2_500, deposed_at or 20_000), subject="raft")
    if deposed_at is not None:
        tale.claims(leader, epoch, polls(deposed_at + 700, 20_000), subject="raft")
    return tale


# -- attachments --------------------------------------------------------------------------------------------------


def forwarded(tale: Tale, times: list[float], leader: str | None, epoch: int | None, **more: Any) -> None:
    claims = Claim.SILENT if leader is None else Claim.NO
    for at in times:
        tale.belief("b1", claims, at, at + 2, epoch=epoch, leader=leader, subject="raft", **more)


def attached(tale: Tale) -> list[Attachment]:
    history = tale.history()
    stale = staleness(history, FACTS, MetadataChanges(history, FACTS))
    return attachments(history, FACTS, reigns_of(history, "raft"), "raft", stale)


def test_a_count_that_may_be_too_low_is_told_as_one() -> None:
    tale = cut_and_back(deposed_at=None)
    forwarded(tale, polls(0, 11_000), "n1", 3)
    forwarded(tale, polls(11_500, 20_000), "n2", 4)
    tale.op("alter", "k", 1, at=(2_980, 3_500), node="b1", type=Outcome.INFO, error="timeout")
    tale.op("alter", "k", 2, at=(2_990, 3_000), node="n2")
    tale.op("describe", "k", at=(3_500, 3_501), node="b1", result=None)
    tale.op("describe", "k", at=(4_000, 4_001), node="b1", result=1)
    (one,) = attached(tale)
    assert (one.stale_describes.value, one.undecided_describes.value) == (1, 1)
    assert "; at least 1 configuration reads there were stale" in attached_words(one)


def test_a_broker_that_never_follows() -> None:
    tale = cut_and_back(deposed_at=None)
    forwarded(tale, polls(0, 20_000), "n1", 3)
    (one,) = attached(tale)
    assert one.followed_ns is None
    assert "never followed" in attached_words(one)
