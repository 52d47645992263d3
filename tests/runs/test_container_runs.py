"""Whole runs on containers as a user makes them: every workload on every system, ways of links, stops and losses."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.harness.history import FaultEvent, FaultOutcome, PhaseEvent, PhaseName
from fencepost.harness.results.reader import read_history, read_logs
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.kafka.server import versions
from tests.run_command import ROOT, assert_nothing_left, command, only_folder, wait_for_line, why_again
from tests.runs.engine_relay import relay
from tests.runtime.containers import links_scene

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.timeout(400)
needs_engine = pytest.mark.containers

#: How often a run is made in all, where one decides nothing.
_ATTEMPTS = 3
_SHORT = ("--quiet", "1s", "--seed", "5", "--time-limit")


@dataclass(frozen=True)
class Done:
    pid: int
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"


@pytest.fixture
def engine() -> "Iterator[DockerClient]":
    client = links_scene.engine()
    yield client
    client.close()


@contextlib.contextmanager
def _running(results: Path, *arguments: str, docker_host: str = "") -> "Iterator[subprocess.Popen[str]]":
    child = subprocess.Popen(
        command("run", *arguments, "--results", str(results)),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "DOCKER_HOST": docker_host} if docker_host else None,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            # Its runner notices, heals and removes.
            child.kill()
        child.communicate()


def _run(results: Path, *arguments: str, docker_host: str = "", timeout_s: float = 150) -> Done:
    with _running(results, *arguments, docker_host=docker_host) as child:
        out, err = child.communicate(timeout=timeout_s)
    return Done(child.pid, child.returncode, out, err)


def _on_containers(results: Path, *arguments: str, **more: Any) -> Done:
    return _run(results, "--runtime", "containers", *arguments, **more)


def _undisturbed(results: Path, *arguments: str, every_verdict: bool = False, **more: Any) -> tuple[Done, Path]:
    """A run on containers, and where its results are; made again, twice at most, as `run_undisturbed` does and why."""
    for attempt in range(_ATTEMPTS):
        own = results / f"attempt-{attempt}"
        done = _on_containers(own, *arguments, **more)
        if not why_again(own, done.code, every_verdict=every_verdict):
            break
    return done, own


def _left(engine: "DockerClient", pid: int) -> list[str]:
    """Containers, volumes and networks that the command with this number made."""
    from fencepost.harness.runtime.containers.engine.ownership import listed

    return [str(one) for one in listed(engine) if one.owner.split(":")[1] == str(pid)]


def _assert_complete(results: Path, kinds: set[str], nodes: Sequence[str] = ("n1", "n2", "n3")) -> Path:
    """Everything that a run keeps, all phases, and every fault proven and healed.

    One may be skipped beside others of its kind: for a moment there is no leader that it could be done to.
    """
    folder = only_folder(results)
    kept = {path.name for path in folder.iterdir()}
    wanted = {"plan.toml", "run.json", "history.parquet", "schedule.jsonl", "verdict.json", "junit.xml", "report.html"}
    assert wanted <= kept
    assert not {"history.jsonl", "engine.json"} & kept
    for name in nodes:
        assert (folder / "nodes" / name / "server.log").stat().st_size > 1000
    history = read_history(folder)
    assert {fault.outcome for fault in history.faults} <= {FaultOutcome.INSTALLED, FaultOutcome.SKIPPED}
    installed = [fault for fault in history.faults if fault.outcome is FaultOutcome.INSTALLED]
    assert {fault.fault for fault in installed} == kinds
    events = [event for event in history.events if isinstance(event, FaultEvent)]
    healed = [event for event in events if event.outcome is FaultOutcome.HEALED]
    assert len(healed) == len(installed)
    assert [event.phase for event in history.events if isinstance(event, PhaseEvent)] == list(PhaseName)
    assert len(history.operations) > 100
    return folder


def _marks(workload: str) -> pytest.MarkDecorator:
    """CI runs the workload with the most operations; the others take as long again."""
    return pytest.mark.slow if workload == "register" else pytest.mark.long


@needs_engine
@pytest.mark.parametrize(
    ("system", "workload"),
    [
        pytest.param(system, workload, marks=_marks(workload))
        for system in ("etcd", "zookeeper")
        for workload in ("register", "set", "lock")
    ],
)
def test_every_workload_runs_on_every_system(
    engine: "DockerClient", tmp_path: Path, system: str, workload: str
) -> None:
    # Few operations end while the leader is away; a short run of locks would have seen nothing.
    role = ":follower" if workload == "lock" else ":leader"
    # Killed servers of 3.5.1 may differ from the others for ever (etcd#13766), and that rightly makes a run invalid.
    sound = ("--version", "3.4.23") if system == "etcd" else ()
    done, results = _undisturbed(
        tmp_path, "--system", system, *sound, "--workload", workload,
        "--nemesis", f"partition{role}:for=2s,kill{role}:for=1s",
        *_SHORT, "11s",
    )  # fmt: skip
    assert done.code == 0, done
    assert done.out.startswith("VALID")
    folder = _assert_complete(results, {"partition", "kill"})
    assert not list(folder.glob("nodes/*/data.tar.gz")), "a valid run keeps no node data"
    assert _left(engine, done.pid) == []
    assert_nothing_left(tmp_path)
    assert "--runtime containers" in done.err


#: Its image is made of jars that have to be there: one short run of Kafka, of the workload that the disks prove.
_QUICK_KAFKA = pytest.mark.slow if versions.JARS.are_fetched(KRAFT.releases.default) else pytest.mark.long
_KRAFT_NODES = ("n1", "n2", "n3", "b1")
_KAFKA_ZK_NODES = ("z1", "z2", "z3", "b1", "b2", "b3")


@needs_engine
@pytest.mark.parametrize(
    ("system", "workload", "nemesis", "judged"),
    [
        pytest.param(
            *("kraft", "metadata", "partition:controller:for=2s"),
            {
                ("metadata", "metadata-durable"),
                ("metadata", "metadata-converges"),
                ("ground-truth", "metadata-log-agrees"),
            },
            marks=_QUICK_KAFKA,
        ),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("kraft", "log", "kill:controller:for=2s", {("log", "log-durable")}),
                ("kraft", "producer-ids", "pause:controller:for=3s", {("producer-ids", "unique-producer-ids")}),
                ("kraft", "election", "pause:controller:for=3s", {("election", "one-acting-leader")}),
                *(
                    (
                        *(system, "consumer-groups", "kill:broker:for=2s"),
                        {
                            ("consumer-groups", "group-commits-durable"),
                            ("consumer-groups", "group-generations-fence"),
                            ("consumer-groups", "group-one-owner"),
                        },
                    )
                    for system in ("kraft", "kafka-zk")
                ),
                *(
                    (
                        *(system, "log-transactions", "kill:broker:for=2s"),
                        {
                            ("log-transactions", "transactions-atomic"),
                            ("log-transactions", "transactions-durable"),
                            ("log-transactions", "aborted-transactions-hidden"),
                            ("log-transactions", "no-hanging-transactions"),
                            ("log-transactions", "transforms-exactly-once"),
                        },
                    )
                    for system in ("kraft", "kafka-zk")
                ),
                ("kafka-zk", "metadata", "partition:controller:for=4s", {("metadata", "metadata-durable")}),
                ("kafka-zk", "log", "pause:controller:for=4s", {("log", "log-durable")}),
                (
                    *("kafka-zk", "partition-states", "partition:broker-controller:for=4s"),
                    {
                        ("partition-states", "partition-states-agree"),
                        ("partition-states", "partition-states-forward"),
                        ("partition-states", "partition-states-converge"),
                    },
                ),
                ("kafka-zk", "producer-ids", "kill:controller:for=2s", {("producer-ids", "unique-producer-ids")}),
                ("kafka-zk", "election", "kill:controller:for=2s", {("election", "one-acting-leader")}),
            )
        ),
    ],
)
def test_kafka_runs_as_in_the_lab(
    engine: "DockerClient", tmp_path: Path, system: str, workload: str, nemesis: str, judged: set[tuple[str, str]]
) -> None:
    """A run so short may leave unknown what is asked of a leader beyond its bound, but nothing else."""
    # A name is made once, and seldom: at its usual pace not even a quiet machine sees ten of them in this time.
    more = ("-o", "create_every=150ms") if workload == "metadata" else ()
    done, results = _undisturbed(
        tmp_path, "--system", system, "--workload", workload, "--nemesis", nemesis, *more,
        "--time-limit", "10s", "--quiet", "3s", "--watch", "1s", "--seed", "5",
        every_verdict=True,
    )  # fmt: skip
    assert done.code in (0, 2), done
    nodes = _KRAFT_NODES if system == "kraft" else _KAFKA_ZK_NODES
    folder = _assert_complete(results, {nemesis.partition(":")[0]}, nodes)
    verdicts = json.loads((folder / "verdict.json").read_text())["verdicts"]
    assert judged <= {(v["checker"], v["guarantee"]) for v in verdicts if v["validity"] == "valid"}, done
    if workload == "metadata" and system == "kraft":
        # Read out of the volumes, and of every voter and broker.
        assert set(read_logs(folder)) == set(nodes)
    assert _left(engine, done.pid) == []
    assert_nothing_left(tmp_path)


@needs_engine
@pytest.mark.long
def test_zookeepers_woken_leader_answers_stale_after_sync(engine: "DockerClient", tmp_path: Path) -> None:
    """The demo's finding, as in the lab."""
    done = _on_containers(
        tmp_path, "--system", "zookeeper", "--workload", "register", "--reads", "sync", "--require", "fresh-after-sync",
        "--nemesis", "pause:leader", "--time-limit", "24s", "--quiet", "3s", "--seed", "3",
    )  # fmt: skip
    assert done.code == 1, done
    assert done.out.startswith("INVALID: fresh-after-sync")
    assert "witness (stale-read)" in done.out
    folder = only_folder(tmp_path)
    assert len(list(folder.glob("nodes/*/data.tar.gz"))) == 3, "an invalid run keeps its nodes' data"
    assert _left(engine, done.pid) == []


@needs_engine
@pytest.mark.parametrize(
    ("nemesis", "kinds"),
    [
        pytest.param(
            *("link:leader:latency=20ms:for=2s,link:one:loss=10%:links=all:for=2s", {"link"}), marks=pytest.mark.long
        ),
        pytest.param(
            *("toxic:leader:kind=latency:for=2s,partition:follower:for=2s", {"toxic", "partition"}),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_links_and_streams(engine: "DockerClient", tmp_path: Path, nemesis: str, kinds: set[str]) -> None:
    done, results = _undisturbed(
        tmp_path, "--system", "etcd", "--workload", "register", "--nemesis", nemesis, *_SHORT, "7s"
    )
    assert done.code == 0, done
    _assert_complete(results, kinds)
    assert _left(engine, done.pid) == []


@needs_engine
@pytest.mark.slow
def test_an_image_of_your_own(engine: "DockerClient", tmp_path: Path) -> None:
    from fencepost.harness.runtime.containers import images
    from fencepost.systems.etcd.system import ETCD

    mine = f"fencepost-test-{os.getpid()}/my-etcd"
    engine.images.get(images.ensure(engine, images.of_system(ETCD.releases.image_recipe))).tag(mine, "nightly")
    try:
        done, results = _undisturbed(
            tmp_path, "--image", f"{mine}:nightly", "--system", "etcd", "--workload", "register",
            "--nemesis", "pause:for=1s", *_SHORT, "7s",
        )  # fmt: skip
    finally:
        engine.images.remove(f"{mine}:nightly", noprune=True)
    assert done.code == 0, done
    folder = _assert_complete(results, {"pause"})
    facts = json.loads((folder / "run.json").read_text())
    assert facts["artifacts"]["paths"]["image"] == f"{mine}:nightly"
    assert facts["system_version"] == "3.5.1", "by the label of the image"
    assert f"--image {mine}:nightly" in done.err
    assert "--version" not in done.err.partition("repeat with")[2].partition("\n")[0]
    assert _left(engine, done.pid) == []


@needs_engine
def test_a_missing_image_is_said_before_anything_starts(engine: "DockerClient", tmp_path: Path) -> None:
    done = _on_containers(tmp_path, "--system", "etcd", "--workload", "set", "--nemesis", "none",
        "--image", "fencepost-test/never-made:1",
    )  # fmt: skip
    _assert_refused(done, "fencepost-test/never-made:1")
    assert not list(tmp_path.iterdir())


def _assert_refused(done: Done, *words: str) -> None:
    assert done.code == 254, done
    assert "hint:" in done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err, done


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--runtime", "lab", "--image", "x"), ("--image", "--runtime containers")),
        (("--runtime", "containers", "--image", "x", "--version", "3.5.4"), ("--version",)),
        (("--runtime", "lab", "--nemesis", "toxic:leader:kind=latency"), ("toxic", "--runtime containers")),
        (("--runtime", "containers"), ("no-engine.sock",)),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """None of these needs an engine to be refused."""
    host = f"unix://{tmp_path}/no-engine.sock"
    done = _run(
        tmp_path / "r", "--system", "etcd", "--workload", "set", "--nemesis", "none", *arguments, docker_host=host
    )
    _assert_refused(done, *words)
    assert not (tmp_path / "r").exists()


@needs_engine
@pytest.mark.long
@pytest.mark.parametrize("nemesis", ["rolling:for=16s", "rolling:to=3.5.1:for=16s"])
def test_nodes_are_restarted_one_by_one_also_in_another_image(
    engine: "DockerClient", tmp_path: Path, nemesis: str
) -> None:
    version = ("--version", "3.4.23") if "to=" in nemesis else ()
    done = _on_containers(
        tmp_path, "--system", "etcd", *version, "--workload", "register", "--set", "etcd.snapshot-count=100",
        "--nemesis", nemesis, *_SHORT, "18s", timeout_s=220,
    )  # fmt: skip
    assert done.code in (0, 2), done
    folder = _assert_complete(tmp_path, {"rolling"})
    history = read_history(folder)
    assert {f.nodes for f in history.faults if "part_of" in f.details} == {("n1",), ("n2",), ("n3",)}
    said = {
        e.details["says_version"] for e in history.events if isinstance(e, FaultEvent) and "says_version" in e.details
    }
    assert said == {"3.5.1"}
    assert {taken["says"] for taken in json.loads((folder / "run.json").read_text())["settings"]["taken"]} == {"100"}
    assert _left(engine, done.pid) == []
    assert_nothing_left(tmp_path)


@needs_engine
def test_one_ctrl_c_heals_judges_and_removes_everything(engine: "DockerClient", tmp_path: Path) -> None:
    plan = ("--system", "etcd", "--workload", "register", "--nemesis", "pause:leader:for=60s", "--time-limit", "70s")
    with _running(tmp_path, "--runtime", "containers", *plan) as child:
        wait_for_line(child, "fault: pause")
        assert _left(engine, child.pid)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=150)
    assert child.returncode == 2, err
    assert "of the planned 70 s of its main phase: asked to stop by Ctrl-C, SIGTERM or SIGHUP" in out
    history = read_history(only_folder(tmp_path))
    assert [e.outcome for e in history.events if isinstance(e, FaultEvent)][-1] is FaultOutcome.HEALED
    assert _left(engine, child.pid) == []
    assert_nothing_left(tmp_path)


@needs_engine
@pytest.mark.slow
def test_two_ctrl_c_end_at_once_and_leave_nothing(engine: "DockerClient", tmp_path: Path) -> None:
    plan = ("--system", "etcd", "--workload", "set", "--nemesis", "partition:leader:for=60s", "--time-limit", "70s")
    with _running(tmp_path, "--runtime", "containers", *plan) as child:
        wait_for_line(child, "fault: partition")
        child.send_signal(signal.SIGINT)
        wait_for_line(child, "stopping")
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=150)
    assert child.returncode == 130
    assert _left(engine, child.pid) == []
    assert_nothing_left(tmp_path)


@needs_engine
@pytest.mark.slow
@pytest.mark.parametrize("manner", ["cut", pytest.param("silence", marks=pytest.mark.long)])
def test_an_engine_that_is_lost_in_the_middle(engine: "DockerClient", tmp_path: Path, manner: str) -> None:
    """The run ends early, is judged by what was recorded, and says how to remove what it had to leave."""
    plan = ("--system", "etcd", "--workload", "register", "--nemesis", "partition:leader:for=3s", "--time-limit", "60s")
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-relay-") as folder,
        relay(Path(folder)) as between,
        _running(tmp_path, "--runtime", "containers", *plan, docker_host=between.address) as child,
    ):
        wait_for_line(child, "fault: partition")
        getattr(between, manner)()
        out, err = child.communicate(timeout=150)
        done = Done(child.pid, child.returncode, out, err)
        left = _left(engine, child.pid)
        between.close()
    try:
        assert done.code == 2, done
        assert "Traceback" not in err, done
        assert out.startswith("UNKNOWN: the run was cut short"), done
        assert "the container engine" in out.splitlines()[0], done
        assert "the container engine" in err, done
        assert left, "an engine that is gone cannot remove anything"
        assert "docker rm -fv" in err, done
        assert len(read_history(only_folder(tmp_path)).operations) > 50
    finally:
        swept = subprocess.run(command("doctor", "--sweep"), cwd=ROOT, capture_output=True, text=True, check=False)
    assert swept.returncode == 0, swept.stderr + swept.stdout
    assert _left(engine, child.pid) == []
