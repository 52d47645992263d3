"""The releases of every system whose server is one Go program: known ones, programs at a path, programs in an image."""

from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.go_releases import GoReleases
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import ImageFacts, go_modules, sha256_of

DECLARED = [system.releases for system in registry.systems().values() if isinstance(system.releases, GoReleases)]
EACH = pytest.mark.parametrize("releases", DECLARED, ids=lambda releases: releases.name)
#: What each program prints when it is asked for its version.
SAYS = {"etcd": "etcd Version: 9.8.7", "nats": "nats-server: v9.8.7", "consul": "Consul v9.8.7"}


def program(folder: Path, text: str) -> Path:
    path = folder / "server"
    path.write_text(f"#!/bin/sh\necho {text}\necho Revision x\n")
    path.chmod(0o755)
    return path


@EACH
def test_a_program_is_taken_by_its_path(releases: GoReleases, tmp_path: Path) -> None:
    path = program(tmp_path, SAYS[releases.name])
    artifacts = releases.resolve(str(path))
    assert artifacts.version == "9.8.7"
    assert artifacts.paths == {releases.program: str(path)}
    assert artifacts.sha256 == {releases.program: sha256_of(path)}
    with pytest.raises(UsageError, match=f"names no version of {releases.title}"):
        releases.resolve(str(program(tmp_path, "I am a teapot")))


@EACH
def test_an_unknown_release_is_answered_with_the_known_ones_and_the_path(releases: GoReleases) -> None:
    assert releases.default in releases.known()
    with pytest.raises(UsageError, match=rf"{releases.name} '0\.0\.9' is not a known release; known are \d") as refused:
        releases.resolve("0.0.9")
    assert f"--version ./{releases.program}" in (refused.value.hint or "")
    assert not releases.at_hand("0.0.9")


@EACH
def test_a_recorded_release_is_built_with_its_sum(
    releases: GoReleases, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    build: dict[str, str] = {}

    def binary(module: str, version: str, **more: str) -> Path:
        build.update(more, module=module, version=version)
        return program(tmp_path, SAYS[releases.name])

    monkeypatch.setattr(go_modules, "binary", binary)
    release = next(release for release in reversed(releases.known()) if release not in releases.other_sources)
    releases.resolve(release)
    assert (build["module"], build["version"], build["name"]) == (releases.module, f"v{release}", releases.program)
    assert build["module_sum"].startswith("h1:")


@EACH
def test_an_image_has_the_program_on_its_path(releases: GoReleases, tmp_path: Path) -> None:
    facts = ImageFacts(
        reference="r/x:1.2", id="sha256:1", labels={}, entrypoint=(), command=(), environment={}, architecture="amd64"
    )
    artifacts = releases.in_image(facts)
    assert (artifacts.version, artifacts.paths) == ("1.2", {"image": "r/x:1.2", releases.program: releases.program})
    contents = releases.image_recipe.contents(str(program(tmp_path, SAYS[releases.name])))
    assert (contents.version, set(contents.files())) == ("9.8.7", {releases.program})
