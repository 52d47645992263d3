"""Whose things are whose, and what a sweep may touch: decided without an engine."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from fencepost.harness.runtime.containers.engine import ownership
from fencepost.harness.runtime.containers.engine.ownership import OWNER_LABEL, RUN_LABEL, Leftover
from fencepost.harness.runtime.linux.supervisor import PARENT_VARIABLE

DEAD = f"{ownership._machine()}:1999999999:0.0"
FOREIGN = "0123456789ab:1:0.0"


class TestOwner:
    def test_is_this_process_or_its_starter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(PARENT_VARIABLE, raising=False)
        assert ownership.owner().split(":")[1] == str(os.getpid())
        monkeypatch.setenv(PARENT_VARIABLE, str(os.getppid()))
        assert ownership.owner().split(":")[1] == str(os.getppid())
        assert ownership.is_dead(ownership.owner()) is False

    def test_is_dead_when_its_process_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        monkeypatch.setenv(PARENT_VARIABLE, str(child.pid))
        said = ownership.owner()
        assert ownership.is_dead(said) is False
        child.communicate(timeout=60)
        assert ownership.is_dead(said) is True

    def test_another_process_of_the_same_number(self) -> None:
        machine, pid, start = ownership.owner().split(":")
        assert ownership.is_dead(f"{machine}:{pid}:{start}1") is True

    @pytest.mark.parametrize("said", [FOREIGN, "", "nonsense"])
    def test_nobody_knows(self, said: str) -> None:
        assert ownership.is_dead(said) is None


class FakeApi:
    """What a sweep asks of the SDK: `stuck` things cannot be removed, `frozen` containers have to be thawed first."""

    def __init__(
        self, containers: dict[str, dict[str, str]], networks: dict[str, dict[str, str]] | None = None
    ) -> None:
        self.held, self.nets = containers, networks or {}
        self.stuck: set[str] = set()
        self.frozen: set[str] = set()
        self.order: list[str] = []

    def containers(self, **_: object) -> list[dict[str, Any]]:
        return [{"Id": name, "Names": [f"/{name}"], "Labels": labels} for name, labels in self.held.items()]

    def volumes(self, **_: object) -> dict[str, Any]:
        return {"Volumes": None}

    def networks(self, **_: object) -> list[dict[str, Any]]:
        return [{"Id": name, "Name": name, "Labels": labels} for name, labels in self.nets.items()]

    def remove_container(self, name: str, **_: object) -> None:
        if name in self.stuck:
            raise APIError("x", explanation="device or resource busy")
        if name in self.frozen:
            raise APIError("x", explanation="cannot remove: container is paused")
        if name not in self.held:
            raise NotFound("gone")
        del self.held[name]
        self.order.append(name)

    def unpause(self, name: str) -> None:
        self.frozen.discard(name)

    def remove_network(self, name: str) -> None:
        if self.held:
            raise APIError("x", explanation="network has active endpoints")
        del self.nets[name]
        self.order.append(name)

    def inspect_network(self, name: str) -> dict[str, Any]:
        return {}


def labels(run: str, owner: str) -> dict[str, str]:
    return {RUN_LABEL: run, OWNER_LABEL: owner}


def client(api: FakeApi) -> Any:
    return SimpleNamespace(api=api)


class TestSweep:
    def test_only_the_dead_of_this_machine(self) -> None:
        api = FakeApi(
            {
                "dead": labels("a", DEAD),
                "living": labels("b", ownership.owner()),
                "foreign": labels("c", FOREIGN),
                "unowned": {RUN_LABEL: "d"},
            }
        )
        assert ownership.sweep(client(api)) == []
        assert set(api.held) == {"living", "foreign", "unowned"}

    def test_one_run_whoever_owns_it(self) -> None:
        """And nothing else, even where an engine's filter lets other things through."""
        api = FakeApi({"mine": labels("a", ownership.owner()), "other": labels("b", DEAD), "stranger": {}})
        assert ownership.sweep(client(api), "a") == []
        assert set(api.held) == {"other", "stranger"}

    def test_containers_before_networks_and_frozen_ones_too(self) -> None:
        api = FakeApi({"n1": labels("a", DEAD)}, {"net": labels("a", DEAD)})
        api.frozen = {"n1"}
        assert ownership.sweep(client(api)) == []
        assert api.order == ["n1", "net"]

    def test_as_long_as_something_goes_it_tries_again(self) -> None:
        """Podman removes no side-car before the node that shares its network."""
        api = FakeApi({"links": labels("a", DEAD), "n1": labels("a", DEAD)})
        plain = api.remove_container

        def remove(name: str, **how: object) -> None:
            if name == "links" and not api.order:
                raise APIError("x", explanation="container has dependent containers: container already exists")
            plain(name, **how)

        api.remove_container = remove  # type: ignore[method-assign]
        assert ownership.sweep(client(api)) == []
        assert sorted(api.order) == ["links", "n1"]

    def test_what_stays_is_told_with_its_command(self) -> None:
        api = FakeApi({"n1": labels("a", DEAD), "n2": labels("a", DEAD)})
        api.stuck = {"n1"}
        (said,) = ownership.sweep(client(api))
        assert said == (
            "container n1 of run a could not be removed (device or resource busy); remove it with: docker rm -fv n1"
        )
        assert set(api.held) == {"n1"}

    def test_looks_again_for_what_comes_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        api = FakeApi({})

        def appear(_: float) -> None:
            if not api.order:
                api.held["late"] = labels("a", DEAD)

        monkeypatch.setattr(time, "sleep", appear)
        assert ownership.sweep(client(api), "a", late=True) == []
        assert api.order == ["late"]


def test_commands() -> None:
    assert Leftover("volume", "v", "v", "a", "").command == "docker volume rm -f v"
    assert "label=org.fencepost.run=a | xargs -r docker rm -fv" in ownership.removal("a")
    assert ownership.new_run_id() != ownership.new_run_id()
