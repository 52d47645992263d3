"""One open cluster per runtime, shared by the scenarios that leave it as they found it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.harness.plugins import registry
from tests.runtime.conformance.kinds import KINDS, Kind
from tests.runtime.conformance.left import left, run_id
from tests.runtime.conformance.stage import Stage


def _marks(kind: Kind) -> list[pytest.MarkDecorator]:
    # Published ports differ from the plain side-car in how the harness dials only.
    where = pytest.mark.containers if kind.needs_engine else pytest.mark.cluster
    return [where, pytest.mark.long] if kind.published else [where]


#: Every kind with its markers.
MARKED = [pytest.param(name, marks=_marks(kind)) for name, kind in KINDS.items()]


@pytest.fixture(scope="module", params=MARKED)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Tests of one kind follow each other, so that one cluster is up at a time; all of it is gone at the end."""
    kind = request.param
    with tempfile.TemporaryDirectory(prefix="fencepost-stage-") as folder, Stage.open(kind, Path(folder)) as it:
        run = run_id(it)
        yield it
        it.play("tests.runtime.conformance.links:be_in_the_middle")
        it.close()
        assert left(it.folder, run) == [], "closed in the middle of faults, it leaves nothing"
        assert registry.runtime(KINDS[kind].placement.runtime).sweep(it.folder) == []
        assert (it.folder / "nodes/n1/server.log").stat().st_size > 1000, "logs stay"
