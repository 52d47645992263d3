"""What Cassandra declares: configuration, options, settings, promises, and that no node leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from unittest import mock

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.guarantees import promises_in_force
from fencepost.harness.contract.logs import Failed
from fencepost.harness.faults.schedule import parse_faults, parse_nemesis
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Place
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.verdict import Standing
from fencepost.systems.cassandra import configuration, releases, replicas, schema
from fencepost.systems.cassandra.options import AfterCrash, CassandraOptions, ListsBy, Writes
from fencepost.systems.cassandra.system import CASSANDRA
from fencepost.systems.cassandra.wire.frames import Consistency

LEADERLESS = Placement(nodes=3, system=CASSANDRA)
IN_QUORUM = CassandraOptions(writes=Writes.QUORUM)
BY_ACCORD = CassandraOptions(transactions=ListsBy.ACCORD)


def place(number: int) -> Place:
    folder = Path(f"/n{number}")
    return Place(name=f"n{number}", number=number, address=f"10.0.0.{number}", folder=folder, data=folder, kept=folder)


PATHS = {"java": "java", "classpath": "/jars/a.jar"}
LAYOUT = {f"n{number}": place(number) for number in (1, 2, 3)}


def yaml(
    number: int = 1, options: CassandraOptions | None = None, release: str = "5.0.9", **settings: str
) -> dict[str, str]:
    artifacts = Artifacts(version=release, paths=PATHS, sha256={})
    specs = CASSANDRA.specs(LAYOUT, artifacts, options or CassandraOptions(), {"cassandra": settings})
    text = specs[number - 1].files["cassandra.yaml"]
    return dict(line.split(": ", 1) for line in text.splitlines())


def test_a_node_tells_what_it_alone_holds_once_everything_was_read_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Node:
        async def query(self, statement: str, *_: bytes, consistency: Consistency) -> list[dict[str, bytes]]:
            asked.append(consistency)
            return [{"table_name": b"pairs", "[json]": f'{{"k": "at {consistency.name}"}}'.encode()}]

    @contextlib.asynccontextmanager
    async def asking(_: Place) -> AsyncIterator[Node]:
        yield Node()

    monkeypatch.setattr(replicas, "asking", asking)
    (state,) = asyncio.run(replicas.read(place(1)))
    assert asked == [Consistency.ONE, Consistency.ALL, Consistency.NODE_LOCAL]
    assert state.entries == {'pairs {"k": "at NODE_LOCAL"}': "a row"}


def test_nodes_share_the_ring_evenly() -> None:
    tokens = sorted(int(yaml(n)["initial_token"].strip("'")) for n in (1, 2, 3))
    assert tokens[0] > -(1 << 63) and tokens[2] - tokens[1] == tokens[1] - tokens[0] == (1 << 64) // 3


def test_options_and_settings_reach_the_file() -> None:
    assert yaml(options=CassandraOptions(paxos_variant="v2"))["paxos_variant"] == "v2"
    assert "commitlog_sync_period" not in yaml(options=CassandraOptions(commitlog_sync="batch"))
    assert yaml(concurrent_reads="9")["concurrent_reads"] == "9"


def test_how_to_start_after_a_crash_is_a_question_of_accord() -> None:
    assert CassandraOptions(after_crash=AfterCrash.UNSAFE, transactions=ListsBy.ACCORD).refuse() is None
    refusal = CassandraOptions(after_crash=AfterCrash.UNSAFE).refuse()
    assert refusal is not None and "which is off" in str(refusal)


def test_only_releases_from_6_on_have_accord() -> None:
    journal = "journal: {stop_marker_failure_policy: EXIT}"
    assert yaml(options=BY_ACCORD, release="6.0-alpha2")["accord"] == f"{{enabled: true, {journal}}}"
    assert yaml(release="6.0-alpha2")["accord"] == f"{{enabled: false, {journal}}}"
    assert not {"accord", "discovery_timeout"} & set(yaml())
    with pytest.raises(UsageError, match=r"Cassandra 5\.0\.9 has no Accord") as refused:
        yaml(options=BY_ACCORD)
    assert "--version" in (refused.value.hint or "")


@pytest.mark.parametrize("transactions", ListsBy)
def test_only_registers_and_sets_are_ordered_by_accord(transactions: ListsBy) -> None:
    made: list[str] = []

    async def query(statement: str, *_: bytes, **__: object) -> list[dict[str, bytes]]:
        made.append(statement)
        return [{"schema_version": b"1"}] if statement.endswith("system.local") else []

    asyncio.run(schema.create(mock.Mock(query=query), transactions))
    tables = {text.partition("(")[0].split(".")[1].strip(): text for text in made if text.startswith("CREATE TABLE")}
    by_accord = {name for name, text in tables.items() if "transactional_mode = 'full'" in text}
    wanted = {"pairs", "sets", "lists"} if transactions is ListsBy.ACCORD else set()
    assert len(tables) > 2 and by_accord == wanted


@pytest.mark.parametrize(("release", "java"), [("4.1.10", 11), ("5.0.6", 17), ("5.0.9", 17), ("6.0-alpha2", 17)])
def test_each_release_has_its_java(release: str, java: int) -> None:
    assert releases.java_needed(release) == java


def standing(options: CassandraOptions) -> Standing:
    return {g.name: g.standing for g in promises_in_force(CASSANDRA, "", {}, options)}["linearizable"]


def test_plain_writes_take_the_promise_away() -> None:
    assert standing(CassandraOptions()) is standing(CassandraOptions(paxos_variant="v2")) is Standing.PROMISED
    before = CassandraOptions(paxos_variant="v1_without_linearizable_reads_or_rejected_writes")
    assert standing(IN_QUORUM) is standing(before) is Standing.MEASURED
    # Accord orders plain writes, too.
    in_both = CassandraOptions(writes=Writes.QUORUM, transactions=ListsBy.ACCORD)
    assert standing(BY_ACCORD) is standing(in_both) is Standing.PROMISED
    assert list(CASSANDRA.unpromised({}, BY_ACCORD)) == ["replicas-agree"], "no read of Accord repairs replicas"


@pytest.mark.parametrize("text", ["kill:leader", "pause:follower", "partition:one:when=leader", "churn", "flapping"])
def test_no_fault_follows_a_leader(text: str) -> None:
    with pytest.raises(UsageError, match="no node of cassandra leads") as refused:
        parse_faults(text, registry.faults(), LEADERLESS)
    assert "another target" in (refused.value.hint or "")


def test_the_mixture_leaves_out_what_follows_a_leader() -> None:
    request = parse_nemesis("all", registry.faults(), LEADERLESS)
    assert request.specs and not [spec for spec in request.specs if spec.target in ("leader", "follower")]
    assert any("no node of cassandra leads" in why for _, why in request.left_out)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Exception (org.apache.cassandra.exceptions.ConfigurationException) encountered during startup: Bad", "Bad"),
        ("22:01:02.003 INFO StorageService Starting", None),
    ],
)
def test_a_line_that_says_that_it_will_never_serve(line: str, why: str | None) -> None:
    assert tuple(CASSANDRA.logs.events([line])) == (() if why is None else (Failed(why),))


def test_settings_that_the_harness_makes_are_refused() -> None:
    options = CassandraOptions()
    for key in ("storage_port", "data_file_directories", "paxos_variant", "num_tokens"):
        assert CASSANDRA.settings.refuse("cassandra", key, options) is not None
    assert CASSANDRA.settings.refuse("cassandra", "concurrent_reads", options) is None
    assert configuration.CASSANDRA in CASSANDRA.settings.settable


def test_a_server_tells_how_many_nodes_there_are() -> None:
    artifacts = Artifacts(version="5.0.9", paths=PATHS, sha256={})
    specs = CASSANDRA.specs(LAYOUT, artifacts, CassandraOptions())
    assert [configuration.nodes_of(spec) for spec in specs] == [3, 3, 3]
    assert specs[0].argv[0] == "java" and specs[0].argv[-1] == configuration.MAIN_CLASS
