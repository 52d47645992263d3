"""What all tests share: Hypothesis profiles for work and for CI, skips that CI may not take, and how workers share.

`make test` gives what need not be alone to several workers (pytest-xdist). A module stays together, for its fixtures;
so does everything on the container engine, where one test would find what another one is just removing. What waits for
servers goes first, since it takes longest; the order is random otherwise.
"""

import os

import hypothesis
import pytest

hypothesis.settings.register_profile("work", max_examples=50, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=300, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "work"))

_WAITS = ("containers", "cluster", "spark", "browser")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Name the group that stays on one worker."""
    if item.config.pluginmanager.hasplugin("xdist"):
        on_engine = item.get_closest_marker("containers") is not None
        item.add_marker(pytest.mark.xdist_group("engine" if on_engine else item.nodeid.partition("::")[0]))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After pytest-randomly, whose order stays within each kind."""
    items.sort(
        key=lambda item: next((n for n, name in enumerate(_WAITS) if item.get_closest_marker(name)), len(_WAITS))
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Under CI a skip is a failure: CI installs everything, so what it skips was never tested."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, which should be able to run it: {reason}"
