"""A cluster in the hands of a test: what the fixture refuses, what it gives, that faults end with their blocks."""

import asyncio
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.harness.base.errors import FencepostError, HarnessError, UsageError
from fencepost.harness.testing import cluster
from fencepost.harness.testing.cluster import CLUSTER_KEYS, TestCluster, cluster_plan, opened
from fencepost.harness.testing.relay import Relay
from tests.lab_scenario import require_lab

pytest_plugins = ["pytester"]

GUIDE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "ci.md"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"system": "etcd", "workload": "register"}, "takes no 'workload'"),
        ({"system": "etcd", "expect": "invalid"}, "takes no 'expect'"),
        ({"system": "etcd", "nodes": 4}, "nodes: 4 is not a choice"),
        ({"system": "etcd", "nodes": "three"}, "the cluster of this test"),
        ({"system": "etcdd"}, "etcdd"),
        ({"system": "etcd", "set": {"etcd": {"no-such-key-at-all": 3}}, "runtime": "moon"}, "moon"),
        ({}, "system"),
    ],
)
def test_keys_that_make_no_sense_are_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        cluster_plan(keys, 1)


REFUSED: Final = """
from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.linux import supervisor

def enter():
    raise MachineError("no namespaces here", hint="allow them")

supervisor.enter = enter
raise SystemExit(supervisor.inside([], lambda rest: 0))
"""


def test_a_machine_without_namespaces_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: str, **__: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", REFUSED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    monkeypatch.setattr(cluster, "start", started)
    with (
        pytest.raises(FencepostError, match="no namespaces here") as refused,
        opened(cluster_plan({"system": "example"}, 1), tmp_path),
    ):
        pass
    assert refused.value.hint == "allow them"


def test_every_system_can_be_held() -> None:
    from fencepost.harness.plugins import registry

    for system in registry.SYSTEMS:
        assert cluster_plan({"system": system}, 7).plan.seed == 7


def test_the_guide_names_every_key() -> None:
    told = GUIDE.read_text().partition("The marker takes the keys of a plan that describe a cluster")[2]
    assert [key for key in CLUSTER_KEYS if f"`{key}`" not in told.partition("##")[0]] == []


def test_a_test_without_a_plan_or_with_two_fixtures_is_told_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_nothing(cluster): pass

        @pytest.mark.fencepost(system="example", workload="register", nemesis="none")
        def test_both(cluster, fencepost_run): pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines_random(["*the fixture cluster needs a plan: *", "*exclude each other*"])
    result.stdout.no_fnmatch_line("*Traceback*")


# -- the relay --------------------------------------------------------------------------------------------------------


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer everything after the end of the request; a request "break" resets the connection."""
    asked = await reader.read()
    if asked == b"break":
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()
        return
    writer.write(asked)
    writer.close()


async def _through(asked: bytes, *, served: bool = True) -> bytes:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    target = server.sockets[0].getsockname()
    if not served:
        server.close()
        await server.wait_closed()
    relay = Relay(socket.create_server(("127.0.0.1", 0)), target)
    await relay.open()
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(*relay.address)
            writer.write(asked)
            writer.write_eof()
            try:
                return await reader.read()
            finally:
                writer.close()
    finally:
        await relay.close()
        server.close()


def test_a_relay_passes_both_directions_and_their_ends() -> None:
    asked = b"x" * 1_000_000
    assert asyncio.run(_through(asked)) == asked


@pytest.mark.parametrize(("asked", "served"), [(b"break", True), (b"anything", False)])
def test_a_relay_passes_errors_on(asked: bytes, served: bool) -> None:
    with pytest.raises(ConnectionError):
        asyncio.run(_through(asked, served=served))


# -- a real one -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Any:
    require_lab()
    with opened(cluster_plan({"system": "example", "nodes": 3}, 5), tmp_path_factory.mktemp("held")) as running:
        yield running


def _connects(cluster: TestCluster, node: str) -> bool:
    """Whether the node answers a connection made beside the nodes."""
    host, port = cluster.inside[node]
    script = f"import socket; socket.create_connection(({host!r}, {port}), timeout=1).close()"
    return cluster.run([sys.executable, "-c", script]).returncode == 0


@pytest.mark.cluster
def test_a_fault_lasts_as_long_as_its_block(held: TestCluster) -> None:
    before = held.leader()
    assert all(_connects(held, node) for node in held.nodes)
    with held.fault("kill:leader") as fault:
        assert fault.nodes == (before,)
        assert fault.proof
        assert not _connects(held, before)
        assert held.leader(other_than=before) != before
    assert held.leader() in held.nodes
    assert held.log(before).stat().st_size > 0
    with pytest.raises(ZeroDivisionError), held.fault("pause:n1"):
        raise ZeroDivisionError
    # A pause that was not healed would hold the process of n1.
    with held.fault("pause:n1"), held.fault("partition:n2"):
        pass


@pytest.mark.cluster
def test_this_process_reaches_the_nodes(held: TestCluster) -> None:
    for node in held.nodes:
        # A node that another test killed has been started again, and may not listen yet.
        until = time.monotonic() + 20
        while not _connects(held, node) and time.monotonic() < until:
            time.sleep(0.1)
        with socket.create_connection(held.addresses[node], timeout=5) as connection:
            connection.settimeout(5)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pause:leader:for=3s", "the block decides"),
        ("kill:leader:when=leader+1ms", "the block decides"),
        ("kill,pause", "names 2 faults"),
        ("pause:client", "no clients of the harness"),
        ("pause:n9", "n9"),
        ("nonsense", "nonsense"),
    ],
)
def test_faults_that_make_no_sense_are_refused(held: TestCluster, text: str, message: str) -> None:
    with pytest.raises(FencepostError, match=re.escape(message)), held.fault(text):
        pass


@pytest.mark.cluster
def test_what_a_cluster_cannot_do_is_an_error(held: TestCluster) -> None:
    with pytest.raises(HarnessError, match="no such program"):
        held.run(["no such program"])
    with pytest.raises(subprocess.TimeoutExpired):
        held.run(["sleep", "100"], timeout_s=0.3)
    with pytest.raises(KeyError):
        held.log("n9")
    with (
        held.fault("partition:minority"),
        held.fault("kill:all"),
        pytest.raises(HarnessError, match="leads"),
    ):
        held.leader(timeout_s=1.5)


@pytest.mark.cluster
def test_a_cluster_that_does_not_start_says_why(tmp_path: Path) -> None:
    require_lab()
    checked = cluster_plan({"system": "example", "version": str(tmp_path / "nothing")}, 1)
    with pytest.raises(FencepostError, match="nothing"), opened(checked, tmp_path):
        pass


@pytest.mark.cluster
def test_the_example_of_the_guide(pytester: pytest.Pytester) -> None:
    require_lab()
    section = GUIDE.read_text().partition("### A cluster in the hands of a test")[2]
    example = section.partition("```python\n")[2].partition("```")[0]
    pytester.makepyfile(example)
    result = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", "--junitxml=out.xml")
    result.assert_outcomes(passed=1)
    assert 'name="fencepost_version"' in (pytester.path / "out.xml").read_text()
