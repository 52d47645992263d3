"""How the role of the controller went from brokers to KRaft controllers, by the ZooKeepers' disks.

Every election of a broker and every claim of a KRaft controller is one transaction, which makes /controller and raises
/controller_epoch. ZooKeeper orders all transactions, and each names its session, so no clock takes part. Judged if the
logs hold a claim:

"claims-in-order"
  epoch-skipped      an election or claim raised /controller_epoch by another number than one. A person may raise it by
                     hand in between, as Kafka's documentation asks before a roll-back (KAFKA-20488)
  kraft-epoch-fell   a claim names an earlier epoch of KRaft's quorum than the claim right before. After a roll-back, so
                     with an election of a broker in between, another quorum may begin from the first epoch

"zookeeper-is-left"
  migration-state-overwritten   after a claim, an earlier controller wrote /migration: the new one then finds a version
                                that it does not expect, and may stop writing to ZooKeeper (KAFKA-16171, KAFKA-16667)
  partition-state-after-claim   after a claim, an earlier controller or a broker wrote the state of a topic partition:
                                leaders and replicas in sync that nobody decided in KRaft
  write-after-claim             after a claim, an earlier controller or a broker wrote something else. A broker in
                                ZooKeeper mode makes settings by itself, and such a write checks no epoch

A broker's registration and the beginning and end of a session are no writes of metadata.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Finding
from fencepost.harness.history import History, LogEntry
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import Figures
from fencepost.systems.kafka.facts.controllers import (
    ControllerReign,
    Deed,
    committed,
    controller_reigns,
    deeds_of_nodes,
    written_by,
)
from fencepost.systems.kafka.figures import WRITES

SKIPPED: Final = Rule(
    guarantee="claims-in-order",
    anomaly="epoch-skipped",
    tested="elections and claims after the first one",
    lacks="no election or claim came after another one",
)
FELL: Final = Rule(guarantee="claims-in-order", anomaly="kraft-epoch-fell", tested="claims after the first one")
OVERWRITTEN, STATE, WRITE = _LEFT = [
    Rule(
        guarantee="zookeeper-is-left",
        anomaly=anomaly,
        tested="transactions that earlier controllers or brokers asked for after a claim",
        lacks="only the controller asked ZooKeeper for anything after a claim",
    )
    for anomaly in ("migration-state-overwritten", "partition-state-after-claim", "write-after-claim")
]
_MIGRATION: Final = "/migration"
#: A topic's `partitions`, one of them, or its state, where a transaction names paths.
_PARTITIONS: Final = re.compile(r"/brokers/topics/[^/]+/partitions(/|$)")
#: Of a path, as many parts tell what kind of znode it is: "", "brokers", "topics".
_FOLDERS: Final = 3
_NO_WRITES: Final = frozenset({"registration", "session", "session-closed", "election"})


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the order of the claims, and what earlier controllers wrote after them.

    Returns:
        Two verdicts; none if no ZooKeeper's log holds a claim of a KRaft controller.

    Source: KIP-866; Zab orders all transactions (Junqueira, Reed, Serafini, 2011).

    Cost: O(n log n) for n transactions.
    """
    entries = committed(history, facts)
    reigns = controller_reigns(entries)
    claims = [reign for reign in reigns if reign.kraft_epoch is not None]
    if not claims:
        return []
    by_hand = {e.offset: int(e.fields["controller_epoch"]) for e in entries if e.type == "epoch-raised"}
    deeds = [deed for deed in deeds_of_nodes(entries) if deed.current.kraft_epoch is not None]
    return [_in_order(history, facts, reigns, by_hand), _left(history, facts, claims, deeds)]


def _in_order(history: History, facts: Facts, reigns: Sequence[ControllerReign], by_hand: Mapping[int, int]) -> Verdict:
    """Judge the epochs of all elections and claims; `by_hand`: epochs that a person set, by their transactions."""
    claims = [reign for reign in reigns if reign.kraft_epoch is not None]
    skipped = [
        SKIPPED.on_disk(history, after.node, steps=(_shown(before), _shown(after)))
        for before, after in pairwise(reigns)
        if after.epoch
        != 1 + max([before.epoch, *(epoch for at, epoch in by_hand.items() if before.at < at < after.at)])
    ]
    fell = [
        FELL.on_disk(history, after.node, steps=(_shown(before), _shown(after)))
        for before, after in pairwise(reigns)
        if before.kraft_epoch is not None and after.kraft_epoch is not None and after.kraft_epoch < before.kraft_epoch
    ]
    return verdict(
        facts,
        SKIPPED.tally(skipped, len(reigns) - 1),
        FELL.tally(fell, len(claims) - 1),
        broken=f"{len(skipped) + len(fell)} elections or claims are out of order",
        kept=f"{len(reigns)} elections and claims in order, {len(claims)} of them by KRaft controllers",
        figures={"elections": len(reigns) - len(claims), "claims": len(claims)},
    )


def _left(history: History, facts: Facts, claims: Sequence[ControllerReign], every: Sequence[Deed]) -> Verdict:
    deeds = [deed for deed in every if deed.own is not deed.current and deed.entry.type not in _NO_WRITES]
    written = [deed for deed in deeds if deed.entry.type != "refused"]
    broken = [_rule_of(deed.entry) for deed in written]
    counts = Counter(broken)
    return verdict(
        facts,
        *sorted_out(
            [_deed_finding(history, d, r) for d, r in zip(written, broken, strict=True)],
            dict.fromkeys(_LEFT, len(deeds)),
        ),
        broken=f"{len(written)} transactions of earlier controllers or brokers came after a claim,"
        f" {counts[OVERWRITTEN]} of them set {_MIGRATION}, {counts[STATE]} the state of a topic partition",
        untested=f"{len(claims)} claims, and only the controller asked ZooKeeper for anything after one",
        kept=f"earlier controllers and brokers asked for {len(deeds)} transactions after a claim, and all were refused",
        figures={
            "refused": len(deeds) - len(written),
            "written": len(written),
            "migration_state": counts[OVERWRITTEN],
            "partition_states": counts[STATE],
            WRITES: _by_writer(every),
        },
    )


def _by_writer(deeds: Sequence[Deed]) -> tuple[Figures, ...]:
    """Count the transactions after each claim by who asked for them, what they did and what they checked."""
    first: dict[tuple[str, str, str, str], LogEntry] = {}
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for deed in deeds:
        if deed.entry.type in _NO_WRITES:
            continue
        claim = f"{deed.current.node}, controller epoch {deed.current.epoch}"
        kind = claim, deed.node, _kind(deed.entry), _guard(deed.entry)
        first.setdefault(kind, deed.entry)
        counts[kind] += 1
    return tuple(
        {
            "claim": claim,
            "node": node,
            "what": what,
            "guard": guard,
            "transactions": counts[claim, node, what, guard],
            "first": f"{entry.offset:#x}",
        }
        for (claim, node, what, guard), entry in first.items()
    )


def _kind(entry: LogEntry) -> str:
    """What a transaction wrote, without names: the kind of its object, or the folder of its znode."""
    kind, fields = written_by(entry)
    if kind == "multi" and entry.fields.get("changes"):
        kind, _, path = str(entry.fields["changes"][-1]).partition(" ")
        return f"{kind} {_folder(path)}"
    return f"{kind} {_folder(str(fields['path']))}" if "path" in fields else kind


def _folder(path: str) -> str:
    parts = path.split("/")
    return path if len(parts) <= _FOLDERS else "/".join(parts[:_FOLDERS])


def _guard(entry: LogEntry) -> str:
    if entry.type == "refused":
        return "unknown"
    return "checks /controller_epoch" if "checked_version" in entry.fields else "checks no controller epoch"


def _rule_of(entry: LogEntry) -> Rule:
    paths = [entry.fields.get("path", ""), *(change.split(" ", 1)[-1] for change in entry.fields.get("changes", ()))]
    if _MIGRATION in paths:
        return OVERWRITTEN
    if entry.type == "partition-state" or any(map(_PARTITIONS.match, paths)):
        return STATE
    return WRITE


def _deed_finding(history: History, deed: Deed, rule: Rule) -> Finding:
    fields = deed.entry.fields
    named = next((fields[name] for name in ("path", "changes", "resource_name", "topic", "name") if name in fields), "")
    what = f"{deed.entry.type} {named}".strip()
    guard = "it checked /controller_epoch" if "checked_version" in fields else "it checks no controller epoch"
    steps = (
        *([_shown(deed.own)] if deed.own is not None else []),
        _shown(deed.current),
        f"Transaction {deed.entry.offset:#x} came after it, in the session of {deed.node}: {what}; {guard}.",
    )
    return rule.on_disk(history, deed.node, deed.current.node, steps=steps)


def _shown(reign: ControllerReign) -> str:
    kraft = f", in epoch {reign.kraft_epoch} of KRaft's quorum" if reign.kraft_epoch is not None else ""
    how = "claimed /controller" if kraft else "was elected"
    return f"Transaction {reign.at:#x}: {reign.node} {how}, controller epoch {reign.epoch}{kraft}."
