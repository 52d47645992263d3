"""The metadata workload on a real cluster: views and names are judged, and the logs on disk agree with all of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.ground_truth import read_logs
from harness.operation import Outcome
from harness.reader import read_history
from tests.lab_scenario import require_lab

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


def _fencepost(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "harness.cli", *arguments, "--no-spark", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode in (0, 2), done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_logs_on_disk_hold_what_was_acknowledged_and_are_judged_offline(tmp_path: Path) -> None:
    require_lab()
    document = _fencepost(
        "run", "--system", "kraft", "--workload", "metadata", "-o", "window=2s", "--time-limit", "8s", "--seed", "4",
        "--results", str(tmp_path),
    )  # fmt: skip
    (folder,) = [plan.parent for plan in tmp_path.glob("*/*/plan.toml")]
    verdicts = {(v["checker"], v["guarantee"]): v for v in document["verdicts"]}
    for judged in (
        ("metadata", "metadata-durable"),
        ("metadata", "metadata-forward"),
        ("metadata", "metadata-converges"),
        ("topic-names", "topic-names-linearizable"),
        ("ground-truth", "metadata-log-agrees"),
        ("ground-truth", "metadata-durable"),
    ):
        assert verdicts[judged]["validity"] == "valid", verdicts[judged]
    figures = verdicts["ground-truth", "metadata-log-agrees"]["figures"]
    changes = [o for o in read_history(folder).operations if o.f in ("alter", "create") and o.type is Outcome.OK]
    assert figures["acknowledged_found"] == len(changes) > 50
    assert figures["info_undecided"] == 0
    # Kept as lines, by a run that keeps no node data, and judged alike from them.
    logs = read_logs(folder)
    assert set(logs) == {"n1", "n2", "n3", "b1"}
    assert not [e for log in logs.values() for e in log.entries if "raw" in e.fields]
    assert not list(folder.glob("nodes/*/data.tar.gz"))
    assert _fencepost("check", str(folder))["verdicts"] == document["verdicts"]
