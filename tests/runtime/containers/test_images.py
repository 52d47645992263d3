"""The images: what each is made of, when one is stale, and that an engine builds them with no network at all."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.harness.base.errors import HarnessError, MachineError, UsageError
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import maven
from fencepost.harness.runtime.containers import images
from fencepost.harness.runtime.containers.images import folder, machine, parts, plans, recipes, refusals
from fencepost.harness.runtime.containers.images.parts import Part
from fencepost.systems.kafka.server import versions

GNU = shutil.which("ldd") is not None and not Path("/etc/alpine-release").exists()


def test_the_side_car_runs_on_its_files_alone(tmp_path: Path) -> None:
    parts.write_folder(images.own()["sidecar"].recipe().parts(), tmp_path / "context")
    runtime = "fencepost.harness.runtime"
    names = ("containers.rules.sidecar_agent", "shaping.shaper", "shaping.passage_meter")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'context' / 'fencepost')!r}); import " + ", ".join(
        f"{runtime}.{name}" for name in names
    )
    code += f"; print({runtime}.shaping.shaper.__file__)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout.startswith(str(tmp_path)), done.stderr


class TestParts:
    @pytest.fixture
    def some(self, tmp_path: Path) -> list[Part]:
        source = tmp_path / "source"
        (source / "deep" / "er").mkdir(parents=True)
        (source / "deep" / "er" / "program").write_bytes(b"\x7fELF")
        (source / "deep" / "er" / "program").chmod(0o700)
        os.utime(source / "deep" / "er" / "program", (1_000_000, 1_000_000))
        (source / "deep" / "link").symlink_to("er/program")
        (source / "left_out").write_text("")
        tree = parts.tree("root/opt", source, without=lambda path: path == "left_out")
        return [*tree, parts.text("root/etc/hosts", "x\n"), Part(target="root/tmp", mode=0o1777)]

    def test_archive_has_every_folder_above_and_keeps_times(self, some: list[Part]) -> None:
        with tempfile.TemporaryFile() as file:
            parts.write_archive(some, file)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                found = {entry.name: entry for entry in archive.getmembers()}
        assert list(found) == sorted(found)
        assert {"root", "root/opt", "root/opt/deep", "root/opt/deep/er", "root/etc"} <= set(found)
        program = found["root/opt/deep/er/program"]
        assert (program.mode, program.mtime, program.uid, program.gid) == (0o744, 1_000_000, 0, 0)
        assert found["root/opt/deep/link"].linkname == "er/program"
        assert found["root/tmp"].mode == 0o1777
        assert not any("left_out" in name for name in found)

    def test_folder_is_the_same_as_the_archive(self, some: list[Part], tmp_path: Path) -> None:
        parts.write_folder(some, tmp_path / "context")
        found = {str(path.relative_to(tmp_path / "context")) for path in (tmp_path / "context").rglob("*")}
        assert found == {part.target for part in parts.complete(some)}
        assert (tmp_path / "context/root/opt/deep/er/program").stat().st_mtime == 1_000_000
        assert (tmp_path / "context/root/tmp").stat().st_mode & 0o7777 == 0o1777

    def test_last_of_two_counts(self) -> None:
        both = [parts.text("a", "1"), parts.text("a", "2")]
        assert [part.content for part in parts.complete(both)] == [b"2"]


class TestMachine:
    @pytest.mark.skipif(not GNU, reason="needs ldd and the GNU C library")
    def test_libraries_of_a_program_lie_where_its_loader_looks(self) -> None:
        found = {part.target: part.source for part in machine.libraries([Path(sys.executable).resolve()])}
        names = [target.rpartition("/")[2] for target in found]
        assert any(name.startswith("ld-linux") or name.startswith("ld64") for name in names)
        assert "libc.so.6" in names
        assert all(Path("/" + target.removeprefix("root/")).exists() for target in found)
        assert all(source is not None and not source.is_symlink() for source in found.values())

    @pytest.mark.skipif(not GNU, reason="needs ldd and the GNU C library")
    def test_static_program_needs_none(self, tmp_path: Path) -> None:
        script = tmp_path / "script"
        script.write_text("#!/bin/true\n")
        script.chmod(0o755)
        assert machine.libraries([script]) == []

    def test_missing_library_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            machine, "_ldd", lambda _: "\tlibodd.so.9 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n"
        )
        with pytest.raises(MachineError, match=r"libodd\.so\.9: needed by server"):
            machine.libraries([Path("server")])

    def test_musl_is_refused_with_the_remedy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "_ldd", lambda _: "\t/lib/ld-musl-x86_64.so.1 (0x7f)\n")
        with pytest.raises(MachineError, match="musl") as caught:
            machine.libraries([Path("server")])
        assert "--base java=" in str(caught.value.hint)


class TestCompiled:
    @pytest.fixture
    def root(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        library = tmp_path / "root" / "usr/lib/python"
        (library / "json").mkdir(parents=True)
        (library / "one.py").write_text("x = 1\n")
        (library / "json" / "two.py").write_text("x = 2\n")
        return tmp_path / "root"

    def test_beside_each_module_and_valid_whatever_its_time(self, root: Path) -> None:
        own = f"{sys.version_info.major}.{sys.version_info.minor}"
        found = {part.target: part for part in machine.compiled(root, "usr/lib/python", own) if part.source}
        tag = sys.implementation.cache_tag
        assert set(found) == {
            f"root/usr/lib/python/__pycache__/one.{tag}.pyc",
            f"root/usr/lib/python/json/__pycache__/two.{tag}.pyc",
        }
        for part in found.values():
            assert part.source is not None
            flags = int.from_bytes(part.source.read_bytes()[4:8], "little")
            assert flags == 0b01, "by hash, unchecked (PEP 552)"

    def test_not_for_another_python(self, root: Path) -> None:
        assert machine.compiled(root, "usr/lib/python", "3.0") == []


def a_recipe(**changed: Any) -> recipes.Recipe:
    values: dict[str, Any] = {"name": "etcd", "version": "1.2.3", "identity": {"etcd": "aa"}, "parts": list}
    return recipes.Recipe(**{**values, **changed})


def known() -> dict[str, images.ImageSource]:
    """Every image: those that the systems declare, and the runtime's own."""
    declared = (registry.system(name).releases.image_recipe for name in registry.SYSTEMS)
    return images.known(recipe for recipe in declared if recipe is not None)


def source(made: recipes.Recipe | MachineError) -> images.ImageSource:
    """An image of which this is the recipe, whatever version is asked for; or none can be made."""

    def make(version: str) -> recipes.Recipe:
        if isinstance(made, MachineError):
            raise made
        return made

    return images.ImageSource(name="etcd" if isinstance(made, MachineError) else made.name, make=make, version="1.2.3")


class TestRecipes:
    def test_every_image_has_one(self) -> None:
        from_images = {name for name in registry.SYSTEMS if registry.system(name).releases.image_recipe is not None}
        assert set(known()) == {*from_images, *images.own()}
        for name, image in known().items():
            assert image.recipe().reference.startswith(f"fencepost/{name}:")

    def test_digest_is_of_everything(self, monkeypatch: pytest.MonkeyPatch) -> None:
        digests = {a_recipe().digest(""), a_recipe().digest("java"), a_recipe(identity={"etcd": "ab"}).digest("")}
        digests.add(a_recipe(name="toxiproxy").digest(""))
        monkeypatch.setattr(folder, "dockerfile", lambda name: b"FROM another\n")
        digests.add(a_recipe().digest(""))
        assert len(digests) == 5

    def test_binary_of_a_person_cannot_take_the_place_of_a_released_version(self) -> None:
        released, given = a_recipe(), a_recipe(is_given=True)
        assert released.reference == "fencepost/etcd:1.2.3"
        assert given.reference.startswith("fencepost/etcd:1.2.3-")

    def test_tag_of_a_version_that_no_tag_may_have(self) -> None:
        assert a_recipe(version="3.6.0-alpha+git").reference == "fencepost/etcd:3.6.0-alpha-git"

    def test_kafka_is_compared_by_recorded_sums_so_that_nothing_is_fetched(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """What the jars themselves would come to, were they there."""
        asked: list[Any] = []

        def jars(coordinates: Any, **_: Any) -> list[Path]:
            asked.append(coordinates)
            return []

        monkeypatch.setattr(maven, "jars", jars)
        made = known()["kafka-zk"].recipe("3.9.2")
        assert not asked
        assert (made.version, made.base, made.is_given) == ("3.9.2", "java", False)
        recorded = versions.JARS.sums("3.9.2") or {}
        assert made.identity["libs/kafka_2.13-3.9.2.jar"] == recorded["kafka_2.13-3.9.2.jar"]
        assert {"libs/zookeeper-3.8.4.jar", "libs/slf4j-simple-1.7.36.jar"} < set(made.identity)
        with pytest.raises(UsageError, match=r"Kafka 4\.3\.1 is not run on ZooKeeper"):
            known()["kafka-zk"].recipe("4.3.1")
        assert not asked, "refused before it is fetched"

    def test_a_folder_of_kafkas_jars_is_compared_by_the_jars(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(maven, "jars", lambda *_, **__: [])
        (tmp_path / "kafka_2.13-4.4.0-SNAPSHOT.jar").write_bytes(b"mine")
        made = known()["kraft"].recipe(str(tmp_path))
        assert (made.version, made.is_given) == ("4.4.0-SNAPSHOT", True)
        assert list(made.identity) == ["libs/kafka_2.13-4.4.0-SNAPSHOT.jar"]
        assert [part.target for part in made.parts()] == ["libs/kafka_2.13-4.4.0-SNAPSHOT.jar"]

    def test_folder_of_an_installed_fencepost(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(folder.FOLDER_VARIABLE, str(tmp_path))
        with pytest.raises(MachineError, match="no Dockerfiles") as caught:
            images.own()
        assert folder.FOLDER_VARIABLE in str(caught.value.hint)

    def test_python_is_of_debian(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("platform.freedesktop_os_release", lambda: {"PRETTY_NAME": "Other Linux 1"})
        with pytest.raises(MachineError, match="Other Linux 1") as caught:
            images.own()["python"].recipe()
        assert "--base python=" in str(caught.value.hint)


class Engine:
    """Images by reference, as the SDK shows them."""

    def __init__(self, **labels: dict[str, str]) -> None:
        self._labels = {reference.replace("_", ":"): found for reference, found in labels.items()}
        self.images = self

    def get(self, reference: str) -> Any:
        import docker.errors

        for name, labels in self._labels.items():
            if reference == f"fencepost/{name}":
                return SimpleNamespace(id=f"sha256:{name}", labels=labels, tags=[reference], attrs={})
        raise docker.errors.ImageNotFound(reference)


class TestEnsure:
    def test_image_that_is_up_to_date_needs_no_parts(self) -> None:
        made = a_recipe(parts=lambda: pytest.fail("parts were made"))
        engine: Any = Engine(**{"etcd_1.2.3": {plans.LABEL_PARTS: made.digest("")}})
        assert images.ensure(engine, source(made)) == "fencepost/etcd:1.2.3"

    def test_image_on_an_official_base_stays_on_it(self) -> None:
        made = a_recipe(name="zookeeper", base="java", parts=lambda: pytest.fail("parts were made"))
        labels = {plans.LABEL_PARTS: made.digest("temurin:17"), plans.LABEL_BASE: "temurin:17"}
        engine: Any = Engine(**{"zookeeper_1.2.3": labels})
        assert images.ensure(engine, source(made)) == "fencepost/zookeeper:1.2.3"

    def test_without_parts_an_image_of_this_version_is_used_and_that_is_said(self) -> None:
        etcd = source(MachineError("there is no `go` on the PATH", hint="install Go"))
        said: list[str] = []
        engine: Any = Engine(**{"etcd_3.4.5": {}})
        assert images.ensure(engine, etcd, version="3.4.5", progress=said.append) == "fencepost/etcd:3.4.5"
        assert "no `go` on the PATH" in said[0]
        with pytest.raises(MachineError, match="no `go`"):
            images.ensure(engine, etcd, version="3.4.6")
        with pytest.raises(MachineError, match="no `go`"):
            images.ensure(engine, etcd, version="./my-etcd")


class TestChoices:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"images": ["nothing"]}, "unknown image 'nothing'"),
            ({"bases": {"etcd": "debian"}}, "unknown base image 'etcd'"),
            ({"versions": {"java": "17"}}, "the version of java cannot be chosen"),
        ],
    )
    def test_refused_before_the_engine_is_asked(self, given: dict[str, Any], message: str) -> None:
        engine: Any = None
        with pytest.raises(UsageError, match=message):
            images.build(engine, known(), images.BuildRequest(**given))

    def test_bases_first_and_none_that_an_official_image_replaces(self) -> None:
        def order(*chosen: str, **base: str) -> list[str]:
            return [image.name for image in plans.in_order(known(), chosen, base)]

        assert order("zookeeper") == ["java", "zookeeper"]
        assert order("zookeeper", java="temurin:17") == ["zookeeper"]
        everything = order()
        assert sorted(everything) == sorted(known())
        assert everything.index("java") < everything.index("zookeeper")


class TestRefusals:
    def test_full_disk(self) -> None:
        error = refusals.failed_build("x", ["Step 1"], "write /a: No space left on device")
        assert isinstance(error, MachineError) and "docker system df" in str(error.hint)

    def test_what_the_builder_said_is_shown(self) -> None:
        error = refusals.failed_build("x", ["Step 1/2", "", "Step 2/2 : COPY a b"], "a: no such file")
        assert "Step 2/2 : COPY a b" in error.message

    def test_base_that_cannot_be_pulled(self) -> None:
        error = refusals.failed_build("x", ["Step 1/3 : ARG BASE", "Step 2/3 : FROM ${BASE}"], "no such host")
        assert isinstance(error, MachineError) and "leave out --base" in str(error.hint)

    def test_engine_that_stops_in_the_middle_of_a_build(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import urllib3.exceptions

        def events(**_: object) -> Iterator[dict[str, str]]:
            yield {"stream": "Step 1/2"}
            raise urllib3.exceptions.ProtocolError("Connection broken")

        engine: Any = Engine()
        engine.version = lambda: {"Arch": ""}
        engine.api = SimpleNamespace(build=events)
        with pytest.raises(MachineError, match=r"building the image fencepost/etcd:1\.2\.3: .* does not answer"):
            images.ensure(engine, source(a_recipe()))

    def test_other_architecture(self) -> None:
        engine: Any = SimpleNamespace(version=lambda: {"Arch": "sparc"})
        with pytest.raises(MachineError, match="engine is for sparc"):
            refusals.refuse_other_architecture(engine, "x")


def ensured_without_network(name: str) -> str:
    """`images.ensure` in a process that has no network at all, where this user may make one; the engine is a socket."""
    code = (
        "import sys; from fencepost.harness.plugins import registry;"
        " from fencepost.harness.runtime.containers import images;"
        " from fencepost.harness.runtime.containers.engine.engine import connect;"
        " from fencepost.harness.runtime.containers.images import recipes; recipes.OWNER = sys.argv[1];"
        " print(images.ensure(connect(), images.of_system(registry.system(sys.argv[2]).releases.image_recipe)))"
    )
    alone = ["unshare", "--net"] if os.geteuid() == 0 and "tcp:" not in os.environ.get("DOCKER_HOST", "") else []
    command = [*alone, sys.executable, "-c", code, recipes.OWNER, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.containers
class TestOnAnEngine:
    """Under a name of their own, so that they touch no image that anybody uses."""

    @pytest.fixture
    def client(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        from fencepost.harness.runtime.containers.engine.engine import connect

        try:
            client = connect()
        except MachineError as error:
            pytest.skip(f"{error.message}; {error.hint}")
        owner = f"fencepost-test-{os.getpid()}"
        monkeypatch.setattr(recipes, "OWNER", owner)
        yield client
        # By its tag: the same content under another name is another's.
        for image in client.images.list(filters={"reference": f"{owner}/*"}):
            for tag in image.tags:
                if tag.startswith(f"{owner}/"):
                    client.images.remove(tag)
        client.close()

    def test_builds_without_network_and_builds_again_what_is_stale(self, client: Any, tmp_path: Path) -> None:
        """From nothing and on a base of ours: the engine is not asked to pull anything."""
        begun = time.time()
        server = tmp_path / "etcd"
        server.write_text(f"#!/bin/sh\necho etcd Version: 9.9.{os.getpid()}\n")
        server.chmod(0o755)
        first = images.ensure(client, known()["etcd"], version=str(server))
        second = ensured_without_network("zookeeper")
        kept = client.images.get(second)
        assert images.ensure(client, known()["zookeeper"]) == second
        assert client.images.get(second).id == kept.id
        assert kept.labels["org.fencepost.base"].startswith(f"{recipes.OWNER}/java:")
        assert client.images.get(first).labels["org.fencepost.system"] == "etcd"

        server.write_text(server.read_text() + "# changed\n")
        assert images.ensure(client, known()["etcd"], version=str(server)) != first
        with closing(
            client.events(since=int(begun), until=int(time.time()) + 1, filters={"type": "image"}, decode=True)
        ) as events:
            assert [event for event in events if event.get("Action") == "pull"] == []

    def test_stale_image_is_replaced_and_removed(self, client: Any) -> None:
        made = {"content": b"1"}

        def small(version: str) -> recipes.Recipe:
            files = [Part(target="root/usr/local/bin/etcd", content=made["content"])]
            return a_recipe(identity={"etcd": made["content"].decode()}, parts=lambda: files)

        etcd = images.ImageSource(name="etcd", make=small)
        lines: list[str] = []
        reference = images.ensure(client, etcd, progress=lines.append)
        old = client.images.get(reference).id
        made["content"] = b"2"
        assert images.ensure(client, etcd, progress=lines.append) == reference
        assert client.images.get(reference).id != old
        assert len(lines) == 2
        assert [image for image in client.images.list(all=True) if image.id == old] == []
        (built,) = images.build(client, {"etcd": etcd}, images.BuildRequest())
        assert built.was_current

    def test_failed_build_shows_what_was_said(self, client: Any) -> None:
        with pytest.raises(HarnessError, match=r"(?s)the build failed.*COPY root"):
            images.ensure(client, source(a_recipe()))


class TestCommands:
    def test_context_goes_into_no_folder_that_holds_something(self, tmp_path: Path) -> None:
        from fencepost.harness.cli.images import context

        (tmp_path / "mine").write_text("")
        with pytest.raises(UsageError, match="expected a folder that is empty"):
            context("etcd", tmp_path, version="", base="")

    @pytest.mark.skipif(not GNU, reason="needs ldd and the GNU C library")
    def test_context_is_what_the_printed_command_builds(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from fencepost.harness.cli.images import context

        server = tmp_path / "etcd"
        server.write_text("#!/bin/sh\necho etcd Version: 1.2.3\n")
        server.chmod(0o755)
        into = tmp_path / "context"
        assert context("etcd", into, version=str(server), base="") == 0
        said = capsys.readouterr().out
        assert (into / "root/usr/local/bin/etcd").read_bytes() == server.read_bytes()
        assert said.startswith("docker build -t fencepost/etcd:1.2.3-") and said.rstrip().endswith(str(into))
        assert "--build-arg BASE=scratch" in said and "--label org.fencepost.parts=" in said

    @pytest.mark.parametrize(
        ("created", "expected"),
        [
            ("2026-01-02T00:00:00.123456789Z", "30 s"),
            ("2026-01-01T22:00:00Z", "2 h"),
            ("2025-12-01T00:00:00Z", "32 days"),
            ("never", "?"),
        ],
    )
    def test_age(self, created: str, expected: str) -> None:
        from datetime import UTC, datetime

        from fencepost.harness.cli.images import _age

        assert _age(created, datetime(2026, 1, 2, 0, 0, 30, tzinfo=UTC)) == expected

    def test_listing(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        from fencepost.harness.cli import images as commands

        some = [
            images.Listed(name="etcd", reference="fencepost/etcd:1", state=images.ImageState.ABSENT, why="no `go`"),
            images.Listed(
                name="java", reference="fencepost/java:17", state=images.ImageState.STALE, id="ab" * 32, created="x"
            ),
        ]
        monkeypatch.setattr(commands, "_connect", lambda: None)
        monkeypatch.setattr(images, "listed", lambda client, known: some)
        commands.list_images()
        lines = capsys.readouterr().out.splitlines()
        assert lines[1].split() == ["fencepost/etcd:1", "not", "built"] and "no `go`" in lines[2]
        assert "stale" in lines[3] and "abababababab" in lines[3]
