"""What all tests share: a small Hypothesis profile for work and a large one for CI, and skips that CI may not take."""

import os

import hypothesis
import pytest

hypothesis.settings.register_profile("work", max_examples=50, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=300, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "work"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Under CI a skip is a failure: CI installs everything, so what it skips was never tested."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, which should be able to run it: {reason}"
