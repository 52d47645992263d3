"""A migrating Kafka as a system: its members, the configuration of each mode, its way and its way back."""

from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.logs import TookOver
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.bridge import KAFKA_BRIDGE
from fencepost.systems.kafka.bridge.migration import BridgeMigration
from fencepost.systems.kafka.contract.migration import MigrationStage, Phase
from fencepost.systems.kafka.server import configuration
from fencepost.systems.kafka.server.configuration import BRIDGE, Mode
from fencepost.systems.kafka.server.options import BridgeOptions
from fencepost.systems.kafka.server.start import PROPERTIES
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK

ARTIFACTS = Artifacts(version="3.9.2", paths={"java": "/java", "classpath": "/a.jar"}, sha256={})
OPTIONS = BridgeOptions()


def layout(tmp_path: Path, options: BridgeOptions = OPTIONS) -> dict[str, Place]:
    return {
        member.name: Place(
            name=member.name,
            number=number,
            address=f"10.0.0.{number}",
            folder=tmp_path / member.name,
            data=tmp_path / member.name / "data",
            kept=tmp_path / member.name,
            roles=member.roles,
        )
        for number, member in enumerate(KAFKA_BRIDGE.members(3, options), 1)
    }


def lines(tmp_path: Path, name: str, mode: Mode, *, cluster_id: str = "") -> set[str]:
    places = layout(tmp_path)
    spec = BRIDGE.spec(places[name], places, ARTIFACTS, OPTIONS, {}, mode=mode, cluster_id=cluster_id)
    return set(spec.files[PROPERTIES].splitlines())


def keys(tmp_path: Path, name: str, mode: Mode) -> set[str]:
    return {line.partition("=")[0] for line in lines(tmp_path, name, mode)}


def test_controllers_join_later_and_all_nodes_have_their_numbers_names() -> None:
    members = KAFKA_BRIDGE.members(3, BridgeOptions(brokers=3))
    assert [member.name for member in members if member.joins_later] == ["c1", "c2", "c3"]
    assert [BRIDGE.node_name(number) for number in range(1, 10)] == [member.name for member in members]


def test_a_broker_keeps_its_number_in_every_mode_and_knows_what_its_mode_needs(tmp_path: Path) -> None:
    assert "broker.id=7" in lines(tmp_path, "b1", Mode.ZOOKEEPER)
    assert "inter.broker.protocol.version=3.9" in lines(tmp_path, "b1", Mode.MIGRATION)
    assert {"node.id=7", "process.roles=broker"} <= lines(tmp_path, "b1", Mode.KRAFT)
    old, between, new = (keys(tmp_path, "b1", mode) for mode in Mode)
    assert "controller.quorum.voters" not in old
    assert {"zookeeper.connect", "controller.quorum.voters", configuration.MIGRATES} <= between
    assert not [
        key for key in new if key.startswith("zookeeper.") or key in ("broker.id", "inter.broker.protocol.version")
    ]


def test_a_finalised_controller_no_longer_knows_zookeeper(tmp_path: Path) -> None:
    assert {"zookeeper.connect", configuration.MIGRATES} <= keys(tmp_path, "c1", Mode.MIGRATION)
    assert not [key for key in keys(tmp_path, "c1", Mode.KRAFT) if key.startswith("zookeeper.")]


def test_a_controllers_directory_is_made_with_the_clusters_own_id(tmp_path: Path) -> None:
    places = layout(tmp_path)
    made = BRIDGE.spec(places["c1"], places, ARTIFACTS, OPTIONS, {}, mode=Mode.MIGRATION, cluster_id="drawn")
    assert "cluster.id=drawn\n" in str(made.data_files["meta.properties"])
    assert {spec.name: spec.data_files for spec in KAFKA_BRIDGE.specs(places, ARTIFACTS, OPTIONS)}["c1"] == {}


def shown(stages: tuple[MigrationStage, ...]) -> list[str]:
    return [
        f"{' '.join(f'{turn.node}>{turn.becomes}' for turn in stage.turns)} | {' '.join(stage.reaches)}"
        for stage in stages
    ]


def test_the_way_and_the_way_back(tmp_path: Path) -> None:
    migration = BridgeMigration(layout(tmp_path), ARTIFACTS, OPTIONS, {})
    assert shown(migration.stages(Phase.HYBRID, early=False)) == [
        "c1>migration c2>migration c3>migration | provisioned",
        "b1>migration b2>migration | copy hybrid",
    ]
    assert shown(migration.stages(Phase.FINAL, early=False))[2:] == [
        "b1>kraft b2>kraft | dual-write",
        "c1>kraft c2>kraft c3>kraft | final",
    ]
    assert shown(migration.stages(Phase.FINAL, early=True))[2:] == ["b1>kraft | ", "c1>kraft c2>kraft c3>kraft | final"]
    modes: dict[str, str | None] = {
        "c1": "migration",
        "c2": "migration",
        "c3": "migration",
        "b1": "kraft",
        "b2": "migration",
    }
    assert shown(migration.way_back(modes)) == [
        "b1>migration | ",
        "c1>None c2>None c3>None | ",
        "b1>zookeeper b2>zookeeper | rolled-back",
    ]
    assert migration.way_back({**modes, "c1": "kraft"}) == ()


def test_it_says_of_every_guarantee_of_zookeeper_mode_what_holds_meanwhile() -> None:
    own = {guarantee.name: guarantee for guarantee in KAFKA_BRIDGE.promises()}
    assert own.keys() > {guarantee.name for guarantee in KAFKA_ZK.promises()}
    assert "KIP-866" in own["metadata-durable"].source


@pytest.mark.parametrize("version", ["3.5.2", "4.0.0"])
def test_releases_that_cannot_migrate_are_refused(version: str) -> None:
    with pytest.raises(UsageError, match="cannot migrate"):
        KAFKA_BRIDGE.releases.resolve(version)


@pytest.mark.parametrize("given", [{"tick": "3s"}, {"broker_session": "1s"}])
def test_options_that_a_server_cannot_run_with_are_refused(given: dict[str, object]) -> None:
    assert KAFKA_BRIDGE.profile.parse_options(given).refuse() is not None


def test_it_is_a_system_of_the_registry() -> None:
    assert registry.system("kafka-bridge") is KAFKA_BRIDGE


@pytest.mark.parametrize(
    ("line", "epoch"),
    [
        ("INFO kafka.zk.KafkaZkClient - Successfully registered KRaft controller 5 with ZK epoch 4", 4),
        ("[Controller id=7] 7 successfully elected as the controller. Epoch incremented to 2", 2),
        ("[QuorumController id=5] Becoming the active controller at epoch 9, next write offset 3.", None),
        ("[RaftManager id=5] Completed transition to Leader(localId=5, epoch=9, epochStartOffset=3)", None),
    ],
)
def test_the_log_says_in_which_controller_epoch_a_broker_or_kraft_controller_leads(
    line: str, epoch: int | None
) -> None:
    assert tuple(KAFKA_BRIDGE.logs.events([line])) == (() if epoch is None else (TookOver(epoch),))
