"""A plugin of pytest that lets each test, and each Python process that it starts, sleep at some lines.

    python -m pytest -p tests.pauses.plugin [--pauses 3] [--pauses-longest 1] [--pauses-seed 1] tests

A test that fails says where it slept. The same seed gives the same lines; only where threads take turns it does not.
`docs/explanation/decisions.md` says what it is for. A test that traces lines itself goes without from there on.
"""

import os
import random
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest
from pluggy import Result

from tests.pauses.pauser import IN_CHILDREN, Pauser

_CHILDREN: Final = Path(__file__).parent / "children"
_LINES_MAX: Final = 20_000
_PAUSER: Final = pytest.StashKey[Pauser]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pauses")
    group.addoption("--pauses", type=int, default=3, help="at how many lines each test sleeps")
    group.addoption("--pauses-longest", type=float, default=1.0, help="for how many seconds at most")
    group.addoption("--pauses-seed", default="1", help="what the lines are drawn from")


def pytest_configure(config: pytest.Config) -> None:
    os.environ[IN_CHILDREN] = f"{config.getoption('--pauses-seed')} {config.getoption('--pauses-longest')}"
    path = os.environ.get("PYTHONPATH", "")
    if str(_CHILDREN) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(word for word in (str(_CHILDREN), path) if word)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, None, None]:
    pauser = item.stash[_PAUSER] = Pauser(
        random.Random(f"{item.config.getoption('--pauses-seed')} {item.nodeid}"),
        count=item.config.getoption("--pauses"),
        lines_max=_LINES_MAX,
        longest_s=item.config.getoption("--pauses-longest"),
    )
    pauser.start()
    try:
        yield
    finally:
        pauser.stop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Result[pytest.TestReport], None]:
    outcome = yield
    report = outcome.get_result()
    if report.failed and item.stash[_PAUSER].told:
        report.sections.append(("pauses", "\n".join(item.stash[_PAUSER].told)))
