"""The engine that container tests run on; where there is none they are skipped with the remedy, but fail under CI."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.lab_scenario import refuse

if TYPE_CHECKING:
    from docker import DockerClient

    from fencepost.harness.runtime.containers.engine.engine import EngineFacts


@pytest.fixture
def engine() -> "Iterator[DockerClient]":
    """A connection of the test's own."""
    from fencepost.harness.base.errors import MachineError
    from fencepost.harness.runtime.containers.engine.engine import connect

    try:
        client = connect()
    except MachineError as error:
        refuse(f"{error.message}; remedy: {error.hint}")
        raise
    yield client
    client.close()


@pytest.fixture
def facts(engine: "DockerClient") -> "EngineFacts":
    from fencepost.harness.runtime.containers.engine import engine as engines

    return engines.facts(engine)
