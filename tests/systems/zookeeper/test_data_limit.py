"""The room for a ZooKeeper server's data: no plan of the files of nights can fill it, whatever its draws."""

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.campaigns.night.cells import cells_of
from fencepost.campaigns.night.draws import with_values
from fencepost.campaigns.night.file import read_campaign
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import resolve_plan
from fencepost.systems.zookeeper.options import ZooKeeperOptions

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to"
#: Upper bounds of what was measured: a change in the log; whole pages and the head of a snapshot and a log file; a node
#: of the tree in a snapshot.
CHANGE_BYTES, FILES_BYTES, NODE_BYTES = 512, 12 << 10, 160
#: ZooKeeper's own default.
SNAP_COUNT = 100_000
#: Phases with load beside the main one.
MORE_S = 15


def bytes_max(plan: Plan) -> int:
    """The most that one server can keep: every offered operation is a change, and each snapshot comes soonest.

    Nothing is purged during a run. A snapshot is taken after half of `snapCount` changes at the earliest, and holds
    every element that a set has by then; a register's keys are few.
    """
    options: Any = resolve_plan(plan).options
    changes = options.rate * (plan.duration_ns("time_limit") / 1e9 + MORE_S) if hasattr(options, "rate") else 0
    snapshots = 2 * changes / float(plan.server_settings.get("zookeeper", {}).get("snapCount", SNAP_COUNT))
    nodes = changes / 2 if plan.workload == "set" else 100
    change_bytes = CHANGE_BYTES + getattr(options, "value_bytes", 0) / 4
    return int(changes * change_bytes + snapshots * (FILES_BYTES + nodes * NODE_BYTES))


def plans(file: str) -> list[tuple[str, Plan]]:
    """Every ZooKeeper plan of the file with the ends of its draws, in all combinations."""
    found = []
    for cell in cells_of(read_campaign(HOW_TO / file)).cells:
        for ends in itertools.product(*(draw.ends for draw in cell.draws)) if cell.plan.system == "zookeeper" else ():
            values = {draw.key: end for draw, end in zip(cell.draws, ends, strict=True)}
            found.append((f"{cell.name} {values}", with_values(cell.plan, values)))
    return found


@pytest.mark.parametrize("file", ["nightly.toml", "broad-night.toml"])
def test_no_plan_of_a_night_can_fill_the_disk(file: str) -> None:
    found = plans(file)
    drawn = {plan.server_settings.get("zookeeper", {}).get("snapCount") for _, plan in found}
    assert {100, 10_000} <= drawn, "the draws meet their ends"
    for name, plan in found:
        limit = int(plan.system_options.get("data_limit_mib", ZooKeeperOptions().data_limit_mib)) << 20
        assert bytes_max(plan) < limit, name


def test_the_bound_sees_a_disk_that_fills() -> None:
    # Seen to fill: a set that grows with every add, in a snapshot every few dozen of them.
    options = {"rate": 1500.0}
    plan = Plan(system="zookeeper", workload="set", seed=0, nemesis="kill:one", time_limit="45s")
    plan = msgspec.structs.replace(plan, workload_options=options, server_settings={"zookeeper": {"snapCount": 100}})
    assert bytes_max(plan) > ZooKeeperOptions().data_limit_mib << 20
