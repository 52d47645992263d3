"""Two real shards of one night, as two machines run them: own results, own home; merged by their files alone."""

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fencepost.campaigns.night.file import read_campaign
from fencepost.campaigns.night.register import NightRegister, read_register
from fencepost.campaigns.night.session import NightWishes, id_of_night
from fencepost.harness.base.errors import UsageError
from tests.campaigns.night.made import opened
from tests.run_command import ROOT, assert_nothing_left, command

_CAMPAIGN = """name = "shared"
[plan]
system = "example"
workload = "register"
nemesis = "partition:leader"
time_limit = "5s"
quiet = "1s"
[axes]
nodes = [3, 5]
[[required]]
nodes = 3
[[cell]]
name = "the canary"
canary = true
anomaly = "stale-read"
nemesis = "kill:all"
system_options = { defect = "forgets" }
# So many keys that one is read before it is written again: only that shows what was forgotten as a stale read.
workload_options = { keys = 100 }
"""


def _file(tmp_path: Path) -> Path:
    (tmp_path / "shared.toml").write_text(_CAMPAIGN)
    return tmp_path / "shared.toml"


def _begun(results: Path, id: str, shard: int) -> None:
    folder = results / "nights" / "shared" / f"{id}-{shard}"
    folder.mkdir(parents=True)
    with NightRegister(folder / "register.jsonl") as register:
        register.append(opened([], id=id, shard=shard, shards=2))


def test_shards_share_an_id_by_the_date_of_their_night(tmp_path: Path) -> None:
    campaign = read_campaign(_file(tmp_path))
    wishes = NightWishes(budget_s=1, seed=1, results=tmp_path / "results", shard=1, shards=2)
    before, after = datetime(2026, 11, 25, 23, 59, tzinfo=UTC), datetime(2026, 11, 26, 0, 1, tzinfo=UTC)
    assert id_of_night(campaign, wishes, before) == id_of_night(campaign, wishes, after) == "shared-2026-11-25"
    _begun(wishes.results, "shared-2026-11-25", 2)
    assert id_of_night(campaign, wishes, after) == "shared-2026-11-25"
    _begun(wishes.results, "shared-2026-11-25", 1)
    assert id_of_night(campaign, wishes, after) == "shared-2026-11-25-2"
    alone = NightWishes(budget_s=1, seed=1, results=tmp_path / "results")
    assert id_of_night(campaign, alone, after) == ""


def test_a_name_that_a_shard_has_already_is_refused(tmp_path: Path) -> None:
    campaign = read_campaign(_file(tmp_path))
    wishes = NightWishes(budget_s=1, seed=1, results=tmp_path / "results", shard=1, shards=2, night="build-7")
    assert id_of_night(campaign, wishes, datetime.now(UTC)) == "shared-build-7"
    _begun(wishes.results, "shared-build-7", 1)
    with pytest.raises(UsageError, match="is this shard of it already"):
        id_of_night(campaign, wishes, datetime.now(UTC))


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.alone
def test_two_shards_on_two_machines_are_one_night(tmp_path: Path) -> None:
    file = _file(tmp_path)
    shards = [_shard(tmp_path, file, number) for number in (1, 2)]
    said = [shard.communicate(timeout=240)[0] for shard in shards]
    registers = [next((tmp_path / f"machine-{n}").glob("results/nights/shared/*/register.jsonl")) for n in (1, 2)]
    first, second = (read_register(path)[0] for path in registers)
    assert first.id == second.id == "shared-build-7", said  # type: ignore[union-attr]
    for number, (text, shard) in enumerate(zip(said, shards, strict=True), 1):
        assert_nothing_left(tmp_path / f"machine-{number}" / "results")
        assert f"shard {number} of 2: " in text and "is missing" not in text, text
        document = json.loads((registers[number - 1].parent / "campaign.json").read_text())
        assert shard.returncode == document["outcome"]["exit_code"] != 254, text
    # The files go to a third machine, which merges them and shows them as one night.
    here = tmp_path / "third"
    for number, register in enumerate(registers, 1):
        register.parent.parent.parent.parent.rename(_made(here) / f"shard-{number}")
    folders = [str(next(here.glob(f"shard-{number}/nights/shared/*"))) for number in (1, 2)]
    merged = _fencepost("campaign", "merge", *folders, "--results", str(here / "results"))
    assert merged.returncode == max(shard.returncode for shard in shards), merged.stdout + merged.stderr
    assert "2 of 2 cells tested" in merged.stdout and "2 of 2 shards" in merged.stderr
    kept = ("--warehouse", str(here / "warehouse"))
    added = _fencepost("warehouse", "add", *(str(here / f"shard-{number}") for number in (1, 2)), *kept)
    assert added.returncode == 0, added.stdout + added.stderr
    made = _fencepost("warehouse", "pages", *kept, "--out", str(here / "pages"))
    assert made.returncode == 0, made.stdout + made.stderr
    tonight = (here / "pages" / "index.html").read_text()
    assert "shared-build-7" in tonight and "is missing" not in tonight
    assert tonight.count("the pages of its shards") == 1
    assert tonight.partition('id="canaries"')[2].partition("</section>")[0].count("✓ caught") == 2


def _shard(tmp_path: Path, file: Path, number: int) -> "subprocess.Popen[str]":
    machine = tmp_path / f"machine-{number}"
    (machine / "home").mkdir(parents=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    flags = ("--budget", "3m", "--jobs", "1", "--shard", f"{number}/2", "--night", "build-7")
    return subprocess.Popen(
        command("campaign", str(file), *flags, "--results", str(machine / "results")),
        cwd=ROOT,
        env={**own, "HOME": str(machine / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _fencepost(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
