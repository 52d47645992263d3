"""How servers of NATS are named and asked about members and replicas: scripted answers, no server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Place
from fencepost.harness.systems.contract.server_settings import NO_SETTINGS
from fencepost.harness.systems.nats import administration, configuration
from fencepost.harness.systems.nats.membership import NatsMembership
from fencepost.harness.systems.nats.options import NatsOptions
from fencepost.harness.systems.nats.raftz import parsed_group
from fencepost.harness.systems.nats.wire.connection import Connection, connect
from tests.systems.contract.patience import PATIENCE_S
from tests.systems.nats.jetstream_script import INFO, connected, refusal, serving, speaking


def stream(leader: str, *replicas: tuple[str, bool], wanted: int = 3) -> dict[str, Any]:
    named = [{"name": name, "current": current} for name, current in replicas]
    return {"config": {"name": "S", "num_replicas": wanted}, "cluster": {"leader": leader, "replicas": named}}


async def asked(answer: dict[str, Any] | tuple[bytes, bytes], ask: Callable[[Connection], Awaitable[Any]]) -> Any:
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
