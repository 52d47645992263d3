"""The watch workload on real clusters: nothing is lost, but where a release is known to lose it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab_scenario import require_lab
from tests.run_command import only_folder, run_undisturbed, without_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

_COMPACTED = ("-o", "compact_every=500ms", "-o", "again_every=1s", "-o", "keys=3")
_MENDED = "3.5.35"


@pytest.fixture(autouse=True)
def _lab() -> None:
    require_lab()


def watched(tmp_path: Path, *plan: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the watch checker's verdicts by guarantee."""
    done, results = run_undisturbed(tmp_path, "--workload", "watch", *plan)
    document = without_rows(json.loads((only_folder(results) / "verdict.json").read_text()))
    verdicts = {v["guarantee"]: v for v in document["verdicts"] if v["checker"] == "watch"}
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode, verdicts


@pytest.mark.long
@pytest.mark.alone
def test_listeners_of_etcd_resume_where_they_stopped_and_miss_nothing(tmp_path: Path) -> None:
    plan = ("--system", "etcd", "--nemesis", "partition:leader", "--quiet", "1s", "--time-limit", "9s", "--seed", "7")
    status, verdicts = watched(tmp_path, *plan, "-o", "again_every=1500ms")
    assert status == 0, verdicts
    for guarantee in ("watch-ordered", "watch-unique", "watch-reliable", "watch-atomic", "watch-resumable"):
        assert verdicts[guarantee]["validity"] == "valid"
        assert verdicts[guarantee]["exposure"] > 20, guarantee
    assert verdicts["watch-truthful"]["validity"] == "valid"
    assert verdicts["watch-reliable"]["figures"]["late"] == 0


@pytest.mark.long
@pytest.mark.parametrize("watches", ["persistent", "one-shot"])
@pytest.mark.parametrize("nemesis", ["partition:leader", "kill", "pause"])
def test_listeners_of_zookeeper_are_told_before_the_data(tmp_path: Path, nemesis: str, watches: str) -> None:
    plan = ("--system", "zookeeper", "-o", f"watches={watches}", "--nemesis", nemesis, "--time-limit", "20s")
    status, verdicts = watched(tmp_path, *plan, "--seed", "5")
    assert status == 0, verdicts
    assert {v["validity"] for v in verdicts.values()} == {"valid"}
    assert verdicts["watch-before-data"]["exposure"] > 50


@pytest.mark.long
@pytest.mark.parametrize("nemesis", ["partition:leader", "pause"])
def test_listeners_of_etcd_hear_all_under_faults(tmp_path: Path, nemesis: str) -> None:
    status, verdicts = watched(tmp_path, "--system", "etcd", "--nemesis", nemesis, "--time-limit", "20s", "--seed", "5")
    assert status == 0, verdicts
    assert verdicts["watch-resumable"]["exposure"] > 100


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.5.1", "3.4.23"])
def test_etcd_loses_deletions_at_which_history_was_compacted(tmp_path: Path, version: str) -> None:
    """etcd#18089: the recipe is a compaction at a deletion's revision, and a watch from there."""
    plan = ("--system", "etcd", "--version", version, "--nemesis", "none", "--time-limit", "5s")
    status, verdicts = watched(tmp_path, *plan, *_COMPACTED)
    assert status == 1
    assert verdicts["watch-resumable"]["anomalies"]["lost-event"] > 0
    witness = verdicts["watch-resumable"]["witnesses"][0]
    assert witness["steps"][0].startswith("There was the deletion of k")


@pytest.mark.long
@pytest.mark.parametrize("nemesis", ["none", "kill"])
def test_a_mended_etcd_loses_none_of_them_and_its_bookmarks_keep_their_place(tmp_path: Path, nemesis: str) -> None:
    plan = ("--system", "etcd", "--version", _MENDED, "--nemesis", nemesis, "--time-limit", "15s")
    status, verdicts = watched(tmp_path, *plan, *_COMPACTED)
    assert status == 0, verdicts
    assert verdicts["watch-resumable"]["exposure"] > 50
    assert {verdict["validity"] for verdict in verdicts.values()} == {"valid"}
