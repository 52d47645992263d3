"""A quorum that is lost for good: two of three controllers never come back, and the run ends with what can be said."""

import contextlib
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from fencepost.harness.history import NodeChange, NodeEvent, NoteEvent, PhaseEvent, PhaseName
from fencepost.harness.results.reader import read_history
from tests.lab_scenario import require_lab
from tests.run_command import assert_nothing_left, only_folder, started, wait_for_line

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(300)]

LOST = ("n1", "n2")
PLAN = """
system = "kraft"
workload = "metadata"
nemesis = "none"
seed = 5
time_limit = "6s"
[phases]
settle = "5s"
final = "5s"
"""


class _Killer(threading.Thread):
    """Ends the servers of some nodes as often as they are started, as a machine that is gone would."""

    def __init__(self, results: Path) -> None:
        super().__init__(daemon=True)
        self._commands = [f"{only_folder(results)}/nodes/{name}/server.properties".encode() for name in LOST]
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.05):
            for process in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    if any(command in words for command in self._commands):
                        os.kill(int(process.name), signal.SIGKILL)


def test_the_run_ends_at_its_deadlines_and_is_unknown(tmp_path: Path) -> None:
    require_lab()
    plan, results = tmp_path / "plan.toml", tmp_path / "results"
    plan.write_text(PLAN)
    with started(results, str(plan)) as child:
        wait_for_line(child, "main (6 s)")
        killer = _Killer(results)
        killer.start()
        out, err = child.communicate(timeout=200)
        killer.over.set()
        killer.join()
    assert child.returncode == 2, out + err
    folder = only_folder(results)
    document = json.loads((folder / "verdict.json").read_text())
    assert document["validity"] == "unknown"
    assert not [anomaly for anomaly in document["anomalies"] if anomaly["decides"]], "nobody proved a violation"
    history = read_history(folder)
    ended = [e.node for e in history.events if isinstance(e, NodeEvent) and e.change is NodeChange.EXITED]
    assert set(ended) == set(LOST)
    assert len(ended) > len(LOST), "started again to heal, and ended again"
    notes = [e.text for e in history.events if isinstance(e, NoteEvent) and e.topic == "not-healthy-after-healing"]
    assert len(notes) == 1
    assert [e.phase for e in history.events if isinstance(e, PhaseEvent)] == list(PhaseName)
    assert_nothing_left(results)
