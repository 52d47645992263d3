"""What all tests share: Hypothesis profiles, skips that CI may not take, and how workers share.

`make test` gives what need not be alone to several workers (pytest-xdist). A module stays together, for its fixtures;
so does everything on the container engine, where one test would find what another one is just removing, and everything
on Spark, whose JVM takes a minute of processor time. What waits for servers goes first, since it takes longest, and
between two groups that wait come some that compute: so neither the workers nor the processors are idle. The order is
random otherwise.
"""

import gc
import os
import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from pluggy import Result

from tests.run_command import MADE_AGAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

hypothesis.settings.register_profile("work", max_examples=50, deadline=None)
hypothesis.settings.register_profile("many", max_examples=300, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "work"))

_WAITS = ("containers", "cluster", "spark", "browser")


#: Files with tests on the container engine; whoever adds one is told (`pytest_runtest_setup`).
_ENGINE_FILES = (
    "tests/runtime/containers/",
    "tests/runtime/conformance/",
    "tests/runtime/containers/test_images.py",
    "tests/runs/test_container_runs.py",
)

_SPARK_FOLDER = "tests/warehouse/"
#: Whole runs in memory, which share nothing but those of their workload: as one file all would wait for it at the end.
_SHARED_OUT = "tests/runs/test_plants.py"


def group_of(nodeid: str) -> str:
    """What stays on one worker: a file, all on Spark, all on the engine (but the lab's part of its suite)."""
    file, _, test = nodeid.partition("::")
    if file == _SHARED_OUT:
        return f"{file}[{test.partition('[')[2]}"
    if file.startswith(_SPARK_FOLDER):
        return "spark"
    if file.startswith("tests/runtime/conformance/") and re.search(r"\[lab\b", test):
        return "conformance of the lab"
    return "engine" if file.startswith(_ENGINE_FILES) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist's own groups write a node id that pytest no longer reads (xdist 3.8 with pytest 9.2)."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    # A million objects of twelve thousand tests stay to the end: to look through them for garbage takes seconds.
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After pytest-randomly, whose order stays within each kind."""
    items.sort(key=_kind)
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item.nodeid), []).append(item)
    waiting = [group for group in groups.values() if _kind(group[0]) < len(_WAITS)]
    computing = [group for group in groups.values() if _kind(group[0]) == len(_WAITS)]
    # The last third is left for the end, when some worker still waits.
    share = 2 * len(computing) // (3 * len(waiting)) if waiting else 0
    order = [mine for group in waiting for mine in (group, *(computing.pop() for _ in range(share)))]
    items[:] = [item for group in (*order, *computing) for item in group]


def _kind(item: pytest.Item) -> int:
    return next((n for n, name in enumerate(_WAITS) if item.get_closest_marker(name)), len(_WAITS))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("containers") and group_of(item.nodeid) != "engine":
        pytest.fail(f"{item.location[0]} has tests on the container engine, but is not in _ENGINE_FILES of conftest.py")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Result[pytest.TestReport], None]:
    """Under CI a skip is a failure: CI installs everything, so what it skips was never tested."""
    outcome = yield
    report = outcome.get_result()
    may_skip = item.get_closest_marker("may_skip") is not None
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail") and not may_skip:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, which should be able to run it: {reason}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over what this worker made again; without workers it is at hand."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["made_again"] = MADE_AGAIN


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    MADE_AGAIN.extend(getattr(node, "workeroutput", {}).get("made_again", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Runs that are made again are no secret: many of them are a finding about the product or its tests."""
    if MADE_AGAIN:
        terminalreporter.section("runs that decided nothing")
        for said in sorted(MADE_AGAIN):
            terminalreporter.write_line(said)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark JVM for all tests of a run; it starts when the first test asks for it.

    The tests' frames have ten rows: to compile code for them, as Spark and Java do, takes longer than to interpret it.
    """
    from fencepost.warehouse.spark_session import SparkHandle

    with SparkHandle("local[2]") as handle:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            session = handle.session()
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        yield session
