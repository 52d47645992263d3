"""Ten thousand whole nights in memory: run, classed, registered, merged and judged, each with at most one thing wrong.

What is wrong is the only reason why a night is red, and a night with nothing wrong is green.
"""

import datetime
import random
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fencepost.campaigns.night.cells import NightCell, shard_of
from fencepost.campaigns.night.merge import merged_night
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.outcome import NightCause, outcome
from fencepost.campaigns.night.register import EndedRun, Record, night_of
from fencepost.harness.findings.known_issues import TrackedIssue
from tests.campaigns.night.made import FINGERPRINT, OTHER, Clock, PretendedLauncher, cell, document, opened, session

TODAY = datetime.date(2026, 11, 23)
NIGHTS = 10_000


class Wrong(StrEnum):
    NOTHING = "nothing"
    NO_OP_NEMESIS = "no-op nemesis"
    NO_EFFECT = "valid runs in which no fault took hold"
    LOST_SHARD = "lost shard"
    EXPIRED_ISSUE = "expired issue"
    PASSING_CANARY = "passing canary"
    BLIND_CANARY = "canary that shows something else"
    SECOND_FINGERPRINT = "second fingerprint"
    OTHER_VERSION = "known issue of another version"
    CRASH = "crash"
    KILLED = "killed, and never resumed"
    TOO_LITTLE_TIME = "too little time for a required cell"


#: What a night is red for, by what is wrong with it.
REASONS = {
    Wrong.NOTHING: set(),
    Wrong.NO_OP_NEMESIS: {NightCause.CELL, NightCause.NOTHING_TESTED},
    Wrong.NO_EFFECT: {NightCause.CELL, NightCause.NOTHING_TESTED},
    Wrong.LOST_SHARD: {NightCause.SHARD_MISSING},
    Wrong.EXPIRED_ISSUE: {NightCause.EXPIRED},
    Wrong.PASSING_CANARY: {NightCause.CANARY_PASSED, NightCause.CANARY_MISSING},
    Wrong.BLIND_CANARY: {NightCause.CANARY_PASSED, NightCause.CANARY_MISSING},
    Wrong.SECOND_FINGERPRINT: {NightCause.VIOLATION},
    Wrong.OTHER_VERSION: {NightCause.VIOLATION},
    Wrong.CRASH: {NightCause.CELL},
    Wrong.KILLED: {NightCause.CELL},
    Wrong.TOO_LITTLE_TIME: {NightCause.NOT_RUN},
}


class Scene(NamedTuple):
    """A night to be played: cells, what is wrong, the cell that it is wrong with, and the known issue in force."""

    cells: list[NightCell]
    wrong: Wrong
    victim: str
    showing: str
    issue: TrackedIssue
    shards: int
    jobs: int


def drawn(rng: random.Random) -> Scene:
    wrong = rng.choice(list(Wrong))
    cells = [cell("canary", canary=True)]
    cells += [cell(f"c{n}", required=rng.random() < 0.4, runs=rng.choice([1, 1, 2])) for n in range(rng.randint(2, 4))]
    victim, showing = rng.sample([c.id for c in cells[1:]], 2)
    if wrong is Wrong.TOO_LITTLE_TIME:
        long = msgspec.structs.replace(cells[0].plan, time_limit="3h")
        cells = [msgspec.structs.replace(c, required=True, plan=long) if c.id == victim else c for c in cells]
    versions = ("0.1.0",) if rng.random() < 0.5 else ()
    issue = TrackedIssue(
        fingerprint=FINGERPRINT,
        link="https://issues.example/1",
        owner="somebody",
        expires=TODAY - datetime.timedelta(days=1) if wrong is Wrong.EXPIRED_ISSUE else TODAY,
        versions=("9.9",) if wrong is Wrong.OTHER_VERSION else versions,
    )
    shards = 2 if wrong is Wrong.LOST_SHARD else rng.choice([1, 2])
    return Scene(cells, wrong, victim, showing, issue, shards, rng.choice([1, 2, 3]))


def verdict_of(scene: Scene, cell: NightCell) -> tuple[float, int, dict[str, Any] | None]:
    wrong = scene.wrong
    if cell.canary:
        if wrong is Wrong.PASSING_CANARY:
            return 10, 0, document()
        shown = OTHER if wrong is Wrong.BLIND_CANARY else FINGERPRINT
        return 10, 1, document("invalid", fingerprints=[shown])
    if wrong is Wrong.NO_OP_NEMESIS:
        return 10, 2, document("unknown", cause="no-exposure")
    if wrong is Wrong.NO_EFFECT:
        return 10, 0, document(faults=0)
    if cell.id == scene.victim:
        if wrong is Wrong.SECOND_FINGERPRINT:
            return 10, 1, document("invalid", fingerprints=[FINGERPRINT, OTHER])
        if wrong is Wrong.CRASH:
            return 10, 255, None
        if wrong is Wrong.TOO_LITTLE_TIME:
            return 10, 0, document()
    if cell.id == scene.showing and wrong is not Wrong.EXPIRED_ISSUE:
        return 10, 1, document("invalid", fingerprints=[FINGERPRINT])
    return 10, 0, document()


def play(scene: Scene, shard: int) -> Night:
    own = shard_of(scene.cells, shard, scene.shards)
    records: list[Record] = [
        opened(own, shard=shard, shards=scene.shards, jobs=scene.jobs, budget_s=9e3, known_issues=(scene.issue,))
    ]

    session(records, PretendedLauncher(Clock(), lambda cell, attempt: verdict_of(scene, cell), step_s=5))
    # The line that a kill cost.
    lost = scene.victim if scene.wrong is Wrong.KILLED else None
    return night_of(r for r in records if not (isinstance(r, EndedRun) and r.attempt.cell == lost))


def test_a_night_is_red_for_what_is_wrong_with_it_and_for_nothing_else() -> None:
    rng = random.Random(23)
    seen: dict[Wrong, int] = dict.fromkeys(Wrong, 0)
    for number in range(NIGHTS):
        scene = drawn(rng)
        shards = [(Path(f"/shard-{n}"), play(scene, n)) for n in range(1, scene.shards + 1)]
        if scene.wrong is Wrong.LOST_SHARD:
            del shards[rng.randrange(2)]
        made = merged_night(shards, Path("/")) if scene.shards > 1 else shards[0][1]
        result = outcome(made)
        causes = {reason.cause for reason in result.reasons}
        if scene.wrong is Wrong.LOST_SHARD:
            # The other shard alone may have had no cell of its own.
            causes -= {NightCause.NOTHING_TESTED}
        assert causes == REASONS[scene.wrong], (number, scene, result)
        assert result.is_green is (scene.wrong is Wrong.NOTHING)
        is_tested = any(
            a.took_hold and a.run_class and a.run_class.is_judged
            for o in made.cells
            for a in o.attempts
            if not o.cell.canary
        )
        assert ("nothing was tested" in result.sentence) is not is_tested, (number, scene, result)
        seen[scene.wrong] += 1
    assert min(seen.values()) > NIGHTS // 20, seen
    assert [wrong for wrong, reasons in REASONS.items() if not reasons] == [Wrong.NOTHING]
