"""What brokers said of partitions, and what each answer lacks of what another broker had named before.

An epoch is known from the first answer on that names it or a later one. Epochs of a partition only grow, so which state
is the later one needs no clock.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.harness.history import Operation
from fencepost.systems.kafka.broker_view import BrokerView
from fencepost.systems.kafka.checkers.metadata.changes import completed


class ViewAnswer(msgspec.Struct, frozen=True):
    """One answer: the operation and what it says."""

    operation: Operation
    says: BrokerView

    @property
    def asked_ns(self) -> int:
        return self.operation.invoked_ns

    @property
    def answered_ns(self) -> int:
        return completed(self.operation)

    @property
    def node(self) -> str:
        return self.operation.node

    def epoch(self, partition: int) -> int:
        """The epoch that it names; -1 where it does not know the partition."""
        return next((state.epoch for state in self.says.partitions if state.partition == partition), -1)


class Lack(msgspec.Struct, frozen=True):
    """`view` lacks an epoch of `partition` that `known` had named before; the longest known of those that it lacks."""

    view: ViewAnswer
    partition: int
    known: ViewAnswer

    @property
    def age_ns(self) -> int:
        return self.view.asked_ns - self.known.answered_ns


class KnownEpochs:
    """Since when each epoch is known: for each partition the answers that named a later epoch than all before."""

    def __init__(self, views: Sequence[ViewAnswer]) -> None:
        self._first: Final[dict[int, list[tuple[int, ViewAnswer]]]] = {}
        for view in sorted(views, key=lambda v: v.answered_ns):
            for state in view.says.partitions:
                own = self._first.setdefault(state.partition, [])
                if not own or state.epoch > own[-1][0]:
                    own.append((state.epoch, view))

    def lack(self, view: ViewAnswer) -> Lack | None:
        """What an answer lacks for longest; None where it names the newest epochs that were known when it was asked."""
        lacks = []
        for state in view.says.partitions:
            own = self._first[state.partition]
            at = bisect_right(own, state.epoch, key=lambda known: known[0])
            if at < len(own) and own[at][1].answered_ns < view.asked_ns:
                lacks.append(Lack(view, state.partition, own[at][1]))
        return max(lacks, key=lambda lack: lack.age_ns, default=None)

    def could_lack(self, view: ViewAnswer, fresh_ns: int) -> bool:
        """Whether some epoch beyond the first was known `fresh_ns` before this answer was asked for."""
        return any(len(own) > 1 and own[1][1].answered_ns < view.asked_ns - fresh_ns for own in self._first.values())


def late_episodes(views: Sequence[ViewAnswer], late: Sequence[Lack]) -> list[list[Lack]]:
    """Group late answers of one broker between which it gave no other, in the order in which they were asked for."""
    by_view = {lack.view.operation.invoke_index: lack for lack in late}
    by_node: dict[str, list[ViewAnswer]] = {}
    for view in views:
        by_node.setdefault(view.node, []).append(view)
    episodes: list[list[Lack]] = []
    for own in by_node.values():
        current: list[Lack] = []
        for view in own:
            lack = by_view.get(view.operation.invoke_index)
            if lack is not None:
                current.append(lack)
            elif current:
                episodes.append(current)
                current = []
        if current:
            episodes.append(current)
    return sorted(episodes, key=lambda episode: episode[0].view.asked_ns)
