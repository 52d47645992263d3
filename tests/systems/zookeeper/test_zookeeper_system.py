"""What ZooKeeper says of itself as data: configuration, answers of `srvr`, log lines, bounds, guarantees, options."""

from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import seconds
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import ReadMode
from fencepost.harness.history import Claim
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts
from fencepost.harness.runtime.artifacts.java import find_java
from fencepost.harness.runtime.node import Place
from fencepost.harness.verdict import Standing
from fencepost.systems.zookeeper.options import ZooKeeperOptions
from fencepost.systems.zookeeper.question import read_answer
from fencepost.systems.zookeeper.system import ZOOKEEPER

SRVR = """Zookeeper version: 3.9.5-1, built on 2026-02-19 12:00 UTC
Latency min/avg/max: 0/1.5/8
Received: 10
Sent: 9
Connections: 1
Outstanding: 0
Zxid: 0x300000002
Mode: {mode}
Node count: 6
"""


def places(root: Path) -> dict[str, Place]:
    return {
        f"n{i}": Place(
            name=f"n{i}",
            number=i,
            address=f"10.77.0.{i}",
            folder=root / f"n{i}",
            data=root / f"n{i}/data",
            kept=root / f"n{i}",
        )
        for i in (1, 2, 3)
    }


def artifacts(*jars: str, archive: str | None = None) -> Artifacts:
    paths = {"java": str(find_java().binary), "classpath": ":".join(jars)} | ({"archive": archive} if archive else {})
    return Artifacts(version="3.9.5", paths=paths, sha256={})


def test_it_is_a_system() -> None:
    system: System = ZOOKEEPER
    assert system.profile.name == "zookeeper"


def test_leader_follower_and_neither() -> None:
    leads = read_answer("n2", SRVR.format(mode="leader"))
    assert (leads.claims, leads.epoch, leads.epoch_exact, leads.leader) == (Claim.YES, 3, True, "n2")
    assert leads.position == 0x300000002
    follows = read_answer("n2", SRVR.format(mode="follower"))
    assert (follows.claims, follows.epoch, follows.epoch_exact, follows.leader) == (Claim.NO, 3, False, None)
    neither = read_answer("n2", "This ZooKeeper instance is not currently serving requests\n")
    assert (neither.claims, neither.epoch, neither.detail) == (Claim.NO, None, "not serving")


@pytest.mark.parametrize("text", ["", "srvr is not executed because it is not in the whitelist.\n", "Mode: leader\n"])
def test_any_other_answer_is_no_answer(text: str) -> None:
    with pytest.raises(ValueError, match="n1"):
        read_answer("n1", text)


def test_the_log_line_of_a_new_leader() -> None:
    line = (
        "03:27:49.662 INFO Leader Have quorum of supporters, sids: [[1, 2]]; starting up and setting last processed "
        "zxid: 0x1f00000000"
    )
    assert list(ZOOKEEPER.logs.events([line, "03:27:49.591 INFO QuorumPeer LEADING"])) == [BecameLeader(0x1F)]


def test_specs_name_every_server_and_each_its_own_place(tmp_path: Path) -> None:
    layout = places(tmp_path)
    options = ZooKeeperOptions(tick=seconds(0.2), session_timeout=seconds(30))
    specs = ZOOKEEPER.specs(layout, artifacts("/j/zookeeper-3.9.5.jar", archive="/c/z.archive"), options)
    assert [spec.name for spec in specs] == ["n1", "n2", "n3"]
    for number, spec in enumerate(specs, 1):
        lines = spec.files["zoo.cfg"].splitlines()
        assert f"clientPortAddress=10.77.0.{number}" in lines
        assert f"dataDir={tmp_path}/n{number}/data" in lines
        assert [f"server.{i}=10.77.0.{i}:2888:3888" for i in (1, 2, 3)] == [x for x in lines if x.startswith("server")]
        assert {"tickTime=200", "syncLimit=4", "maxSessionTimeout=30000", "maxClientCnxns=0"} <= set(lines)
        assert spec.data_files == {"myid": f"{number}\n"}
        assert spec.data_limit_bytes == 256 << 20
        assert any(flag.endswith("/c/z.archive") for flag in spec.argv)
        assert spec.argv[-1] == f"{tmp_path}/n{number}/zoo.cfg"


def test_a_short_session_is_allowed_below_two_ticks(tmp_path: Path) -> None:
    options = ZooKeeperOptions(tick=seconds(2), session_timeout=seconds(2.5))
    spec = ZOOKEEPER.specs(places(tmp_path), artifacts("/j/z.jar"), options)[0]
    assert "minSessionTimeout=2500" in spec.files["zoo.cfg"].splitlines()


@pytest.mark.parametrize(
    ("jar", "file"), [("logback-classic-1.3.15.jar", "logback.xml"), ("reload4j-1.2.25.jar", "log4j1.properties")]
)
def test_a_given_zookeeper_gets_a_configuration_for_its_own_logging(tmp_path: Path, jar: str, file: str) -> None:
    spec = ZOOKEEPER.specs(places(tmp_path), artifacts(f"/j/{jar}"), ZooKeeperOptions())[0]
    assert "INFO" in spec.files[file]
    assert any(argument.endswith(f"{tmp_path}/n1/{file}") for argument in spec.argv)


def test_a_wrong_version_says_what_can_be_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'3\.4' is neither") as wrong:
        ZOOKEEPER.releases.resolve("3.4")
    assert "3.9.0 to 3.9.5" in str(wrong.value)
    with pytest.raises(UsageError, match=r"expected one zookeeper-<version>\.jar"):
        ZOOKEEPER.releases.resolve(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ticks": "200ms"}, "unknown zookeeper option 'ticks'"),
        ({"tick": "200"}, "is not a duration"),
        ({"tick": "1500us"}, "tick=1500us is not a whole number of milliseconds"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_plan(Plan(system="zookeeper", workload="register", nemesis="none", seed=1, system_options=options))


def test_the_bound_is_sync_limit_and_two_ticks() -> None:
    assert ZOOKEEPER.leadership(ZooKeeperOptions()).bound_ns == 3_000_000_000
    bound = ZOOKEEPER.leadership(ZooKeeperOptions(tick=seconds(0.2), sync_limit=5))
    assert bound.bound_ns == 1_400_000_000
    assert bound.standing is Standing.MEASURED


def test_each_read_mode_is_held_to_a_guarantee_that_is_stated() -> None:
    stated = {guarantee.name: guarantee for guarantee in ZOOKEEPER.promises()}
    assert len(stated) == len(ZOOKEEPER.promises())
    standings = {mode: stated[ZOOKEEPER.profile.read_guarantee(mode)].standing for mode in ZOOKEEPER.profile.read_modes}
    assert standings == {
        ReadMode.PLAIN: Standing.PROMISED,
        ReadMode.SYNC: Standing.RELIED_UPON,
        ReadMode.BARRIER: Standing.PROMISED,
    }
    assert stated["fresh-after-sync"].known_issue == "ZOOKEEPER-1675"
    with pytest.raises(UsageError, match="strong") as wrong:
        ZOOKEEPER.profile.read_guarantee(ReadMode.STRONG)
    assert "barrier, plain, sync" in str(wrong.value.hint)


@pytest.mark.parametrize(
    ("labels", "entrypoint", "argv"),
    [({"org.fencepost.system": "zookeeper"}, (), "java"), ({}, ("/docker-entrypoint.sh",), "/docker-entrypoint.sh")],
)
def test_an_image_is_run_by_java_or_by_its_own_entry_point(
    labels: dict[str, str], entrypoint: tuple[str, ...], argv: str
) -> None:
    facts = ImageFacts(
        reference="r/zookeeper:3.9.3",
        id="sha256:1",
        labels=labels,
        entrypoint=entrypoint,
        command=("zkServer.sh", "start-foreground"),
        environment={},
        architecture="amd64",
    )
    place = Place(
        name="n1", number=1, address="10.0.0.1", folder=Path("/fencepost"), data=Path("/data"), kept=Path("/kept")
    )
    inside = ZOOKEEPER.releases.in_image(facts)
    (spec,) = ZOOKEEPER.specs({"n1": place}, inside, ZOOKEEPER.profile.options())
    assert inside.version == "3.9.3"
    assert spec.argv[0] == argv
    assert "server.1=10.0.0.1:2888:3888" in spec.files["zoo.cfg"]
    assert "dataDir=/data\n" in spec.files["zoo.cfg"]
    if labels:
        assert spec.argv[-1] == "/fencepost/zoo.cfg"
        assert "/opt/zookeeper/lib/*" in spec.argv
    else:
        assert spec.argv[1:] == ("zkServer.sh", "start-foreground")
        assert spec.environment["ZOO_CONF_DIR"] == "/fencepost"
        assert spec.environment["ZOO_MY_ID"] == "1"


def test_an_image_that_starts_nothing_is_refused() -> None:
    facts = ImageFacts(
        reference="r/z:1", id="sha256:1", labels={}, entrypoint=(), command=(), environment={}, architecture="amd64"
    )
    with pytest.raises(UsageError, match="neither an entry point nor a command"):
        ZOOKEEPER.releases.in_image(facts)
