"""A finding: one fingerprint over all runs, with an id that stays, its rates, and what became of it.

The id is made of the fingerprint alone, so it is the same in every night, on every machine and in every warehouse.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.findings.rate import Rate
from fencepost.harness.findings.state import FindingNight, FindingStanding, FindingState, standing
from fencepost.harness.verdict.fingerprint import violation_of

_ID_LETTERS: Final = 8
#: Of several releases the finding has the first of these states.
_GRAVITY: Final = (
    FindingState.BACK,
    FindingState.NEW,
    FindingState.ONGOING,
    FindingState.RARE,
    FindingState.PROBABLY_GONE,
    FindingState.GONE,
)
Row = Mapping[str, Any]


class RecurringFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One fingerprint over all runs.

    `nights` are those with a run that could have shown it, oldest first. `by_version` counts over all nights. Each
    release that showed it has a standing of its own in `standings`, since clean runs of another release say nothing of
    it. A release is told with its variant: an own build, options and settings.
    """

    id: str
    fingerprint: str
    system: str
    guarantee: str
    anomaly: str
    decides: bool
    standings: Mapping[str, FindingStanding]
    nights: tuple[FindingNight, ...]
    by_version: Mapping[str, Rate]

    @property
    def title(self) -> str:
        """One line: "zookeeper 3.9.5: stale-read breaks fresh-after-sync (faults: stops)"."""
        seen = [version for version, rate in self.by_version.items() if rate.seen]
        effects = self.fingerprint.removeprefix(violation_of(self.fingerprint)).removeprefix(":")
        under = f" (faults: {effects})" if effects else ""
        return f"{self.system} {', '.join(seen)}: {self.anomaly} breaks {self.guarantee}{under}"

    @property
    def release(self) -> str:
        """The release in which it stands worst; of several the last one by name."""
        return max(self.standings, key=lambda name: (-_GRAVITY.index(self.standings[name].state), name))

    @property
    def standing(self) -> FindingStanding:
        """Where it stands in the release in which it stands worst."""
        return self.standings[self.release]

    @property
    def first_seen(self) -> str:
        return next(night.night for night in self.nights if night.rate.seen)

    @property
    def last_seen(self) -> str:
        return next(night.night for night in reversed(self.nights) if night.rate.seen)

    def is_seen_in(self, nights: Collection[str]) -> bool:
        """Whether one of these nights showed it."""
        return any(night.rate.seen for night in self.nights if night.night in nights)

    @property
    def rate(self) -> Rate:
        """Over all nights and releases."""
        return sum((night.rate for night in self.nights), Rate(0, 0))


def id_of(fingerprint: str) -> str:
    """The id of a finding, such as `F-1f0c22ab`."""
    return f"F-{hashlib.sha256(fingerprint.encode()).hexdigest()[:_ID_LETTERS]}"


def release_of(row: Row) -> str:
    """The release of a row, with what makes it no plain one: "3.5.24", "3.5.24 (own build)"."""
    return f"{row['version']} ({row['variant']})" if row["variant"] else str(row["version"])


def findings_of(sightings: Iterable[Row], nights: Sequence[str]) -> list[RecurringFinding]:
    """Every finding, those seen last first.

    Args:
        sightings: rows of `warehouse.findings.sightings`.
        nights: every night, oldest first; sightings of others are left out.
    """
    order = {night: number for number, night in enumerate(nights)}
    by_fingerprint: dict[str, list[Row]] = {}
    for row in sightings:
        if row["night"] in order:
            by_fingerprint.setdefault(row["fingerprint"], []).append(row)
    findings = [_finding(rows, order) for rows in by_fingerprint.values() if any(row["seen"] for row in rows)]
    return sorted(findings, key=lambda finding: (-order[finding.last_seen], finding.id))


def standings_of(sightings: Iterable[Row], order: Mapping[str, int]) -> dict[str, FindingStanding]:
    """Where one finding stands in each release that showed it, by release; `order` has the nights by number."""
    by_version: dict[str, dict[str, Rate]] = {}
    for row in sightings:
        own = by_version.setdefault(release_of(row), {})
        own[row["night"]] = own.get(row["night"], Rate(0, 0)) + Rate(row["seen"], row["runs"])
    return {
        version: standing([FindingNight(night=name, rate=rates[name]) for name in sorted(rates, key=order.__getitem__)])
        for version, rates in sorted(by_version.items())
        if any(rate.seen for rate in rates.values())
    }


def _finding(rows: Sequence[Row], order: Mapping[str, int]) -> RecurringFinding:
    first = rows[0]
    by_night: dict[str, Rate] = {}
    by_version: dict[str, Rate] = {}
    for row in rows:
        rate = Rate(row["seen"], row["runs"])
        by_night[row["night"]] = by_night.get(row["night"], Rate(0, 0)) + rate
        by_version[release_of(row)] = by_version.get(release_of(row), Rate(0, 0)) + rate
    nights = tuple(FindingNight(night=name, rate=by_night[name]) for name in sorted(by_night, key=order.__getitem__))
    return RecurringFinding(
        id=id_of(first["fingerprint"]),
        fingerprint=first["fingerprint"],
        system=first["system"],
        guarantee=first["guarantee"],
        anomaly=first["anomaly"],
        decides=any(row["decides"] for row in rows),
        standings=standings_of(rows, order),
        nights=nights,
        by_version=dict(sorted(by_version.items())),
    )
