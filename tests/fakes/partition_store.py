"""Brokers that know partitions by a copy each, of which b2's stands still while it is cut off; and planted bugs.

b1 is the controller. A correct one leaves b2 out of the brokers that are alive three seconds after it was cut off, and
moves its leaders; b2 goes on answering by its old copy, which nobody promises that it does not.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import History
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Thresholds
from fencepost.systems.kafka.broker_view import BrokerView, PartitionState
from fencepost.systems.kafka.workloads.partition_states import PartitionStatesWorkload
from tests.fakes.playing import play
from tests.fakes.store import PlantedStore, StoreSession, facts_of

NODES: Final = ("b1", "b2", "b3")
GUARANTEES: Final = (
    "partition-states-agree",
    "partition-states-forward",
    "partition-states-converge",
    "partition-states-fresh",
    "stale-broker-is-fenced",
)
FACTS: Final = facts_of("partition-states", NODES, GUARANTEES, thresholds=Thresholds(ok_operations_min=40))
#: What each bug does, and the anomaly (checker:name) by which it must be found.
BUGS: Final = {
    "two-leaders": ("b3 now and then names another leader", "partition-states:two-leaders-of-one-epoch"),
    "went-back": ("a copy now and then answers from far behind", "partition-states:partition-state-went-back"),
    "late": ("b2's copy stands still while it is cut off", "partition-states:stale-partition-state"),
    "not-fenced": ("b2 is cut off, and counts as alive", "partition-states:stale-broker-not-fenced"),
}
#: b2's copy stands still from two seconds on, also at the end.
STUCK: Final = "stuck"

_PARTITIONS: Final = 3
_LOAD_S: Final = 14.0
_CUT_S: Final = (2.0, 13.0)
_SESSION_S: Final = 3.0
_LAG_S: Final = {"b1": 0.0, "b2": 0.03, "b3": 0.05}


class FakeBrokers(PlantedStore):
    """What the controller knows, as it was at each time, and when each broker hears of it."""

    def __init__(self, seed: int, bug: str | None) -> None:
        super().__init__("partition-states", seed, bug)
        #: A correct one is cut off in two runs of three.
        self.cut: Final = bug is not None or seed % 3 > 0
        states = tuple(PartitionState(i, 1 + i % 3, 0, (1, 2, 3)) for i in range(_PARTITIONS))
        self.known: Final = [(0.0, BrokerView(1, (1, 2, 3), states))]

    @property
    def newest(self) -> BrokerView:
        return self.known[-1][1]

    def view(self, node: str) -> BrokerView:
        """What this broker's copy holds."""
        heard_s = self.now_s() - _LAG_S[node]
        ends_s = float("inf") if self.bug == STUCK else _CUT_S[1]
        if node == "b2" and self.cut and _CUT_S[0] < heard_s < ends_s:
            heard_s = _CUT_S[0]
        if self.hits("went-back", 100):
            heard_s -= 5.0
        view = next((view for at_s, view in reversed(self.known) if at_s <= heard_s), self.known[0][1])
        if node == "b3" and self.hits("two-leaders", 50):
            other = tuple(msgspec.structs.replace(s, leader=1 + s.leader % 3) for s in view.partitions)
            view = msgspec.structs.replace(view, partitions=other)
        return msgspec.structs.replace(view, broker=int(node[1:]))

    def change(self, **fields: Any) -> None:
        view = msgspec.structs.replace(self.newest, **fields)
        self.known.append((self.now_s(), view))

    def elect(self, partition: int, leader: int) -> None:
        old = self.newest.partitions
        state = msgspec.structs.replace(old[partition], leader=leader, epoch=old[partition].epoch + 1)
        self.change(partitions=(*old[:partition], state, *old[partition + 1 :]))

    async def fence(self, recorder: Recorder) -> None:
        """b2 is left out, its leaders are moved, and it is let in again before its copy has caught up."""
        if not self.cut or self.bug == "not-fenced":
            return
        await asyncio.sleep(_CUT_S[0] + _SESSION_S)
        self.change(live=(1, 3))
        for state in self.newest.partitions:
            if state.leader == 2:
                self.elect(state.partition, 1)
        await asyncio.sleep(_CUT_S[1] - _CUT_S[0] - _SESSION_S - 0.2)
        self.change(live=(1, 2, 3))


class FakePartitionStates(StoreSession[FakeBrokers]):
    """Implements `systems.kafka.protocols.PartitionStates`."""

    async def view(self) -> BrokerView:
        await self._travel()
        view = self._store.view(self._node)
        await self._travel()
        return view

    async def move(self, partition: int, replicas: Sequence[int]) -> None:
        await self._travel()
        brokers = self._store
        if self._node != "b1":
            raise Definite("not-controller")
        if brokers.random.randrange(50) == 0:
            raise Indefinite("connection-lost")
        if replicas[0] not in brokers.newest.live:
            raise Indefinite("preferred-leader-not-available")
        brokers.elect(partition, replicas[0])


def run_fake_partitions(bug: str | None, seed: int, options: Mapping[str, Any] | None = None) -> History:
    """One run in virtual time: 14 s of load, then the final phase."""
    brokers = FakeBrokers(seed, bug)
    return play(
        PartitionStatesWorkload(),
        lambda node: FakePartitionStates(brokers, node),
        nodes=NODES,
        seed=seed,
        load_s=_LOAD_S,
        system="kraft",
        options={"partitions": _PARTITIONS, "rate": 60.0, **(options or {})},
        beside=[brokers.fence],
    )
