"""Exit codes of the process: 0, 1 and 2 come from a verdict only, whatever happens to its streams, home and cache."""

import asyncio
import errno
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click
import pytest
from _pytest.mark import ParameterSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli import main
from fencepost.harness.cli.app import app, commands
from tests.run_command import ROOT, command, only_folder

_ALLOWED: Final = frozenset(ExitCode)
#: A pipe whose reader has gone away before the first byte.
_UNREAD: Final = "unread"
#: What a shell does to the streams; `cat` stands for a pipe that is read.
STREAMS: Final = (
    "<&-",
    ">&-",
    "2>&-",
    ">&- 2>&-",
    "<&- >&- 2>&-",
    "<&- 2>&-",
    ">/dev/full",
    "2>/dev/full",
    ">/dev/full 2>/dev/full",
    "</dev/full >/dev/full 2>&-",
    ">/dev/null 2</dev/null",
    "1</dev/null",
    f">&{_UNREAD}",
    f"2>&{_UNREAD}",
    f">&{_UNREAD} 2>&{_UNREAD}",
)
#: Histories by the exit code of their verdict.
_HISTORIES: Final[dict[ExitCode, str | None]] = {
    ExitCode.VALID: ":ok, :f :read, :value 1",
    ExitCode.INVALID: ":ok, :f :read, :value 2",
    ExitCode.UNKNOWN: None,
}
#: A user without a name in /etc/passwd, who may do no more than others.
_NAMELESS: Final = ("unshare", "--user", "--map-user=12345", "--map-group=12345")


def _ended(words: list[str], streams: str = "", environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit code of a command below a shell's redirections, and what it wrote to standard error, if anybody got it."""
    reader, writer = os.pipe()
    os.close(reader)
    errors_from, errors = os.pipe()
    shell = ["bash", "-c", f'exec "$@" {streams.replace(_UNREAD, str(writer))}', "bash", *words]
    child = subprocess.Popen(
        shell, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=[writer], env=environment
    )
    os.close(writer)
    os.close(errors)
    with os.fdopen(errors_from, encoding="utf-8") as file:
        said = file.read()
    return child.wait(120), said


def _history(folder: Path, verdict: ExitCode) -> Path:
    lines = ["{:process 0, :type :invoke, :f :write, :value 1}", "{:process 0, :type :ok, :f :write, :value 1}"]
    read = _HISTORIES[verdict]
    lines += [] if read is None else ["{:process 0, :type :invoke, :f :read}", f"{{:process 0, :type {read}}}"]
    path = folder / "history.edn"
    path.write_text("\n".join(lines) if read else "")
    return path


def _rotated() -> Iterator[ParameterSet]:
    """Every stream with every verdict; one verdict for each stream at once, the others where time allows."""
    for number, streams in enumerate(STREAMS):
        for turn, verdict in enumerate(_HISTORIES):
            yield pytest.param(streams, verdict, marks=[pytest.mark.slow] * ((number + turn) % len(_HISTORIES) > 0))


@pytest.mark.parametrize(("streams", "verdict"), list(_rotated()))
def test_streams_change_no_verdict(tmp_path: Path, streams: str, verdict: ExitCode) -> None:
    code, said = _ended(command("check", str(_history(tmp_path, verdict))), streams)
    assert (code, "Traceback" in said) == (verdict, False), said


def _commands(group: click.Group = app, *before: str) -> Iterator[tuple[str, ...]]:
    """Every command of the command line, as its words."""
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from _commands(found, *before, name)
        else:
            yield (*before, name)


#: A line for each command that needs no cluster and ends soon, with its code: its help, a mistake.
LINES: Final[dict[tuple[str, ...], ExitCode]] = {
    **{(*words, "--help"): ExitCode.VALID for words in _commands()},
    **{(*words, "--no-such-option"): ExitCode.USAGE for words in _commands()},
    **{(name,): ExitCode.USAGE for name in ("", "chekc", "--json")},
    ("list", "systems"): ExitCode.VALID,
    ("list", "faults", "kill"): ExitCode.VALID,
    ("check", "/nowhere/history.edn"): ExitCode.USAGE,
    ("run", "--system", "etcd", "--workload", "register", "--nemesis", "puase"): ExitCode.USAGE,
}


def test_every_command_has_its_lines() -> None:
    assert {words[0] for words in LINES} >= set(commands())


@given(st.sampled_from(sorted(LINES)), st.sampled_from(STREAMS))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_streams_change_the_code_of_no_command(words: tuple[str, ...], streams: str) -> None:
    code, said = _ended(command(*words), streams)
    assert (code, "Traceback" in said) == (LINES[words], False), said


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(LINES)))
def test_streams_change_the_code_of_no_line(number: int) -> None:
    """Every line with every third stream, another third for the next line: all of both, in a few minutes."""
    words = sorted(LINES)[number]
    for streams in STREAMS[number % 3 :: 3]:
        code, said = _ended(command(*words), streams)
        assert (code, "Traceback" in said) == (LINES[words], False), f"{streams}: {said}"


@pytest.mark.cluster
def test_a_run_without_standard_error_is_made_and_judged(tmp_path: Path) -> None:
    results = tmp_path / "r b"
    plan = ["--system", "example", "--workload", "register", "--nemesis", "kill", "--time-limit", "3s"]
    code, _ = _ended(command("run", *plan, "--results", str(results)), "<&- >&- 2>&-")
    verdict = (only_folder(results) / "verdict.json").read_text(encoding="utf-8")
    validity = re.search(r'"validity": "(\w+)"', verdict)
    assert validity is not None
    assert code == ExitCode[validity[1].upper()]


# -- no home, no cache ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nameless() -> tuple[str, ...]:
    if subprocess.run([*_NAMELESS, "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare cannot make a user namespace here")
    return _NAMELESS


def _environment(cache: Path | None = None) -> dict[str, str]:
    """This one, without a home; with a folder for caches where one is given."""
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    return kept if cache is None else {**kept, "XDG_CACHE_HOME": str(cache)}


#: Commands that use the cache as soon as they do anything.
_CACHED: Final = (
    ("prepare",),
    ("run", "--system", "etcd", "--workload", "register", "--nemesis", "kill"),
    ("run", "--system", "zookeeper", "--workload", "register", "--nemesis", "none"),
    ("run", "--system", "consul", "--workload", "register", "--nemesis", "none"),
    ("run", "--system", "nats", "--workload", "register", "--nemesis", "none"),
    ("run", "--system", "cassandra", "--workload", "register", "--nemesis", "none"),
    ("run", "--system", "kraft", "--workload", "metadata", "--nemesis", "none"),
    ("demo",),
    ("conformance", "system", "etcd"),
    ("failover",),
    ("doctor", "systems"),
)


@pytest.mark.parametrize("words", [pytest.param(w, marks=[pytest.mark.slow] * (n > 2)) for n, w in enumerate(_CACHED)])
def test_a_user_without_a_home_is_told_the_remedy(
    tmp_path: Path, nameless: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = _ended([*nameless, *command(*words)], "2>&1 >&2" if words[0] == "doctor" else "", _environment())
    assert (code, "Traceback" in said) == (ExitCode.USAGE, False), said
    assert words[0] == "doctor" or "set HOME or XDG_CACHE_HOME to a folder that you may write" in said


@pytest.mark.parametrize("kind", ["read-only", "below a file"])
@pytest.mark.parametrize("words", [("prepare",), ("doctor", "systems"), ("check", "history.edn")])
def test_a_cache_that_cannot_be_written_is_no_defect(
    tmp_path: Path, nameless: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, kind: str, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    _history(tmp_path, ExitCode.INVALID)
    cache = tmp_path / "cache"
    if kind == "below a file":
        cache.touch()
    else:
        (cache / "fencepost").mkdir(parents=True)
        for folder in (cache / "fencepost", cache):
            folder.chmod(0o555)
    code, said = _ended([*nameless, *command(*words)], "", _environment(cache))
    assert code in _ALLOWED
    assert "Traceback" not in said
    assert (words[0] == "check") == (code == ExitCode.INVALID), said


# -- a full disk ------------------------------------------------------------------------------------------------------

_ON_A_FULL_DISK: Final = """
mount -t tmpfs -o size=34m none "$1" && cd "$1" && shift
head -c $1 /dev/zero > fill; shift
exec "$@"
"""


OnDisk = Callable[[int, tuple[str, ...]], tuple[int, str]]


@pytest.fixture
def full_disk(tmp_path: Path) -> OnDisk:
    """Carries a command out in a folder whose disk has so much room; returns its exit code and what it said."""
    private = ["unshare", "--user", "--map-root-user", "--mount"]
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run([*private, "mount", "-t", "tmpfs", "none", disk], check=False, capture_output=True).returncode:
        pytest.skip("unshare and mount cannot make a small disk here")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def carried_out(free: int, words: tuple[str, ...]) -> tuple[int, str]:
        script = ["bash", "-c", _ON_A_FULL_DISK, "bash", str(disk), str((34 << 20) - free)]
        return _ended([*private, *script, *command(*words)], "", environment)

    return carried_out


@pytest.mark.parametrize("free", [0, 64 << 10, 31 << 20])
@pytest.mark.parametrize("words", [("run", "--system", "example", "--workload", "register", "--nemesis", "kill")])
def test_results_on_a_full_disk_are_refused_in_one_line(full_disk: OnDisk, free: int, words: tuple[str, ...]) -> None:
    code, said = full_disk(free, words)
    assert code == ExitCode.USAGE, said
    assert "Traceback" not in said
    assert len(re.findall("^error: .*", said, re.MULTILINE)) == 1
    assert "hint: free some disk space, or give another folder with --results" in said


def _alternating() -> Iterator[ParameterSet]:
    """Every verdict on every disk, in turns with and without `--json`; the other way where time allows."""
    for number, (free, verdict) in enumerate(itertools.product((0, 4 << 10, 8 << 10), _HISTORIES)):
        for turn, more in enumerate(((), ("--json",))):
            yield pytest.param(free, verdict, more, marks=[pytest.mark.slow] * ((number + turn) % 2))


@pytest.mark.parametrize(("free", "verdict", "more"), list(_alternating()))
def test_a_report_that_a_full_disk_refuses_is_a_failure(
    tmp_path: Path, full_disk: OnDisk, free: int, verdict: ExitCode, more: tuple[str, ...]
) -> None:
    code, said = full_disk(free, ("check", str(_history(tmp_path, verdict)), "--report", "report.html", *more))
    assert code == ExitCode.INTERNAL, said
    assert re.findall("^error: .*", said, re.MULTILINE) == [
        "error: the report could not be written: report.html: No space left on device"
    ]


@pytest.mark.parametrize("place", ["history.edn", "no/folder.html", "x" * 300, "closed/report.html"])
def test_a_place_that_takes_no_report_is_refused_before_the_judging(
    tmp_path: Path, nameless: tuple[str, ...], place: str
) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "closed").mkdir(mode=0o555)
    history = _history(tmp_path, ExitCode.VALID)
    words = [*nameless, *command("check", str(history), "--report", str(tmp_path / place))]
    code, said = _ended(words, "", _environment())
    assert code == ExitCode.USAGE, said
    assert len(re.findall("^error: .*", said, re.MULTILINE)) == 1


@pytest.mark.parametrize("length", [1, 100, 240, 255])
def test_a_report_has_any_name_that_a_file_may_have(tmp_path: Path, length: int) -> None:
    file = tmp_path / ("r" * length)
    assert main(["check", str(_history(tmp_path, ExitCode.VALID)), "--report", str(file)]) == ExitCode.VALID
    assert [path for path in tmp_path.iterdir() if path.suffix != ".edn"] == [file]


# -- files and exceptions of others -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "raise SystemExit(1)", "def ("])
@pytest.mark.parametrize("name", ["click", "msgspec", "numpy", "re", "typing", "dataclasses", "enum", "ctypes"])
def test_a_foreign_file_in_place_of_a_module_is_named(tmp_path: Path, name: str, content: str) -> None:
    file = tmp_path / f"{name}.py"
    file.write_text(content)
    history = str(_history(tmp_path, ExitCode.VALID))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    code, said = _ended(command("check", history), "", {**os.environ, "PYTHONPATH": path})
    assert code == ExitCode.USAGE, said
    assert f"error: {file} is imported in place of " in said
    assert "Traceback" not in said


_BREAKING: Final = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise {error}
sys.meta_path.insert(0, Broken())
from fencepost.harness.cli import main
sys.exit(main(["list", "runtimes"]))
"""


@pytest.mark.parametrize("error", ["ImportError('x')", "SystemExit(0)", "SystemExit(1)", "MemoryError", "SystemExit"])
@pytest.mark.parametrize(
    "module", ["click", "fencepost.harness.base.streams", "fencepost.harness.base.errors", "fencepost.harness.cli.app"]
)
def test_a_module_that_cannot_be_imported_is_a_failure_of_the_harness(module: str, error: str) -> None:
    code, said = _ended([sys.executable, "-c", _BREAKING.format(module=module, error=error)])
    assert code == ExitCode.INTERNAL
    assert "error: fencepost failed: " in said


_ENDING: Final = """
import ctypes, sys
class Ending:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            ctypes.CDLL(None).exit({code})
sys.meta_path.insert(0, Ending())
from fencepost.harness.cli import main
sys.argv[1:] = ["check", {history!r}]
sys.exit(main())
"""


@pytest.mark.parametrize("code", [0, 1, 2, 130, 254])
@pytest.mark.parametrize("module", ["click", "msgspec", "numpy", "dataclasses"])
def test_a_library_that_ends_the_process_is_no_verdict(tmp_path: Path, module: str, code: int) -> None:
    history = str(_history(tmp_path, ExitCode.VALID))
    ended, said = _ended([sys.executable, "-c", _ENDING.format(module=module, code=code, history=history)])
    assert ended == ExitCode.INTERNAL, said
    assert "error: fencepost failed: a library ended the process" in said


@pytest.mark.parametrize("threads", [None, "2"])
@pytest.mark.parametrize("kilobytes", [100_000, 180_000, 200_000, 300_000, 500_000])
def test_too_little_memory_is_no_verdict(tmp_path: Path, kilobytes: int, threads: str | None) -> None:
    words = command("check", str(_history(tmp_path, ExitCode.VALID)))
    limited = ["bash", "-c", f'ulimit -v {kilobytes}; exec "$@"', "bash", *words]
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    code, said = _ended(limited, "", {**environment, **({"OPENBLAS_NUM_THREADS": threads} if threads else {})})
    # The native core ends the process where it cannot allocate: by a signal, which is no exit code of a verdict.
    assert code in (ExitCode.VALID, ExitCode.INTERNAL, -signal.SIGABRT), said
    assert code == ExitCode.VALID or "error: " in said


_FOREIGN: Final = (
    *(SystemExit(code) for code in (0, 1, 2, None, "text")),
    *(click.exceptions.Exit(code) for code in (1, 2)),
    *(OSError(number, os.strerror(number)) for number in (errno.EPIPE, errno.EIO, errno.ENOSPC, errno.EROFS)),
    EOFError(),
    asyncio.CancelledError(),
    GeneratorExit(),
    RecursionError(),
    MemoryError(),
    ExceptionGroup("several", [ValueError()]),
)


@pytest.mark.parametrize("error", _FOREIGN, ids=repr)
def test_an_exception_that_no_command_foresaw_is_a_failure_of_the_harness(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    def listing(*_: str) -> None:
        raise error

    monkeypatch.setattr("fencepost.harness.cli.listing.listing", listing)
    assert main(["list", "systems"]) == ExitCode.INTERNAL
    assert "error: " in capsys.readouterr().err or isinstance(error, click.exceptions.Exit)


@pytest.mark.parametrize("returned", [None, "0", "1", 3, 77, -1, [1]])
def test_a_command_returns_an_exit_code_or_has_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], returned: object
) -> None:
    monkeypatch.setattr("fencepost.harness.cli.doctor.examine", lambda *_: returned)
    assert main(["doctor"]) == ExitCode.INTERNAL
    assert "is not a valid ExitCode" in capsys.readouterr().err
