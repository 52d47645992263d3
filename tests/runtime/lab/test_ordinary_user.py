"""The lab as an ordinary user: no root, no sudo, no sub-uid range."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab_scenario import ROOT, User, refuse, run_scenario
from tests.runtime.lab.test_lab import HERE, PATTERNS, assert_life, expected_links

#: Belongs to nobody on any machine we know of; the lab needs no account, only an id.
UID = 61234


def usable_python() -> str | None:
    """A Python from 3.11 on that an ordinary user may execute; the interpreter of a closed home is none."""
    for python in ("/usr/bin/python3", "/usr/local/bin/python3", shutil.which("python3")):
        if python is None or not Path(python).exists():
            continue
        tried = subprocess.run(
            [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"],
            user=UID,
            group=UID,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
            timeout=20,
        )
        if tried.returncode == 0:
            return python
    return None


@pytest.fixture(scope="module")
def user() -> Iterator[User | None]:
    """An id without rights, with a copy of the tree that it can read; None when the tests themselves have no rights."""
    if os.geteuid() != 0:
        yield None
        return
    try:
        python = usable_python()
    except PermissionError:
        python = None
    if python is None:
        refuse("no Python 3.11 that an ordinary user may execute; remedy: install python3 system-wide")
    assert python is not None
    tree = Path(tempfile.mkdtemp(prefix="fencepost-tree-"))
    tree.chmod(0o755)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fencepost", tree / "fencepost", symlinks=True, ignore=ignore)
    shutil.copytree(ROOT / "harness", tree / "harness", ignore=ignore)
    (tree / "tests").mkdir()
    (tree / "tests" / "__init__.py").touch()
    shutil.copy(ROOT / "tests" / "lab_scenario.py", tree / "tests")
    shutil.copytree(ROOT / "tests" / "runtime", tree / "tests" / "runtime", ignore=ignore)
    yield User(UID, python, tree)
    shutil.rmtree(tree)


@pytest.mark.parametrize("nodes", [3, 5])
def test_every_link_is_open(user: User | None, nodes: int) -> None:
    found = run_scenario(f"{HERE}:reach", nodes=nodes, user=user)
    assert found["probes"] == dict.fromkeys(expected_links(nodes), "open")
    assert set(found["tcp"].values()) == {"open"}


def test_every_pattern_is_enforced_proven_and_undone(user: User | None) -> None:
    assert run_scenario(f"{HERE}:patterns", {"patterns": PATTERNS}, user=user) == []


def test_servers_live_and_die(user: User | None) -> None:
    assert_life(run_scenario(f"{HERE}:life", user=user))


def test_data_is_limited(user: User | None) -> None:
    assert run_scenario(f"{HERE}:data", user=user)["full"] == "ENOSPC"


def test_refusals_are_not_rationed(user: User | None) -> None:
    assert run_scenario(f"{HERE}:refusal_storm", user=user) == ["reset"]
