"""The voters' logs, read from their disks after the run, against the history and against each other.

Every change has a value of its own, so an entry names the operation that made it. Two verdicts:

"metadata-log-agrees"
  logs-differ            two logs hold different entries of one epoch at one offset (a leader writes an offset once), or
                         differ below an entry that they share (entries that agree stand on logs that agree)
  committed-overwritten  an acknowledged change stands in one log, and another holds an entry of a later epoch in its
                         place; an entry of an *earlier* epoch there is the uncommitted tail of a superseded leader
  epoch-went-back        within one log an entry has a lower epoch than the one before it
  order-contradicts-time a change was acknowledged before another was asked for, and stands behind it

"metadata-durable"
  lost-acknowledged-change     so few voters' logs hold an acknowledged change that no majority can
  refused-change-took-effect   a refused change stands in the log below an acknowledged one

A change of unknown outcome is settled: it stands in the log or it does not (a figure). What a log no longer holds,
because a snapshot took its place, is looked for in the snapshot and else left undecided.

Source: Ongaro & Ousterhout (2014), figure 3 (Log Matching, Leader Completeness); KIP-595.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations, pairwise
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import numbers_of, rows
from fencepost.checkers.derived.positions import completed_ns
from fencepost.checkers.rules import Fate, NothingOlder, Rule, Statement, Survives, verdict
from fencepost.checkers.violations.finding import Doubt, Finding
from fencepost.harness.base.quorum import majority
from fencepost.harness.history import NEW_DISK, History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict, in_words
from fencepost.harness.verdict.figures import Traced
from fencepost.systems.kafka.checkers.metadata.changes import UNTOUCHED, controller_risk
from fencepost.systems.kafka.checkers.metadata.durable import GUARANTEE as DURABLE
from fencepost.systems.kafka.checkers.metadata.placed_changes import NodeEntries, Placed, shown
from fencepost.systems.kafka.facts.controllers import electorates

AGREES: Final = "metadata-log-agrees"
DIFFER: Final = Rule(guarantee=AGREES, anomaly="logs-differ", tested="entries that several logs hold at one offset")
OVERWRITTEN: Final = Rule(
    guarantee=AGREES, anomaly="committed-overwritten", tested="acknowledged changes at whose offset another log has one"
)
EPOCH_BACK: Final = Rule(guarantee=AGREES, anomaly="epoch-went-back", tested="entries behind another one of their log")
OUT_OF_ORDER: Final = NothingOlder(
    guarantee=AGREES,
    anomaly="order-contradicts-time",
    tested="changes in a log that were asked for after another one was acknowledged",
    steps=lambda before, change: (
        f"{_request(before.by)} was acknowledged; it stands at offset {before.low} in the log of {before.of}.",
        f"{_request(change.by)} was asked for only then, but stands at offset {change.high}.",
    ),
)
LOST: Final = Survives(
    guarantee=DURABLE,
    anomaly="lost-acknowledged-change",
    tested="acknowledged changes that something disturbed, and that stand on disk",
    lacks=UNTOUCHED,
)
REFUSED: Final = Rule(guarantee=DURABLE, anomaly="refused-change-took-effect", tested="refused changes of a setting")


def check(history: History, facts: Facts) -> list[Verdict]:
    """Compare the voters' logs with the history and with each other.

    Returns:
        A verdict on "metadata-log-agrees", and one on "metadata-durable" if an acknowledged change stands in a log or
        was lost.

    Source: the log matching property (Ongaro & Ousterhout, 2014): logs with an equal entry at one offset, of one epoch,
    are equal up to it.

    Cost: O(n log n) in entries and operations, for each pair of logs.
    """
    if not history.logs:
        return [verdict(facts, DIFFER.tally((), 0), doubt=Doubt(Cause.NO_EXPOSURE, "no metadata log was kept"))]
    logs = {node: NodeEntries(log) for node, log in history.logs.items()}
    placed = Placed(history, logs, facts)
    counted = _counted(placed, logs)
    return [_agrees(history, logs, placed, counted, facts), *_durable(history, logs, placed, counted, facts)]


_Logs = Mapping[str, NodeEntries]
_Counted = Mapping[str, list[Operation]]


def _agrees(history: History, logs: _Logs, placed: Placed, counted: _Counted, facts: Facts) -> Verdict:
    pairs = [(one, other) for one, other in combinations(logs.values(), 2) if one.log.of == other.log.of]
    differ = [breach for one, other in pairs for breach in _differences(history, one, other)]
    overwritten, back = list(_overwritten(placed, logs)), list(_epochs_back(history, logs))
    placed_in = [(o, node, places[node][0]) for node in logs for o, places in placed.items if node in places]
    order = OUT_OF_ORDER.judge(
        Statement(o, node, at if _is_ok(o) else None, at, o.invoked_ns, completed_ns(o)) for o, node, at in placed_in
    )
    # The first operation stands for each of them.
    order = order._replace(findings=[msgspec.structs.replace(f, about=0) for f in order.findings])
    below = _common_entries(logs)
    # What stands on disk only is no row of the history: `nodes/<name>/metadata-log.jsonl` holds it.
    return verdict(
        facts,
        DIFFER.tally(differ, sum(len(one.at.keys() & other.at.keys()) for one, other in pairs)),
        OVERWRITTEN.tally(overwritten, _replaceable(placed, logs)),
        EPOCH_BACK.tally(back, sum(max(0, len(log.at) - 1) for log in logs.values())),
        order,
        broken=_broken([*back, *differ, *overwritten, *order.findings]),
        exposed=Traced(below),
        kept=f"{below} entries that several logs hold at one offset",
        figures={**_figures(logs, counted), "entries_compared": below},
    )


def _durable(history: History, logs: _Logs, placed: Placed, counted: _Counted, facts: Facts) -> Iterator[Verdict]:
    """Judge what the logs lack; nothing is said where they hold no acknowledged change, and lack none."""
    risk, on_disk = controller_risk(history, facts), counted["acknowledged_found"]
    losable = {change.invoke_index for change in _losable(placed, logs, history, facts)}
    lost = _lost(placed, logs, history, facts)
    few = "too few logs of voters were kept whole for no majority to hold a change"
    judged = (LOST if losable else LOST.here(lacks=few)).judge(
        Fate(change, change.invoke_index in losable and risk.runs(change), lost.get(change.invoke_index))
        for change, _ in placed.items
    )
    refused = list(_refused(placed))
    if on_disk or lost or refused:
        yield verdict(
            facts,
            judged,
            REFUSED.tally(refused, sum(o.type is Outcome.FAIL and o.f == "alter" for o, _ in placed.items)),
            broken=_broken([*judged.findings, *refused]),
            exposed=rows(change for change in on_disk if risk.runs(change)),
            untested=UNTOUCHED if on_disk else "no acknowledged changes found on disk",
            kept=f"{len(on_disk)} acknowledged changes found on disk",
        )


def _is_ok(change: Operation) -> bool:
    return change.type is Outcome.OK


def _broken(findings: list[Finding]) -> str:
    return f"by the logs on disk: {in_words(Counter(finding.anomaly for finding in findings))}"


# -- logs against each other --------------------------------------------------------------------------------------


def _epochs_back(history: History, logs: _Logs) -> Iterator[Finding]:
    for log in logs.values():
        for before, after in pairwise(log.log.entries):
            if after.epoch < before.epoch:
                steps = (
                    f"In the log of {log.node} the entry at offset {before.offset} has epoch {before.epoch}.",
                    f"The one behind it, at {after.offset}, has epoch {after.epoch}.",
                )
                yield EPOCH_BACK.on_disk(history, log.node, steps=steps)
                break


def _differences(history: History, a: NodeEntries, b: NodeEntries) -> Iterator[Finding]:
    """Find the first offset at which two copies of one log must be equal and differ."""
    shared = sorted(a.at.keys() & b.at.keys())
    agreed = max((offset for offset in shared if a.at[offset] == b.at[offset]), default=-1)
    for offset in shared:
        one, other = a.at[offset], b.at[offset]
        if one == other or (one.epoch != other.epoch and offset > agreed):
            continue
        why = f"They agree again at offset {agreed}: an entry stands only on the log that its leader had."
        if one.epoch == other.epoch:
            why = "One leader writes an offset once, and an epoch has one leader."
        steps = (f"At offset {offset} {a.node} holds {shown(one)}.", f"{b.node} holds {shown(other)}.", why)
        yield DIFFER.on_disk(history, a.node, b.node, steps=steps)
        return


def _overwritten(placed: Placed, logs: _Logs) -> Iterator[Finding]:
    for change, places in placed.items:
        # Of several entries of one change nobody knows which one was acknowledged.
        if not _is_ok(change) or len(placed.entries(places)) != 1:
            continue
        for node, other in ((node, other) for node in places for other in logs.values()):
            entry = logs[node].at[places[node][0]]
            there = other.at.get(entry.offset) if other.log.of == logs[node].log.of else None
            if there is None or there == entry or there.epoch <= entry.epoch or other.node in places:
                continue
            steps = (
                f"{_request(change)} was acknowledged.",
                f"It stands at offset {entry.offset} (epoch {entry.epoch}) in the log of {node}.",
                f"{other.node} holds {shown(there)} there: a later leader that lacked it.",
            )
            yield OVERWRITTEN.finding(change, nodes=(node, other.node), steps=steps)
            break


def _common_entries(logs: _Logs) -> int:
    counts: dict[tuple[str, int], int] = {}
    for log in logs.values():
        for offset in log.at:
            counts[log.log.of, offset] = counts.get((log.log.of, offset), 0) + 1
    return sum(count > 1 for count in counts.values())


def _replaceable(placed: Placed, logs: _Logs) -> int:
    """Count the acknowledged changes with a single entry whose offset another log also holds."""
    entries = [
        own[0]
        for change, places in placed.items
        if change.type is Outcome.OK and len(own := placed.entries(places)) == 1
    ]
    return sum(sum(entry.offset in log.at for log in logs.values()) > 1 for entry in entries)


# -- logs against the history -------------------------------------------------------------------------------------


def _lost(placed: Placed, logs: _Logs, history: History, facts: Facts) -> dict[int, Finding]:
    """Find acknowledged changes that no majority of voters can hold; a voter without a known log counts as a holder."""
    groups = electorates(history, facts)
    begun_ns = {node: fault.began_ns for fault in history.faults if NEW_DISK in fault.details for node in fault.nodes}
    lost = {}
    for change, places in placed.items:
        # A log that begins behind offset 0, or on a new disk, may have held it before.
        lack = [
            node
            for node in facts.voters
            if node in logs
            and node not in places
            and node not in placed.in_snapshot[change.invoke_index]
            and logs[node].log.start_offset == 0
            and change.invoked_ns >= begun_ns.get(node, 0)
        ]
        if _is_ok(change) and not any(_can_hold(voters, lack) for voters in groups.values()):
            steps = (
                f"{_request(change)} was acknowledged.",
                f"The logs of {', '.join(lack)} do not hold it: no majority of "
                f"{' or of '.join(str(len(voters)) for voters in groups.values())} voters can.",
            )
            lost[change.invoke_index] = LOST.finding(change, nodes=tuple(lack), steps=steps)
    return lost


def _losable(placed: Placed, logs: _Logs, history: History, facts: Facts) -> list[Operation]:
    """List the acknowledged changes of which the logs that were kept whole could show that no majority holds them."""
    whole = [node for node in facts.voters if node in logs and logs[node].log.start_offset == 0]
    enough = not any(_can_hold(voters, whole) for voters in electorates(history, facts).values())
    return [o for o, _ in placed.items if o.type is Outcome.OK] if enough else []


def _can_hold(voters: Collection[str], lacking: Collection[str]) -> bool:
    """Whether a majority of these voters can hold a change that is not in the logs of `lacking`."""
    return sum(node not in lacking for node in voters) >= majority(voters)


def _refused(placed: Placed) -> Iterator[Finding]:
    """Find refused settings whose entry is committed: it stands below an acknowledged change in the same log."""
    for change, places in placed.items:
        below = placed.committed_in(places)
        if change.type is Outcome.FAIL and change.f == "alter" and below:
            steps = (
                f"{_request(change)} was refused ({change.error}).",
                f"It stands at offset {places[below[0]][0]} in the log of {below[0]}, below acknowledged changes.",
            )
            yield REFUSED.finding(change, nodes=tuple(below), steps=steps)


# -- words and figures --------------------------------------------------------------------------------------------


def _counted(placed: Placed, logs: _Logs) -> dict[str, list[Operation]]:
    """Map the names of figures to the changes with that outcome."""
    whole = all(log.log.start_offset == 0 for log in logs.values())
    settled: dict[str, list[Operation]] = {"info_took_effect": [], "info_took_no_effect": [], "info_undecided": []}
    for change, places in placed.items:
        if change.type is Outcome.INFO:
            settled[placed.outcome(change, places, whole=whole)].append(change)
    acknowledged = [(o, places) for o, places in placed.items if o.type is Outcome.OK]
    return {
        "acknowledged_found": [o for o, places in acknowledged if places],
        "acknowledged_not_found": [
            o for o, places in acknowledged if not places and not placed.in_snapshot[o.invoke_index]
        ],
        **settled,
        "settings_applied_twice": [
            o for o, places in placed.items if o.f == "alter" and any(len(own) > 1 for own in places.values())
        ],
    }


def _figures(logs: _Logs, counted: _Counted) -> dict[str, Any]:
    return {
        "logs": {
            log.node: {"start_offset": log.log.start_offset, "end_offset": log.end, "last_epoch": log.last_epoch}
            for log in logs.values()
        },
        "entries_by_type": _by_type(logs),
        **numbers_of(counted),
        "epochs": sorted({entry.epoch for log in logs.values() for entry in log.log.entries}),
    }


def _by_type(logs: _Logs) -> dict[str, int]:
    longest = max(logs.values(), key=lambda log: (log.last_epoch, log.end))
    counts: dict[str, int] = {}
    for entry in longest.log.entries:
        counts[entry.type] = counts.get(entry.type, 0) + 1
    return dict(sorted(counts.items()))


def _request(change: Operation) -> str:
    value = f" to {change.value!r}" if change.f == "alter" else ""
    return f"{change.f} of {change.key}{value} by process {change.process} through {change.node}"
