"""Folders of Spark's temporary files: one of a killed harness goes with the next start, one in use stays."""

import signal
import subprocess
import sys
from pathlib import Path

from fencepost.warehouse.scratch import Scratch

_HOLDS = """
import sys, time
from pathlib import Path
from fencepost.warehouse.scratch import Scratch
print(Scratch(Path(sys.argv[1])).folder, flush=True)
time.sleep(60)
"""


def test_what_a_killed_harness_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    mine = Scratch(tmp_path)
    (tmp_path / "fencepost-spark-of-an-older-version").mkdir()
    with subprocess.Popen([sys.executable, "-c", _HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        third = Scratch(tmp_path)
        assert mine.folder.is_dir() and theirs.is_dir() and third.folder.is_dir()
        other.send_signal(signal.SIGKILL)
    third.remove()
    fourth = Scratch(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {mine.folder.name, fourth.folder.name, "fencepost-spark-of-an-older-version"}
    for one in (mine, fourth):
        one.remove()
