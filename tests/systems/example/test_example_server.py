"""The example's node: what its journal keeps, and what three nodes on loopback agree on, whatever defect they have."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.coordination import Definite, Indefinite, ReadMode
from fencepost.harness.history import Claim
from fencepost.systems.example.client import ExampleClient, ExampleQuestion, connect
from fencepost.systems.example.journal import Journal
from fencepost.systems.example.server import Server
from fencepost.systems.example.store import Command, ExampleStore

NAMES = ("n1", "n2", "n3")
WRITE = {"op": "write", "key": "r1", "value": "5"}


def test_a_journal_is_read_back_without_the_line_that_a_crash_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.keep_vote(3, "n2")
    journal.keep_entries(1, [(1, WRITE), (2, WRITE), (2, WRITE)])
    journal.keep_entries(2, [(3, WRITE)])
    with path.open("a") as file:
        file.write('["vote", 4, "n')
    journal.close()
    again = Journal(path)
    again.close()
    assert (again.term, again.vote, again.entries) == (3, "n2", [(1, WRITE), (3, WRITE)])
    assert again.last() == (3, 2)
    forgetful = Journal(path, keeps=False)
    forgetful.close()
    assert forgetful.last() == (0, 0)


def test_commands_change_the_store_or_say_why_not() -> None:
    store = ExampleStore()
    commands: list[Command] = [
        {"op": "read", "key": "r1"},
        WRITE,
        {"op": "cas", "key": "r1", "old": "4", "value": "6"},
        {"op": "cas", "key": "r1", "old": "5", "value": "6"},
        {"op": "write-if", "key": "r1", "value": "7", "at": 2},
        {"op": "create", "key": "r1", "value": "8"},
        {"op": "create", "key": "s/3", "value": "1"},
        {"op": "members", "key": "s"},
    ]
    answers = [store.apply(i, command) for i, command in enumerate(commands, 1)]
    assert [a.get("error", a.get("value", a.get("elements"))) for a in answers] == [
        None, "5", "cas-mismatch", "6", "cas-mismatch", "exists", "1", [3],
    ]  # fmt: skip


@asynccontextmanager
async def cluster(folder: Path, defect: str = "none") -> AsyncIterator[dict[str, tuple[asyncio.Task[None], int]]]:
    """Three nodes: by name its task and its client port."""
    sockets = [socket.socket() for _ in range(6)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    nodes = {}
    for number, name in enumerate(NAMES):
        (folder / name).mkdir()
        peers = {other: ("127.0.0.1", ports[3 + i]) for i, other in enumerate(NAMES) if other != name}
        server = Server(name, peers, folder / name, 0.3, defect)
        nodes[name] = asyncio.create_task(server.run("127.0.0.1", ports[number], ports[3 + number])), ports[number]
    try:
        yield nodes
    finally:
        for task, _ in nodes.values():
            task.cancel()
        await asyncio.gather(*(task for task, _ in nodes.values()), return_exceptions=True)
        # The ends of connections are told to the loop by callbacks.
        await asyncio.sleep(0.05)


async def leader_of(nodes: dict[str, tuple[asyncio.Task[None], int]], *, but: str = "") -> tuple[str, int]:
    """(name, term) of the node that says it leads; `but` is not asked."""
    async with asyncio.timeout(20):
        while True:
            for name, (_, port) in nodes.items():
                question = ExampleQuestion("127.0.0.1", port)
                with contextlib.suppress(Definite):
                    answer = await question.ask()
                    if answer.claims is Claim.YES and name != but and answer.epoch is not None:
                        await question.close()
                        return name, answer.epoch
                await question.close()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("defect", ["none", "stale-reads"])
def test_three_nodes_elect_a_leader_that_alone_serves(tmp_path: Path, defect: str) -> None:
    async def main() -> None:
        async with cluster(tmp_path, defect) as nodes:
            leader, term = await leader_of(nodes)
            clients = {name: ExampleClient(await connect("127.0.0.1", port, 1)) for name, (_, port) in nodes.items()}
            reply = await clients[leader].write("r1", b"5")
            assert reply.epoch == term
            read = await clients[leader].read("r1", ReadMode.STRONG)
            assert (read.value, read.value_position) == (b"5", reply.value_position)
            await clients[leader].add("s", 7)
            assert (await clients[leader].members("s", ReadMode.STRONG)).elements == (7,)
            other = next(name for name in NAMES if name != leader)
            with pytest.raises(Definite, match="not-leader"):
                await clients[other].write("r1", b"6")
            for client in clients.values():
                await client.close()

    asyncio.run(main())


@pytest.mark.parametrize("defect", ["none", "stale-reads"])
def test_a_leader_that_stepped_down_answers_reads_only_with_stale_reads(tmp_path: Path, defect: str) -> None:
    async def main() -> None:
        async with cluster(tmp_path, defect) as nodes:
            client = await _client_of_a_leader_alone(nodes)
            # It steps down by itself: nobody is left who could lead.
            async with asyncio.timeout(20):
                while await _answer(client.write("r1", b"6")) != "not-leader":
                    await asyncio.sleep(0.02)
            read = await _answer(client.read("r1", ReadMode.STRONG))
            members = await _answer(client.members("s", ReadMode.STRONG))
            assert (read == "not-leader") == (members == "not-leader") == (defect == "none")
            await client.close()

    asyncio.run(main())


@pytest.mark.parametrize("defect", ["none", "early-ack"])
def test_a_leader_alone_acknowledges_only_with_early_ack(tmp_path: Path, defect: str) -> None:
    async def main() -> None:
        async with cluster(tmp_path, defect) as nodes:
            client = await _client_of_a_leader_alone(nodes)
            asked = [client.write("r1", b"6"), client.cas("r1", b"6", b"7"), client.read("r1", ReadMode.STRONG)]
            answers = await asyncio.gather(*(_answer(one) for one in asked))
            if defect == "none":
                assert answers == ["leader-changed"] * 3
            else:
                assert [answer.value for answer in answers] == [b"6", b"7", b"7"]
            await client.close()

    asyncio.run(main())


async def _client_of_a_leader_alone(nodes: dict[str, tuple[asyncio.Task[None], int]]) -> ExampleClient:
    """Write r1 and s, end the followers, and return a client of the leader."""
    leader, _ = await leader_of(nodes)
    client = ExampleClient(await connect("127.0.0.1", nodes[leader][1], 1))
    await client.write("r1", b"5")
    await client.add("s", 7)
    for name, (task, _) in nodes.items():
        if name != leader:
            task.cancel()
    await asyncio.gather(*(task for name, (task, _) in nodes.items() if name != leader), return_exceptions=True)
    return client


async def _answer(asked: Awaitable[Any]) -> Any:
    """Return the reply, or the word for why there is none."""
    try:
        return await asked
    except (Definite, Indefinite) as error:
        return error.args[0] if error.args else str(error)
