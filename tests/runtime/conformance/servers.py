"""What every runtime does with servers: start, logs, kill, own death, pause, restart with data, hooks, copies."""

# Blocking file calls are harmless here: nothing else runs on this loop but the scenario.
# ruff: noqa: ASYNC240

import asyncio
import contextlib
import os
import signal
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.contract.logs import BecameLeader
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.lab.node import LabNode
from fencepost.harness.runtime.node import Exit, Node, NodeState
from tests.runtime.conformance.cluster import DEADLINE_S, Cluster, refused
from tests.runtime.conformance.stage import STAY

#: From the moment that a server wrote a line to the one at which it stands in the node's log; observers read epochs.
#: Whoever brings it there may have to wait for the processor; a log that is late by itself is late every time.
_LOG_LATE_MAX_S: Final = 0.5
_LOG_TRIES: Final = 4
#: A server ends by itself as soon as it can, however busy the machine is.
_STOP_S: Final = 40.0
_STARTING: Final = '"msg":"starting an etcd server"'


async def serves(cluster: Cluster) -> None:
    """Every node is up, knows itself, and serves; what was written through one is read through the others."""
    assert await cluster.system.healthy(cluster.runtime.layout) is None
    assert list(cluster.runtime.layout) == cluster.names == [f"n{i + 1}" for i in range(len(cluster.names))]
    await cluster.write("n1", "served", "by n1")
    for name, node in cluster.nodes.items():
        assert (node.name, node.place, node.spec.name) == (name, cluster.runtime.layout[name], name)
        assert node.state is NodeState.RUNNING
        assert (await node.evidence()).state is NodeState.RUNNING
        assert node.pid is not None
        assert await cluster.system.ready(node)
        assert await cluster.read(name, "served") == "by n1"
        assert (node.place.kept / "conf/note").read_text() == "as it was"
        before = node.cpu_ns()

        async def works(node: Node = node, before: int = before) -> bool:
            return node.cpu_ns() > before >= 0

        await cluster.until(works, f"{name} to use processor time")
    assert await cluster.exits(0.05) == []


async def log(cluster: Cluster) -> None:
    """What a server writes is in its log at once, and the log goes on over restarts."""
    late_s = []
    for _ in range(_LOG_TRIES):
        leader = await cluster.leader()
        others = [name for name in cluster.names if name != leader]
        at = {name: cluster.nodes[name].log.stat().st_size for name in others}
        await cluster.nodes[leader].kill()
        seen_late_s = await _seen_new_leader(cluster, at)
        node = cluster.nodes[leader]
        before = node.log.read_bytes()
        starts = before.count(_STARTING.encode())
        assert starts
        await node.start()
        await cluster.until_ready(node)

        async def told(node: Node = node, starts: int = starts) -> bool:
            return node.log.read_bytes().count(_STARTING.encode()) == starts + 1

        late_s.append(max(seen_late_s, await cluster.until(told, "the restart to stand in the log")))
        if late_s[-1] < _LOG_LATE_MAX_S:
            break
    assert late_s[-1] < _LOG_LATE_MAX_S, f"{late_s} s late"
    assert node.log.read_bytes().startswith(before), "what was told before the restart is there, once"
    assert len(node.log_tail(3).splitlines()) == 3
    assert node.log_tail(3).splitlines()[-1] in node.log.read_text()


async def _seen_new_leader(cluster: Cluster, at: Mapping[str, int]) -> float:
    """Wait for a new leader to say so in its log, behind these sizes; how late that certainly came to stand there.

    That is, in seconds: from when it said so to when we began the last look that did not find it.
    """
    late: list[float] = []
    missed = datetime.min.replace(tzinfo=UTC)

    async def seen() -> bool:
        nonlocal missed
        now = datetime.now(UTC)
        for name, size in at.items():
            with cluster.nodes[name].log.open("rb") as file:
                file.seek(size)
                lines = file.read().decode().splitlines()
            for line in lines:
                if any(isinstance(event, BecameLeader) for event in cluster.system.logs.events([line])):
                    said = line.partition('"ts":"')[2].partition('"')[0]
                    late.append((missed - datetime.fromisoformat(said)).total_seconds())
        missed = now
        return bool(late)

    await cluster.until(seen, "a new leader in the logs")
    return max(0.0, min(late))


async def kill(cluster: Cluster) -> None:
    """A killed server is gone, which is told once and as expected; started again it serves."""
    node = await cluster.follower()
    incarnation = node.incarnation
    await asyncio.gather(node.kill(), node.kill())
    assert (node.state, node.pid, node.cpu_ns()) == (NodeState.DEAD, None, 0)
    evidence = await node.evidence()
    assert evidence.state is NodeState.DEAD, evidence.text
    assert not await cluster.system.ready(node)
    await node.kill()
    await node.pause()
    await node.resume()
    assert node.state is NodeState.DEAD
    assert await cluster.exits() == [Exit(node.name, incarnation, -signal.SIGKILL, True)]
    await node.start()
    assert (node.state, node.incarnation) == (NodeState.RUNNING, incarnation + 1)
    await cluster.until_ready(node)
    assert (await refused(node.start())).message == f"node {node.name} is running already"


async def stop(cluster: Cluster) -> None:
    """A server that is asked to end does so by itself, which is told as expected; one that cannot is killed."""
    node = await cluster.follower()
    incarnation = node.incarnation
    assert await node.stop(_STOP_S) is True
    evidence = await node.evidence()
    assert (node.state, evidence.state) == (NodeState.DEAD, NodeState.DEAD), evidence.text
    assert await node.stop(_STOP_S) is True
    (gone,) = await cluster.exits()
    assert (gone.node, gone.incarnation, gone.expected) == (node.name, incarnation, True)
    assert gone.exit_status in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
    await node.start()
    await cluster.until_ready(node)
    await node.pause()
    assert await node.stop(0.3) is False
    assert node.state is NodeState.DEAD
    assert await cluster.exits() == [Exit(node.name, incarnation + 1, -signal.SIGKILL, True)]
    await node.start()
    await cluster.until_ready(node)


async def own_death(cluster: Cluster) -> None:
    """A server that ends by itself, at its start and later, is told with its status, as unexpected."""
    node = await cluster.follower()
    os.kill(node.pid or 0, signal.SIGKILL)
    assert await cluster.next_exit() == Exit(node.name, node.incarnation, -signal.SIGKILL, False)
    assert node.state is NodeState.DEAD
    node.wrap_argv.append(lambda argv: (argv[0], "--no-such-flag"))
    await node.start()
    assert await cluster.next_exit() == Exit(node.name, node.incarnation, 2, False)
    assert (await node.evidence()).state is NodeState.DEAD

    async def said() -> bool:
        return "no-such-flag" in node.log_tail(40)

    await cluster.until(said, "its last words")
    node.wrap_argv.clear()
    await node.start()
    # It dies, and before anybody is told we kill it as well: that was not our doing.
    assert node.pid is not None
    os.kill(node.pid, signal.SIGKILL)
    _until_dead(node)
    await node.kill()
    assert await cluster.exits() == [Exit(node.name, node.incarnation, -signal.SIGKILL, False)]


def _until_dead(node: Node) -> None:
    """Until whoever tells of its end could know of it. The loop must not run meanwhile."""
    if isinstance(node, LabNode):
        assert node.pid is not None
        os.waitid(os.P_PID, node.pid, os.WEXITED | os.WNOWAIT)
        return
    from fencepost.harness.runtime.containers.engine.engine import connect
    from fencepost.harness.runtime.containers.node import ContainerNode

    assert isinstance(node, ContainerNode)
    with contextlib.closing(connect()) as client:
        client.containers.get(node.container_id).wait(timeout=DEADLINE_S)


async def pause(cluster: Cluster) -> None:
    """A paused leader runs not one instruction, is superseded, and wakes; nobody takes it for dead."""
    name = await cluster.leader()
    node, others = cluster.nodes[name], [other for other in cluster.names if other != name]
    pid, incarnation = node.pid, node.incarnation
    await node.pause()
    await node.pause()

    async def paused() -> bool:
        return (await node.evidence()).state is NodeState.PAUSED

    await cluster.until(paused, "the freezer")
    assert node.state is NodeState.PAUSED
    assert node.pid == pid
    used_ns = node.cpu_ns()
    assert await cluster.leader(others) != name
    assert not await cluster.system.ready(node)
    assert node.cpu_ns() == used_ns, "a paused server used processor time"
    assert (await refused(node.start())).message == f"node {name} is paused already"
    await node.resume()
    await node.resume()
    assert (node.state, (await node.evidence()).state) == (NodeState.RUNNING, NodeState.RUNNING)
    await cluster.until_healthy()
    assert (node.pid, node.incarnation) == (pid, incarnation)
    assert await cluster.exits(0.1) == []


async def cancelled_pause(cluster: Cluster) -> None:
    """A pause that was given up does not come after its end."""
    node = await cluster.follower()
    for _ in range(5):
        pausing = asyncio.ensure_future(node.pause())
        await asyncio.sleep(0)
        pausing.cancel()
        await asyncio.wait([pausing])
        await node.resume()
        await asyncio.sleep(0.3)
        assert (node.state, (await node.evidence()).state) == (NodeState.RUNNING, NodeState.RUNNING)


async def kill_while_paused(cluster: Cluster) -> None:
    node = await cluster.follower()
    await node.pause()
    await node.kill()
    assert (await node.evidence()).state is NodeState.DEAD
    assert await cluster.exits() == [Exit(node.name, node.incarnation, -signal.SIGKILL, True)]
    await node.start()
    assert node.state is NodeState.RUNNING
    await cluster.until_ready(node)


async def restart_with_data(cluster: Cluster) -> None:
    """What was acknowledged is there after every node was killed at once; data files are not written again."""
    await cluster.write("n1", "kept", "over kill -9")
    await asyncio.gather(*(node.kill() for node in cluster.nodes.values()))
    found = [(await node.evidence()).state for node in cluster.nodes.values()]
    assert found == [NodeState.DEAD] * len(found)
    assert {gone.node for gone in await cluster.exits() if gone.expected} == set(cluster.names)
    await asyncio.gather(*(node.start() for node in cluster.nodes.values()))
    await cluster.until_healthy()
    for name in cluster.names:
        assert await cluster.read(name, "kept") == "over kill -9"


async def hooks(cluster: Cluster) -> None:
    """Wrapping functions make the command, one after the other, at every start; start hooks see the new process."""
    node = await cluster.follower()
    seen: list[tuple[int, bool]] = []
    node.wrap_argv.append(lambda argv: [*argv, "--max-txn-ops=77"])
    node.wrap_argv.append(lambda argv: [word.replace("=77", "=78") for word in argv])
    node.on_start.append(lambda started: seen.append((started.incarnation, started.pid is not None)))
    before: list[tuple[int, NodeState]] = []

    async def starting(started: Node) -> None:
        before.append((started.incarnation, started.state))

    node.before_start.append(starting)
    first = node.incarnation + 1
    for _ in range(2):
        await node.kill()
        await node.start()
        await cluster.until(lambda: _runs_with(node, "--max-txn-ops=78"), "the wrapped command")
    assert seen == [(first, True), (first + 1, True)]
    assert before == [(first - 1, NodeState.DEAD), (first, NodeState.DEAD)]


async def another_spec(cluster: Cluster) -> None:
    """A node takes another command from its next start on; what it is called and listens on stays."""
    node = await cluster.follower()
    first = node.spec
    node.respec(replace(first, argv=(*first.argv, "--max-txn-ops=79")))
    assert not await _runs_with(node, "--max-txn-ops=79")
    try:
        await node.kill()
        await node.start()
        await cluster.until(lambda: _runs_with(node, "--max-txn-ops=79"), "the other command")
        with pytest.raises(HarnessError, match="cannot become another node"):
            node.respec(replace(first, name="another"))
    finally:
        node.respec(first)
    await node.kill()
    await node.start()
    await cluster.until(lambda: _runs_with(node, first.argv[-1]), "its own command")
    assert not await _runs_with(node, "--max-txn-ops=79")


async def _runs_with(node: Node, argument: str) -> bool:
    """What is executed a moment after the start: until then the process is the one that starts it."""
    return argument in Path(f"/proc/{node.pid}/cmdline").read_text().split("\0")


async def failed_start(cluster: Cluster) -> None:
    """A command that cannot be executed is refused by name; the node can be started afterwards."""
    node = await cluster.follower()
    await node.kill()
    await cluster.exits(0.05)
    incarnation = node.incarnation
    node.wrap_argv.append(lambda _: ("/no/such/program",))
    error = await refused(node.start())
    assert isinstance(error, HarnessError)
    assert f"node {node.name} cannot be started" in error.message
    assert "/no/such/program" in error.message
    assert error.hint
    assert (node.state, node.incarnation, node.pid) == (NodeState.DEAD, incarnation, None)
    assert await cluster.exits(0.1) == []
    node.wrap_argv.clear()
    await node.start()
    await cluster.until_ready(node)
    assert node.incarnation == incarnation + 1


async def cancelled_start(cluster: Cluster) -> None:
    """A start that is given up at any moment leaves no server that we do not know of."""
    node = await cluster.follower()
    for delay_s in (0.0, 0.25):
        await node.kill()
        starting = asyncio.create_task(node.start())
        await asyncio.sleep(delay_s)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    await node.kill()
    assert (await node.evidence()).state is NodeState.DEAD
    assert not await cluster.system.ready(node), "a server that nobody knows of answers"
    await node.start()
    await cluster.until_ready(node)
    assert (await node.evidence()).state is NodeState.RUNNING


async def copy(cluster: Cluster) -> None:
    """The data of a stopped node as one archive, below the node's name, with what the server wrote."""
    node = await cluster.follower()
    name, target = node.name, cluster.folder / "data.tar.gz"
    await node.kill()
    await cluster.runtime.copy_data(name, target)
    with tarfile.open(target) as archive:
        files = {member.name: member.size for member in archive if member.isfile()}
        first = archive.extractfile(f"{name}/first")
        assert first is not None
        assert first.read() == b"1"
    assert files[f"{name}/etcd/member/snap/db"] > 0, files
    assert any(path.startswith(f"{name}/etcd/member/wal/") for path in files)
    assert all(path.startswith(f"{name}/") for path in files)
    assert not list(cluster.folder.glob("*.part"))
    target.unlink()


async def full_disk(cluster: Cluster) -> str:
    """A server that writes more than its node's limit is refused by the disk."""
    node = cluster.nodes["n1"]
    limit = node.spec.data_limit_bytes
    value, written = "x" * (1 << 20), 0

    async def full() -> bool:
        nonlocal written
        # One that has died of it would only be waited for.
        if node.state is NodeState.RUNNING:
            with contextlib.suppress(Definite, Indefinite, TimeoutError):
                await cluster.write_once("n1", f"big{written}", value)
                written += len(value)
        assert written < limit, f"{written} bytes were taken, the limit is {limit}"
        return "no space left on device" in node.log.read_text()

    await cluster.until(full, "the server to say that its disk is full")
    assert written
    return STAY
