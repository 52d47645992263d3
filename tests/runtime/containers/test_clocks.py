"""`clock-skew` on containers: the engine's processes are this machine's, and their clocks are set from outside."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fencepost.harness.history import ClockEvent, FaultAction, FaultEvent, FaultOutcome, FaultStage
from fencepost.harness.results.reader import read_history
from fencepost.harness.runtime.clocks.availability import why_not
from fencepost.harness.runtime.containers.provider import CONTAINERS
from fencepost.harness.runtime.provider import Placement
from tests.lab_scenario import refuse
from tests.run_command import only_folder, run

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.containers, pytest.mark.timeout(400)]


@pytest.mark.long
@pytest.mark.parametrize("system", ["etcd", "zookeeper"])
def test_a_container_s_server_tells_the_skew_itself(tmp_path: Path, engine: "DockerClient", system: str) -> None:
    refuse(why_not(Placement(runtime="containers", why_not=CONTAINERS.why_not)))
    text = "clock-skew:leader:offset=2m:for=3s"
    done = run(
        *("run", "--runtime", "containers", "--system", system, "--workload", "register", "--nemesis", text),
        *("--time-limit", "8s", "--quiet", "1s", "--seed", "5", "--results", str(tmp_path)),
    )
    history = read_history(only_folder(tmp_path))
    ends = [e for e in history.events if isinstance(e, FaultEvent) and e.stage is FaultStage.END]
    assert ends, done.stderr
    for end in ends:
        wanted = FaultOutcome.INSTALLED if end.action is FaultAction.INJECT else FaultOutcome.HEALED
        assert end.outcome is wanted, end.proof
        assert end.action is FaultAction.HEAL or "itself reports +1" in (end.proof or "")
    clocks = [e for e in history.events if isinstance(e, ClockEvent)]
    assert {e.offset_ns for e in clocks} == {0, 120 * 10**9}
    assert all(e.certain for e in clocks)


def test_an_engine_of_another_kernel_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.harness.runtime.containers.engine import engine

    class Facts:
        same_kernel, may_enter = False, False

    class Client:
        def close(self) -> None: ...

    placement = Placement(runtime="containers", why_not=CONTAINERS.why_not)
    monkeypatch.setattr(engine, "connect", Client)
    monkeypatch.setattr(engine, "facts", lambda _: Facts)
    assert "another kernel" in str(why_not(placement))
    Facts.same_kernel = True
    assert "only root may trace" in str(why_not(placement))
    Facts.may_enter = True
    if os.geteuid() == 0:
        assert why_not(placement) is None
