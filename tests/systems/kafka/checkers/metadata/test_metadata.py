"""Staleness, on constructed histories. The verdicts are in `tests/cases/kafka-metadata.case`. Times are in ms."""

from typing import Any

from fencepost.harness.history import Outcome
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChanges
from fencepost.systems.kafka.checkers.metadata.staleness import staleness
from tests.checkers.build import NODES, Tale, facts
from tests.systems.kafka.checkers.metadata.test_ground_truth import log

#: b1 is a broker: it has no vote, and hands changes over to whoever is in charge.
FACTS = facts(nodes=(*NODES, "b1"), electorate=NODES, read_guarantee="metadata-durable")


class Kept(Tale):
    """A tale of settings and names."""

    def set(self, key: str, value: int, at: tuple[float, float | None], node: str = "n1", **more: Any) -> int:
        return self.op("alter", key, value, at=at, node=node, **more)

    def get(self, key: str, result: int | None, at: float, node: str = "n1", **more: Any) -> None:
        self.tell_op("describe", key, result, at, node, **more)

    def tell_op(self, f: str, key: str, result: int | None, at: float, node: str, **more: Any) -> None:
        """Answered within a millisecond, by a process of its own."""
        self.op(f, key, None, at=(at, at + 1), node=node, result=result, **more)


def test_an_answer_is_as_old_as_the_first_change_that_it_lacks() -> None:
    tale = Kept()
    tale.set("k", 1, (100, 110))
    tale.set("k", 2, (200, 210))
    tale.set("k", 3, (300, 310))
    tale.get("k", 1, 1_210, "b1")
    tale.get("k", 3, 1_300, "b1")
    history = tale.history()
    judged = staleness(history, FACTS, MetadataChanges(history, FACTS))
    (stale,) = judged.stale
    assert judged.undecided == []
    assert stale.missed.value == 2
    assert stale.age_ns == 1_000_000_000


def timed_out(tale: Kept) -> None:
    """A change whose client gave up, shown by a broker for a while; the one acknowledged meanwhile is another."""
    tale.set("k", 1, (100, 200), type=Outcome.INFO)
    tale.set("k", 2, (150, 160), node="n1")
    tale.get("k", 1, 300, "b1")
    tale.get("k", 1, 310, "b1")


def test_a_change_that_is_in_one_log_only_settles_nothing() -> None:
    tale = Kept()
    timed_out(tale)
    history = tale.history()
    history.logs = {"n1": log("n1", "1:k=2 1:k=1"), "n2": log("n2", "1:k=2"), "n3": log("n3", "1:k=2")}
    assert len(staleness(history, FACTS, MetadataChanges(history, FACTS)).undecided) == 2
