"""Whole runs as a user makes them: real clusters, the command line, stops at bad moments, nothing left behind."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.history import FaultEvent, FaultOutcome, PhaseEvent, PhaseName
from fencepost.harness.plugins import registry
from fencepost.harness.results.reader import read_history
from tests.lab_scenario import require_lab
from tests.run_command import (
    assert_nothing_left,
    let_go,
    only_folder,
    run,
    run_undisturbed,
    started,
    wait_for_line,
    why_again,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _lab() -> None:
    require_lab()


@pytest.mark.alone
def test_etcd_under_a_partition_of_its_leader_is_valid_and_everything_is_kept(tmp_path: Path) -> None:
    done, results = run_undisturbed(
        tmp_path, "--system", "etcd", "--workload", "register", "--nemesis", "partition:leader", "--time-limit", "6s",
        "--quiet", "1s", "--seed", "7", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["validity"] == "valid"
    assert "seed 7" in done.stderr
    assert done.stderr.count("repeat with: fencepost run") == 2
    folder = only_folder(results)
    kept = {path.name for path in folder.iterdir()}
    assert {
        "plan.toml",
        "run.json",
        "history.parquet",
        "schedule.jsonl",
        "verdict.json",
        "junit.xml",
        "report.html",
    } <= kept
    assert "history.jsonl" not in kept
    assert not list(folder.glob("nodes/*/data.tar.gz")), "a valid run keeps no node data"
    history = read_history(folder)
    assert [fault.outcome for fault in history.faults] == [FaultOutcome.INSTALLED]
    (fault,) = history.faults
    assert fault.leader in fault.nodes
    assert [e.phase for e in history.events if isinstance(e, PhaseEvent)] == list(PhaseName)

    again = run("check", str(folder), "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["validity"] == "valid"
    (folder / "report.html").unlink()
    assert run("report", str(folder)).returncode == 0
    assert (folder / "report.html").stat().st_size > 10_000


@pytest.mark.alone
def test_zookeepers_woken_leader_answers_stale_after_sync(tmp_path: Path) -> None:
    done, results = run_undisturbed(
        tmp_path, "--system", "zookeeper", "--workload", "register", "--reads", "sync", "--require", "fresh-after-sync",
        "--nemesis", "pause:leader", "--quiet", "2s", "--time-limit", "18s", "--seed", "3",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr + done.stdout
    assert done.stdout.startswith("INVALID: fresh-after-sync")
    assert "witness (stale-read)" in done.stdout
    folder = only_folder(results)
    document = json.loads((folder / "verdict.json").read_text())
    assert document["exit_code"] == 1
    assert len(list(folder.glob("nodes/*/data.tar.gz"))) == 3, "an invalid run keeps its nodes' data"


@pytest.mark.long
def test_five_nodes_lose_no_acknowledged_element_in_a_ring(tmp_path: Path) -> None:
    done = run(
        "run", "--system", "etcd", "--workload", "set", "--nodes", "5",
        "--nemesis", "partition:ring:for=3s,pause:minority:for=3s", "--quiet", "1s", "--time-limit", "8s",
        "--seed", "5", "--results", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    kinds = {fault.fault for fault in read_history(only_folder(tmp_path)).faults}
    assert kinds == {"partition", "pause"}


def test_one_ctrl_c_heals_judges_and_ends(tmp_path: Path) -> None:
    plan = ("--system", "etcd", "--workload", "register", "--nemesis", "pause:leader:for=5m", "--time-limit", "6m")
    with started(tmp_path, *plan) as child:
        wait_for_line(child, "fault: pause")
        child.send_signal(signal.SIGINT)
        # How long it takes is a figure of `make bench`; here it must end by itself, and long before the fault would.
        out, err = child.communicate(timeout=120)
    assert child.returncode == 2, err
    folder = only_folder(tmp_path)
    history = read_history(folder)
    assert [e.outcome for e in history.events if isinstance(e, FaultEvent)][-1] is FaultOutcome.HEALED
    assert_told_cut_short(
        folder, out, "of the planned 360 s of its main phase: asked to stop by Ctrl-C, SIGTERM or SIGHUP"
    )
    assert_nothing_left(tmp_path)


def assert_told_cut_short(folder: Path, out: str, why: str) -> None:
    """Everything that is kept says what cut the run short, and a later check says the same."""
    assert out.startswith("UNKNOWN: the run was cut short ")
    headline = out.splitlines()[0].removeprefix("UNKNOWN: ")
    assert why in headline
    document = json.loads((folder / "verdict.json").read_text())
    assert (document["headline"], document["cut_short"]) == (headline, headline)
    assert document["played_ns"] < document["planned_ns"]
    assert headline in (folder / "junit.xml").read_text()
    assert headline in (folder / "report.html").read_text()
    again = run("check", str(folder))
    assert again.returncode == 2
    assert again.stdout.splitlines()[0] == out.splitlines()[0]


@pytest.mark.parametrize("deadline", [(), ("--deadline", "10m")])
def test_a_run_that_is_stopped_before_its_end_is_unknown(tmp_path: Path, deadline: tuple[str, ...]) -> None:
    plan = ("--system", "etcd", "--workload", "register", "--nemesis", "pause:leader:for=1s", "--time-limit", "30s")
    with started(tmp_path, *plan, "--quiet", "1s", "--seed", "3", *deadline) as child:
        for _ in range(2):  # the first was healed, and enough was read and written
            wait_for_line(child, "fault: pause")
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=120)
    assert child.returncode == 2, err
    by = "Ctrl-C, SIGTERM, SIGHUP or --deadline 10m" if deadline else "Ctrl-C, SIGTERM or SIGHUP"
    assert_told_cut_short(only_folder(tmp_path), out, f"of the planned 30 s of its main phase: asked to stop by {by}")


@pytest.mark.long
def test_a_ctrl_c_before_the_main_phase_is_no_failure_of_the_harness(tmp_path: Path) -> None:
    plan = ("--system", "etcd", "--workload", "register", "--nemesis", "pause:leader", "--time-limit", "60s")
    with started(tmp_path, *plan) as child:
        wait_for_line(child, "warm-up (")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 2, err
    assert "ended early" not in err
    assert out.startswith("UNKNOWN")
    assert_nothing_left(tmp_path)


def test_a_deadline_ends_a_run_that_would_last_longer_with_a_verdict(tmp_path: Path) -> None:
    plan = ("--system", "etcd", "--workload", "set", "--nemesis", "partition:one", "--time-limit", "10m")
    done = run("run", *plan, "--deadline", "25s", "--results", str(tmp_path), timeout_s=120)
    assert done.returncode == 2, done.stdout + done.stderr
    folder = only_folder(tmp_path)
    assert read_history(folder).healed_ns is not None
    # A busy machine may need most of it for the start of the cluster.
    assert_told_cut_short(folder, done.stdout, "asked to stop by Ctrl-C, SIGTERM, SIGHUP or --deadline 25s")


@pytest.mark.parametrize("doing", ["stopping", "judge"])
def test_two_ctrl_c_end_at_once_with_130_and_leave_nothing(tmp_path: Path, doing: str) -> None:
    plan = (
        "--system",
        "etcd",
        "--workload",
        "register",
        "--nemesis",
        "partition:leader:for=60s",
        "--time-limit",
        "70s",
    )
    with started(tmp_path, *plan) as child:
        wait_for_line(child, "fault: partition")
        # Nobody reads the report yet, so the command cannot end before the order, however late that is sent.
        page = only_folder(tmp_path) / "report.html"
        os.mkfifo(page)
        child.send_signal(signal.SIGINT)
        # Not after a while: two that arrive before a busy machine lets the first be handled are one.
        wait_for_line(child, doing)
        child.send_signal(signal.SIGINT)
        with let_go(page):
            _, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert_nothing_left(tmp_path)


def test_a_killed_harness_leaves_nothing_but_a_readable_history(tmp_path: Path) -> None:
    plan = ("--system", "etcd", "--workload", "register", "--nemesis", "partition:leader", "--time-limit", "60s")
    with started(tmp_path, *plan) as child:
        wait_for_line(child, "fault: partition")
        child.kill()
    assert_nothing_left(tmp_path)
    folder = only_folder(tmp_path)
    assert len(read_history(folder).operations) > 100
    done = run("check", str(folder))
    assert_told_cut_short(folder, done.stdout, "of the planned 60 s of its main phase: the history was never sealed")


def test_a_run_whose_runner_is_killed_is_unknown_and_says_so(tmp_path: Path) -> None:
    plan = ("--system", "etcd", "--workload", "register", "--nemesis", "pause:leader:for=1s", "--time-limit", "30s")
    with started(tmp_path, *plan, "--quiet", "1s", "--seed", "3") as child:
        for _ in range(2):  # the first was healed, and enough was read and written
            wait_for_line(child, "fault: pause")
        for runner in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split():
            os.kill(int(runner), signal.SIGKILL)
        out, err = child.communicate(timeout=120)
    assert child.returncode == 2, err
    why = "of the planned 30 s of its main phase: the runner ended with status -9 before the run was over"
    assert_told_cut_short(only_folder(tmp_path), out, why)
    assert_nothing_left(tmp_path)


@pytest.mark.slow
@pytest.mark.alone
def test_two_runs_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    fault = ("--nemesis", "partition:one:for=2s", "--quiet", "1s", "--time-limit", "8s")
    plan = ("--system", "etcd", "--workload", "set", *fault)
    for attempt in ("first", "second", "third"):
        folders = [tmp_path / attempt / name for name in ("a", "b")]
        with started(folders[0], *plan) as one, started(folders[1], *plan) as other:
            codes = []
            for child in (one, other):
                _, err = child.communicate(timeout=180)
                codes.append((child.returncode, err[-2000:]))
        reasons = [why_again(folder, code) for folder, (code, _) in zip(folders, codes, strict=True)]
        if not any(reasons) or {code for code, _ in codes} - {0, 2}:
            break
    assert [code for code, _ in codes] == [0, 0], codes


@pytest.mark.long
@pytest.mark.parametrize("system", ["etcd", "zookeeper"])
def test_without_fencing_updates_are_lost_and_with_it_none(tmp_path: Path, system: str) -> None:
    plan = ("--system", system, "--workload", "lock", "--nemesis", "partition:leader", "--time-limit", "30s")
    fenced = run("run", *plan, "--fencing", "on", "--results", str(tmp_path / "on"))
    assert fenced.returncode == 0, fenced.stdout + fenced.stderr
    blind = run("run", *plan, "--fencing", "off", "--results", str(tmp_path / "off"))
    assert blind.returncode == 1, blind.stdout + blind.stderr
    assert "expected to be invalid" in blind.stderr


@pytest.mark.long
@pytest.mark.parametrize("workload", ["register", "set", "lock"])
@pytest.mark.parametrize("system", ["etcd", "zookeeper"])
def test_every_workload_runs_on_every_system(tmp_path: Path, system: str, workload: str) -> None:
    done = run(
        "run", "--system", system, "--workload", workload, "--nemesis", "partition:leader,pause:follower",
        "--time-limit", "25s", "--results", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_recorded_release_is_what_the_servers_say(tmp_path: Path) -> None:
    """Not what stands on their packing: here a wrapper that says another version, as the base's label of an image."""
    wrapper = tmp_path / "etcd"
    real = registry.system("etcd").releases.resolve("3.5.1").paths["etcd"]
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "etcd Version: 3.11"; exit; }}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    done = run(
        "run", "--system", "etcd", "--version", str(wrapper), "--workload", "register", "--nemesis", "none",
        "--time-limit", "3s", "--json", "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert done.returncode in (0, 2), done.stderr
    assert "the servers say that they are 3.5.1; their files or image say 3.11" in done.stderr
    assert json.loads(done.stdout)["version"] == "3.5.1"
    kept = json.loads((only_folder(tmp_path / "r") / "run.json").read_text())
    assert kept["system_version"] == "3.5.1"
    assert kept["told_versions"] == {"n1": "3.5.1", "n2": "3.5.1", "n3": "3.5.1"}


def test_a_node_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    broken = tmp_path / "etcd"
    broken.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo "etcd Version: 9.9.9"; exit; }\necho no such luck\nexit 3\n'
    )
    broken.chmod(0o755)
    done = run(
        "run", "--system", "etcd", "--version", str(broken), "--workload", "set", "--nemesis", "none",
        "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert done.returncode == 255, done.stderr
    assert "no such luck" in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr
    assert (only_folder(tmp_path / "r") / "nodes").is_dir()
