"""Facts, derived once: from a history to the tables that pages show and that Spark computes over many runs with.

A pure function of the history and of what is known of the run. Every definition lies with its subject, in a module
of this folder; this module only says which tables the core has. `harness.plugins.registry.derive` adds those of leaves.
Checkers read the same definitions.

Cost: O(n log n) for n events.

The tables of zombie episodes, of overlaps and of stale answers are laid out here, since their rows join facts of
several modules: an episode is one superseded reign with the requests that its leader got after that.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.acts import ACKNOWLEDGED, LOST, STAMPED, Acts, find_acts, requests
from fencepost.checkers.derived.claims import ClaimedSpan, claimed_spans, overlaps
from fencepost.checkers.derived.clocks import stalls_of
from fencepost.checkers.derived.evidence import row, within
from fencepost.checkers.derived.partitions import PartitionDeeds, deeds_of_partitions, reigns_of_partitions
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
    cuts_table,
    faults_table,
    quorum_losses_table,
    server_ends_table,
    stops_table,
)
from fencepost.checkers.derived.service import clients_of, phases_table, recovery_table, service_table
from fencepost.checkers.derived.versions import OperationColumns, find_stale, superseded_reign
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.fact_tables import (
    CATCH_UPS,
    CLAIMS,
    CUTS,
    EPOCHS,
    FAULTS,
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
    return {
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


def _first(history: History, facts: Facts, reigns: dict[str, Reigns]) -> Reigns:
    """Who led by the subject that the system's leaders are known by."""
    own = (reigns[name] for name in (*facts.subjects, *reigns) if name in reigns)
    return next(own, None) or reigns_of(history, first_subject(history, facts))


def _stalls_table(history: History, facts: Facts) -> Any:
    """When the harness or its machine stalled (-> STALLS)."""
    stalls = stalls_of(history, facts.thresholds.stall_ns_max)
    return STALLS.of_rows(
        [{"what": s.what, "from_ns": s.from_ns, "to_ns": s.to_ns, "length_ns": s.length_ns} for s in stalls]
    )


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
