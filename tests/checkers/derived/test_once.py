"""What was derived from a history is derived once for each history and for each choice of other arguments."""

import gc
import weakref

from fencepost.checkers.derived.evidence import once
from fencepost.checkers.derived.reigns import reigns_of
from fencepost.harness.history import History
from tests.warehouse.histories import random_history


def test_it_is_derived_once_for_each_history_and_argument() -> None:
    calls: list[tuple[str, object]] = []

    @once
    def derive(history: History, subject: str, about: object) -> list[str]:
        calls.append((subject, about))
        return [subject]

    one, other, facts, more = History([]), History([]), object(), object()
    first = derive(one, "leader", facts)
    assert derive(one, "".join(["lea", "der"]), facts) is first
    assert derive(one, "leader", more) is not first
    assert derive(one, "controller", facts) == ["controller"]
    assert derive(other, "leader", facts) is not first
    assert len(calls) == 4


def test_reigns_are_shared() -> None:
    history = History(random_history(1))
    assert reigns_of(history, "leader") is reigns_of(history, "leader")


def test_it_goes_with_its_history() -> None:
    history = History(random_history(1))
    kept = weakref.ref(reigns_of(history, "leader"))
    del history
    gc.collect()
    assert kept() is None
