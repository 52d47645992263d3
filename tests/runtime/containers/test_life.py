"""A server's life in a container: started with its files, logged, frozen, killed, started again on its data."""

import asyncio
import tarfile
from pathlib import Path

import pytest
from docker import DockerClient

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.engine import ownership
from fencepost.harness.runtime.containers.engine.engine import EngineFacts
from fencepost.harness.runtime.containers.state import look
from fencepost.harness.runtime.node import Node, NodeState
from tests.runtime.containers.cluster_scene import cluster, spec, until

pytestmark = [pytest.mark.containers, pytest.mark.usefixtures("engine")]


@pytest.mark.parametrize("limited", [False, True], ids=["volume", "limited"])
def test_starts_again_on_its_data(tmp_path: Path, limited: bool) -> None:
    async def run() -> None:
        async with cluster(tmp_path, limited=limited) as it:
            node = it.nodes["n1"]
            assert (node.state, node.incarnation, node.pid) == (NodeState.NEW, -1, None)
            assert (await node.evidence()).state is NodeState.NEW
            await it.realise([spec("n1", "a")])
            told: list[int] = []
            node.on_start.append(lambda started: told.append(started.incarnation))
            await node.start()
            await until(lambda: "start 1 conf one data n1" in node.log_tail())
            assert (node.place.kept / "deep" / "conf").read_text() == "one"
            await node.kill()
            await node.kill()
            assert node.state is NodeState.DEAD
            assert (await node.evidence()).state is NodeState.DEAD
            gone = await it.next_exit()
            assert (gone.node, gone.incarnation, gone.exit_status, gone.expected) == ("n1", 0, -9, True)
            # The command may be wrapped from one start to the next, and files may change.
            node.wrap_argv.append(lambda argv: [*argv, "wrapped"])
            node.respec(spec("n1", "a", conf="two"))
            await node.start()
            await until(lambda: "start 2 conf two data n1" in node.log_tail())
            assert node.log.read_text().splitlines()[::2] == ["arguments a", "arguments a wrapped"]
            assert told == [0, 1]
            await node.kill()
            await it.copy_data("n1", tmp_path / "data.tar.gz")
            with tarfile.open(tmp_path / "data.tar.gz") as archive:
                held = archive.extractfile("n1/starts")
                assert held is not None
                assert held.read() == b"xx"
            # Wiped, it begins as at its first start, and is within its limit.
            await node.wipe()
            node.respec(spec("n1", "b", conf="three"))
            await node.start()
            await until(lambda: "start 1 conf three data n1" in node.log_tail())
            with pytest.raises(HarnessError, match="cannot be wiped"):
                await node.wipe()

    asyncio.run(run())


def test_limit_of_data_holds(tmp_path: Path, engine: DockerClient) -> None:
    async def run() -> None:
        async with cluster(tmp_path, limited=True) as it:
            await it.realise([spec("n1")])
            await it.nodes["n1"].start()
            fill = "d = open('/data/fill', 'wb')\nwhile True: d.write(bytes(1 << 20))"
            said = engine.containers.get(it.nodes["n1"].container_id).exec_run(["python3", "-c", fill])
            assert b"No space left" in said.output

    asyncio.run(run())


def test_frozen_is_shown_and_killed(tmp_path: Path, facts: EngineFacts, engine: DockerClient) -> None:
    if not facts.can_pause:
        pytest.skip("this engine cannot pause")

    async def run() -> None:
        async with cluster(tmp_path) as it:
            node = it.nodes["n1"]
            await it.realise([spec("n1")])
            await node.start()
            await until(lambda: "start 1" in node.log_tail())
            assert (await node.evidence()).state is NodeState.RUNNING
            await node.pause()
            await node.pause()
            seen = await node.evidence()
            assert (node.state, seen.state) == (NodeState.PAUSED, NodeState.PAUSED), seen.text
            before = node.cpu_ns()
            await asyncio.sleep(0.1)
            assert node.cpu_ns() == before
            assert facts.same_kernel == (node.pid is not None) == (before > 0)
            # Without the kernel's word: by processor time that stands still.
            seen = await asyncio.to_thread(look, engine, node.container_id, None)
            assert seen.state is NodeState.PAUSED
            assert "0 ms of processor time" in seen.text
            await node.resume()
            await node.resume()
            assert (await node.evidence()).state is NodeState.RUNNING
            await node.pause()
            await node.kill()
            assert (await node.evidence()).state is NodeState.DEAD
            assert (await it.next_exit()).expected
            assert node.cpu_ns() == 0

    asyncio.run(run())


def test_end_of_its_own_is_told_apart(tmp_path: Path, engine: DockerClient) -> None:
    async def run() -> None:
        async with cluster(tmp_path, nodes=2) as it:
            await it.realise([spec("n1"), spec("n2", "--fail")])
            await it.nodes["n1"].start()
            engine.containers.get(it.nodes["n1"].container_id).kill("SIGKILL")
            gone = await asyncio.wait_for(it.next_exit(), 60.0)
            assert (gone.node, gone.exit_status, gone.expected) == ("n1", -9, False)
            assert it.nodes["n1"].state is NodeState.DEAD
            # One that ended by itself is killed while nobody here knows that yet: this wait blocks the event loop.
            await it.nodes["n2"].start()
            engine.containers.get(it.nodes["n2"].container_id).wait(timeout=60)
            await it.nodes["n2"].kill()
            gone = await asyncio.wait_for(it.next_exit(), 60.0)
            assert (gone.node, gone.incarnation, gone.exit_status, gone.expected) == ("n2", 0, 3, False)
            await until(lambda: "start 1" in it.nodes["n2"].log_tail())
            await it.nodes["n1"].start()
            with pytest.raises(HarnessError, match="n1 is running already"):
                await it.nodes["n1"].start()

    asyncio.run(run())


def test_command_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as it:
            await it.realise([spec("n1")])
            it.nodes["n1"].wrap_argv.append(lambda argv: ["/no/such/program"])
            with pytest.raises(HarnessError, match=r"node n1 cannot be started.*no/such/program"):
                await it.nodes["n1"].start()
            it.nodes["n1"].wrap_argv.clear()
            await it.nodes["n1"].start()
            assert it.nodes["n1"].incarnation == 0

    asyncio.run(run())


@pytest.mark.parametrize("streams", [False, True])
def test_nothing_is_left(tmp_path: Path, engine: DockerClient, streams: bool) -> None:
    async def run() -> str:
        async with cluster(tmp_path, nodes=2, limited=True, streams=streams) as it:
            await it.realise([spec("n1"), spec("n2")])
            await asyncio.gather(*(node.start() for node in it.nodes.values()))
            await it.nodes["n1"].pause()
            assert len(ownership.listed(engine, it.run_id)) >= 7
            assert (tmp_path / "engine.json").exists()
            return it.run_id

    run_id = asyncio.run(run())
    assert ownership.listed(engine, run_id) == []
    assert not (tmp_path / "engine.json").exists()


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.15, 0.4, 0.8, 1.2])
def test_cancelled_at_any_point(tmp_path: Path, engine: DockerClient, after_s: float) -> None:
    """As Ctrl-C does it: `open`, `realise` and `start` are cancelled, then everything is closed."""
    opened: list[str] = []

    async def work() -> None:
        async with cluster(tmp_path, nodes=2) as it:
            opened.append(it.run_id)
            await it.realise([spec("n1"), spec("n2")])
            await asyncio.gather(*(node.start() for node in it.nodes.values()))
            await asyncio.sleep(60)

    async def run() -> None:
        working = asyncio.create_task(work())
        await asyncio.sleep(after_s)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(working), 100.0)

    asyncio.run(run())
    note = tmp_path / "engine.json"
    assert not note.exists()
    for run_id in opened:
        assert ownership.listed(engine, run_id) == []


def test_hooks_are_called_with_the_process_there(tmp_path: Path, facts: EngineFacts) -> None:
    if not facts.may_enter:
        pytest.skip("process numbers of containers are not seen from here")

    async def run() -> None:
        async with cluster(tmp_path) as it:
            seen: list[Path] = []

            def look(node: Node) -> None:
                process = Path(f"/proc/{node.pid}")
                assert process.exists()
                seen.append(process)

            it.nodes["n1"].on_start.append(look)
            await it.realise([spec("n1")])
            await it.nodes["n1"].start()
            (process,) = seen
            # Until it becomes the server it is the engine's, which starts it.
            await until(lambda: (process / "comm").read_text().strip() == "python3")

    asyncio.run(run())
