"""The engine found, known and refused: without one, by stand-ins of sockets and of the SDK."""

import platform
import socket
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests
from docker.errors import APIError, ImageNotFound

from fencepost.harness.base.errors import HarnessError, MachineError, UsageError
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.containers import checks as engine_checks
from fencepost.harness.runtime.containers import given_image as container_images
from fencepost.harness.runtime.containers import provider as containers
from fencepost.harness.runtime.containers.engine import engine, network, ownership
from fencepost.harness.runtime.containers.engine.engine import EngineFacts, NoEngine
from fencepost.harness.runtime.provider import Placement

FACTS = EngineFacts(
    kind="docker",
    version="20.10.24",
    api="1.41",
    rootless=False,
    cgroup_version="2",
    cgroup_driver="systemd",
    can_pause=True,
    same_kernel=True,
    may_enter=True,
    reachable=True,
    architecture="amd64",
    address="unix:///var/run/docker.sock",
)
DESKTOP = replace(FACTS, same_kernel=False, may_enter=False, reachable=False)
ROOTLESS_V1 = replace(
    FACTS, rootless=True, cgroup_version="1", cgroup_driver="none", can_pause=False, may_enter=False, reachable=False
)


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No engine of this machine, no configuration of this user."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(engine, "usual_sockets", lambda: [str(tmp_path / name) for name in ("a", "b")])


@pytest.fixture
def nobody(tmp_path: Path) -> Path:
    """A socket whose listener is gone."""
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "a"))
    left.close()
    return tmp_path / "a"


class TestConnect:
    def test_nothing_anywhere(self) -> None:
        with pytest.raises(NoEngine, match=r"no container engine was found \(looked for .*/a, .*/b\)") as told:
            engine.connect()
        assert "--runtime lab needs none" in (told.value.hint or "")

    def test_socket_whose_engine_is_gone(self, nobody: Path) -> None:
        with pytest.raises(MachineError, match=r"nothing answers at .*/a: Connection refused") as told:
            engine.connect()
        assert not isinstance(told.value, NoEngine)
        assert "start it again" in (told.value.hint or "")

    def test_the_one_that_is_named_and_no_other(self, nobody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{nobody.parent}/elsewhere")
        with pytest.raises(NoEngine, match=r"there is no container engine at .*/elsewhere"):
            engine.connect()

    def test_permission_denied(self, nobody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(self: object, path: object) -> None:
            raise PermissionError(13, "Permission denied")

        assert stat.S_ISSOCK(nobody.stat().st_mode)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        with pytest.raises(MachineError, match="this user may not use the container engine") as told:
            engine.connect()
        assert "usermod -aG docker" in (told.value.hint or "")

    def test_somebody_who_is_no_engine(self, tmp_path: Path) -> None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(tmp_path / "a"))
        listening.listen()
        try:
            with pytest.raises(MachineError, match=r"no container engine answers at unix://.*/a"):
                engine.connect(timeout_s=1.0)
        finally:
            listening.close()

    def test_context_that_cannot_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_CONTEXT", "no-such-context")
        with pytest.raises(MachineError):
            engine.connect()


def told(kind: str = "docker", **info: Any) -> EngineFacts:
    """The facts of an engine that says this of itself."""
    names = [{"Name": "Podman Engine" if kind == "podman" else "Engine"}]
    client: Any = SimpleNamespace(
        version=lambda: {"Version": "1.2", "Components": names, "Arch": "amd64"},
        info=lambda: {"CgroupVersion": "2", "CgroupDriver": "systemd", **info},
        api=SimpleNamespace(api_version="1.41", base_url="http+docker://x", get_adapter=lambda url: None),
    )
    return engine.facts(client)


class TestFacts:
    def test_podman_is_known_by_its_parts(self) -> None:
        assert (told("podman").kind, told().kind) == ("podman", "docker")

    def test_rootless_with_the_first_cgroups_cannot_pause(self) -> None:
        rootless: dict[str, Any] = {"SecurityOptions": ["name=rootless"]}
        assert told(**rootless).can_pause
        assert not told(**rootless, CgroupVersion="1").can_pause
        assert not told(**rootless, CgroupDriver="none").can_pause
        assert told(CgroupVersion="1").can_pause

    def test_another_kernel_cannot_be_entered(self) -> None:
        far = told(KernelVersion="5.10.0-linuxkit", MemTotal=1 << 30)
        assert (far.same_kernel, far.may_enter, far.reachable) == (False, False, False)

    def test_this_kernel_reached_over_tcp_is_not_entered(self) -> None:
        """Whether process numbers mean the same is known of a socket's other end only."""
        memory = int(Path("/proc/meminfo").read_text().split()[1]) << 10
        near = told(KernelVersion=platform.release(), MemTotal=memory)
        assert (near.same_kernel, near.may_enter) == (True, False)

    def test_engine_that_hangs(self) -> None:
        def hang() -> None:
            raise requests.exceptions.ReadTimeout("timed out")

        client: Any = SimpleNamespace(version=hang)
        with pytest.raises(MachineError, match="does not answer"):
            engine.facts(client)


class TestAsking:
    @pytest.mark.parametrize(
        ("error", "kind", "said"),
        [
            (APIError("x", explanation="name is already in use"), HarnessError, "starting: .*refused: name is already"),
            (APIError("x", explanation="write /v: no space left on device"), MachineError, "disk is full"),
            (requests.exceptions.ConnectionError("gone"), HarnessError, "does not answer"),
            (requests.exceptions.ReadTimeout("late"), HarnessError, "does not answer"),
            (BrokenPipeError(32, "Broken pipe"), HarnessError, "does not answer"),
        ],
    )
    def test_errors_of_the_sdk(self, error: Exception, kind: type[Exception], said: str) -> None:
        with pytest.raises(kind, match=said), engine.asking("starting"):
            raise error

    def test_ours_pass(self) -> None:
        with pytest.raises(UsageError, match="mine"), engine.asking("starting"):
            raise UsageError("mine")


class TestChecks:
    def test_doctor_says_what_cannot_be_and_the_remedy(self) -> None:
        lines = {check.name: check for check in engine_checks.checks(ROOTLESS_V1)}
        assert not lines["pause (freezer)"].ok
        assert "cgroup version 2" in (lines["pause (freezer)"].remedy or "")
        assert all(check.ok for check in engine_checks.checks(FACTS))

    def test_doctor_without_an_engine(self) -> None:
        (line,) = engine_checks.all_checks()
        assert not line.ok
        assert "no container engine was found" in (line.why or "")
        assert containers.CONTAINERS.sweep(None) == []


def test_number_of_nodes() -> None:
    assert containers.CONTAINERS.refuse(Placement(runtime="containers", nodes=3)) is None
    assert "1 to 99" in str(containers.CONTAINERS.refuse(Placement(runtime="containers", nodes=100)))


class TestImages:
    @pytest.mark.parametrize(
        ("said", "kind", "hint"),
        [
            ("no matching manifest for linux/amd64 in the manifest list entries", MachineError, "build it for"),
            ("unauthorized: authentication required", UsageError, "docker login"),
            ("pull access denied for x, repository does not exist", UsageError, "docker login"),
            ("manifest for x:1 not found: manifest unknown", UsageError, "is the tag right"),
            ("dial tcp: lookup registry: no such host", MachineError, "docker load"),
            ("write /x: no space left on device", MachineError, "docker system df"),
        ],
    )
    def test_refused_pulls(self, said: str, kind: type[Exception], hint: str) -> None:
        error = container_images.refused_pull("x:1", said)
        assert type(error) is kind
        assert hint in (error.hint or "")

    def client(self, architecture: str, *, here: bool = True, pulled: object = ()) -> Any:
        image = SimpleNamespace(
            id="sha256:abc",
            attrs={"Architecture": architecture, "Config": {"Env": ["A=b=c"], "Entrypoint": ["/run"], "Labels": None}},
        )
        state = {"here": here}

        def get(reference: str) -> object:
            if not state["here"]:
                raise ImageNotFound("no such image")
            return image

        def pull(repository: str, **how: object) -> object:
            state["here"] = True
            state["pulled"] = (repository, how["tag"])  # type: ignore[assignment]
            return pulled

        return SimpleNamespace(images=SimpleNamespace(get=get), api=SimpleNamespace(pull=pull), state=state)

    def test_facts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "facts", lambda client: FACTS)
        found = container_images.present(self.client("amd64"), "mine:1", pytest.fail)
        assert (found.id, found.entrypoint, dict(found.environment)) == ("abc", ("/run",), {"A": "b=c"})

    def test_other_processor(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "facts", lambda client: FACTS)
        with pytest.raises(MachineError, match="the image mine:1 is for s390x, the engine for amd64"):
            container_images.present(self.client("s390x"), "mine:1", lambda text: None)
        # On another kernel only the engine knows whether it emulates; a person is told.
        said: list[str] = []
        monkeypatch.setattr(engine, "facts", lambda client: DESKTOP)
        container_images.present(self.client("s390x"), "mine:1", said.append)
        assert "emulated" in said[0]

    def test_pulled_when_absent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "facts", lambda client: FACTS)
        said: list[str] = []
        client = self.client("amd64", here=False)
        container_images.present(client, "registry:5000/mine", said.append)
        assert client.state["pulled"] == ("registry:5000/mine", "latest")
        assert "pulling the image" in said[0]

    def test_pull_that_never_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(container_images, "PULL_DEADLINE_S", 0.1)
        never = _Never()
        try:
            with pytest.raises(MachineError, match=r"was not pulled within 0\.1 s"):
                container_images.present(self.client("amd64", here=False, pulled=never), "mine:1", lambda text: None)
        finally:
            never.given_up.set()


class _Never:
    """A stream of which nothing comes for as long as the test waits."""

    def __init__(self) -> None:
        self.given_up = threading.Event()

    def __iter__(self) -> Iterator[dict[str, str]]:
        self.given_up.wait()
        return iter(())


@pytest.mark.parametrize(
    ("faults", "refused"), [(["depose", "kill"], True), (["gray"], True), (["kill"], False), ([], False)]
)
def test_a_pause_without_a_freezer_is_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, faults: list[str], refused: bool
) -> None:
    class Client:
        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(engine, "connect", Client)
    monkeypatch.setattr(engine, "facts", lambda _: ROOTLESS_V1)
    placement = Placement(runtime="containers")
    needs = {kind: registry.faults()[kind].needs for kind in faults}
    if refused:
        with pytest.raises(MachineError, match=f"{faults[0]} is not possible") as caught:
            containers.CONTAINERS.refuse_if_impossible(placement, needs)
        assert "cgroup" in str(caught.value.hint)
    else:
        assert containers.CONTAINERS.refuse_if_impossible(placement, needs) == placement
        toxic = {"toxic": registry.faults()["toxic"].needs}
        assert containers.CONTAINERS.refuse_if_impossible(placement, toxic).streams


def test_a_system_without_an_image_is_refused_with_the_remedy() -> None:
    from fencepost.harness.contract.system import BaseReleases

    class WithoutImage(BaseReleases):
        default = "1"

        def resolve(self, version: str) -> Artifacts:
            raise AssertionError(version)

    with pytest.raises(UsageError, match="there is no image of this system") as caught:
        containers.CONTAINERS.resolve(WithoutImage(), "", Placement(runtime="containers"), print)
    assert caught.value.hint == "use --runtime lab, or give an image of your own with --image"


@pytest.mark.parametrize(
    ("label", "refused"),
    [("zookeeper", True), ("kraft", True), ("etcd", False), ("python", False), ("java", False), ("", False)],
)
def test_an_image_whose_label_names_another_system_is_refused_before_the_start(
    monkeypatch: pytest.MonkeyPatch, label: str, refused: bool
) -> None:
    """The bases `python` and `java` are below many a server, and an image without our label may hold anything."""
    attributes: dict[str, Any] = {"Config": {"Labels": {"org.fencepost.image": label} if label else None}}
    image = SimpleNamespace(id="sha256:0a", attrs={**attributes, "Architecture": "amd64"})
    client = SimpleNamespace(images=SimpleNamespace(get=lambda _: image), close=lambda: None)
    monkeypatch.setattr(engine, "connect", lambda: client)
    monkeypatch.setattr(engine, "facts", lambda _: FACTS)
    releases = registry.system("etcd").releases
    placement = Placement(runtime="containers", image="mine/server:1")
    if refused:
        with pytest.raises(UsageError, match=f"the image mine/server:1 is for {label}, by its label") as caught:
            containers.CONTAINERS.resolve(releases, "", placement, print)
        assert "--label org.fencepost.image=etcd" in (caught.value.hint or "")
    else:
        assert containers.CONTAINERS.resolve(releases, "", placement, print).paths["image"] == "mine/server:1"


def test_an_engine_behind_ssh_is_refused_with_a_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@far")
    with pytest.raises(MachineError, match="ssh://me@far: an engine cannot be reached over ssh") as raised:
        engine.connect()
    assert "ssh -L" in (raised.value.hint or "")


def test_networks_of_a_run_lie_where_a_person_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(network.SUBNET_VARIABLE, raising=False)
    assert str(network.pool()) == "10.78.0.0/16"
    monkeypatch.setenv(network.SUBNET_VARIABLE, "10.99")
    assert str(network.pool()) == "10.99.0.0/16"
    monkeypatch.setenv(network.SUBNET_VARIABLE, "10.99.1")
    with pytest.raises(UsageError, match=r"FENCEPOST_SUBNET=10\.99\.1 names no network"):
        network.pool()


def test_what_another_machine_made_is_not_called_running() -> None:
    """From another pid namespace of the same engine nobody can know: it is told with a command."""

    def row(run: str, owner: str) -> dict[str, Any]:
        return {"Id": run, "Name": run, "Labels": {ownership.RUN_LABEL: run, ownership.OWNER_LABEL: owner}}

    rows = [row("far", "0123456789ab:7:1"), row("here", ownership.owner())]
    api = SimpleNamespace(containers=lambda **_: [], volumes=lambda **_: {}, networks=lambda **_: rows)
    check = engine_checks._leftovers(cast(Any, SimpleNamespace(api=api)))
    assert check.ok
    assert check.state == (
        "nothing of this machine; now running: here; of another machine or container, running or left: far"
    )
    assert (check.remedy or "").startswith("if far is over: docker ps -aq --filter label=org.fencepost.run=far")
