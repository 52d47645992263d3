"""Facts, derived once: from a history to the tables that pages show and that Spark computes over many runs with.

A pure function of the history and of what is known of the run. Every definition lies with its subject, in a module
of this folder; this module only says which tables the core has. `harness.plugins.registry.derive` adds those of leaves.
Checkers read the same definitions.

Cost: O(n log n) for n events.

The tables of zombie episodes, of overlaps and of stale answers are laid out here, since their rows join facts of
several modules: an episode is one superseded reign with the requests that its leader got after that. So is the table
of mechanisms: a mechanism that was never met had none of its code tested, whatever the verdict says.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, get_args

import msgspec

from fencepost.checkers.derived.acts import ACKNOWLEDGED, LOST, STAMPED, Acts, code_of, find_acts, requests
from fencepost.checkers.derived.claims import ClaimedSpan, claimed_spans, overlaps
from fencepost.checkers.derived.clocks import stalls_of
from fencepost.checkers.derived.evidence import once, row, within
from fencepost.checkers.derived.partitions import PartitionDeeds, deeds_of_partitions, reigns_of_partitions
from fencepost.checkers.derived.positions import CURRENT_MODES
from fencepost.checkers.derived.reigns import (
    BySubject,
    Reign,
    Reigns,
    claims_table,
    epochs_table,
    first_subject,
    reigns_of,
    reigns_table,
    subjects,
)
from fencepost.checkers.derived.servers import (
    catch_ups_table,
    cuts,
    cuts_table,
    faults_table,
    quorum_losses,
    quorum_losses_table,
    server_ends_table,
    stops_table,
)
from fencepost.checkers.derived.service import clients_of, phases_table, recovery_table, service_table
from fencepost.checkers.derived.versions import OperationColumns, find_stale, superseded_reign
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quorum import QuorumView
from fencepost.harness.history import PART_OF, Event, FaultOutcome, History, Operation, Outcome, PhaseName
from fencepost.harness.verdict import Facts, Mechanism
from fencepost.harness.verdict.fact_tables import (
    CATCH_UPS,
    CLAIMS,
    CUTS,
    EPOCHS,
    FAULTS,
    MECHANISMS,
    OPERATIONS,
    OVERLAPS,
    PHASES,
    QUORUM_LOSSES,
    RECOVERY,
    REIGNS,
    SERVER_ENDS,
    SERVICE,
    STALE_ANSWERS,
    STALLS,
    STOPS,
    ZOMBIE_EPISODES,
    FactTables,
)
from fencepost.harness.verdict.guarantee import ANY


def derive(history: History, facts: Facts) -> FactTables:
    """Every table of `harness.verdict.fact_tables.DERIVED`, by name."""
    of_partitions = reigns_of_partitions(history)
    of_cluster = {name: reigns_of(history, name) for name in subjects(history) if name not in of_partitions}
    reigns = of_cluster | of_partitions
    episodes = [e for name, own in of_cluster.items() for e in episodes_of(history, facts, name, own)]
    episodes += [
        _partition_episode(deeds) for deeds in deeds_of_partitions(history) if deeds.requests or deeds.reign.claimed
    ]
    first = _first(history, facts, of_cluster)
    operations = OperationColumns(history)
    clients = clients_of(operations)
    tables = {
        OPERATIONS.name: operations.table(),
        CLAIMS.name: claims_table(reigns),
        EPOCHS.name: epochs_table(reigns),
        REIGNS.name: reigns_table(reigns),
        OVERLAPS.name: overlaps_table(reigns),
        ZOMBIE_EPISODES.name: episodes_table(episodes, reigns),
        STALE_ANSWERS.name: stale_answers_table(history, first),
        FAULTS.name: faults_table(history),
        STOPS.name: stops_table(history, facts.nodes),
        CUTS.name: cuts_table(history),
        QUORUM_LOSSES.name: quorum_losses_table(history, facts.voters),
        SERVICE.name: service_table(history, clients),
        PHASES.name: phases_table(history, clients[0]),
        RECOVERY.name: recovery_table(history, clients, first.begins),
        STALLS.name: _stalls_table(history, facts),
        SERVER_ENDS.name: server_ends_table(history),
        CATCH_UPS.name: catch_ups_table(history),
    }
    return {**tables, MECHANISMS.name: mechanisms_table(history, facts, tables, first)}


def _first(history: History, facts: Facts, reigns: dict[str, Reigns]) -> Reigns:
    """Who led by the subject that the system's leaders are known by."""
    own = (reigns[name] for name in (*facts.subjects, *reigns) if name in reigns)
    return next(own, None) or reigns_of(history, first_subject(history, facts))


def _stalls_table(history: History, facts: Facts) -> Any:
    """When the harness or its machine stalled (-> STALLS)."""
    return STALLS.of(stalls_of(history, facts.thresholds.stall_ns_max))


#: An episode names at most this many of the operations by which its leader acted.
_NAMED_MAX: Final = 100


class Episode(msgspec.Struct, kw_only=True):
    """One superseded reign, and the operations that its leader was sent from then on."""

    subject: str
    reign: Reign
    requests: list[Operation] = []
    reached: list[Operation] = []
    served: list[Operation] = []
    fenced: list[Operation] = []
    unknown: list[Operation] = []
    #: (anomaly, the operation that shows it).
    acts: list[tuple[str, Operation]] = []


def episodes_of(history: History, facts: Facts, subject: str, reigns: Reigns) -> list[Episode]:
    """List the superseded reigns of one subject that were still claimed, or whose leaders were sent operations."""
    episodes = {id(reign): Episode(subject=subject, reign=reign) for reign in reigns.reigns if reign.superseded}
    acts = find_acts(history, facts, reigns)
    fenced, unknown = _rows(acts.fenced), _rows(acts.unknown)
    for request in requests(history, facts, reigns):
        operation, episode = request.operation, episodes[id(request.reign)]
        episode.requests.append(operation)
        episode.reached += [operation] * request.reached
        episode.served += [operation] * request.served
        episode.fenced += [operation] * (row(operation) in fenced)
        episode.unknown += [operation] * (row(operation) in unknown)
    for anomaly, operation, reign in _acts(acts, reigns):
        episodes[id(reign)].acts.append((anomaly, operation))
    outlived = {id(span.reign) for span in claimed_spans(reigns)}
    return [e for e in episodes.values() if id(e.reign) in outlived or e.requests or e.served or e.acts]


def _acts(acts: Acts, reigns: Reigns) -> Iterable[tuple[str, Operation, Reign]]:
    for stale in acts.stale:
        yield "stale-answer-by-superseded-leader", stale.read, stale.reign
    for lost in acts.lost:
        yield LOST, lost.add, lost.reign
    for stamped in acts.stamped:
        # Without a reign of its own: the leader of that epoch appended it, whoever took it from the client.
        of_epoch = [r for r in reigns.reigns if r.epoch == stamped.write.epoch and r.superseded]
        for reign in [stamped.reign] if stamped.reign else of_epoch[:1]:
            yield STAMPED, stamped.write, reign
    for request in acts.acknowledged:
        yield ACKNOWLEDGED, request.operation, request.reign


def _rows(operations: Iterable[Operation]) -> set[int]:
    return {row(operation) for operation in operations}


def episodes_table(episodes: Sequence[Episode], reigns: BySubject) -> Any:
    """Lay out one row for each episode, in order of time (-> ZOMBIE_EPISODES)."""
    spans = {id(span.reign): span for one in reigns.values() for span in claimed_spans(one)}
    rows = [_episode(e, spans.get(id(e.reign))) for e in episodes]
    return ZOMBIE_EPISODES.of_rows(sorted(rows, key=lambda r: (r["superseded_ns"], r["subject"], r["node"])))


def _episode(episode: Episode, span: ClaimedSpan | None) -> dict[str, Any]:
    reign, begin = episode.reign, episode.reign.superseded
    assert begin is not None
    acting = list(dict.fromkeys(row(operation) for _, operation in episode.acts))
    claims = sorted(reign.claimed, key=lambda s: s.lo_ns)
    return {
        "subject": episode.subject,
        "node": reign.node,
        "incarnation": reign.incarnation,
        "epoch": reign.epoch,
        "superseded_by": begin.epoch,
        "superseded_ns": begin.at_ns,
        "claimed_from_ns": claims[0].lo_ns if claims else None if span is None else span.from_ns,
        "claimed_to_ns": None if span is None else span.to_ns,
        "running_ns": 0 if span is None else span.running_ns,
        "claims": len(claims),
        "asked": len(episode.requests),
        "reached": len(episode.reached),
        "served": len(episode.served),
        "fenced": len(episode.fenced),
        "unknown": len(episode.unknown),
        "acted": len(acting),
        "anomalies": list(dict.fromkeys(anomaly for anomaly, _ in episode.acts)),
        "evidence": [begin.event, *(s.index for s in claims[-1:]), *acting[:_NAMED_MAX]],
    }


def overlaps_table(reigns: BySubject) -> Any:
    """Lay out when several nodes certainly led at the same time (-> OVERLAPS)."""
    return OVERLAPS.of_rows([row for subject, one in reigns.items() for row in _overlaps(subject, one)])


def _overlaps(subject: str, reigns: Reigns) -> list[dict[str, Any]]:
    running = overlaps(reigns, running=True)
    rows = []
    for from_ns, to_ns in overlaps(reigns, running=False):
        leading = [r for r in reigns.reigns if r.first_ns < to_ns and from_ns < r.last_ns]
        rows.append(
            {
                "subject": subject,
                "nodes": [r.node for r in leading],
                "epochs": [r.epoch for r in leading],
                "from_ns": from_ns,
                "to_ns": to_ns,
                "running_ns": within(running, from_ns, to_ns),
            }
        )
    return rows


def stale_answers_table(history: History, reigns: Reigns) -> Any:
    """Lay out every answered read that lacks an acknowledged write (-> STALE_ANSWERS).

    `reigns` are those of the first subject. The guarantee of the run's reads decides whether a read may be stale.
    """
    rows = []
    for stale in find_stale(history).stale:
        reign = superseded_reign(reigns, stale.read)
        rows.append(
            {
                "index": row(stale.read),
                "node": stale.read.node,
                "process": stale.read.process,
                "key": stale.read.key,
                "invoked_ns": stale.read.invoked_ns,
                "write_index": row(stale.write),
                "write_node": stale.write.node,
                "missing": stale.missing,
                "late_ns": stale.late_ns,
                "superseded_epoch": None if reign is None else reign.epoch,
            }
        )
    return STALE_ANSWERS.of_rows(rows)


def _partition_episode(deeds: PartitionDeeds) -> Episode:
    """The episode of a topic partition's superseded leader."""
    return Episode(
        subject=deeds.view.key,
        reign=deeds.reign,
        requests=deeds.requests,
        # Whoever was refused, answered or left waiting by a broker had reached it, or nobody knows.
        reached=[o for o in deeds.requests if o.type is not Outcome.INFO],
        served=[*deeds.acknowledged, *deeds.reads],
        fenced=deeds.fenced,
        unknown=deeds.unknown,
        acts=[(act.anomaly, act.operation) for act in deeds.acts],
    )


#: The column with the row of a fact table.
_EVIDENCE: Final = ("event", "index")
_KINDS: Final = {kind.__struct_config__.tag: kind for kind in get_args(Event)}
#: What clients are told of a lease that is over.
_EXPIRED: Final = "lease-expired"


def mechanisms_table(history: History, facts: Facts, tables: FactTables, reigns: Reigns) -> Any:
    """Count how often each mechanism was met, from the main phase on (-> MECHANISMS).

    Each time has one row: the event, the end of an operation, the proof of a fault.

    Args:
        tables: the core's other facts of this history.
        reigns: who led by the subject that the system's leaders are known by.
    """
    since_ns, _ = history.phases.get(PhaseName.MAIN, (0, 0))
    rows = []
    for mechanism in facts.mechanisms:
        derivation = _DERIVED.get(mechanism.of)
        every = _rows_of(mechanism, history, tables) if derivation is None else derivation(history, facts, reigns)
        shown = sorted(i for i in every if history.events[i].time_ns >= since_ns)
        first = shown[0] if shown else None
        rows.append({"mechanism": mechanism.name, "count": len(shown), "event": first, "events": shown})
    return MECHANISMS.of_rows(rows)


def _rows_of(mechanism: Mechanism, history: History, tables: FactTables) -> Iterable[int]:
    where = mechanism.where
    match mechanism.of:
        case "operation":
            return [row(o) for o in _not_ok(history) if _fits(where, _of_operation, o)]
        case "fault":
            installed = (fault for fault in history.faults if fault.outcome is FaultOutcome.INSTALLED)
            return [f.events[1] for f in installed if _fits(where, getattr, f.effects)]
        case name if name in tables:
            facts = [fact for fact in tables[name].to_pylist() if _fits(where, dict.__getitem__, fact)]
            return [next(fact[column] for column in _EVIDENCE if column in fact) for fact in facts]
        case kind if kind in _KINDS:
            return [e.index for e in history.of(_KINDS[kind]) if _fits(where, getattr, e)]
    hint = f"of = one of operation, fault, {', '.join([*_DERIVED, *tables, *_KINDS])}"
    raise UsageError(f"mechanism {mechanism.name}: there is nothing {mechanism.of!r} that it could show in", hint=hint)


def _fits(where: Mapping[str, Any], of: Callable[[Any, str], Any], item: Any) -> bool:
    # Asked once for each event and mechanism: a loop, since a generator and a closure take twice as long.
    for name, wanted in where.items():
        value = of(item, name)
        if not value if wanted == ANY else value != wanted:
            return False
    return True


@once
def _not_ok(history: History) -> list[Operation]:
    return [o for o in history.operations if o.type is not Outcome.OK]


def _of_operation(operation: Operation, name: str) -> Any:
    return code_of(operation) if name == "error" else getattr(operation, name)


def _at(history: History, ns: int) -> int:
    """The first event at this moment."""
    return bisect_left(history.events, ns, key=lambda event: event.time_ns)


def _leaders(reigns: Reigns) -> list[tuple[str, int]]:
    """The node of each reign, in the order of epochs, with the row that proves the epoch."""
    proofs = {begin.epoch: begin.event for begin in reigns.begins}
    ordered = sorted(reigns.reigns, key=lambda reign: (reign.epoch, reign.first_ns))
    return [(reign.node, proofs[reign.epoch]) for reign in ordered if reign.epoch in proofs]


def _leader_returned(history: History, facts: Facts, reigns: Reigns) -> list[int]:
    leaders = _leaders(reigns)
    nodes = [node for node, _ in leaders]
    return [proof for i, (node, proof) in enumerate(leaders) if node in nodes[:i] and node != nodes[i - 1]]


def _leader_cut_off(history: History, facts: Facts, reigns: Reigns) -> list[int]:
    """Cuts from every majority, of the node that led when one of their faults began."""
    leaders = {fault.fault_id: fault.leader for fault in history.faults}
    own = (cut for cut in cuts(history, facts.nodes, facts.voters) if cut.node in map(leaders.get, cut.fault_ids))
    return [_at(history, cut.from_ns) for cut in own]


def _quorum_lost(history: History, facts: Facts, reigns: Reigns) -> list[int]:
    losses = quorum_losses(history, facts.voters)
    return [_at(history, loss.from_ns) for loss in losses if loss.quorum is QuorumView.NONE]


def _faults_at_once(history: History, facts: Facts, reigns: Reigns) -> list[int]:
    """Every fault that was proven while another one, of which it is no part, was certainly in force."""
    return [
        fault.events[1]
        for fault in history.faults
        if fault.certain_from_ns is not None and PART_OF not in fault.details
        for others in [{f.fault_id for f in history.in_force(fault.certain_from_ns) if PART_OF not in f.details}]
        if others - {fault.fault_id}
    ]


def _release_changed(history: History, facts: Facts, reigns: Reigns) -> list[int]:
    """Restarts in an order, as another release."""
    took_hold = (fault for fault in history.faults if fault.outcome is FaultOutcome.INSTALLED)
    return [fault.events[1] for fault in took_hold if {"order", "to"} <= fault.details.keys()]


def _lease_moved(history: History, facts: Facts, reigns: Reigns) -> list[int]:
    """Keep-alives that another node answered than the one before, of the same lease."""
    nodes: dict[str | None, str] = {}
    moved = []
    for o in history.operations:
        if o.f in ("grant", "keep") and o.type is Outcome.OK:
            moved += [row(o)] if nodes.get(o.key, o.node) != o.node else []
            nodes[o.key] = o.node
    return moved


def _lease_over(history: History, facts: Facts, reigns: Reigns) -> list[int]:
    """Leases that nobody revoked: a client was told that its own is over, or a current look lacks a key seen before."""
    revoked = {o.key for o in history.operations if o.f == "revoke"}
    expired = [o for o in _not_ok(history) if code_of(o) == _EXPIRED and o.key not in revoked]
    seen_ns: dict[int, int] = {}
    gone: dict[str, int] = {}
    for look in history.operations:
        if look.f != "look" or look.completed_ns is None or look.value not in CURRENT_MODES:
            continue
        numbers = set(look.result or ())
        for number in [n for n, at_ns in seen_ns.items() if n not in numbers and at_ns <= look.invoked_ns]:
            del seen_ns[number]
            gone.setdefault(f"lease-{number}", row(look))
        seen_ns = {**dict.fromkeys(numbers, look.completed_ns), **seen_ns}
    return [*map(row, expired), *(r for key, r in gone.items() if key not in revoked | {o.key for o in expired})]


#: What no single row, table or effect shows.
_DERIVED: Final[Mapping[str, Callable[[History, Facts, Reigns], Iterable[int]]]] = {
    "faults-at-once": _faults_at_once,
    "leader-cut-off": _leader_cut_off,
    "leader-moved": lambda history, facts, reigns: [
        proof for (before, _), (node, proof) in pairwise(_leaders(reigns)) if node != before
    ],
    "leader-returned": _leader_returned,
    "lease-moved": _lease_moved,
    "lease-over": _lease_over,
    # Every epoch but the first.
    "new-epoch": lambda history, facts, reigns: [
        begin.event for begin in sorted(reigns.begins, key=lambda begin: begin.epoch)[1:]
    ],
    "quorum-lost": _quorum_lost,
    "release-changed": _release_changed,
    "superseded-leader-asked": lambda *of: [row(request.operation) for request in requests(*of)],
    "superseded-leader-claimed": lambda history, facts, reigns: [
        sample.index for reign in reigns.reigns for sample in reign.claimed
    ],
    "superseded-leader-refused": lambda *of: _rows(find_acts(*of).fenced),
}
