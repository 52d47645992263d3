"""Kafka inside an image: ours by its label, another's by where its jars lie; what cannot work is refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.system import System
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import ImageFacts
from fencepost.harness.runtime.node import NodeSpec, Place

JARS = ("kafka_2.13-3.9.2.jar", "kafka-clients-3.9.2.jar", "zookeeper-3.8.4.jar", "zookeeper-jute-3.8.4.jar")


def image(
    files: Mapping[str, tuple[str, ...]] | None = None,
    labels: Mapping[str, str] | None = None,
    reference: str = "r/k:1",
) -> ImageFacts:
    return ImageFacts(
        reference=reference,
        id="1",
        labels=labels or {},
        entrypoint=(),
        command=("/etc/kafka/docker/run",),
        environment={},
        architecture="amd64",
        files=lambda folder: (files or {}).get(folder, ()),
    )


def of_ours(system: str, version: str) -> ImageFacts:
    return image(labels={"org.fencepost.system": system, "org.fencepost.version": version})


def specs(system: System, found: ImageFacts, options: Mapping[str, object] | None = None) -> dict[str, NodeSpec]:
    own = system.profile.parse_options(options or {})
    layout = {
        member.name: Place(
            name=member.name,
            number=number,
            address=f"10.0.0.{number}",
            folder=Path("/fencepost"),
            data=Path("/data"),
            kept=Path("/kept"),
            roles=member.roles,
        )
        for number, member in enumerate(system.members(3, own), 1)
    }
    return {spec.name: spec for spec in system.specs(layout, system.releases.in_image(found), own)}


def settings(spec: NodeSpec) -> dict[str, str]:
    lines = spec.files["server.properties"].splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


KRAFT, KAFKA_ZK = registry.system("kraft"), registry.system("kafka-zk")


@pytest.mark.parametrize("folder", ["/opt/kafka/libs", "/opt/bitnami/kafka/libs"])
def test_another_image_is_what_its_jars_say_whatever_its_tag(folder: str) -> None:
    found = KRAFT.releases.in_image(image({folder: JARS}, reference="my/kafka:nightly"))
    assert found.version == "3.9.2"
    assert found.paths == {"image": "my/kafka:nightly", "java": "java", "classpath": f"{folder}/*"}
    assert found.sha256 == {"image": "1"}


@pytest.mark.parametrize("system", ["kraft", "kafka-zk", "kafka-bridge"])
def test_an_image_of_ours_is_not_looked_into(system: str) -> None:
    found = registry.system(system).releases.in_image(of_ours("kafka-zk", "3.9.2"))
    assert (found.version, found.paths["classpath"]) == ("3.9.2", "/opt/kafka/libs/*")


@pytest.mark.parametrize(
    ("system", "found", "said"),
    [
        (KRAFT, image(), "no kafka_2.13-<version>.jar in /opt/kafka/libs"),
        (KRAFT, image({"/opt/kafka/libs": ("kafka-clients-4.0.0.jar",)}), "no kafka_2.13-<version>.jar"),
        (KRAFT, image({"/opt/kafka/libs": (*JARS, "kafka_2.13-4.0.0.jar")}), "2 releases of Kafka"),
        (KRAFT, image({"/opt/kafka/libs": ("kafka_2.13-3.2.0.jar",)}), "Kafka 3.2.0 has no KRaft"),
        (KAFKA_ZK, image({"/opt/kafka/libs": JARS[:2]}), "no ZooKeeper beside the Kafka 3.9.2"),
        (KAFKA_ZK, image({"/opt/kafka/libs": ("kafka_2.13-4.0.0.jar", "zookeeper-3.8.4.jar")}), "Kafka 4.0.0 is not"),
        (KAFKA_ZK, of_ours("kraft", "4.3.1"), "Kafka 4.3.1 is not run on ZooKeeper"),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(system: System, found: ImageFacts, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        system.releases.in_image(found)
    assert caught.value.hint


def test_every_node_runs_out_of_the_image_and_its_log_is_configured_whichever_it_brings() -> None:
    found = specs(KAFKA_ZK, image({"/opt/kafka/libs": JARS}))
    classes = {name: spec.argv[-2] for name, spec in found.items()}
    keeper = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    assert classes == {**dict.fromkeys(("z1", "z2", "z3"), keeper), **dict.fromkeys(("b1", "b2", "b3"), "kafka.Kafka")}
    for spec in found.values():
        assert spec.argv[0] == "java"
        assert spec.argv[spec.argv.index("-cp") + 1] == "/opt/kafka/libs/*"
        assert "-Dlog4j.configuration=file:/fencepost/log4j.properties" in spec.argv
        assert "-Dlog4j2.configurationFile=/fencepost/log4j2.properties" in spec.argv
        assert {"log4j.properties", "log4j2.properties"} < set(spec.files)
        assert spec.environment == {}


def test_peers_dial_one_another_where_each_listens() -> None:
    node = settings(specs(KRAFT, of_ours("kraft", "4.3.1"), {"combined": True})["n2"])
    assert node["listeners"] == "CLIENT://10.0.0.2:9092,CONTROLLER://10.0.0.2:9093,BROKER://10.0.0.2:9194"
    assert node["controller.quorum.voters"] == "1@10.0.0.1:9093,2@10.0.0.2:9093,3@10.0.0.3:9093"
    assert node["advertised.listeners"] == "CLIENT://10.0.0.2:9092,BROKER://10.0.0.2:9194"
    assert "advertised.listeners" not in settings(specs(KRAFT, of_ours("kraft", "4.3.1"))["n1"])
    keeper = specs(KAFKA_ZK, of_ours("kafka-zk", "3.9.2"))
    assert settings(keeper["b1"])["zookeeper.connect"] == "10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181"
    assert "server.3=10.0.0.3:2888:3888" in keeper["z2"].files["zoo.cfg"].splitlines()
