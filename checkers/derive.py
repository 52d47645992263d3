"""Facts, derived once: from a history to the tables that pages show and that Spark computes over many runs with.

A pure function of the history and of what is known of the run. Every definition lies with its subject (reigns in
`checkers.facts.reigns`, acts in `checkers.leadership`, topic partitions in `checkers.log`); this module only says which
tables there are. Cost: O(n log n) for n events.
"""

from typing import Any

from fencepost.checkers.facts.fault_tables import cuts_table, faults_table, stops_table
from fencepost.checkers.facts.in_sync import in_sync_table
from fencepost.checkers.facts.lags import lags_table
from fencepost.checkers.facts.operation_columns import OperationColumns
from fencepost.checkers.facts.reign_tables import claims_table, epochs_table, reigns_table
from fencepost.checkers.facts.reigns import Reigns, reigns_of, subjects
from fencepost.checkers.facts.service import clients_of, phases_table, recovery_table, service_table
from fencepost.checkers.facts.stalls import harness_stalls, machine_stalls
from fencepost.checkers.leadership.episodes import (
    Episode,
    episodes_of,
    episodes_table,
    overlaps_table,
    stale_answers_table,
)
from fencepost.checkers.log.reigns import NodeFacts, reigns_of_partition
from fencepost.checkers.log.view import PartitionView, partitions
from fencepost.checkers.log.zombie_brokers import Deeds, find_deeds
from fencepost.harness.history import CatchUpEvent, History, Outcome, PhaseName
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.fact_table import FactTables
from fencepost.harness.verdict.fact_tables import (
    CATCH_UPS,
    CLAIMS,
    CUTS,
    EPOCHS,
    FAULTS,
    IN_SYNC,
    LAGS,
    OPERATIONS,
    OVERLAPS,
    PHASES,
    RECOVERY,
    REIGNS,
    SERVICE,
    STALE_ANSWERS,
    STALLS,
    STOPS,
    ZOMBIE_EPISODES,
)


def derive(history: History, facts: Facts) -> FactTables:
    """Every table of `harness.verdict.fact_tables.DERIVED`, by name."""
    views = partitions(history)
    nodes = NodeFacts(history)
    of_partitions = {view.key: reigns_of_partition(view, nodes) for view in views}
    of_cluster = {name: reigns_of(history, name) for name in subjects(history) if name not in of_partitions}
    reigns = of_cluster | of_partitions
    episodes = [e for name, own in of_cluster.items() for e in episodes_of(history, facts, name, own)]
    episodes += [e for view in views for e in _of_partition(history, view, of_partitions[view.key])]
    first = _first(facts, of_cluster)
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
        SERVICE.name: service_table(history, clients),
        PHASES.name: phases_table(history, clients[0]),
        RECOVERY.name: recovery_table(history, clients, first.begins),
        STALLS.name: _stalls_table(history, facts),
        CATCH_UPS.name: _catch_ups_table(history),
        LAGS.name: lags_table(history, facts),
        IN_SYNC.name: in_sync_table(history, facts),
    }


def _first(facts: Facts, reigns: dict[str, Reigns]) -> Reigns:
    """Who led by the subject that the system's leaders are known by."""
    names = [name for name in facts.subjects if name in reigns]
    return reigns[names[0] if names else next(iter(reigns))]


def _of_partition(history: History, view: PartitionView, reigns: Reigns) -> list[Episode]:
    """The episodes of a topic partition's superseded leaders, by what `checkers.log.zombie_brokers` says of them."""
    return [_episode(deeds) for deeds in find_deeds(history, view, reigns) if deeds.requests or deeds.reign.claimed]


def _episode(deeds: Deeds) -> Episode:
    return Episode(
        subject=deeds.key,
        reign=deeds.reign,
        requests=deeds.requests,
        # Whoever was refused, answered or left waiting by a broker had reached it, or nobody knows.
        reached=[o for o in deeds.requests if o.type is not Outcome.INFO],
        served=[*deeds.acknowledged, *deeds.reads],
        fenced=deeds.fenced,
        unknown=deeds.unknown,
        acts=[(finding.anomaly, finding.operations[0]) for finding in deeds.findings],
    )


def _stalls_table(history: History, facts: Facts) -> Any:
    """When the harness or its machine stalled (-> STALLS)."""
    most_ns = facts.thresholds.stall_ns_max
    stalls = [*harness_stalls(history, most_ns), *machine_stalls(history, most_ns)]
    return STALLS.of_rows(
        [{"what": s.what, "from_ns": s.from_ns, "to_ns": s.to_ns, "length_ns": s.length_ns} for s in stalls]
    )


def _catch_ups_table(history: History) -> Any:
    """How nodes caught up, by their own logs (-> CATCH_UPS). At a cluster's start there is nothing to catch up with."""
    since_ns, _ = history.phases.get(PhaseName.MAIN, (0, 0))
    events = [event for event in history.of(CatchUpEvent) if event.time_ns >= since_ns]
    return CATCH_UPS.of_rows(
        [
            {
                "node": e.node,
                "incarnation": e.incarnation,
                "how": e.change.value,
                "read_ns": e.time_ns,
                "event": e.index,
            }
            for e in events
        ]
    )
