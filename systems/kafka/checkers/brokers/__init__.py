"""Brokers: how the controllers keep them, and what a broker does without a controller.

That a silent broker is fenced in time and does not go on serving, and that the others are told (`fencing`), that only
living brokers lead and only their newest registration counts (`registrations`), that only who has every record is
elected (`eligible`), that what leaders are told of in-sync replicas stays (`in_sync_changes`), that a leader with too
few of them takes no append (`too_few_in_sync`), and that a broker which is told to end hands over first (`shutdown`). A
system that states nothing about brokers gets no verdict.
"""

from fencepost.checkers.derived.reigns import reigns_of, subjects
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.brokers import (
    eligible,
    in_sync_changes,
    registrations,
    shutdown,
    too_few_in_sync,
)
from fencepost.systems.kafka.checkers.brokers.fencing import judge_in_time, judge_self_fencing, judge_told
from fencepost.systems.kafka.checkers.brokers.silence import Silences
from fencepost.systems.kafka.facts.controllers import CONTROLLER


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the brokers of one history.

    Args:
        history: one run; its faults, log lines, deaths of servers and the voters' metadata logs are used.
        facts: `brokers` has the brokers and the length of their sessions.

    Returns:
        A verdict for each guarantee that the system states; none where it has no brokers.

    Cost: O(n log n) for n events.
    """
    bound = facts.sessions
    if bound is None:
        return []
    of = subjects(history)
    reigns = reigns_of(history, CONTROLLER if CONTROLLER in of else of[0])
    silences = Silences(history, facts, bound, reigns)
    kept = in_sync_changes.KeptInSync(history, facts)
    verdicts = [
        judge_in_time(history, facts, bound, silences),
        judge_self_fencing(history, bound, facts, silences),
        *registrations.judge(history, bound, facts),
        *eligible.judge(history, bound, facts),
        in_sync_changes.judge(history, facts, kept),
        *too_few_in_sync.judge(history, facts, kept),
        *judge_told(history, bound, facts, silences, reigns),
        *shutdown.judge(history, facts),
    ]
    return [verdict for verdict in verdicts if facts.guarantee(verdict.guarantee) is not None]
