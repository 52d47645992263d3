"""Values of pages made by hand: a green night, a red one, and what stands in them."""

import datetime
from pathlib import Path
from typing import Any

from fencepost.harness.findings.known_issues import TrackedIssue
from fencepost.warehouse.pages.collect import cell_rows, listed, matrices, night_summaries, system_trends
from fencepost.warehouse.pages.known import status_of
from fencepost.warehouse.pages.values import Overview

TODAY = datetime.date(2026, 11, 20)
STALE = "etcd:linearizable:stale-read:read"
NIGHTS = [f"nightly-{number:02}" for number in range(1, 21)]
OUT = Path("/nowhere/pages")


def issue(**changes: Any) -> TrackedIssue:
    values = {"fingerprint": STALE, "link": "https://issues.example/1", "owner": "the team", **changes}
    return TrackedIssue(**{"expires": datetime.date(2027, 1, 1), **values})


def sighting(
    night: str, seen: int, runs: int = 1, version: str = "3.5.1", fingerprint: str = STALE, variant: str = ""
) -> dict[str, Any]:
    system, guarantee, anomaly, _ = fingerprint.split(":")
    what = {"fingerprint": fingerprint, "guarantee": guarantee, "anomaly": anomaly, "decides": True}
    return {
        **what,
        "night": night,
        "day": night,
        "system": system,
        "version": version,
        "variant": variant,
        "runs": runs,
        "seen": seen,
    }


def register(night: str, exit_code: int = 0, **changes: Any) -> dict[str, Any]:
    reasons = [] if exit_code == 0 else ["etcd register kill is required and was not run: its turn has not come"]
    row = {"night": night, "shard": 1, "shards": 1, "exit_code": exit_code, "state": "finished", "folder": "/nowhere"}
    row |= {"policy": None, "candidate": None, "baseline": None}
    return {**row, "sentence": "12 of 12 cells tested", "reasons": reasons, **changes}


def cell(name: str, run_class: str, **changes: Any) -> dict[str, Any]:
    row = {"name": name, "run_class": run_class, "reason": "", "required": False, "canary": False, "caught": None}
    return {**row, **changes}


def night_row(number: int, night: str) -> dict[str, Any]:
    at = f"2026-11-{number + 1:02}T22:00:00Z"
    counts = {"runs": 12, "valid": 11, "invalid": 1, "unknown": 0, "expected": 0, "missed": 0}
    return {"night": night, "day": at[:10], "started_at": at, "folder": "/nowhere", **counts}


def made(
    *,
    sightings: list[dict[str, Any]] | None = None,
    registers: list[dict[str, Any]] | None = None,
    cells: list[dict[str, Any]] | None = None,
    issues: tuple[TrackedIssue, ...] = (),
    nights: list[str] | None = None,
    requirements: list[dict[str, Any]] | None = None,
) -> Overview:
    """An overview of these rows, as a warehouse would give them."""
    nights = NIGHTS if nights is None else nights
    sightings = sightings or []
    summaries = night_summaries(
        [night_row(*pair) for pair in enumerate(nights)], registers or [], OUT, requirements or []
    )
    place = {
        "system": "etcd",
        "version": "3.5.1",
        "variant": "",
        "workload": "register",
        "nemesis": "kill",
        "folder": None,
    }
    squares = [
        {**place, "night": night, "canary": False, "run_class": "valid", "runs": 1, "exposure": 40} for night in nights
    ]
    squares += [
        {**place, "version": "3.6.0", "workload": "lease", "night": night, "canary": False}
        | {"run_class": "not-run"}
        | {"runs": 0, "exposure": 0}
        for night in nights[-1:]
    ]
    figures = {"recovery_s": None, "new_leader_s": 1.5, "dual_s": 0.0, "unavailable_s": 2.0, "exposure": 400.0}
    sets = {"versions": ["3.5.1"], "machines": ["6.1 x86_64 2"], "cores": ["0.1"]}
    trends = [
        {
            "night": night,
            "system": "etcd",
            "variant": "",
            "runs": 3,
            "throughput": 100.0 + number % 3 + 40 * (number >= 10),
        }
        | {"check_s": 0.4, "false_alarms": int(number == 4), "controls": 2}
        | {**figures, "beyond_s": 5.0, **sets, "commits": ["old" if number < 10 else "new"]}
        for number, night in enumerate(nights)
    ]
    examples = {
        row["fingerprint"]: dict.fromkeys(("oldest", "newest", "clearest", "fastest"), "/nowhere/run")
        for row in sightings
    }
    return Overview(
        nights=tuple(summaries),
        cells=cell_rows(cells or []),
        findings=listed(
            sightings,
            {n: {**row, "fingerprint": n, "faults": ["kill"], "searches": None} for n, row in examples.items()},
            nights,
            issues,
            shown=14,
            today=TODAY,
            out=OUT,
        ),
        issues=tuple(status_of(each, sightings, nights, TODAY) for each in issues),
        matrix=matrices(squares, nights, OUT),
        trends=system_trends(trends, nights),
    )


def gate(night: str, exit_code: int, **changes: Any) -> dict[str, Any]:
    """The register of a gate, with its answer."""
    row = {"policy": "release", "candidate": "3.6.0", "baseline": "3.5.1", "sentence": "1 of 2 requirements failed"}
    return {**register(night, exit_code), **row, **changes}


def requirement(night: str, number: int, status: str, **changes: Any) -> dict[str, Any]:
    row = {"night": night, "number": number, "kind": "cell", "name": f"cell {number}", "need": "2 clean runs"}
    return {**row, "status": status, "reason": "run 1 is lost", "runs": 1, "reports": ["runs/a/report.html"], **changes}


CANARY = cell("the canary", "invalid", canary=True, caught=True)


def green() -> Overview:
    return made(registers=[register(night) for night in NIGHTS], cells=[CANARY, cell("etcd register kill", "valid")])


def red() -> Overview:
    """New, ongoing and gone findings, a hole, a canary that passed, an expired issue."""
    ongoing = [sighting(night, 1, 2) for night in NIGHTS]
    gone = [sighting(night, int(number < 8), 20, "3.6.0", "etcd:l:gone:x") for number, night in enumerate(NIGHTS)]
    new = [sighting(NIGHTS[-1], 1, 4, "3.6.0", "etcd:lease:revoked:grant")]
    return made(
        sightings=[*ongoing, *gone, *new],
        registers=[
            *(register(night, 2) for night in NIGHTS if night not in NIGHTS[2:4]),
            gate(NIGHTS[2], 0),
            gate(NIGHTS[3], 1),
        ],
        cells=[
            cell("the canary", "valid", canary=True, caught=False),
            cell("etcd lock kill", "lost", reason="it was ended before it was judged"),
            cell("etcd register kill", "not-run", required=True, reason="its turn has not come"),
        ],
        issues=(issue(expires=datetime.date(2026, 11, 1)), issue(fingerprint="etcd:l:other:x")),
        requirements=[requirement(NIGHTS[3], 0, "met"), requirement(NIGHTS[3], 1, "failed")],
    )
