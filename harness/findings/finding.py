"""A finding: one fingerprint over all runs, with an id that stays, its rates, and what became of it.

The id is made of the fingerprint alone, so it is the same in every night, on every machine and in every warehouse.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.findings.rate import Rate
from fencepost.harness.findings.state import Night, Standing, standing

_ID_LETTERS: Final = 8
Row = Mapping[str, Any]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fingerprint over all runs.

    `nights` are those with a run that could have shown it, oldest first. `by_version` counts over all nights.
    """

    id: str
    fingerprint: str
    system: str
    guarantee: str
    anomaly: str
    decides: bool
    standing: Standing
    nights: tuple[Night, ...]
    by_version: Mapping[str, Rate]

    @property
    def title(self) -> str:
        """One line: "zookeeper 3.9.5: stale-read breaks fresh-after-sync"."""
        seen = [version for version, rate in self.by_version.items() if rate.seen]
        return f"{self.system} {', '.join(seen)}: {self.anomaly} breaks {self.guarantee}"

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


def findings_of(sightings: Iterable[Row], nights: Sequence[str]) -> list[Finding]:
    """Every finding, those seen last first.

    Args:
        sightings: rows of `harness.warehouse.findings.sightings`.
        nights: every night, oldest first; sightings of others are left out.
    """
    order = {night: number for number, night in enumerate(nights)}
    by_fingerprint: dict[str, list[Row]] = {}
    for row in sightings:
        if row["night"] in order:
            by_fingerprint.setdefault(row["fingerprint"], []).append(row)
    findings = [_finding(rows, order) for rows in by_fingerprint.values() if any(row["seen"] for row in rows)]
    return sorted(findings, key=lambda finding: (-order[finding.last_seen], finding.id))


def _finding(rows: Sequence[Row], order: Mapping[str, int]) -> Finding:
    first = rows[0]
    by_night: dict[str, Rate] = {}
    by_version: dict[str, Rate] = {}
    for row in rows:
        rate = Rate(row["seen"], row["runs"])
        by_night[row["night"]] = by_night.get(row["night"], Rate(0, 0)) + rate
        by_version[row["version"]] = by_version.get(row["version"], Rate(0, 0)) + rate
    nights = tuple(Night(night=name, rate=by_night[name]) for name in sorted(by_night, key=order.__getitem__))
    return Finding(
        id=id_of(first["fingerprint"]),
        fingerprint=first["fingerprint"],
        system=first["system"],
        guarantee=first["guarantee"],
        anomaly=first["anomaly"],
        decides=any(row["decides"] for row in rows),
        standing=standing(nights),
        nights=nights,
        by_version=dict(sorted(by_version.items())),
    )
