"""The rules of `docker/`: images made by copying alone, every version in one file, nothing that can go stale."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.plugins import registry
from fencepost.harness.runtime.containers import images

DOCKER = Path(__file__).resolve().parent.parent / "docker"
PINS: dict[str, dict[str, Any]] = tomllib.loads((DOCKER / "versions.toml").read_text(encoding="utf-8"))
SYSTEMS = {name: registry.system(name) for name in registry.SYSTEMS}
RECIPES = {name: recipe for name, system in SYSTEMS.items() if (recipe := system.releases.image_recipe) is not None}
IMAGES = images.known(RECIPES.values())
DOCKERFILES = sorted(DOCKER.glob("*/Dockerfile"))
#: Neither runs anything while it is built: RUN, ADD (which fetches), ONBUILD, HEALTHCHECK with a shell are left out.
ALLOWED = {"ARG", "FROM", "COPY", "ENV", "EXPOSE", "LABEL", "ENTRYPOINT", "CMD"}


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Instruction and arguments, continued lines joined, comments left out."""
    lines = [line for line in dockerfile.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = []
    for line in filter(None, (line.strip() for line in joined.splitlines())):
        word, _, rest = line.partition(" ")
        found.append((word, rest.strip()))
    return found


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.parent.name)
class TestDockerfile:
    def test_only_copies_onto_its_base(self, dockerfile: Path) -> None:
        found = instructions(dockerfile)
        assert {word for word, _ in found} <= ALLOWED
        assert [word for word, _ in found[:2]] == ["ARG", "FROM"]
        assert found[1] == ("FROM", "${BASE}")
        assert [word for word, _ in found].count("FROM") == 1, "the classic builder pulls stages that nobody uses, too"

    def test_builds_with_every_builder(self, dockerfile: Path) -> None:
        text = dockerfile.read_text(encoding="utf-8")
        assert not re.search(r"^#\s*(syntax|escape|check)\s*=", text, re.MULTILINE), "BuildKit would pull a frontend"
        assert "--chmod" not in text and "--link" not in text and "<<" not in text, "not for the classic builder"

    def test_needs_no_shell(self, dockerfile: Path) -> None:
        for word, rest in instructions(dockerfile):
            if word in ("ENTRYPOINT", "CMD"):
                assert rest.startswith("[") and rest.endswith("]"), f"{word} {rest}"

    def test_its_default_base_is_the_pinned_one(self, dockerfile: Path) -> None:
        name = dockerfile.parent.name
        base = IMAGES[name].base
        expected = PINS[base]["official"] if base else "scratch"
        assert instructions(dockerfile)[0] == ("ARG", f"BASE={expected}")

    def test_says_which_image_it_is(self, dockerfile: Path) -> None:
        labels = " ".join(rest for word, rest in instructions(dockerfile) if word == "LABEL")
        assert f'org.fencepost.image="{dockerfile.parent.name}"' in labels
        is_system = dockerfile.parent.name in registry.SYSTEMS
        assert ("org.fencepost.system" in labels) == is_system


def test_one_folder_one_recipe() -> None:
    assert {path.parent.name for path in DOCKERFILES} == set(IMAGES)
    assert set(PINS) | set(RECIPES) == set(IMAGES) and not set(PINS) & set(RECIPES)


def test_folder_does_not_shadow_the_sdk() -> None:
    assert not list(DOCKER.rglob("*.py"))


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.releases.image_recipe])
def test_image_of_a_system_is_the_release_that_the_lab_runs(name: str) -> None:
    assert (RECIPES[name].name, RECIPES[name].version) == (name, SYSTEMS[name].releases.default)


def test_official_bases_name_no_registry() -> None:
    for pin in PINS.values():
        repository = pin.get("official", "").split(":")[0]
        assert "." not in repository, "whose registry it is, is the engine's setting"


def test_no_version_stands_anywhere_else() -> None:
    versions = [source.version for source in IMAGES.values() if source.version.count(".") == 2]
    assert len(versions) == len(RECIPES) + 1, "those of the systems, and Toxiproxy's"
    for path in [*DOCKERFILES, DOCKER / "README.md", DOCKER / "engine.sh"]:
        text = path.read_text(encoding="utf-8")
        assert [version for version in versions if version in text] == [], path


class TestEngineScript:
    script = DOCKER / "engine.sh"

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([str(self.script), *arguments], capture_output=True, text=True, timeout=30, check=False)

    def test_says_how_it_is_used(self) -> None:
        done = self.run("start")
        assert done.returncode == 2 and "engine.sh start FOLDER" in done.stderr

    def test_engine_that_died_and_was_not_reaped_is_not_running(self, tmp_path: Path) -> None:
        program = tmp_path / "dockerd"
        shutil.copy("/bin/true", program)
        folder = tmp_path / "engine"
        folder.mkdir()
        with subprocess.Popen([program]) as died:
            os.waitid(os.P_PID, died.pid, os.WEXITED | os.WNOWAIT)
            (folder / "docker.pid").write_text(f"{died.pid}\n")
            done = self.run("stop", str(folder), "--remove")
        assert (done.returncode, done.stdout) == (0, f"not running\nremoved {folder}\n")

    def test_engine_that_is_not_there(self, tmp_path: Path) -> None:
        assert self.run("status", str(tmp_path / "none")).returncode == 1
        done = self.run("stop", str(tmp_path / "none"), "--remove")
        assert done.returncode == 0 and "not running" in done.stdout

    def test_stops_nothing_but_an_engine(self, tmp_path: Path) -> None:
        """The pid in the file of an engine that crashed may be another program's by now: here it is ours."""
        (tmp_path / "docker.pid").write_text(f"{os.getpid()}\n")
        assert "not running" in self.run("stop", str(tmp_path)).stdout

    def test_removes_only_what_an_engine_made(self, tmp_path: Path) -> None:
        (tmp_path / "dockerd.log").write_text("")
        (tmp_path / "mine").write_text("")
        done = self.run("stop", str(tmp_path), "--remove")
        assert done.returncode != 0 and (tmp_path / "mine").exists() and not (tmp_path / "dockerd.log").exists()
