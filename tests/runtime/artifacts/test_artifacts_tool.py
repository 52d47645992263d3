"""A program that fetches is ended at its deadline with all its children, and its last words stand in the error."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import tool

#: Of what must happen; a busy machine may take its time.
_DEADLINE_S = 60.0


def test_what_it_prints_comes_back(tmp_path: Path) -> None:
    script, environment = "echo $WORD; pwd; echo aside >&2", {"WORD": "w"}
    printing = tool.Command(argv=["sh", "-c", script], timeout_s=60, cwd=tmp_path, environment=environment)
    assert tool.run(printing, what="x", hint="h") == f"w\n{tmp_path}\n"
    to_file = tool.Command(argv=["printf", "bytes"], timeout_s=60, stdout=tmp_path / "out")
    assert tool.run(to_file, what="x", hint="h") == ""
    assert (tmp_path / "out").read_text() == "bytes"


def test_a_failure_names_what_where_and_the_last_words() -> None:
    script = "for i in $(seq 100); do echo line $i; done; echo refused >&2; exit 3"
    with pytest.raises(MachineError) as caught:
        tool.run(tool.Command(argv=["sh", "-c", script], timeout_s=60), what="resolving x", hint="try again")
    assert caught.value.message.startswith("resolving x: `sh` ended with 3\n  line 90\n")
    assert caught.value.message.endswith("\n  line 100\n  refused")
    assert caught.value.hint == "try again"


def test_at_the_deadline_the_whole_group_is_ended(tmp_path: Path) -> None:
    noted = tmp_path / "child"
    # Whoever waited for the child would meet the deadline of this test.
    script = f"sleep 600 & echo $! > {noted}.part; mv {noted}.part {noted}; wait"
    # On a busy machine the child may not have been born yet; then longer.
    for timeout_s in (0.3, 3, 30):
        with pytest.raises(MachineError, match=rf"did not end within {timeout_s} s"):
            tool.run(tool.Command(argv=["sh", "-c", script], timeout_s=timeout_s), what="x", hint="h")
        if noted.exists():
            break
    _await_end(int(noted.read_text()))


def test_it_dies_with_us(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/tool; exec sleep 600"
    code = (
        "import sys; from fencepost.harness.runtime.artifacts import tool;"
        "tool.run(tool.Command(argv=sys.argv[1:], timeout_s=600), what='', hint='')"
    )
    ours = subprocess.Popen([sys.executable, "-c", code, "sh", "-c", script])
    try:
        deadline = time.monotonic() + _DEADLINE_S
        while not (tmp_path / "tool").exists() or not (tmp_path / "tool").read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        ours.kill()
        ours.wait()
    _await_end(int((tmp_path / "tool").read_text()))


def _await_end(pid: int) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while _runs(pid):
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_program_that_does_not_start_is_said() -> None:
    with pytest.raises(MachineError, match=r"x: /no/such does not start: No such file"):
        tool.run(tool.Command(argv=["/no/such"], timeout_s=1), what="x", hint="h")
