"""Findings from sightings: ids that stay, rates by night and release, the order in which a person reads them."""

from typing import Any

from fencepost.harness.findings.finding import findings_of, id_of
from fencepost.harness.findings.rate import Rate
from fencepost.harness.findings.state import FindingState

STALE = "zookeeper:fresh-after-sync:stale-read:read+change"
LOST = "etcd:linearizable:lost-update:change"


def _row(fingerprint: str, night: str, seen: int, runs: int, version: str = "1.0", variant: str = "") -> dict[str, Any]:
    system, guarantee, anomaly, _ = fingerprint.split(":")
    place = {"night": night, "day": night, "system": system, "version": version, "variant": variant}
    what = {"fingerprint": fingerprint, "guarantee": guarantee, "anomaly": anomaly, "decides": True}
    return {**what, **place, "seen": seen, "runs": runs}


def test_an_id_is_made_of_the_fingerprint_alone() -> None:
    (first,) = findings_of([_row(STALE, "a", 1, 2)], ["a"])
    (again,) = findings_of([_row(STALE, "b", 3, 9, "2.0")], ["b"])
    assert first.id == again.id == id_of(STALE)
    assert id_of(STALE) != id_of(LOST)


def test_rates_are_counted_by_night_and_by_release() -> None:
    rows = [_row(STALE, "b", 1, 4), _row(STALE, "a", 2, 3), _row(STALE, "a", 0, 5, "2.0")]
    (finding,) = findings_of(rows, ["a", "b"])
    assert [(night.night, night.rate) for night in finding.nights] == [("a", Rate(2, 8)), ("b", Rate(1, 4))]
    assert finding.by_version == {"1.0": Rate(3, 7), "2.0": Rate(0, 5)}
    assert finding.rate == Rate(3, 12)
    assert (finding.first_seen, finding.last_seen) == ("a", "b")
    assert finding.title == "zookeeper 1.0: stale-read breaks fresh-after-sync"


def test_a_finding_that_comes_back_is_told_apart_from_a_new_one() -> None:
    rows = [_row(STALE, "a", 5, 10), _row(STALE, "b", 0, 40), _row(STALE, "c", 1, 10), _row(LOST, "c", 1, 10)]
    states = {finding.anomaly: finding.standing.state for finding in findings_of(rows, ["a", "b", "c"])}
    assert states == {"stale-read": FindingState.BACK, "lost-update": FindingState.NEW}


def test_clean_runs_of_another_release_make_no_finding_gone() -> None:
    rows = [_row(STALE, "a", 5, 10), _row(STALE, "b", 5, 10), _row(STALE, "b", 0, 400, "2.0")]
    rows += [_row(STALE, "a", 5, 10, "0.9"), _row(STALE, "b", 0, 40, "0.9")]
    (finding,) = findings_of(rows, ["a", "b"])
    assert {name: own.state for name, own in finding.standings.items()} == {
        "1.0": FindingState.ONGOING,
        "0.9": FindingState.GONE,
    }
    assert (finding.release, finding.standing.rate, finding.standing.clean_runs) == ("1.0", Rate(10, 20), 0)
    (again,) = findings_of([*rows, _row(STALE, "c", 1, 9, "2.0"), _row(STALE, "c", 0, 5)], ["a", "b", "c"])
    assert (again.release, again.standing.state) == ("2.0", FindingState.NEW)


def test_those_seen_last_come_first() -> None:
    rows = [_row(STALE, "a", 5, 10), _row(STALE, "b", 0, 3), _row(LOST, "b", 1, 10)]
    assert [finding.anomaly for finding in findings_of(rows, ["a", "b"])] == ["lost-update", "stale-read"]


def test_what_no_night_of_the_list_showed_is_left_out() -> None:
    assert findings_of([_row(STALE, "a", 5, 10), _row(LOST, "b", 0, 3)], ["b"]) == []


def test_runs_under_other_options_have_a_standing_of_their_own() -> None:
    rows = [_row(STALE, "a", 5, 10, variant="defect=x"), _row(STALE, "b", 0, 500)]
    (finding,) = findings_of(rows, ["a", "b"])
    assert set(finding.standings) == {"1.0 (defect=x)"}
    assert finding.standing.state == "new", "clean runs without the option do not make it gone"
    assert finding.by_version == {"1.0": Rate(0, 500), "1.0 (defect=x)": Rate(5, 10)}
