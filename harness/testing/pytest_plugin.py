"""The pytest plugin: plans as tests, and runs as fixtures. It is loaded wherever fencepost is installed.

Every `*.plan.toml` below the test paths is a test: `valid` passes, `invalid` fails with the witness in its text, and
`unknown` fails too, unless `--fencepost-unknown skip` is given (or `fencepost_unknown = skip` in the configuration).

    @pytest.mark.fencepost(system="etcd", workload="register", nemesis="partition:leader", time_limit="20s")
    def test_etcd_keeps_its_word(fencepost_run):
        assert fencepost_run.validity == "valid"

The marker takes the keys of a plan file, and besides `expect="invalid"` (this run must show a violation, such as that
of a build with a planted bug) and `anomaly="stale-read"` (and this one). The run takes place in the test's set-up and
is held to its expectation before the body of the test runs. What the harness could not do is an error, not a failure.

A file of known issues (`--fencepost-known`, or `fencepost_known` in the configuration) turns a violation that it covers
into an expected failure, until the issue expires. `known="LINK"` in the marker names the issue that this test must
show: a run without it fails, so that a fixed bug does not stay on the list.
"""

import datetime
import random
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from fencepost.harness.testing.one_run import FinishedRun

T = TypeVar("T")

_SUFFIX: Final = ".plan.toml"
_MARKER: Final = "fencepost"
_UNKNOWN: Final = ("fail", "skip")
#: What the marker says beside the plan.
_EXPECTATIONS: Final = ("expect", "anomaly", "known")
_RUN: Final = pytest.StashKey["FinishedRun"]()
_SEED: Final = pytest.StashKey[int]()


class Violated(Exception):
    """A run ended otherwise than its test expects; the text says how, with the witness."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fencepost", "runs against real clusters")
    group.addoption("--fencepost-results", metavar="DIR", help="where runs are kept (default: results)")
    group.addoption("--fencepost-seed", metavar="N", type=int, help="seed of plans that name none (default: drawn)")
    group.addoption(
        "--fencepost-unknown", choices=_UNKNOWN, help="what becomes of a run whose verdict is unknown (default: fail)"
    )
    group.addoption("--fencepost-known", metavar="FILE", help="known issues: their violations are expected failures")
    parser.addini("fencepost_known", "file of known issues, whose violations are expected failures", default="")
    parser.addini("fencepost_results", "where runs are kept", default="results")
    parser.addini("fencepost_unknown", "what becomes of a run whose verdict is unknown: fail or skip", default="fail")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(expect='valid', anomaly=None, known=None, **plan): a run against a real cluster, by a plan's words",
    )
    if config.getini("fencepost_unknown") not in _UNKNOWN:
        raise pytest.UsageError(f"fencepost_unknown: choose from {', '.join(_UNKNOWN)}")
    worker = getattr(config, "workerinput", {})
    drawn = worker.get("fencepost_seed", random.SystemRandom().randrange(2**31))
    config.stash[_SEED] = config.getoption("--fencepost-seed") if _has_seed(config) else drawn


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers of pytest-xdist draw the seeds that this process would have drawn."""
    node.workerinput["fencepost_seed"] = node.config.stash[_SEED]


def pytest_report_header(config: pytest.Config) -> str:
    return f"fencepost: plans without a seed use --fencepost-seed {config.stash[_SEED]}"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "PlanFile | None":
    return PlanFile.from_parent(parent, path=file_path) if file_path.name.endswith(_SUFFIX) else None


class PlanFile(pytest.File):
    """A plan file; its one test has the file's name."""

    def collect(self) -> Iterator["PlanItem"]:
        yield PlanItem.from_parent(self, name=self.path.name.removesuffix(_SUFFIX))


class PlanItem(pytest.Item):
    """The run of a plan file. It takes place in the set-up, so what the harness could not do is an error."""

    def setup(self) -> None:
        from fencepost.harness.base.errors import command_line
        from fencepost.harness.plan import read_plan

        self.user_properties += [
            ("fencepost_plan", str(self.path)),
            ("fencepost_command", command_line("run", self.path)),
        ]
        self.stash[_RUN] = _or_fail(lambda: _run(self, read_plan(self.path, seed=_seed_of(self))))

    def runtest(self) -> None:
        _hold(self, self.stash[_RUN])

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from fencepost.harness.base.errors import FencepostError

        if isinstance(excinfo.value, Violated | FencepostError):
            return _message(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"plan: {self.name}"


@pytest.fixture
def fencepost_run(request: pytest.FixtureRequest) -> "FinishedRun":
    """The finished run of the test's `fencepost` marker."""
    from fencepost.harness.testing.one_run import plan_in_words

    marker = request.node.get_closest_marker(_MARKER)
    if marker is None or marker.args:
        plan = "system=..., workload=..., nemesis=..."
        pytest.fail(f"the fixture fencepost_run needs a plan: @pytest.mark.fencepost({plan})", pytrace=False)
    marked = marker.kwargs
    expect = marked.get("expect", "valid")
    if expect not in ("valid", "invalid"):
        pytest.fail(f"expect={expect!r}: choose from valid, invalid", pytrace=False)
    keys = {name: value for name, value in marked.items() if name not in _EXPECTATIONS}
    expected = "invalid" if expect == "invalid" else ""
    run = _or_fail(lambda: _run(request.node, plan_in_words(keys, _seed_of(request.node)), expected))
    request.node.stash[_RUN] = run
    return run


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Hold the run to what its marker expects before the test's own body says more."""
    run = pyfuncitem.stash.get(_RUN, None)
    if run is not None:
        marker = pyfuncitem.get_closest_marker(_MARKER)
        assert marker is not None, "the fixture has found it"
        expectations = {name: marker.kwargs[name] for name in _EXPECTATIONS if name in marker.kwargs}
        _or_fail(lambda: _hold(pyfuncitem, run, **expectations))
    return (yield)


def _run(item: pytest.Item, plan: Any, expected: str = "") -> "FinishedRun":
    from fencepost.harness.testing.one_run import run_plan

    folder = item.config.getoption("--fencepost-results") or item.config.getini("fencepost_results")
    # Before the run, so that JUnit has it also of one that was refused.
    item.user_properties.append(("fencepost_seed", plan.seed))
    run = run_plan(plan, item.config.rootpath / folder, expected)
    # For JUnit, and for plug-ins that read reports.
    kept = [one for one in item.user_properties if one[0] != "fencepost_command"]
    item.user_properties[:] = [*kept, ("fencepost_command", run.command), ("fencepost_report", str(run.report))]
    return run


def _hold(
    item: pytest.Item,
    run: "FinishedRun",
    *,
    expect: str = "valid",
    anomaly: str | None = None,
    known: str | None = None,
) -> None:
    """Raise Violated when the run ended otherwise than expected; known issues are expected failures while in force."""
    if run.validity == "unknown" and expect == "valid" and _unknown_is_skipped(item.config):
        pytest.skip(run.text())
    if expect == "valid":
        _expect_known(item, run, known)
    if run.validity != expect:
        raise Violated(run.text() if expect == "valid" else f"expected a violation, and none was found\n{run.text()}")
    if anomaly is not None and anomaly not in run.anomalies:
        shown = ", ".join(run.anomalies) or "no anomaly"
        raise Violated(f"expected the anomaly {anomaly}; the run shows {shown}\n{run.text()}")


def _expect_known(item: pytest.Item, run: "FinishedRun", known: str | None) -> None:
    """End the test as an expected failure when issues in force cover every violation; hold it to the one it names."""
    path = item.config.getoption("--fencepost-known") or item.config.getini("fencepost_known")
    if not path:
        if known is not None:
            raise Violated(f"known={known!r} needs a file of known issues: --fencepost-known FILE")
        return
    from fencepost.harness.findings.known_issues import read_known_issues

    today = datetime.datetime.now(datetime.UTC).date()
    issues = read_known_issues(item.config.rootpath / path)
    if known is not None and all(issue.link != known for issue in issues):
        raise Violated(f"{path} has no issue with the link {known}")
    covering = {
        fingerprint: issue
        for fingerprint in run.fingerprints
        for issue in issues
        if issue.covers(fingerprint, run.version, today)
    }
    if known is not None and all(issue.link != known for issue in covering.values()):
        why = "it has expired" if any(i.link == known and i.is_expired(today) for i in issues) else "it did not show"
        raise Violated(f"expected the known issue {known}: {why}\n{run.text()}")
    if run.fingerprints and len(covering) == len(run.fingerprints):
        links = ", ".join(dict.fromkeys(issue.link for issue in covering.values()))
        pytest.xfail(f"known: {links}\n{run.text()}")


def _or_fail(act: Callable[[], T]) -> T:
    """Do it, or fail with the message of the error alone: raised outside of the handler, it is printed once."""
    from fencepost.harness.base.errors import FencepostError

    try:
        return act()
    except (Violated, FencepostError) as error:
        message = _message(error)
    pytest.fail(message, pytrace=False)


def _unknown_is_skipped(config: pytest.Config) -> bool:
    chosen: str = config.getoption("--fencepost-unknown") or config.getini("fencepost_unknown")
    return chosen == "skip"


def _has_seed(config: pytest.Config) -> bool:
    return config.getoption("--fencepost-seed") is not None


def _seed_of(item: pytest.Item) -> int:
    """A seed of this test's own, the same whichever tests run beside it."""
    return (item.config.stash[_SEED] + zlib.crc32(item.nodeid.encode())) % 2**31


def _message(error: BaseException) -> str:
    hint = getattr(error, "hint", None)
    return f"{getattr(error, 'message', error)}" + (f"\nhint: {hint}" if hint else "")
