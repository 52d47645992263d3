"""What etcd says of itself: command lines, options, promises, binaries, log lines; and its generated messages."""

import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import seconds
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.coordination import ReadMode
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts
from fencepost.harness.runtime.node import Place
from fencepost.harness.verdict import Standing
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.system import ETCD

ROOT = Path(__file__).resolve().parents[3]
ARTIFACTS = Artifacts(version="3.5.1", paths={"etcd": "/x/etcd"}, sha256={"etcd": "0" * 64})
LAYOUT = {
    f"n{i}": Place(
        name=f"n{i}",
        number=i,
        address=f"10.0.0.{i}",
        folder=Path(f"/run/n{i}"),
        data=Path(f"/data/n{i}"),
        kept=Path(f"/kept/n{i}"),
    )
    for i in (1, 2, 3)
}


def test_the_registry_knows_it() -> None:
    assert registry.system("etcd") is ETCD


def test_a_node_is_data() -> None:
    specs = ETCD.specs(LAYOUT, ARTIFACTS, EtcdOptions(heartbeat=seconds(0.05), election=seconds(0.25)))
    assert [spec.name for spec in specs] == ["n1", "n2", "n3"]
    first = specs[0]
    assert first.argv[0] == "/x/etcd"
    flags = dict(argument.removeprefix("--").split("=", 1) for argument in first.argv[1:])
    assert flags["initial-cluster"] == "n1=http://10.0.0.1:2380,n2=http://10.0.0.2:2380,n3=http://10.0.0.3:2380"
    assert flags["listen-client-urls"] == "http://10.0.0.1:2379"
    assert Path(flags["data-dir"]).is_relative_to("/data/n1")
    assert (flags["heartbeat-interval"], flags["election-timeout"]) == ("50", "250")
    # The epoch of a leader is read from this log.
    assert (flags["logger"], flags["log-level"], flags["log-outputs"]) == ("zap", "info", "stderr")
    # The store must run out before the disk does, or an etcd that is full looks like an etcd that crashed.
    assert int(flags["quota-backend-bytes"]) + 4 * (64 << 20) <= first.data_limit_bytes
    assert dict(first.listeners) == {"client": 2379, "peer": 2380}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lock_ttl": "2"}, "lock_ttl: '2' is not a duration"),
        ({"lock_ttl": "2500ms"}, "lock_ttl=2500ms is not a whole number of seconds"),
        ({"snapshot_count": True}, "snapshot_count: expected a whole number"),
        ({"election": "499ms"}, r"election=499ms is less than 5 x heartbeat \(100ms\)"),
    ],
)
def test_a_wrong_option_is_said_before_the_start(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_plan(Plan(system="etcd", workload="register", nemesis="none", seed=1, system_options=options))


def test_options_at_their_bounds_are_taken() -> None:
    assert EtcdOptions(election=seconds(0.5)).refuse() is None
    assert EtcdOptions(election=seconds(50)).refuse() is None


def test_plans_from_before_options_had_units_are_read() -> None:
    given = {"heartbeat_ms": 50, "lock_ttl_s": 3, "snapshot_count": 7}
    expected = EtcdOptions(heartbeat=seconds(0.05), lock_ttl=seconds(3), snapshot_count=7)
    assert ETCD.profile.parse_options(given) == expected
    with pytest.raises(UsageError, match="unknown etcd option 'heartbeat_ms'"):
        ETCD.profile.parse_options({"heartbeat_ms": "50"})


def test_leadership_is_bounded_by_check_quorum() -> None:
    bound = ETCD.leadership(EtcdOptions(heartbeat=seconds(0.05), election=seconds(0.4)))
    assert bound.bound_ns == 850_000_000
    assert bound.standing is Standing.PROMISED
    assert "CheckQuorum" in bound.source
    assert not bound.one_leader_per_epoch


def test_promises_carry_the_names_that_checkers_use() -> None:
    # Of leases, watches, groups and metastores their own tests say the same.
    standing = {guarantee.name: guarantee.standing for guarantee in ETCD.promises()}
    assert {
        "linearizable": Standing.PROMISED,
        "no-lost-acknowledged-writes": Standing.PROMISED,
        "fenced-lock": Standing.PROMISED,
        "lock-mutual-exclusion": Standing.RELIED_UPON,
        "one-acting-leader": Standing.PROMISED,
        "terms-grow": Standing.PROMISED,
        "resign-ends-own-term": Standing.PROMISED,
        "one-believed-leader": Standing.RELIED_UPON,
        "unknown-campaign-is-settled": Standing.MEASURED,
        "somebody-leads-again": Standing.MEASURED,
        "strict-serializable": Standing.PROMISED,
        "leader-self-fencing": Standing.PROMISED,
        "one-leader-per-epoch": Standing.PROMISED,
        "superseded-leader-does-not-act": Standing.PROMISED,
        "session-order": Standing.MEASURED,
        "write-positions-agree": Standing.PROMISED,
    }.items() <= standing.items()
    assert {ETCD.profile.read_guarantee(mode) for mode in ETCD.profile.read_modes} <= set(standing)
    assert ETCD.profile.read_modes[0] is ReadMode.STRONG
    assert ETCD.profile.read_guarantee(ReadMode.STRONG) == "linearizable"


@pytest.mark.parametrize(
    ("line", "epoch"),
    [
        (
            '{"level":"info","ts":"2026-11-21T03:34:54.040Z","logger":"raft","caller":"etcdserver/zap_raft.go:77",'
            '"msg":"8eca65457f98811 became leader at term 2"}',
            2,
        ),
        ('{"level":"info","msg":"8e9e05c52164694d became leader at term 117"}', 117),
        ('{"level":"info","msg":"8e9e05c52164694d became follower at term 2"}', None),
        ('{"level":"info","msg":"8e9e05c52164694d became pre-candidate at term 2"}', None),
        ('{"level":"info","msg":"raft.node: 8e elected leader 8e at term 2"}', None),
        ('{"level":"warn","msg":"apply","request":"put:<key:\\"became leader at term 9\\" >"}', None),
        ("", None),
    ],
)
def test_the_log_says_who_became_leader(line: str, epoch: int | None) -> None:
    assert tuple(ETCD.logs.events([line])) == (() if epoch is None else (BecameLeader(epoch),))


def test_the_packaged_binary_is_found_and_asked() -> None:
    artifacts = ETCD.releases.resolve(ETCD.releases.default)
    assert artifacts.version == "3.5.1"
    assert Path(artifacts.paths["etcd"]).is_file()
    assert len(artifacts.sha256["etcd"]) == 64


def test_another_binary_is_taken_by_its_path(tmp_path: Path) -> None:
    other = tmp_path / "etcd"
    other.write_text("#!/bin/sh\necho etcd Version: 3.6.0-alpha.0\n")
    other.chmod(0o755)
    artifacts = ETCD.releases.resolve(str(other))
    assert (artifacts.version, artifacts.paths["etcd"]) == ("3.6.0-alpha.0", str(other))


@pytest.mark.parametrize(
    ("version", "message", "hint"),
    [
        ("3.5.99", "etcd .3.5.99.", "path"),
        ("./no/such/etcd", "this file does not exist", "executable etcd binary"),
        (sys.executable, "names no version of etcd; its output: 'Python", "is it etcd"),
    ],
)
def test_a_version_that_is_not_there_is_said_with_the_remedy(version: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        ETCD.releases.resolve(version)
    assert hint in (caught.value.hint or "")


def test_naming_the_system_does_not_load_its_protocol() -> None:
    code = (
        "import sys, fencepost.systems.etcd.system as e; e.ETCD.promises(), e.ETCD.profile.options();"
        " assert 'hpack' not in sys.modules and 'google.protobuf' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_grpc_is_for_tests_alone() -> None:
    code = "import sys; from fencepost.systems.etcd import client, health, question; assert 'grpc' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_the_generated_messages_are_those_of_the_proto_file(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        "-I.",
        f"--python_out={tmp_path}",
        f"--pyi_out={tmp_path}",
        "systems/etcd/wire/rpc.proto",
    ]
    subprocess.run(command, check=True, cwd=ROOT, timeout=60)
    for name in ("rpc_pb2.py", "rpc_pb2.pyi"):
        made = (tmp_path / "systems/etcd/wire" / name).read_text()
        assert made == (ROOT / "systems/etcd/wire" / name).read_text(), f"{name} differs; see the proto file's head"


def test_in_an_image_the_harness_dials_where_the_runtime_says() -> None:
    layout = {
        f"n{number}": Place(
            name=f"n{number}",
            number=number,
            address=f"10.0.0.{number}",
            folder=Path("/fencepost"),
            data=Path("/data"),
            kept=Path(f"/kept/n{number}"),
            endpoints={2379: ("127.0.0.1", 4000 + number)},
        )
        for number in (1, 2, 3)
    }
    inside = ETCD.releases.in_image(image("fencepost/etcd:3.5.1", {"org.fencepost.version": "3.5.1"}))
    (spec, *_) = ETCD.specs(layout, inside, ETCD.profile.options())
    assert spec.argv[0] == "etcd"
    assert "--initial-cluster=n1=http://10.0.0.1:2380,n2=http://10.0.0.2:2380,n3=http://10.0.0.3:2380" in spec.argv
    assert "--data-dir=/data/etcd" in spec.argv
    assert layout["n2"].dial(2379) == ("127.0.0.1", 4002)


@pytest.mark.parametrize(
    ("reference", "labels", "version"),
    [
        ("fencepost/etcd:3.5.1", {"org.fencepost.version": "3.5.21"}, "3.5.21"),
        ("host:5000/etcd:nightly", {"org.opencontainers.image.version": "v3.6.1"}, "v3.6.1"),
        ("host:5000/team/etcd:nightly", {}, "nightly"),
        ("host:5000/team/etcd@sha256:12ab", {}, "unknown"),
    ],
)
def test_an_image_says_its_version_by_label_or_tag(reference: str, labels: dict[str, str], version: str) -> None:
    artifacts = ETCD.releases.in_image(image(reference, labels))
    assert artifacts.version == version
    assert artifacts.paths["image"] == reference


def image(reference: str, labels: dict[str, str]) -> ImageFacts:
    return ImageFacts(
        reference=reference,
        id="sha256:1",
        labels=labels,
        entrypoint=(),
        command=("etcd",),
        environment={},
        architecture="amd64",
    )
