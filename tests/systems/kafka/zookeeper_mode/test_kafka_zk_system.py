"""Kafka in ZooKeeper mode as a system: its members, its configurations, and what it does not promise."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Member, NodeSpec, Place
from fencepost.harness.verdict import Standing
from fencepost.systems.kafka.server.configuration import ZOOKEEPER_MODE
from fencepost.systems.kafka.server.options import KafkaZkOptions
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK

ARTIFACTS = Artifacts(version="3.9.2", paths={"java": "/java", "classpath": "/a.jar"}, sha256={})


def layout(tmp_path: Path) -> dict[str, Place]:
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
        for number, member in enumerate(KAFKA_ZK.members(3, KafkaZkOptions()), 1)
    }


def specs(tmp_path: Path, options: Mapping[str, object] | None = None) -> dict[str, NodeSpec]:
    own = KAFKA_ZK.profile.parse_options(options or {})
    return {spec.name: spec for spec in KAFKA_ZK.specs(layout(tmp_path), ARTIFACTS, own)}


def test_it_is_a_system() -> None:
    assert registry.system("kafka-zk") is KAFKA_ZK
    assert {"2.8.2", "3.9.2"} <= set(KAFKA_ZK.releases.known())
    assert not [version for version in KAFKA_ZK.releases.known() if version.startswith("4.")]


def test_zookeepers_vote_and_brokers_do_not() -> None:
    members = KAFKA_ZK.members(3, KafkaZkOptions())
    assert members[0] == Member("z1", ("zookeeper",), dialled=("zookeeper",), serves=False)
    assert members[-1] == Member("b3", ("broker",), votes=False)
    assert [ZOOKEEPER_MODE.node_name(number) for number in range(1, 7)] == [member.name for member in members]


def test_a_broker_knows_every_zookeeper_and_has_two_listeners(tmp_path: Path) -> None:
    spec = specs(tmp_path, {"zk_session": "3s"})["b2"]
    assert spec.listeners == {"client": 9092, "broker": 9194}
    lines = spec.files["server.properties"].splitlines()
    assert "broker.id=5" in lines
    assert "zookeeper.connect=10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181" in lines
    assert "zookeeper.session.timeout.ms=3000" in lines
    assert "advertised.listeners=CLIENT://10.0.0.5:9092,BROKER://10.0.0.5:9194" in lines


def test_a_zookeeper_is_out_of_kafkas_own_jars(tmp_path: Path) -> None:
    spec = specs(tmp_path)["z3"]
    assert spec.argv[-2:] == ("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(tmp_path / "z3" / "zoo.cfg"))
    assert spec.argv[spec.argv.index("-cp") + 1] == "/a.jar"
    assert spec.data_files == {"myid": "3\n"}
    lines = spec.files["zoo.cfg"].splitlines()
    assert [line for line in lines if line.startswith("server.")] == [
        f"server.{n}=10.0.0.{n}:2888:3888" for n in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("options", "said"), [({"zk_session": "900ms"}, "below two ticks"), ({"ticks": 3}, "unknown kafka-zk option")]
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_plan(Plan(system="kafka-zk", workload="metadata", nemesis="none", seed=1, system_options=options))


def test_how_long_a_controller_believes_in_itself_is_a_figure_only() -> None:
    bound = KAFKA_ZK.leadership(KafkaZkOptions(), "3.9.2")
    assert (bound.bound_ns, bound.standing) == (None, Standing.MEASURED)
    standings = {guarantee.name: guarantee.standing for guarantee in KAFKA_ZK.promises()}
    assert len(standings) == len(KAFKA_ZK.promises())
    assert standings["leader-self-fencing"] is Standing.MEASURED
    assert KAFKA_ZK.promises("2.8.2") == KAFKA_ZK.promises()


def test_who_is_asked_about_what(tmp_path: Path) -> None:
    asked = {
        name: [subject for subject in KAFKA_ZK.profile.subjects if KAFKA_ZK.question(place, subject) is not None]
        for name, place in layout(tmp_path).items()
    }
    assert asked["b1"] == ["controller", "view"]
    assert asked["z1"] == ["controller"]


def test_the_log_says_who_was_elected() -> None:
    line = (
        "INFO KafkaController - [Controller id=5] 5 successfully elected as the controller. Epoch incremented to 3 and"
    )
    assert list(KAFKA_ZK.logs.events([line])) == [BecameLeader(3)]
