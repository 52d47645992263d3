"""Whose doing the exit of a server was, where the engine reports it while a signal of ours is under way."""

from fencepost.harness.runtime.containers.exits import ExitWatch
from fencepost.harness.runtime.node import Exit


def _watch() -> tuple[ExitWatch, list[Exit]]:
    exits: list[Exit] = []
    watch = ExitWatch("n1", exits.append)
    watch.begin(0)
    return watch, exits


def test_an_exit_without_a_signal_of_ours_is_reported_at_once() -> None:
    watch, exits = _watch()
    watch.ended(2)
    assert watch.gone.is_set()
    assert exits == [Exit("n1", 0, 2, expected=False)]


def test_an_exit_during_a_signal_waits_for_the_engines_answer() -> None:
    watch, exits = _watch()
    with watch.signalling():
        watch.ended(137)
        assert not exits
        watch.is_ours = True
    assert exits == [Exit("n1", 0, -9, expected=True)]


def test_a_server_that_had_ended_before_the_signal_was_not_ended_by_us() -> None:
    watch, exits = _watch()
    with watch.signalling():
        watch.is_ours = False
        watch.ended(1)
    assert exits == [Exit("n1", 0, 1, expected=False)]


def test_a_signal_whose_answer_never_came_counts_as_ours() -> None:
    watch, exits = _watch()
    try:
        with watch.signalling():
            raise TimeoutError
    except TimeoutError:
        watch.ended(143)
    assert exits == [Exit("n1", 0, 143, expected=True)]


def test_a_new_process_begins_without_the_signals_of_the_last() -> None:
    watch, exits = _watch()
    with watch.signalling():
        watch.ended(137)
    watch.begin(1)
    assert not watch.gone.is_set()
    watch.ended(0)
    assert exits[-1] == Exit("n1", 1, 0, expected=False)
