"""Which run a folder means: itself, or the newest that stands in it, which is said; never one from deeper below."""

from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli import main
from fencepost.harness.results import run_folder as store
from tests.histories.language import FOLDER

OLD, NEW = "20261121T030405.678Z", "20261122T010000.000Z"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two runs of one plan and one of another, which is newer by its time."""
    for slug, name in (("etcd-set-kill", OLD), ("etcd-set-kill", NEW), ("etcd-lock-kill", "20261123T000000.000Z")):
        folder = tmp_path / slug / name
        folder.mkdir(parents=True)
        (folder / store.PLAN).write_text("")
    return tmp_path


def test_a_run_is_meant_itself(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = results / "etcd-set-kill" / OLD
    assert store.find_run_folder(run) == run
    assert capsys.readouterr().err == ""


def test_of_a_folder_of_runs_the_newest_is_meant_and_said(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    several, one = results / "etcd-set-kill", results / "etcd-lock-kill"
    (several / "20261124T000000.000Z").mkdir()  # nothing is kept there
    assert store.find_run_folder(several) == several / NEW
    assert capsys.readouterr().err == f"{NEW}: the newest of 2 runs in {several}\n"
    assert store.find_run_folder(one).parent == one
    assert capsys.readouterr().err == f"20261123T000000.000Z: the only run in {one}\n"


def test_a_history_without_its_plan_is_a_run(tmp_path: Path) -> None:
    (tmp_path / store.HISTORY).touch()
    assert store.find_run_folder(tmp_path) == tmp_path


def test_of_a_folder_of_all_results_none_is_meant(results: Path) -> None:
    with pytest.raises(UsageError, match="neither a run nor a folder of runs; 3 runs lie deeper") as caught:
        store.find_run_folder(results)
    assert f"as {results / 'etcd-lock-kill' / '20261123T000000.000Z'}" in (caught.value.hint or "")


@pytest.mark.parametrize("command", ["check", "report", "replay", "shrink"])
def test_every_command_that_takes_a_run_means_the_same(
    command: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(results)]) == 254
    assert "neither a run nor a folder of runs" in capsys.readouterr().err


def test_the_command_says_which_run_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    found = FOLDER / "found"
    assert main(["report", str(found), "--events", "0"]) == 0
    said = capsys.readouterr()
    assert f"the newest of {len(list(found.glob('*/plan.toml')))} runs" in said.err
    assert len(said.out.splitlines()) == 1, "stdout has the rows alone"
