"""Leaders of topic partitions that move again and again (`churn:partitions`), without a cluster."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults
from fencepost.harness.history import FaultAction, FaultOutcome
from fencepost.harness.runtime.node import NodeState
from fencepost.systems.kafka.contract.partition_leaders import PartitionReign
from tests.fakes.virtual_time import run_virtual
from tests.faults.test_workers import FAULTS, MS, SETTING, Run, for_a_while


class Brokers:
    """A system of two partitions: b is led by the broker that is up, back to the preferred one when it is asked."""

    name = "brokers"

    def __init__(self, run: Run, *, elects: bool) -> None:
        self._run, self._elects = run, elects
        self._reigns = {
            f"t-{n}": PartitionReign(leader=f"n{n}", epoch=0, preferred=f"n{n}", in_sync=True) for n in (1, 2)
        }

    async def partition_reigns(self, layout: object, *, timeout_s: float) -> Mapping[str, PartitionReign]:
        for name, reign in self._reigns.items():
            assert reign.leader is not None
            if self._run.runtime.nodes[reign.leader].state is NodeState.DEAD:
                other = "n1" if reign.leader == "n2" else "n2"
                self._reigns[name] = replace(reign, leader=other, epoch=reign.epoch + 1)
        return dict(self._reigns)

    async def elect_preferred(self, layout: object, *, timeout_s: float) -> None:
        for name, reign in self._reigns.items():
            if self._elects and reign.leader != reign.preferred:
                self._reigns[name] = replace(reign, leader=reign.preferred, epoch=reign.epoch + 1)


@pytest.mark.parametrize("elects", [True, False])
def test_partitions_move_off_a_broker_and_back_when_they_are_asked_to(
    elects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.systems.kafka.faults.partition_moves._MOVED_S", 0.1)
    run = Run()
    system: Any = Brokers(run, elects=elects)
    run.conductor._cluster = replace(run.conductor._cluster, system=system)
    spec = FAULTS["churn"].spec("partitions", {"every": "10ms"})
    run_virtual(for_a_while(run, [ScheduledFault(spec=spec, inject_ns=0, duration_ns=300 * MS, draw_seed=1)]))
    parts = [e for e in run.ends(FaultAction.INJECT) if "part_of" in e.details]
    assert [e.details["by"] for e in parts[:2]] == ["restart", "ask"]
    assert parts[0].outcome is FaultOutcome.INSTALLED
    assert parts[1].outcome is (FaultOutcome.INSTALLED if elects else FaultOutcome.INDETERMINATE)
    assert all(node.state is NodeState.RUNNING for node in run.runtime.nodes.values())


def test_partitions_have_leaders_only_where_there_are_brokers() -> None:
    with pytest.raises(UsageError, match="two brokers or more"):
        parse_faults("churn:partitions", FAULTS, SETTING)
