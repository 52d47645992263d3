"""Seeds for tests that are the same for each: a few in every test run, the rest among the long ones."""

from typing import Any

import pytest


def seeds(count: int, *, quick: int) -> list[Any]:
    """0 to `count` - 1, of which the first `quick` are quick."""
    return [pytest.param(seed, marks=() if seed < quick else pytest.mark.long) for seed in range(count)]
