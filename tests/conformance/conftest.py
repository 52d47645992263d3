"""One open cluster per runtime, shared by the scenarios that leave it as they found it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.kinds import KINDS
from tests.conformance.stage import Stage

#: Every kind with its marker; for `parametrize` too.
MARKED = [
    pytest.param(name, marks=pytest.mark.containers if kind.needs_engine else pytest.mark.cluster)
    for name, kind in KINDS.items()
]


@pytest.fixture(scope="module", params=MARKED)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Tests of one kind follow each other, so that one cluster is up at a time."""
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-stage-") as folder,
        Stage.open(request.param, Path(folder)) as it,
    ):
        yield it
