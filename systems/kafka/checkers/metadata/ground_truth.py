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

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.findings.finding import Doubt, Finding, Findings, rule
from fencepost.harness.base.quorum import majority
from fencepost.harness.history import NEW_DISK, History, LogEntry, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict, in_words
from fencepost.systems.kafka.checkers.metadata.durable import GUARANTEE as DURABLE
from fencepost.systems.kafka.checkers.metadata.placed_changes import NodeEntries, Placed
from fencepost.systems.kafka.checkers.metadata.risk import LACKS, ControllerRisk
from fencepost.systems.kafka.facts.controllers import electorates

CHECKER: Final = "ground-truth"
AGREES: Final = "metadata-log-agrees"


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
        nothing = Doubt(Cause.NO_EXPOSURE, "no metadata log was kept")
        return [Findings(checker=CHECKER, guarantee=AGREES, doubt=nothing, exposure_of="").verdict(facts)]
    logs = {node: NodeEntries(log) for node, log in history.logs.items()}
    placed = Placed(history, logs, facts)
    agreement = [
        *_epochs_back(logs),
        *(breach for one, other in _pairs(logs) for breach in _differences(one, other)),
        *_overwritten(placed, logs),
        *_out_of_order(placed, logs),
    ]
    below = _common_entries(logs)
    lost = [*_lost(placed, logs, history, facts), *_refused(placed)]
    counted = _counted(placed, logs)
    risk = ControllerRisk(history, facts)
    on_disk = counted["acknowledged_found"]
    at_risk = rows(change for change in on_disk if risk.runs(change))
    losable = _losable(placed, logs, history, facts)
    # What stands on disk only is no row of the history: `nodes/<name>/metadata-log.jsonl` holds it.
    agrees = Findings(
        checker=CHECKER,
        guarantee=AGREES,
        findings=_drawn(agreement, history),
        broken=_broken(agreement),
        exposure=below,
        exposure_of="entries that several logs hold at one offset",
        untested="no entries that several logs hold at one offset",
        rules=(
            rule("logs-differ", below, "no two logs hold an entry of one offset"),
            rule("committed-overwritten", _replaceable(placed, logs), "no other log reaches an acknowledged change"),
            rule("epoch-went-back", sum(max(0, len(log.at) - 1) for log in logs.values()), "no log has two entries"),
            rule(
                "order-contradicts-time",
                _ordered_by_time(placed),
                "no change that stands in a log was asked for after another one was acknowledged",
            ),
        ),
        kept=f"{below} entries that several logs hold at one offset",
        figures={**_figures(logs, counted), "entries_compared": below},
        evidence={name: rows(own) for name, own in counted.items()},
    )
    durable = Findings(
        checker=CHECKER,
        guarantee=DURABLE,
        findings=_drawn(lost, history),
        broken=_broken(lost),
        exposed=at_risk,
        exposure_of="acknowledged changes that something disturbed, and that stand on disk",
        untested=LACKS if on_disk else "no acknowledged changes found on disk",
        rules=(
            rule(
                "lost-acknowledged-change",
                sum(map(risk.runs, losable)),
                LACKS if losable else "too few logs of voters were kept whole for no majority to hold a change",
            ),
            rule(
                "refused-change-took-effect",
                sum(o.type is Outcome.FAIL and o.f == "alter" for o, _ in placed.items),
                "no change of a setting was refused",
            ),
        ),
        kept=f"{len(on_disk)} acknowledged changes found on disk",
    )
    return [agrees.verdict(facts), *([durable.verdict(facts)] if on_disk or lost else [])]


def _broken(findings: list[Finding]) -> str:
    return f"by the logs on disk: {in_words(Counter(finding.anomaly for finding in findings))}"


def _drawn(findings: list[Finding], history: History) -> list[Finding]:
    """Let the first operation stand for each finding; a finding without operations is drawn at the end of the run."""
    at_the_end = {"from_ns": history.end_ns, "to_ns": history.end_ns}
    return [msgspec.structs.replace(f, about=0, **({} if f.operations else at_the_end)) for f in findings]


# -- logs against each other --------------------------------------------------------------------------------------


def _epochs_back(logs: Mapping[str, NodeEntries]) -> Iterator[Finding]:
    for log in logs.values():
        for before, after in pairwise(log.log.entries):
            if after.epoch < before.epoch:
                yield Finding(
                    anomaly="epoch-went-back",
                    nodes=(log.node,),
                    steps=(
                        f"In the log of {log.node} the entry at offset {before.offset} has epoch {before.epoch}.",
                        f"The one behind it, at {after.offset}, has epoch {after.epoch}.",
                    ),
                )
                break


def _pairs(logs: Mapping[str, NodeEntries]) -> Iterator[tuple[NodeEntries, NodeEntries]]:
    """Every two copies of one log."""
    return ((one, other) for one, other in combinations(logs.values(), 2) if one.log.of == other.log.of)


def _differences(a: NodeEntries, b: NodeEntries) -> Iterator[Finding]:
    """Find the first offset at which two logs must be equal and differ."""
    shared = [offset for offset in a.at if offset in b.at]
    agreed = max((offset for offset in shared if a.at[offset] == b.at[offset]), default=-1)
    for offset in sorted(shared):
        one, other = a.at[offset], b.at[offset]
        if one == other:
            continue
        if one.epoch == other.epoch:
            why = "One leader writes an offset once, and an epoch has one leader."
        elif offset < agreed:
            why = f"They agree again at offset {agreed}: an entry stands only on the log that its leader had."
        else:
            continue
        steps = (f"At offset {offset} {a.node} holds {_shown(one)}.", f"{b.node} holds {_shown(other)}.", why)
        yield Finding(anomaly="logs-differ", nodes=(a.node, b.node), steps=steps)
        return


def _overwritten(placed: Placed, logs: Mapping[str, NodeEntries]) -> Iterator[Finding]:
    for change, places in placed.items:
        # Of several entries of one change nobody knows which one was acknowledged.
        if change.type is not Outcome.OK or len(placed.entries(places)) != 1:
            continue
        for node, offsets in places.items():
            entry = logs[node].at[offsets[0]]
            for other in logs.values():
                there = other.at.get(entry.offset) if other.log.of == logs[node].log.of else None
                if there is None or there == entry or there.epoch <= entry.epoch or other.node in places:
                    continue
                yield Finding(
                    anomaly="committed-overwritten",
                    nodes=(node, other.node),
                    operations=(change,),
                    key=change.key,
                    steps=(
                        f"{_request(change)} was acknowledged.",
                        f"It stands at offset {entry.offset} (epoch {entry.epoch}) in the log of {node}.",
                        f"{other.node} holds {_shown(there)} there: a later leader that lacked it.",
                    ),
                )
                break
            else:
                continue
            break


def _common_entries(logs: Mapping[str, NodeEntries]) -> int:
    counts: dict[tuple[str, int], int] = {}
    for log in logs.values():
        for offset in log.at:
            counts[log.log.of, offset] = counts.get((log.log.of, offset), 0) + 1
    return sum(count > 1 for count in counts.values())


def _replaceable(placed: Placed, logs: Mapping[str, NodeEntries]) -> int:
    """Count the acknowledged changes with a single entry whose offset another log also holds."""
    entries = [
        own[0]
        for change, places in placed.items
        if change.type is Outcome.OK and len(own := placed.entries(places)) == 1
    ]
    return sum(sum(entry.offset in log.at for log in logs.values()) > 1 for entry in entries)


# -- logs against the history -------------------------------------------------------------------------------------


def _out_of_order(placed: Placed, logs: Mapping[str, NodeEntries]) -> Iterator[Finding]:
    """Compare first offsets in one log: a change that was acknowledged before another was sent must come first.

    Not across logs: the tail of a superseded leader takes offsets that others give again.
    """
    reported: set[int] = set()
    for node in logs:
        firsts = [(o, places[node][0]) for o, places in placed.items if node in places]
        for before, change in _contradictions(firsts):
            if change[0].invoke_index in reported:
                continue
            reported.add(change[0].invoke_index)
            yield Finding(
                anomaly="order-contradicts-time",
                nodes=(node,),
                operations=(before[0], change[0]),
                key=change[0].key,
                steps=(
                    f"{_request(before[0])} was acknowledged; it stands at offset {before[1]} in the log of {node}.",
                    f"{_request(change[0])} was asked for only then, but stands at offset {change[1]}.",
                ),
            )


def _ordered_by_time(placed: Placed) -> int:
    """Count the changes in a log that were asked for after another change in the same log had been acknowledged."""
    held = [o for o, places in placed.items if places]
    first_ns = min((o.completed_ns or 0 for o in held if o.type is Outcome.OK), default=None)
    return 0 if first_ns is None else sum(o.invoked_ns > first_ns for o in held)


_At = tuple[Operation, int]


def _contradictions(firsts: list[_At]) -> Iterator[tuple[_At, _At]]:
    """Find pairs (acknowledged, asked for later) that stand in the opposite order in the log."""
    acknowledged = sorted(
        ((o, at) for o, at in firsts if o.type is Outcome.OK), key=lambda pair: pair[0].completed_ns or 0
    )
    done = 0
    highest: _At | None = None
    for change, at in sorted(firsts, key=lambda pair: pair[0].invoked_ns):
        while done < len(acknowledged) and (acknowledged[done][0].completed_ns or 0) < change.invoked_ns:
            if highest is None or acknowledged[done][1] > highest[1]:
                highest = acknowledged[done]
            done += 1
        if highest is not None and highest[1] > at:
            yield highest, (change, at)


def _lost(placed: Placed, logs: Mapping[str, NodeEntries], history: History, facts: Facts) -> Iterator[Finding]:
    """Find acknowledged changes that no majority of voters can hold; a voter without a known log counts as a holder."""
    groups = electorates(history, facts)
    begun_ns = {node: fault.began_ns for fault in history.faults if NEW_DISK in fault.details for node in fault.nodes}
    for change, places in placed.items:
        if change.type is not Outcome.OK:
            continue
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
        if not any(_can_hold(voters, lack) for voters in groups.values()):
            yield Finding(
                anomaly="lost-acknowledged-change",
                nodes=tuple(lack),
                operations=(change,),
                key=change.key,
                steps=(
                    f"{_request(change)} was acknowledged.",
                    f"The logs of {', '.join(lack)} do not hold it: no majority of "
                    f"{' or of '.join(str(len(voters)) for voters in groups.values())} voters can.",
                ),
            )


def _losable(placed: Placed, logs: Mapping[str, NodeEntries], history: History, facts: Facts) -> list[Operation]:
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
        if change.type is not Outcome.FAIL or change.f != "alter":
            continue
        below = placed.committed_in(places)
        if below:
            yield Finding(
                anomaly="refused-change-took-effect",
                nodes=tuple(below),
                operations=(change,),
                key=change.key,
                steps=(
                    f"{_request(change)} was refused ({change.error}).",
                    f"It stands at offset {places[below[0]][0]} in the log of {below[0]}, below acknowledged changes.",
                ),
            )


# -- words and figures --------------------------------------------------------------------------------------------


def _counted(placed: Placed, logs: Mapping[str, NodeEntries]) -> dict[str, list[Operation]]:
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


def _figures(logs: Mapping[str, NodeEntries], counted: Mapping[str, list[Operation]]) -> dict[str, Any]:
    return {
        "logs": {
            log.node: {"start_offset": log.log.start_offset, "end_offset": log.end, "last_epoch": log.last_epoch}
            for log in logs.values()
        },
        "entries_by_type": _by_type(logs),
        **{name: len(own) for name, own in counted.items()},
        "epochs": sorted({entry.epoch for log in logs.values() for entry in log.log.entries}),
    }


def _by_type(logs: Mapping[str, NodeEntries]) -> dict[str, int]:
    longest = max(logs.values(), key=lambda log: (log.last_epoch, log.end))
    counts: dict[str, int] = {}
    for entry in longest.log.entries:
        counts[entry.type] = counts.get(entry.type, 0) + 1
    return dict(sorted(counts.items()))


def _request(change: Operation) -> str:
    value = f" to {change.value!r}" if change.f == "alter" else ""
    return f"{change.f} of {change.key}{value} by process {change.process} through {change.node}"


def _shown(entry: LogEntry) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in entry.fields.items())
    return f"{entry.type}({fields[:200]}) of epoch {entry.epoch}"
