"""Settings of the servers (`--set`): typed and read, refused with the option to use instead, found out, read back."""

import asyncio
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.harness.base.errors import NodeNotReady, Refusal, UsageError
from fencepost.harness.contract.logs import Failed
from fencepost.harness.contract.server_settings import as_arguments, checked, merged, parse, same_value
from fencepost.harness.java import class_constants as class_words
from fencepost.harness.plan import Plan, dump_plan, read_plan, write_plan
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.runner.readiness import await_ready
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import NodeSpec, NodeState, Place
from fencepost.systems.etcd.system import ETCD
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.zookeeper import configuration as zookeeper
from fencepost.systems.zookeeper import settings as zookeeper_settings
from tests.fakes.fakes_runtime import FakeNode, KeptRecords


def plan(system: str, settings: dict[str, Any], **fields: Any) -> Plan:
    workload = "register" if system in ("etcd", "zookeeper") else "metadata"
    return check_plan(
        Plan(system=system, workload=workload, seed=1, nemesis="none", server_settings=settings, **fields)
    ).plan


def layout(folder: Path, system: str) -> dict[str, Place]:
    members = registry.system(system).members(3, registry.system(system).profile.options())
    return {
        member.name: Place(
            name=member.name,
            number=number,
            address=f"10.77.0.{number}",
            folder=folder / member.name,
            data=folder / member.name / "data",
            kept=folder / member.name,
            roles=member.roles,
        )
        for number, member in enumerate(members, 1)
    }


# -- what is typed ------------------------------------------------------------------------------------------------


def test_the_name_ends_at_the_first_dot_and_the_value_begins_at_the_first_sign() -> None:
    found = parse(["etcd.snapshot-count=100", "zookeeper.zookeeper.snapCount=5", "kafka-zk.a.b=c=d", "etcd.x="])
    assert found == {
        "etcd": {"snapshot-count": "100", "x": ""},
        "zookeeper": {"zookeeper.snapCount": "5"},
        "kafka-zk": {"a.b": "c=d"},
    }
    assert as_arguments({"etcd": found["etcd"]}) == ["etcd.snapshot-count=100", "etcd.x="]


@pytest.mark.parametrize("text", ["etcd", "etcd.x", "etcd=4", ".x=4", "etcd.=4", ""])
def test_what_is_no_setting_is_told_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected SYSTEM\.KEY=VALUE") as caught:
        parse([text])
    assert "--set etcd.snapshot-count=100" in (caught.value.hint or "")


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="given twice"):
        parse(["etcd.x=1", "etcd.x=2"])


def test_flags_overlay_a_plan_files_table() -> None:
    below = {"etcd": {"snapshot-count": 100, "pre-vote": True}}
    assert merged(below, {"etcd": {"snapshot-count": "7"}}) == {"etcd": {"snapshot-count": "7", "pre-vote": True}}


def test_a_plan_files_table_takes_numbers_and_truths_and_is_kept_as_text(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(
        'system = "etcd"\nworkload = "set"\nnemesis = "none"\n[set.etcd]\n"snapshot-count" = 100\npre-vote = false\n'
    )
    given = check_plan(read_plan(path, seed=3)).plan
    assert given.settings == {"etcd": {"snapshot-count": "100", "pre-vote": "false"}}
    write_plan(given, path)
    assert "[set.etcd]" in dump_plan(given)
    assert read_plan(path, seed=0) == given


@pytest.mark.parametrize(
    ("system", "settings", "said"),
    [
        ("etcd", {"zookeeper": {"tickTime": "5"}}, ["'zookeeper' is not in this plan", "etcd.KEY"]),
        ("kraft", {"zookeeper": {"snapCount": "5"}}, ["'zookeeper' is not in this plan", "kraft.KEY"]),
        ("etcd", {"etcd": {"--snapshot-count": "5"}}, ["is not a name", "without its dashes"]),
        ("etcd", {"etcd": {"snapshot-count": "1\n--name=x"}}, ["several lines"]),
        ("etcd", {"etcd": {"election-timeout": "5000"}}, ["an option of its own", "-O election=..."]),
        ("etcd", {"etcd": {"data-dir": "/"}}, ["the harness sets it", "leave it out"]),
        ("etcd", {"etcd": {"listen-client-urls": "http://0.0.0.0:1"}}, ["builds the links"]),
        ("etcd", {"etcd": {"initial-cluster-token": "x"}}, ["builds the links"]),
        ("etcd", {"etcd": {"config-file": "x"}}, ["ignore all other flags"]),
        ("etcd", {"etcd": {"log-level": "error"}}, ["reads from this log who leads"]),
        ("etcd", {"etcd": {"peer-auto-tls": "true"}}, ["without TLS"]),
        ("zookeeper", {"zookeeper": {"zookeeper.tickTime": "2000"}}, ["-O tick=..."]),
        ("kafka-zk", {"zookeeper": {"tickTime": "9"}}, ["-O tick=..."]),
        ("zookeeper", {"zookeeper": {"dataLogDir": "/x"}}, ["copies, damages and measures"]),
        ("zookeeper", {"zookeeper": {"server.4": "x:1:2"}}, ["builds the links"]),
        ("zookeeper", {"zookeeper": {"leaderServes": "no"}}, ["also to the leader"]),
        ("kraft", {"kraft": {"node.id": "9"}}, ["names its nodes by it"]),
        ("kraft", {"kraft": {"advertised.listeners": "x"}}, ["builds the links"]),
        ("kraft", {"kraft": {"log.dirs": "/x"}}, ["copies, damages and measures"]),
        ("kafka-zk", {"kafka-zk": {"zookeeper.connect": "x"}}, ["builds the links"]),
    ],
)
def test_what_is_not_to_be_set_is_refused_with_what_to_do_instead(
    system: str, settings: dict[str, dict[str, str]], said: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        plan(system, settings)
    for part in said:
        assert part in f"{caught.value.message} {caught.value.hint}"


def test_what_an_option_says_already_cannot_be_set_as_well() -> None:
    assert plan("etcd", {"etcd": {"snapshot-count": "100"}}).settings == {"etcd": {"snapshot-count": "100"}}
    with pytest.raises(UsageError, match="-O snapshot_count=50 sets it as well"):
        plan("etcd", {"etcd": {"snapshot-count": "100"}}, system_options={"snapshot_count": 50})


def test_an_empty_table_is_no_setting() -> None:
    assert checked({"etcd": {}}, ETCD, ETCD.profile.options()) == {}


# -- how servers get them -----------------------------------------------------------------------------------------


def test_etcd_gets_flags_in_place_of_ours_and_beside_them(tmp_path: Path) -> None:
    artifacts = Artifacts(version="3.5.1", paths={"etcd": "/e"}, sha256={})
    given = {"etcd": {"snapshot-count": "100", "unsafe-no-fsync": "true"}}
    for spec in ETCD.specs(layout(tmp_path, "etcd"), artifacts, ETCD.profile.options(), given):
        assert spec.argv.count("--snapshot-count=100") == 1
        assert "--unsafe-no-fsync=true" in spec.argv
        assert not any(word.startswith("--snapshot-count=10000") for word in spec.argv)


def test_zookeeper_gets_lines_of_its_file_and_java_properties(tmp_path: Path) -> None:
    artifacts = Artifacts(version="3.9.5", paths={"java": "java", "classpath": "/j/zookeeper-3.9.5.jar"}, sha256={})
    system = registry.system("zookeeper")
    given = {"zookeeper": {"snapCount": "100", "zookeeper.skipACL": "yes", "jute.maxbuffer": "9"}}
    (spec, *_) = system.specs(layout(tmp_path, "zookeeper"), artifacts, system.profile.options(), given)
    assert "\nsnapCount=100\n" in spec.files["zoo.cfg"]
    assert "\npreAllocSize=1024\n" in spec.files["zoo.cfg"]
    assert "skipACL" not in spec.files["zoo.cfg"]
    assert {"-Dzookeeper.skipACL=yes", "-Djute.maxbuffer=9"} <= set(spec.argv)


@pytest.mark.parametrize(
    ("given", "laid_out"),
    [
        ({}, None),
        ({"flushDelay": "1"}, None),
        ({"zookeeper.snapCount": "5"}, "1024"),
        ({"snapCount": "5", "preAllocSize": "64"}, "64"),
        ({"snapCount": "5", "zookeeper.preAllocSize": "64"}, None),
    ],
)
def test_many_logs_of_zookeeper_are_laid_out_small(given: dict[str, str], laid_out: str | None) -> None:
    assert zookeeper.in_file({"zookeeper": given}).get("preAllocSize") == laid_out


@pytest.mark.parametrize("system", ["kraft", "kafka-zk"])
def test_kafka_gets_lines_of_its_file_on_every_server_and_its_keepers_theirs(system: str, tmp_path: Path) -> None:
    kafka = registry.system(system)
    paths = {"java": "java", "classpath": "/j/kafka_2.13-3.9.2.jar:/j/zookeeper-3.8.4.jar"}
    artifacts = Artifacts(version="3.9.2", paths=paths, sha256={})
    keepers = {"zookeeper": {"snapCount": "7", "zookeeper.skipACL": "yes"}} if system == "kafka-zk" else {}
    given = {system: {"num.io.threads": "3"}, **keepers}
    for spec in kafka.specs(layout(tmp_path, system), artifacts, kafka.profile.options(), given):
        if "zookeeper" in spec.roles:
            assert "\nsnapCount=7\n" in spec.files["zoo.cfg"]
            assert "-Dzookeeper.skipACL=yes" in spec.argv
        else:
            lines = spec.files["server.properties"].splitlines()
            assert [line for line in lines if line.startswith("num.io.threads=")] == ["num.io.threads=3"]


# -- names that a server does not know ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"snapshot-cuont": "5"}, "flag provided but not defined: -snapshot-cuont"),
        ({"snapshot-count": "few"}, 'invalid value "few" for flag -snapshot-count'),
    ],
)
def test_etcd_itself_says_what_it_does_not_take(given: dict[str, str], said: str) -> None:
    artifacts = ETCD.releases.resolve(ETCD.releases.default)
    assert ETCD.settings.refuse_unknown(artifacts, {"etcd": {"snapshot-count": "5", "pre-vote": "false"}}) is None
    assert said in str(ETCD.settings.refuse_unknown(artifacts, {"etcd": given}))


def test_of_etcd_in_an_image_the_start_says_so() -> None:
    artifacts = Artifacts(version="3.5.1", paths={"image": "x", "etcd": "etcd"}, sha256={})
    assert ETCD.settings.refuse_unknown(artifacts, {"etcd": {"snapshot-cuont": "5"}}) is None
    lines = ["flag provided but not defined: -snapshot-cuont\n", '{"msg":"flag provided but not defined: -x"}']
    assert list(ETCD.logs.events(lines)) == [Failed("etcd says: flag provided but not defined: -snapshot-cuont")]


def test_zookeepers_own_classes_tell_its_names() -> None:
    from fencepost.systems.zookeeper.system import ZOOKEEPER
    from fencepost.systems.zookeeper.versions import JARS

    jars = JARS.jars(ZOOKEEPER.releases.default)
    known = [
        "snapCount",
        "zookeeper.snapCount",
        "autopurge.purgeInterval",
        "jute.maxbuffer",
        "preAllocSize",
        "electionAlg",
    ]
    wrong = {"snapCuont": "snapCount", "zookeeper.skipACLs": "zookeeper.skipACL", "jute.maxbufer": "jute.maxbuffer"}
    given = {"zookeeper": dict.fromkeys(known, "1")}
    assert zookeeper_settings.refuse_unknown(jars, "3.9.5", given) is None
    for key, near in wrong.items():
        refusal = zookeeper_settings.refuse_unknown(jars, "3.9.5", {"zookeeper": {key: "1"}})
        assert f"did you mean {near}" in str(refusal)


def _jar(path: Path, *constants: str) -> Path:
    content = b"\xca\xfe\xba\xbe" + b"".join(b"\x01" + len(c).to_bytes(2, "big") + c.encode() for c in constants)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kafka/Config.class", content)
        archive.writestr("note.txt", "num.network.threads")
    return path


def test_a_word_counts_only_whole_and_in_a_class(tmp_path: Path) -> None:
    jar = _jar(tmp_path / "kafka-x.jar", "num.io.threads", "segment.bytes")
    assert class_words.constants([jar], {"num.io.threads", "num.io", "threads", "num.network.threads"}) == {
        "num.io.threads"
    }
    assert class_words.names([jar]) == {"num.io.threads", "segment.bytes"}


def test_kafkas_own_classes_tell_its_names_and_a_topics_with_log_before_them(tmp_path: Path) -> None:
    jars = [_jar(tmp_path / "kafka-x.jar", "num.io.threads", "segment.bytes"), tmp_path / "other.jar"]

    def refusal(key: str) -> Refusal | None:
        artifacts = Artifacts(version="9.9.9", paths={"classpath": ":".join(map(str, jars))}, sha256={})
        return KRAFT.settings.refuse_unknown(artifacts, {"kraft": {key: "1"}})

    assert refusal("num.io.threads") is None
    assert refusal("log.segment.bytes") is None
    assert "did you mean num.io.threads?" in str(refusal("num.io.thread"))
    assert "documentation of this release" in str(refusal("wholly.different"))


def test_a_value_that_kafka_refuses_is_told_by_its_line() -> None:
    line = "org.apache.kafka.common.config.ConfigException: Invalid value few for configuration num.io.threads"
    (failed,) = KRAFT.logs.events([line, f"INFO nothing of {line}"])
    assert isinstance(failed, Failed)
    assert "Invalid value few" in failed.why


def _logging(name: str, path: Path, **fields: Any) -> FakeNode:
    class Logging(FakeNode):
        @property
        def log(self) -> Path:
            return path

    return Logging(name, **fields)


def test_a_server_that_does_not_take_its_flags_is_told_by_the_line_that_says_so(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("flag provided but not defined: -snapshot-cuont\nUsage:\n" + "  etcd [flags]\n" * 40)

    node: Any = _logging("n1", log, state=NodeState.DEAD)
    recorder: Any = KeptRecords()
    with pytest.raises(NodeNotReady, match="flag provided but not defined: -snapshot-cuont") as caught:
        asyncio.run(await_ready(ETCD, node, recorder))
    assert "--set" in (caught.value.hint or "")


# -- read back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "value", "alike"),
    [("100", "100", True), ("100.0", "100", True), ("TRUE", "true", True), ("1", "2", False)],
)
def test_a_value_is_the_same_however_a_server_writes_it(said: str, value: str, alike: bool) -> None:
    assert same_value(said, value) is alike


def test_etcd_is_read_back_from_the_line_that_it_wrote_when_it_started(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        '{"level":"info","msg":"starting an etcd server","snapshot-count":10000}\n'
        '{"level":"info","msg":"starting an etcd server","snapshot-count":100,"pre-vote":true}\nnot json\n'
    )

    node: Any = _logging("n1", log, pid=None)
    given = {"etcd": {"snapshot-count": "100", "pre-vote": "true", "max-txn-ops": "9"}}
    found = {one.setting: (one.says, one.by) for one in asyncio.run(ETCD.settings.applied(node, given))}
    assert found == {
        "etcd.snapshot-count": ("100", "its log"),
        "etcd.pre-vote": ("true", "its log"),
        "etcd.max-txn-ops": (None, "command line, unread"),
    }


@pytest.mark.parametrize(
    ("key", "value", "conf", "log", "given", "by"),
    [
        ("clientPortListenBacklog", "5", {"clientPortListenBacklog": "5"}, "", [], "conf"),
        ("clientPortListenBacklog", "5", {"clientPortListenBacklog": "-1"}, "", [], None),
        ("zookeeper.skipACL", "yes", {}, "", ["java", "-Dzookeeper.skipACL=yes"], "command line of its process"),
        ("zookeeper.skipACL", "yes", {}, "", ["java"], None),
        ("flushDelay", "7", {}, "INFO zookeeper.flushDelay = 7 ms", [], "its log"),
        ("flushDelay", "7", {}, "INFO zookeeper.flushDelay = 70 ms", [], "zoo.cfg"),
        ("snapCount", "9", {}, "", [], None),
    ],
)
def test_how_it_is_known_that_zookeeper_took_a_setting(
    key: str, value: str, conf: dict[str, str], log: str, given: list[str], by: str | None
) -> None:
    found = zookeeper_settings._evidence(key, value, conf, log, given, "tickTime=500\nflushDelay=7\n")
    assert found[1] == by


@pytest.mark.parametrize("where", ["files", "data_files"])
def test_zookeepers_file_is_found_where_members_may_change_too(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(*_: object) -> str:
        return "clientPort=2181\n"

    monkeypatch.setattr(zookeeper_settings, "four_letter_word", answer)
    plain = NodeSpec(name="n1", argv=("java",), listeners={})
    written = {"zoo.cfg": "tickTime=500\nsnapCount=9\n"}
    spec = replace(plain, files=written) if where == "files" else replace(plain, data_files=written)
    node: Any = SimpleNamespace(
        name="n1", place=layout(tmp_path, "zookeeper")["n1"], log=tmp_path / "server.log", pid=None, spec=spec
    )
    given = {"zookeeper": {"snapCount": "9"}}
    (found,) = asyncio.run(zookeeper_settings.applied_settings(node, given))
    assert (found.setting, found.by) == ("zookeeper.snapCount", "zoo.cfg")
    with pytest.raises(ValueError, match="snapCount=8 is not what it has"):
        asyncio.run(zookeeper_settings.applied_settings(node, {"zookeeper": {"snapCount": "8"}}))
