"""How far nodes' logs were behind the leader's high watermark, by the leader's own answers ("behind 4=12 2=3").

The numbers are node ids, in the order of the cluster's nodes from 1 on; what they count are offsets of the log.
"""

import re
from typing import Any, Final

from fencepost.harness.history import BeliefEvent, Claim, History, PhaseName
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.fact_tables import LONG, TEXT, DerivedTable, FactTable, columns

LAGS: Final = FactTable(
    name="lags",
    row="a node whose log was behind the leader's high watermark in some answer of the leader, from the main phase on",
    columns=columns(
        ("node", TEXT, "the node"),
        ("offsets_max", LONG, "the most offsets that its log was behind"),
        ("at_ns", LONG, "when the leader said so"),
        ("leader", TEXT, "the leader that said so"),
        ("answers", LONG, "how many answers say that it was behind"),
        ("event", LONG, "the row of the history"),
    ),
)

_BEHIND: Final = re.compile(r"behind((?: \d+=\d+)+)")
_ONE: Final = re.compile(r"(\d+)=(\d+)")


def lags_table(history: History, facts: Facts) -> Any:
    """The largest lag of each node from the main phase on (-> LAGS); no rows where no answer tells of one."""
    since_ns, _ = history.phases.get(PhaseName.MAIN, (0, 0))
    largest: dict[str, dict[str, Any]] = {}
    times: dict[str, int] = {}
    for event in history.events:
        if type(event) is not BeliefEvent or event.claims is not Claim.YES or event.time_ns < since_ns:
            continue
        match = _BEHIND.fullmatch(event.detail or "")
        for number, offsets in _ONE.findall(match.group(1)) if match else ():
            if not 0 < int(number) <= len(facts.nodes):
                continue
            node = facts.nodes[int(number) - 1]
            times[node] = times.get(node, 0) + 1
            if int(offsets) > largest.get(node, {}).get("offsets_max", 0):
                largest[node] = {
                    "node": node,
                    "offsets_max": int(offsets),
                    "at_ns": event.answered_ns,
                    "leader": event.node,
                    "event": event.index,
                }
    return LAGS.of_rows([{**largest[node], "answers": times[node]} for node in facts.nodes if node in largest])


TABLE: Final = DerivedTable(table=LAGS, derive=lags_table)
