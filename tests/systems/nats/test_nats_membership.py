"""How servers of NATS are named and asked about members and replicas: scripted answers, no server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.contract.members import NamesRemovedMembers
from fencepost.harness.contract.server_settings import NO_SETTINGS
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Place
from fencepost.systems.nats import administration, configuration
from fencepost.systems.nats.membership import NatsMembership
from fencepost.systems.nats.options import NatsOptions
from fencepost.systems.nats.raftz import META_GROUP, META_LEADER, RaftGroup, parsed_group
from fencepost.systems.nats.system import NATS
from fencepost.systems.nats.wire.connection import NatsConnection, connect
from tests.systems.contract.patience import PATIENCE_S
from tests.systems.nats.jetstream_script import INFO, connected, refusal, serving, speaking


def stream(leader: str, *replicas: tuple[str, bool], wanted: int = 3) -> dict[str, Any]:
    named = [{"name": name, "current": current} for name, current in replicas]
    return {"config": {"name": "S", "num_replicas": wanted}, "cluster": {"leader": leader, "replicas": named}}


async def asked(answer: dict[str, Any] | tuple[bytes, bytes], ask: Callable[[NatsConnection], Awaitable[Any]]) -> Any:
    """What `ask` makes of a server that answers every request so."""
    given = answer if isinstance(answer, tuple) else (b"", json.dumps(answer).encode())
    async with serving(lambda subject, headers, payload: given) as port:
        connection = await connected(port)
        try:
            return await ask(connection)
        finally:
            connection.close()


@pytest.mark.parametrize(
    ("present", "count", "text"),
    [
        (stream("n1", ("n2", True), ("n3-1", True)), None, None),
        (stream("n1", ("n2", True), ("n3-1", False)), 3, "S is to have 3 replicas, and is on n1, n2, n3; n3 is behind"),
        (stream("n1", ("n2", True)), None, "S is to have 3 replicas, and is on n1, n2"),
        (stream("", ("n1", True), ("n2", True), ("n3", True)), None, "S is to have 3 replicas, and is on n1, n2, n3"),
        (stream("n1", ("n2", True), ("n3", True)), 5, "S is to have 5 replicas, and is on n1, n2, n3"),
    ],
)  # fmt: skip
def test_a_stream_that_lacks_replicas_is_named(present: dict[str, Any], count: int | None, text: str | None) -> None:
    found = asyncio.run(asked({"streams": [present]}, lambda c: administration.shortage(c, count)))
    assert found == text


def test_an_incomplete_list_of_streams_says_nothing() -> None:
    with pytest.raises(Indefinite, match="nobody told of S"):
        asyncio.run(asked({"streams": [], "missing": ["S"]}, administration.streams))


@pytest.mark.parametrize(("number", "definite"), [(10040, True), (10044, True), (10075, True), (10202, True)])
def test_refused_changes_of_members_are_definite(number: int, definite: bool) -> None:
    with pytest.raises(Definite if definite else Indefinite):
        asyncio.run(asked(refusal(400, number, "no"), lambda c: administration.ask(c, "SERVER.REMOVE", {"peer": "n3"})))


def test_a_group_names_nodes_and_not_servers() -> None:
    state = {
        "id": "A", "state": "FOLLOWER", "term": 4, "size": 3, "quorum_needed": 2, "leader": "C",
        "peers": {"B": {"name": "n2"}, "C": {"name": "n3-1"}},
    }  # fmt: skip
    group = parsed_group(state, "n1")
    assert (group.leader, group.members) == ("n3", {"n1": "A", "n2": "B", "n3": "C"})


@pytest.mark.parametrize(
    ("meta", "stream_group", "removed"),
    [(("n1", "n2"), ("n1", "n3"), True), (("n1", "n3"), ("n1", "n3"), False), (("n1", "n2"), ("n1", "n2"), False)],
    ids=["its stream names it", "a member", "nobody names it"],
)
def test_a_server_is_removed_once_the_meta_group_does_not_name_it(
    meta: tuple[str, ...], stream_group: tuple[str, ...], removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_name = {META_GROUP: group(*meta), "S-R3F-1": group(*stream_group)}

    async def told(place: Place, timeout_s: float) -> dict[str, RaftGroup]:
        return by_name

    monkeypatch.setattr("fencepost.systems.nats.membership.groups", told)
    membership = NatsMembership({"n1": Place(name="n1", number=1, address="", folder=Path(), data=Path(), kept=Path())})
    assert isinstance(membership, NamesRemovedMembers)
    assert asyncio.run(membership.is_removed("n3", at="n1", timeout_s=1)) is removed
    voters = asyncio.run(membership.voters("n1", timeout_s=1))
    assert ("n3" in voters) is ("n3" in (*meta, *stream_group))
    del by_name[META_GROUP]
    with pytest.raises(Definite, match="n1 is not in the meta group"):
        asyncio.run(membership.is_removed("n3", at="n1", timeout_s=1))


def group(*names: str) -> RaftGroup:
    members = {name: name.upper() for name in names}
    return RaftGroup(leads=True, term=1, leader=names[0], size=len(names), quorum=2, members=members)


def test_a_cluster_is_not_healthy_while_a_server_is_out_of_the_meta_group(monkeypatch: pytest.MonkeyPatch) -> None:
    views: dict[tuple[str, str], RaftGroup | None] = {}

    async def viewed(place: Place, subject: str) -> RaftGroup | None:
        return views.get((place.name, subject))

    monkeypatch.setattr("fencepost.systems.nats.system._view", viewed)
    nodes = ("n1", "n2", "n3")
    layout = {name: Place(name=name, number=1, address="", folder=Path(), data=Path(), kept=Path()) for name in nodes}
    views.update({(name, META_LEADER): group(*nodes) for name in nodes})
    # The stream may have fewer replicas than there are servers, or not exist yet.
    assert asyncio.run(NATS.healthy(layout)) is None
    views["n3", META_LEADER] = None
    assert asyncio.run(NATS.healthy(layout)) == "not in the meta group: n3"


def test_a_wiped_server_comes_back_under_a_new_name_and_nothing_else_changes(tmp_path: Path) -> None:
    layout = {
        name: Place(name=name, number=i, address=f"127.0.0.{i}", folder=tmp_path, data=tmp_path / "data", kept=tmp_path)
        for i, name in enumerate(("n1", "n2", "n3"), start=1)
    }
    artifacts = Artifacts(version="2.15.2", paths={"nats-server": "nats-server"}, sha256={})
    spec = configuration.spec(layout["n3"], layout, artifacts, NatsOptions(), NO_SETTINGS)
    membership = NatsMembership(layout)
    assert membership.joining(spec, ["n1", "n2"], life=None) == spec
    for life in (1, 2):
        spec = membership.joining(spec, ["n1", "n2"], life=life)
        (text,) = spec.files.values()
        names = [line for line in str(text).splitlines() if line.startswith("server_name")]
        assert names == [f"server_name: n3-{life}"]
        assert configuration.node_of(f"n3-{life}") == "n3"
        assert str(text).count(f"n3-{life}") == 1


def test_an_administrator_logs_in_by_name() -> None:
    heard: list[dict[str, Any]] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(INFO).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"CONNECT "):
                heard.append(json.loads(line.removeprefix(b"CONNECT ")))
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")

    async def scenario() -> None:
        async with speaking(converse) as port:
            for user in ("", configuration.SYSTEM_USER):
                (await connect("127.0.0.1", port, PATIENCE_S, user)).close()

    asyncio.run(scenario())
    assert [(hello.get("user"), hello.get("pass")) for hello in heard] == [(None, None), ("s", "s")]
