"""A real night of the example system: killed while its runs are in flight, resumed, and read on its page."""

import html
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fencepost.campaigns.night.register import Registered, read_register
from tests.run_command import ROOT, assert_nothing_left, command, wait_until_gone

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

_CAMPAIGN = """name = "short"
[plan]
system = "example"
workload = "register"
nemesis = "partition:leader"
time_limit = "5s"
quiet = "1s"
[axes]
nodes = [3]
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


@pytest.mark.slow
def test_a_night_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    file, results = tmp_path / "short.toml", tmp_path / "results"
    file.write_text(_CAMPAIGN)
    words = command("campaign", str(file), "--budget", "4m", "--jobs", "2", "--results", str(results))
    first = subprocess.Popen(
        [*words, "--seed", "3"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        register = _in_flight(results)
        _wait_for_servers(results)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        output, _ = first.communicate()
    # Its runs died with it, and their servers with them.
    assert wait_until_gone(results) == [], output
    night = register.parent
    assert "<h1>Running</h1>" in (night / "index.html").read_text()
    second = subprocess.run([*words, "--resume"], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert_nothing_left(results)
    document = json.loads((night / "campaign.json").read_text())
    cells = {o["cell"]["name"]: o for o in document["cells"]}
    assert "seed 3;" in second.stderr and document["seed"] == 3
    assert document["sessions"] == 2 and len(list(night.parent.iterdir())) == 1
    for each in cells.values():
        assert each["attempts"][0]["run_class"] == "lost"
        assert [a["number"] for a in each["attempts"]] == list(range(1, len(each["attempts"]) + 1))
        assert all((night / a["folder"] / "attempt.toml").is_file() for a in each["attempts"])
    assert "stale-read" in cells["the canary"]["attempts"][-1]["anomalies"], second.stdout + second.stderr
    (other,) = (o for name, o in cells.items() if name != "the canary")
    assert second.returncode == document["outcome"]["exit_code"] == (0 if other["run_class"] == "valid" else 2)
    assert other["run_class"] in ("valid", "unknown-coverage", "harness"), other
    page = (night / "index.html").read_text()
    assert "attempt 1 of 2: lost" in page and f'href="{other["attempts"][-1]["report"]}"' in page
    _on_the_pages(results, night, runs=sum(1 for o in cells.values() if o["attempts"][-1]["report"]))


def _on_the_pages(results: Path, night: Path, *, runs: int) -> None:
    """The night comes into the warehouse and onto the pages over all nights, as it does every morning."""
    kept = ["--warehouse", str(results / "warehouse")]
    pages = results / "pages"
    for words in (["add", str(results), *kept], ["pages", *kept, "--out", str(pages)]):
        done = subprocess.run(
            command("warehouse", *words), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    tonight = (pages / "index.html").read_text()
    assert f"short-{night.name}" in tonight
    canaries = tonight.partition('id="canaries"')[2].partition("</section>")[0]
    assert '<span class="badge valid">' in canaries and "the canary" in canaries
    (own,) = re.findall(r'<a href="([^"#]+)">the night.s own page</a>', html.unescape(tonight))
    assert (pages / own).resolve() == night / "index.html"
    squares = re.findall(r'<a class="sq [^"]*" href="([^"]+)"', (pages / "matrix.html").read_text())
    assert len(squares) == runs and all((pages / link).is_file() for link in squares)


def _in_flight(results: Path) -> Path:
    """The register, once both runs of the night are registered."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in results.glob("nights/short/*/register.jsonl"):
            if path.stat().st_size and sum(isinstance(r, Registered) for r in read_register(path)) == 2:
                return path
        time.sleep(0.05)
    raise AssertionError("no run was registered within a minute")


def _wait_for_servers(results: Path) -> None:
    """Both runs have servers whose logs are there."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len({path.parents[3] for path in results.glob("nights/short/*/runs/*/*/*/nodes/*/*.log")}) == 2:
            return
        time.sleep(0.05)
    raise AssertionError("no server was started within a minute")
