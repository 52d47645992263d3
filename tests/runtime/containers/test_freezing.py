"""A pause that the engine refuses, by a stand-in of the SDK."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from docker.errors import APIError

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers import node as containers
from fencepost.harness.runtime.containers.node import ContainerNode, Habitat
from fencepost.harness.runtime.node import Place


def _node(*refusals: str) -> tuple[ContainerNode, list[str]]:
    """A node whose engine refuses with these words, one after the other, and then pauses."""
    calls: list[str] = []

    def pause(container: str) -> None:
        calls.append(container)
        if len(calls) <= len(refusals):
            raise APIError(refusals[len(calls) - 1])

    place = Place(name="n1", number=1, address="10.78.0.11", folder=Path(), data=Path(), kept=Path())
    habitat = SimpleNamespace(client=SimpleNamespace(api=SimpleNamespace(pause=pause)))
    return ContainerNode(place, cast(Habitat, habitat)), calls


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_FREEZE_AGAIN_S", 0.0)


def test_a_pause_that_was_refused_once_is_tried_again() -> None:
    node, calls = _node("OCI runtime pause failed: unable to freeze: unknown")
    assert node._freeze("pause")
    assert len(calls) == 2


def test_a_refusal_after_which_it_is_paused_all_the_same_is_no_failure() -> None:
    node, calls = _node("unable to freeze", "container 93e8 is already paused")
    assert node._freeze("pause")
    assert len(calls) == 2


def test_a_container_that_has_ended_is_not_tried_again() -> None:
    node, calls = _node("container 93e8 is not running")
    assert not node._freeze("pause")
    assert len(calls) == 1


def test_an_engine_that_goes_on_refusing_is_believed_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_FREEZE_TIMEOUT_S", 0.05)
    node, calls = _node(*["unable to freeze"] * 1_000_000)
    with pytest.raises(HarnessError, match="pause of node n1: the container engine refused: unable to freeze"):
        node._freeze("pause")
    assert len(calls) > 1
