"""The metadata store's workload: what a run ends with."""

from fencepost.checkers.derived.positions import in_final
from tests.fakes.meta_store import run_fake_metastore


def test_a_run_ends_with_sessions_that_are_left_to_end() -> None:
    history = run_fake_metastore(None, 0)
    assert {o.f for o in history.operations if in_final(history, o)} == {"pipeline", "expire"}
