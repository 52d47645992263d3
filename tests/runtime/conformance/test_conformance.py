"""One suite for every runtime: the lab, and containers, with published ports and with proxies too.

`kinds` names the runtimes and, with the reason, everything in which they are expected to differ. That a cluster which
is closed in the middle of faults leaves nothing is looked at where the shared one is closed (`conftest`).
"""

import tempfile
from pathlib import Path

import pytest

from fencepost.harness.plugins import registry
from tests.runtime.conformance import links, servers
from tests.runtime.conformance.conftest import MARKED
from tests.runtime.conformance.kinds import KINDS
from tests.runtime.conformance.left import left, run_id
from tests.runtime.conformance.stage import Stage

SCENARIOS = [
    *(servers.serves, servers.log, servers.kill, servers.stop, servers.own_death),
    *(servers.pause, servers.kill_while_paused, servers.restart_with_data, servers.hooks, servers.another_spec),
    *(servers.failed_start, servers.cancelled_start, servers.cancelled_pause, servers.copy),
    *(links.effects, links.two_faults, links.heal_all, links.fault_with_proof, links.client_cut_off),
    *(links.restart_under_partition, links.dead_node, links.open_connection, links.streams),
]


@pytest.mark.parametrize("scenario", [f"{one.__module__}:{one.__name__}" for one in SCENARIOS])
def test_every_runtime_fulfils(stage: Stage, scenario: str) -> None:
    stage.play(scenario)


@pytest.mark.parametrize("text", links.SHAPES)
def test_every_shape_of_a_partition_is_exact(stage: Stage, text: str) -> None:
    stage.play("tests.runtime.conformance.links:shape", text=text)


# Five containers are dear; how they differ was looked at with three.
_ONCE = [one for one in MARKED if one.values[0] in ("lab", "containers")]


@pytest.mark.parametrize("stage", _ONCE, indirect=True)
def test_five_nodes_in_wide_shapes_then_killed_and_swept(stage: Stage) -> None:
    """Two facts on one cluster, which is dear to open; the shared one stands for a living run beside it."""
    provider = registry.runtime(KINDS[stage.kind].placement.runtime)
    with tempfile.TemporaryDirectory(prefix="fencepost-stage-") as folder:
        with Stage.open(stage.kind, Path(folder), nodes=5) as wide:
            for text in links.WIDE_SHAPES:
                wide.play("tests.runtime.conformance.links:shape", text=text)
            run = run_id(wide)
            wide.play("tests.runtime.conformance.links:be_in_the_middle")
            wide.kill()
        assert provider.sweep(None) == []
        assert left(wide.folder, run) == []
        assert provider.sweep(wide.folder) == []
        assert provider.sweep(wide.folder) == []
    stage.play("tests.runtime.conformance.servers:serves")


@pytest.mark.parametrize("stage", _ONCE, indirect=True)
def test_limited_data_survive_a_kill_and_are_limited(stage: Stage) -> None:
    # Two write-ahead log segments of 64 MiB are laid out beforehand.
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-stage-") as folder,
        Stage.open(stage.kind, Path(folder), nodes=1, data_limit_bytes=150 << 20) as small,
    ):
        small.play("tests.runtime.conformance.servers:restart_with_data")
        small.play("tests.runtime.conformance.servers:full_disk")
