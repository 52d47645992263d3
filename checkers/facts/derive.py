"""Facts, derived once: from a history to the tables that pages show and that Spark computes over many runs with.

A pure function of the history and of what is known of the run. Every definition lies with its subject, in a module
of this folder; this module only says which tables the core has. `harness.plugins.registry.derive` adds those of leaves.
Checkers read the same definitions.

Cost: O(n log n) for n events.
"""

from typing import Any

from fencepost.checkers.facts.clocks import stalls_of
from fencepost.checkers.facts.episodes import (
    Episode,
    episodes_of,
    episodes_table,
    overlaps_table,
    stale_answers_table,
)
from fencepost.checkers.facts.operation_columns import OperationColumns
from fencepost.checkers.facts.partitions import Deeds, deeds_of_partitions, reigns_of_partitions
from fencepost.checkers.facts.reigns import (
    Reigns,
    claims_table,
    epochs_table,
    first_subject,
    reigns_of,
    reigns_table,
    subjects,
)
from fencepost.checkers.facts.servers import (
    catch_ups_table,
    cuts_table,
    faults_table,
    quorum_losses_table,
    server_ends_table,
    stops_table,
)
from fencepost.checkers.facts.service import clients_of, phases_table, recovery_table, service_table
from fencepost.harness.history import History, Outcome
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
    episodes += [_episode(deeds) for deeds in deeds_of_partitions(history) if deeds.requests or deeds.reign.claimed]
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


def _episode(deeds: Deeds) -> Episode:
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


def _stalls_table(history: History, facts: Facts) -> Any:
    """When the harness or its machine stalled (-> STALLS)."""
    stalls = stalls_of(history, facts.thresholds.stall_ns_max)
    return STALLS.of_rows(
        [{"what": s.what, "from_ns": s.from_ns, "to_ns": s.to_ns, "length_ns": s.length_ns} for s in stalls]
    )
