"""Whatever a test here lets a checker judge, the figures of the verdict must follow from the rows that they name."""

import functools
import importlib
from collections.abc import Iterator

import msgspec
import pytest

from fencepost.harness.history import History
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.registry import Checker
from fencepost.harness.verdict import Facts, Verdict
from tests.report.proof import figures_of, wrong


# Not for the session: what else is tried there would depend on whether a test of this folder came before it.
@pytest.fixture(autouse=True, scope="package")
def _every_figure_is_done_again() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for checker, path in registry.CHECKERS.items():
            module, _, name = path.partition(":")
            found = importlib.import_module(module)
            patch.setattr(found, name, _proven(checker, getattr(found, name)))
        yield


def _proven(name: str, check: Checker) -> Checker:
    @functools.wraps(check)
    def judged(history: History, facts: Facts) -> list[Verdict]:
        verdicts = check(history, facts)
        bearing = [msgspec.structs.replace(verdict, checker=name) for verdict in verdicts]
        said = [why for verdict in bearing for figure in figures_of(verdict) if (why := wrong(figure, history))]
        assert said == [], (
            "a figure names no rows, or others than it was counted or measured from (checkers.derived.evidence)"
        )
        return verdicts

    return judged
