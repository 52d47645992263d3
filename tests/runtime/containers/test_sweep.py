"""A harness that is killed in the middle leaves containers; the next sweep removes them, and nothing of the living."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from docker import DockerClient

from fencepost.harness.runtime.containers.engine import ownership
from fencepost.harness.runtime.containers.provider import CONTAINERS
from fencepost.harness.runtime.linux.supervisor import PARENT_VARIABLE
from tests.lab_scenario import ROOT
from tests.runtime.containers.cluster_scene import cluster, spec

pytestmark = pytest.mark.containers


@pytest.fixture
def killed(tmp_path: Path, engine: DockerClient) -> Iterator[str]:
    """The id of a run whose process was killed with a frozen server, folder `killed`."""
    folder = tmp_path / "killed"
    folder.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != PARENT_VARIABLE}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.containers.cluster_scene", str(folder)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        run_id = child.stdout.readline().strip()
        assert run_id, "the child ended before its cluster was up"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate(timeout=60)
    yield run_id
    ownership.sweep(engine, run_id)


def test_next_sweep_removes_it_and_spares_the_living(killed: str, tmp_path: Path, engine: DockerClient) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as living:
            await living.realise([spec("n1")])
            await living.nodes["n1"].start()
            left = ownership.listed(engine, killed)
            assert {one.kind for one in left} == {"container", "volume", "network"}
            assert set(left) <= set(ownership.abandoned(ownership.listed(engine)))
            before = ownership.listed(engine, living.run_id)
            assert await asyncio.to_thread(CONTAINERS.sweep, None) == []
            assert ownership.listed(engine, killed) == []
            assert ownership.listed(engine, living.run_id) == before
            assert (await living.nodes["n1"].evidence()).state == "running"

    asyncio.run(run())


def test_its_own_sweep_removes_it(killed: str, tmp_path: Path, engine: DockerClient) -> None:
    folder = tmp_path / "killed"
    assert CONTAINERS.sweep(folder) == []
    assert ownership.listed(engine, killed) == []
    assert CONTAINERS.sweep(folder) == []
    shutil.rmtree(folder)


def test_what_cannot_be_removed_is_told_with_its_command(engine: DockerClient) -> None:
    """A volume of ours that a container of somebody else's uses."""
    run_id = ownership.new_run_id()
    volume = engine.volumes.create(name=f"fencepost-{run_id}-n1-data", labels=ownership.labels(run_id))
    foreign = engine.containers.create(
        f"fencepost/sidecar:{version('fencepost')}",
        volumes={volume.name: {"bind": "/data", "mode": "rw"}},
        network_mode="none",
    )
    try:
        (said,) = ownership.sweep(engine, run_id)
        assert f"volume {volume.name} of run {run_id} could not be removed" in said
        assert said.endswith(f"docker volume rm -f {volume.name}")
    finally:
        foreign.remove(force=True)
        volume.remove(force=True)
