"""Metadata: acknowledged changes stay, views move forward, nodes converge, epochs never go back.

Settings are read from each node's own copy, which may lag on every node. So they are judged by what a quorum promises
however far copies lag; how stale the answers were is a figure. Four verdicts:
  - "metadata-durable": every acknowledged change is in every final view that is proven to be late enough;
  - "metadata-forward": within one run of a server, no answer goes back behind what the server had shown;
  - "metadata-converges": all nodes give the same answers at the end (a node that lags: unknown; two different answers
    at one offset: invalid);
  - "epochs-never-go-back", by the nodes' own claims.
"""

from fencepost.checkers.derived.servers import Incarnations
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.metadata import converges, durable, epochs, forward
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChanges
from fencepost.systems.kafka.checkers.metadata.staleness import staleness


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all settings and names of a history.

    Args:
        history: changes of settings (`alter`), reads of them (`describe`), names (`create`, `exists`), and claims.
        facts: nodes, voters and the faults that the plan asks for.

    Returns:
        The four verdicts above, in that order; "metadata-forward" also carries how stale answers were.

    Source: a quorum keeps one log, and a committed entry is never lost (Ongaro, 2014, chapter 3, for KRaft; Junqueira,
    Reed, Serafini, "Zab", 2011, for ZooKeeper). Views lag behind that log, but only move forward in it.

    Cost: O(n log n) for n operations.
    """
    changes, incarnations = MetadataChanges(history, facts), Incarnations(history)
    return [
        durable.judge(history, changes, incarnations, facts),
        forward.judge(changes, incarnations, staleness(history, facts, changes), facts),
        converges.judge(history, changes, facts),
        epochs.judge(history, facts),
    ]
