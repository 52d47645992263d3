"""How often what is the same for each seed or example is tried: a little in every test run, the rest among the long."""

from typing import Any, Final

import hypothesis
import pytest

#: For properties whose every example is a whole history, or many: a third of what CI draws otherwise.
WHOLE_HISTORIES: Final = hypothesis.settings(max_examples=min(100, hypothesis.settings().max_examples))


def seeds(count: int, *, quick: int) -> list[Any]:
    """0 to `count` - 1, of which the first `quick` are quick."""
    return [pytest.param(seed, marks=() if seed < quick else pytest.mark.long) for seed in range(count)]


def shares(count: int, *, quick: int, rest: pytest.MarkDecorator) -> list[Any]:
    """The seeds from 0 to `count` - 1 in two tests: the first `quick`, and the others with the mark `rest`.

    The mark is given, since the Makefile looks for its name in the files of the tests.
    """
    return [pytest.param(range(quick), id="few"), pytest.param(range(quick, count), marks=rest, id="others")]
