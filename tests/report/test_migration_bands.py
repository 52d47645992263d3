"""The phases of a migration on the time axis of the page."""

from fencepost.harness.history import History, MigrationEvent
from fencepost.harness.report.pictures.overview import migration_bands
from fencepost.harness.report.pictures.svg import Axis
from fencepost.harness.report.words import wording

S = 10**9


def test_each_phase_lasts_until_the_next_one_and_says_what_proved_it() -> None:
    phases = [("hybrid", 10, "c1 accepts <changes>"), ("dual-write", 40, "b1 is a broker")]
    events = [
        MigrationEvent(index=index, time_ns=at_s * S, phase=phase, length_ns=S, text=text)
        for index, (phase, at_s, text) in enumerate(phases)
    ]
    history = History(events)
    drawn = "".join(migration_bands(history, Axis(0, 60 * S), 20))
    assert drawn.count('class="migration m') == 2
    assert "hybrid from 10.000 s to 40.000 s: c1 accepts &lt;changes&gt;" in drawn
    assert wording.event(events[1]) == "the migration is in its phase dual-write: b1 is a broker"
    assert migration_bands(History([]), Axis(0, S), 20) == []
