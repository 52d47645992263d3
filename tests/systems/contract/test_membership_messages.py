"""What a change of members is on the wire and in files: against Kafka's own definitions and tool, and by the byte."""

import struct
import uuid
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import NodeSpec, Place
from fencepost.systems.etcd.system import ETCD
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.kafka.server import storage, versions
from fencepost.systems.kafka.server.health import latest
from fencepost.systems.kafka.server.storage import Voter
from fencepost.systems.kafka.wire.codec import decode, encode
from fencepost.systems.kafka.wire.messages import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, Api
from fencepost.systems.kafka.wire.values import MetadataQuorum, QuorumReplica
from fencepost.systems.zookeeper.membership import fixed
from fencepost.systems.zookeeper.system import ZOOKEEPER
from fencepost.systems.zookeeper.wire import reconfiguration
from tests.systems.kafka.kafka_releases import needs
from tests.systems.kafka.test_kafka_wire import check_versions, definitions

IN_THE_LOG = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
DIRECTORY = bytes.fromhex("f8e09f80be48917ec5090b428a5255c6")


def places(root: Path, roles: tuple[str, ...] = ("member",)) -> dict[str, Place]:
    return {
        f"n{i}": Place(
            name=f"n{i}",
            number=i,
            address=f"10.0.0.{i}",
            folder=root / f"n{i}",
            data=root / f"n{i}" / "data",
            kept=root / f"n{i}",
            roles=roles,
        )
        for i in (1, 2, 3)
    }


# Kafka


@pytest.mark.parametrize("release", [pytest.param(r, marks=needs("kraft", r)) for r in ("3.9.2", "4.3.1")])
@pytest.mark.parametrize("api", [ADD_RAFT_VOTER, REMOVE_RAFT_VOTER], ids=lambda api: api.name)
def test_messages_are_what_kafka_itself_defines(release: str, api: Api[Any, Any]) -> None:
    (jar,) = [one for one in versions.JARS.jars(release) if one.name == f"kafka-clients-{release}.jar"]
    with zipfile.ZipFile(jar) as archive:
        for kind, ours in (("Request", api.request), ("Response", api.response)):
            check_versions(api, ours, definitions(archive, api, kind), kind)


def test_a_request_to_add_a_voter_by_the_byte() -> None:
    asked = ADD_RAFT_VOTER.request(
        cluster_id="c",
        timeout_ms=2200,
        voter_id=3,
        voter_directory_id=uuid.UUID(bytes=DIRECTORY),
        listeners=[ADD_RAFT_VOTER.request.VoterListener(name="CONTROLLER", host="10.0.0.3", port=9093)],
    )
    rest = b"\x02c" + struct.pack(">ii", 2200, 3) + DIRECTORY
    rest += b"\x02\x0bCONTROLLER\x0910.0.0.3" + struct.pack(">H", 9093) + b"\0"
    assert encode(asked, 0, True) == rest + b"\0"
    assert encode(asked, 1, True) == rest + b"\1\0"
    assert decode(ADD_RAFT_VOTER.request, 1, True, encode(asked, 1, True)) == asked


#: What `kafka-storage format --initial-controllers` of 3.9.2 and of 4.3.1 wrote for three controllers: the first batch
#: and the last, with the times and the checksums that depend on them set to zero. That of 4.4.0 has the levels between.
VOTERS = bytes.fromhex(
    "0000000000000000000000fe00000000020000000000200000000200000000000000000000000000000000ffffffffffffffffffff"
    "ffffffff000000032a0000000800000003160000000000000000000000001e00000208000000050a000000010000ca0200000408"
    "00000006b40200000400000001f8e09f80be48917ec5090b428a5255c6020b434f4e54524f4c4c45520931302e302e302e312385"
    "000000000100000000000278c3818312285f2095e00235fca3bec3020b434f4e54524f4c4c45520931302e302e302e3223850000"
    "000001000000000003366935ebd0f020d08c2c3dd3d1d9066d020b434f4e54524f4c4c45520931302e302e302e33238500000000"
    "0100000000"
)
END = bytes.fromhex(
    "00000000000000030000003f00000000020000000000200000000000000000000000000000000000000000ffffffffffffffffffff"
    "ffffffff000000011a00000008000000040600000000"
)


@pytest.mark.parametrize("release", ["3.9.2", "4.3.1"])
def test_the_voters_file_is_what_kafkas_own_tool_writes(tmp_path: Path, release: str) -> None:
    artifacts = Artifacts(version=release, paths={"java": "/java", "classpath": "/a.jar"}, sha256={})
    layout = places(tmp_path, ("controller",))
    membership = KRAFT.member_changes.of(layout, artifacts)
    spec = membership.prepared(KRAFT.specs(layout, artifacts, KRAFT.profile.options())[0])
    written = spec.data_files[IN_THE_LOG]
    assert isinstance(written, bytes)
    assert without_checksums(written) == VOTERS + END
    # The levels stand beside it until 4.4.
    assert "bootstrap.checkpoint" in spec.data_files
    assert storage.directory_of(str(spec.data_files["meta.properties"])) == DIRECTORY


def test_from_4_4_the_levels_stand_between_voters_and_end() -> None:
    voters = [Voter(number=1, directory=DIRECTORY, listener="CONTROLLER", host="10.0.0.1", port=9093)]
    (written,) = storage.voters_file("4.4.0", voters).values()
    assert isinstance(written, bytes)
    assert b"metadata.version" in written
    assert [offset for offset, _ in batches(written)] == [0, 3, 9]


def batches(snapshot: bytes) -> list[tuple[int, int]]:
    """Base offset and place of each."""
    found, at = [], 0
    while at < len(snapshot):
        offset, length = struct.unpack_from(">qi", snapshot, at)
        found.append((offset, at))
        at += 12 + length
    return found


def without_checksums(snapshot: bytes) -> bytes:
    plain = bytearray(snapshot)
    for _, at in batches(snapshot):
        plain[at + 17 : at + 21] = bytes(4)
    return bytes(plain)


def test_a_kraft_cluster_finds_its_quorum_by_addresses_and_a_joiner_has_a_new_directory(tmp_path: Path) -> None:
    artifacts = Artifacts(version="4.3.1", paths={"java": "/java", "classpath": "/a.jar"}, sha256={})
    layout = places(tmp_path, ("controller",))
    membership = KRAFT.member_changes.of(layout, artifacts)
    spec = membership.prepared(KRAFT.specs(layout, artifacts, KRAFT.profile.options())[0])
    lines = spec.files["server.properties"].splitlines()
    assert "controller.quorum.bootstrap.servers=10.0.0.1:9093,10.0.0.2:9093,10.0.0.3:9093" in lines
    assert not any(line.startswith("controller.quorum.voters") for line in lines)
    joiner = membership.joining(spec, {"n2", "n3"}, life=1)
    assert set(joiner.data_files) == {"meta.properties"}
    directories = {
        storage.directory_of(str(one.data_files["meta.properties"]))
        for one in (spec, joiner, membership.joining(spec, {"n2", "n3"}, life=2))
    }
    assert len(directories) == 3
    assert membership.joining(spec, {"n2", "n3"}, life=None) == spec


def test_a_directory_that_is_gone_is_not_taken_for_the_node() -> None:
    def replica(node: int, fetched_ms: int, directory: str) -> QuorumReplica:
        return QuorumReplica(node, 5, fetched_ms, fetched_ms, directory)

    quorum = MetadataQuorum(
        1, 4, 5, (replica(1, 90, "a"), replica(3, 80, "new")), (replica(3, 10, "old"), replica(4, 9, "b"))
    )
    assert {one.node: one.directory for one in latest(quorum)} == {1: "a", 3: "new", 4: "b"}
    returning = replace_observers(quorum, replica(4, 20, "c"))
    assert {one.node: one.directory for one in latest(returning)}[4] == "c"


def replace_observers(quorum: MetadataQuorum, *more: QuorumReplica) -> MetadataQuorum:
    return MetadataQuorum(quorum.leader, quorum.epoch, quorum.high_watermark, quorum.voters, (*more, *quorum.observers))


# ZooKeeper

CONF = """clientPort=2181
serverId=1
membership: 
server.1=10.0.0.1:2888:3888:participant;10.0.0.1:2181
server.3=10.0.0.3:2888:3888:observer;10.0.0.3:2181
version=100000000
"""  # noqa: W291


def test_reconfig_records_by_the_byte() -> None:
    line = "server.3=10.0.0.3:2888:3888:participant;10.0.0.3:2181"
    null, any_version = b"\xff" * 4, b"\xff" * 8
    assert reconfiguration.leaving(3) == null + b"\0\0\0\x013" + null + any_version
    assert reconfiguration.joining(line) == struct.pack(">i", len(line)) + line.encode() + null + null + any_version


def test_who_votes_is_read_off_the_configuration_in_force() -> None:
    servers = reconfiguration.read_servers(CONF)
    assert {number: reconfiguration.votes(line) for number, line in servers.items()} == {1: True, 3: False}
    assert reconfiguration.read_servers("This ZooKeeper instance is not currently serving requests\n") == {}


def zookeeper(tmp_path: Path) -> tuple[Any, NodeSpec]:
    jars = "/jars/zookeeper-3.9.5.jar:/jars/a.jar"
    artifacts = Artifacts(version="3.9.5", paths={"java": "/java", "classpath": jars}, sha256={})
    layout = places(tmp_path)
    membership = ZOOKEEPER.member_changes.of(layout, artifacts)
    return membership, membership.prepared(ZOOKEEPER.specs(layout, artifacts, ZOOKEEPER.profile.options())[1])


def test_zookeepers_configuration_lies_where_its_server_may_rewrite_it(tmp_path: Path) -> None:
    _, spec = zookeeper(tmp_path)
    data = tmp_path / "n2" / "data"
    assert spec.argv[-1] == str(data / "zoo.cfg")
    assert "-Dzookeeper.skipACL=yes" in spec.argv[: spec.argv.index("-cp")]
    assert "zoo.cfg" not in spec.files
    static = str(spec.data_files["zoo.cfg"]).splitlines()
    assert f"dynamicConfigFile={data / 'members.cfg'}" in static
    assert "reconfigEnabled=true" in static
    assert not any(line.startswith(("server.", "clientPort")) for line in static)
    members = str(spec.data_files["members.cfg"]).splitlines()
    assert members == [f"server.{i}=10.0.0.{i}:2888:3888:participant;10.0.0.{i}:2181" for i in (1, 2, 3)]


def test_a_server_that_comes_to_zookeeper_follows_first(tmp_path: Path) -> None:
    membership, spec = zookeeper(tmp_path)
    wiped = membership.joining(spec, {"n1", "n3"}, life=1)
    lines = str(wiped.data_files["members.cfg"]).splitlines()
    assert [line.partition("=")[0] for line in lines] == ["server.1", "server.3", "server.2"]
    assert ":observer;" in lines[-1]
    assert wiped.argv == spec.argv
    keeping = membership.joining(spec, {"n1", "n3"}, life=None)
    folder = tmp_path / "n2"
    assert keeping.argv[-1] == str(folder / "zoo.cfg")
    assert f"dynamicConfigFile={folder / 'members.cfg'}" in keeping.files["zoo.cfg"].splitlines()
    assert keeping.files["members.cfg"] == wiped.data_files["members.cfg"]
    # Either way from there.
    assert membership.joining(keeping, {"n1", "n3"}, life=None) == keeping
    assert membership.joining(keeping, {"n1", "n3"}, life=2) == replace(wiped, files=spec.files)


def test_a_folder_of_jars_says_its_release(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-3.4.14.jar").touch()
    assert "ZooKeeper 3.4.14 has a fixed set of members" in str(fixed(str(tmp_path)))


# etcd


def test_a_member_that_comes_to_etcd_names_the_members_of_now(tmp_path: Path) -> None:
    artifacts = Artifacts(version="3.5.1", paths={"etcd": "/etcd"}, sha256={})
    layout = places(tmp_path)
    membership = ETCD.member_changes.of(layout, artifacts)
    spec = ETCD.specs(layout, artifacts, ETCD.profile.options())[2]
    assert membership.prepared(spec) == spec
    joiner = membership.joining(spec, {"n1", "n2"}, life=1)
    urls = ",".join(f"n{i}=http://10.0.0.{i}:2380" for i in (1, 2, 3))
    assert joiner.argv[-2:] == (f"--initial-cluster={urls}", "--initial-cluster-state=existing")
    assert sum(word.startswith("--initial-cluster") for word in joiner.argv) == 3  # and the token
    alone = membership.joining(joiner, {"n1"}, life=1)
    assert alone.argv[-2] == "--initial-cluster=n1=http://10.0.0.1:2380,n3=http://10.0.0.3:2380"


def test_etcds_requests_by_the_byte() -> None:
    """Fields and numbers of etcdserverpb: MemberRemoveRequest.ID = 1, MemberAddRequest.peerURLs = 1."""
    assert rpc.MemberRemoveRequest(ID=300).SerializeToString() == b"\x08\xac\x02"
    assert rpc.MemberAddRequest(peerURLs=["u"]).SerializeToString() == b"\x0a\x01u"
    answer = rpc.MemberAddResponse.FromString(b"\x12\x07\x08\x05\x1a\x01u\x28\x01")
    assert (answer.member.ID, list(answer.member.peerURLs), answer.member.isLearner) == (5, ["u"], True)
