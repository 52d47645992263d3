"""A pause that the engine refuses, by a stand-in of the SDK."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from docker.errors import APIError

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers import container as containers
from fencepost.harness.runtime.containers.container import Container

if TYPE_CHECKING:
    from docker import DockerClient


def _container(*refusals: str) -> tuple[Container, list[str]]:
    """A container whose engine refuses with these words, one after the other, and then pauses."""
    calls: list[str] = []

    def pause(container: str) -> None:
        calls.append(container)
        if len(calls) <= len(refusals):
            raise APIError(refusals[len(calls) - 1])

    client = SimpleNamespace(api=SimpleNamespace(pause=pause))
    return Container(cast("DockerClient", client), "n1", "93e8", None), calls


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_FREEZE_AGAIN_S", 0.0)


def test_a_pause_that_was_refused_once_is_tried_again() -> None:
    container, calls = _container("OCI runtime pause failed: unable to freeze: unknown")
    assert container.freeze()
    assert len(calls) == 2


def test_a_refusal_after_which_it_is_paused_all_the_same_is_no_failure() -> None:
    container, calls = _container("unable to freeze", "container 93e8 is already paused")
    assert container.freeze()
    assert len(calls) == 2


def test_a_container_that_has_ended_is_not_tried_again() -> None:
    container, calls = _container("container 93e8 is not running")
    assert not container.freeze()
    assert len(calls) == 1


def test_an_engine_that_goes_on_refusing_is_believed_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_FREEZE_TIMEOUT_S", 0.05)
    container, calls = _container(*["unable to freeze"] * 1_000_000)
    with pytest.raises(HarnessError, match="pause of node n1: the container engine refused: unable to freeze"):
        container.freeze()
    assert len(calls) > 1


def test_a_frozen_container_that_an_engine_will_not_kill_is_thawed_first() -> None:
    calls: list[str] = []

    def kill(container: str, signal: str) -> None:
        calls.append(signal)
        if len(calls) == 1:
            raise APIError("can only kill running containers. 93e8 is in state paused: container state improper")

    api = SimpleNamespace(kill=kill, unpause=lambda container: calls.append("unpause"))
    container = Container(cast("DockerClient", SimpleNamespace(api=api)), "n1", "93e8", None)
    assert container.kill(is_frozen=True, may_signal=False)
    assert calls == ["SIGKILL", "unpause", "SIGKILL"]
