"""Making a container on a real engine: what is known of it when a step fails, and what is left alone meanwhile."""

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from docker import DockerClient
from docker.errors import APIError, ImageNotFound
from testcontainers.core.config import testcontainers_config

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers import images
from fencepost.harness.runtime.containers.engine import ownership
from fencepost.harness.runtime.containers.making import ClusterMaking, MadeContainers, make_and_start

pytestmark = pytest.mark.containers

_SERVER = "import pathlib, time; print(pathlib.Path('/fencepost/a').read_text(), flush=True); time.sleep(60)"


@pytest.fixture
def making(engine: DockerClient) -> Iterator[ClusterMaking]:
    """A small server of Python; whatever carries its labels is removed afterwards."""
    run_id = ownership.new_run_id()
    labels = ownership.labels(run_id)
    engine.volumes.create(name=f"{run_id}-data", labels=labels)
    yield ClusterMaking(
        image=images.ensure(engine, images.own()["sidecar"]),
        of_ours=True,
        name=f"{run_id}-server",
        labels=labels,
        argv=("python3", "-c", _SERVER),
        environment={},
        joining={"network_mode": "none"},
        volume=f"{run_id}-data",
        files={"a": "b"},
        data_files={},
    )
    assert ownership.sweep(engine, run_id) == []


def _changed(making: ClusterMaking, **changes: object) -> ClusterMaking:
    return replace(making, **changes)  # type: ignore[arg-type]


def test_a_missing_image_is_not_pulled(engine: DockerClient, making: ClusterMaking) -> None:
    made = MadeContainers()
    with pytest.raises(ImageNotFound, match="No such image"):
        make_and_start(engine, _changed(making, image="fencepost-test/never-made:1"), made)
    assert made.container_id == ""


def test_a_container_that_cannot_start_is_known(engine: DockerClient, making: ClusterMaking) -> None:
    made = MadeContainers()
    with pytest.raises(APIError, match="no/such/program"):
        make_and_start(engine, _changed(making, argv=("/no/such/program",)), made)
    assert engine.containers.get(made.container_id).status == "created"


def test_a_filler_that_takes_no_files_is_known(
    engine: DockerClient, making: ClusterMaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeContainers()
    monkeypatch.setattr("docker.models.containers.Container.put_archive", lambda *_: False)
    with pytest.raises(HarnessError, match="took no files"):
        make_and_start(engine, making, made)
    assert engine.containers.get(made.container_id).status == "created"


def test_the_environment_and_registries_are_left_alone(
    engine: DockerClient, making: ClusterMaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(DockerClient, "login", lambda *_, **__: asked.append("login"))
    monkeypatch.setattr(testcontainers_config, "docker_auth_config", '{"auths": {"127.0.0.1:1": {"auth": "YTpi"}}}')
    monkeypatch.setattr(testcontainers_config, "hub_image_name_prefix", "127.0.0.1:1/")
    # The engine of the client is meant, whatever the environment names.
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    before = dict(os.environ)
    made = MadeContainers()
    make_and_start(engine, making, made)
    assert dict(os.environ) == before
    assert asked == []
    assert made.pid is not None
    assert not made.ended
