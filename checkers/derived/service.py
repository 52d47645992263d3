"""The service that clients got: operations served and the longest gap, by segment, phase, fault and node.

An operation is counted where it was invoked, and serves where it ended `ok`. The run is cut into segments wherever a
phase or a fault begins or ends, so that every interval of interest is a run of whole segments.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from fencepost.checkers.derived.claims import begin_at, next_begin
from fencepost.checkers.derived.reigns import EpochBegin
from fencepost.checkers.derived.versions import Flags, Longs, OperationColumns
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.history import FaultSpan, History
from fencepost.harness.verdict.fact_tables import PHASES, RECOVERY, SERVICE

Row = dict[str, Any]


class _Clients:
    """The operations that were sent to one node, or to all, as sorted times."""

    def __init__(self, columns: OperationColumns, node: str | None) -> None:
        self.node: Final = node
        own: Flags = np.ones(len(columns.operations), np.bool_) if node is None else columns.of_node(node)
        self._invoked_ns: Final = columns.invoked_ns[own]
        self._ok: Final = columns.ok[own]
        self._latency_ns: Final = columns.latency_ns[own]
        # How many of each outcome were invoked before each operation.
        self._before: Final = {
            "ok": _running(self._ok),
            "fail": _running(columns.fail[own]),
            "info": _running(~(self._ok | columns.fail[own])),
        }
        #: When operations ended `ok`, in order.
        self.served_ns: Final = np.sort(columns.completed_ns[own & columns.ok])

    def outcomes(self, from_ns: int, to_ns: int) -> Row:
        """Count the operations invoked in [`from_ns`, `to_ns`), by outcome."""
        first, last = np.searchsorted(self._invoked_ns, [from_ns, to_ns])
        return {name: int(before[last] - before[first]) for name, before in self._before.items()}

    def gap(self, from_ns: int, to_ns: int) -> Row:
        """Return the longest stretch of [`from_ns`, `to_ns`) in which nothing ended `ok`; the first of equal ones."""
        first, last = np.searchsorted(self.served_ns, [from_ns, to_ns])
        edges = np.concatenate(([from_ns], self.served_ns[first:last], [to_ns]))
        lengths = np.diff(edges)
        longest = int(np.argmax(lengths))
        return {"longest_without_ok_ns": int(lengths[longest]), "without_ok_from_ns": int(edges[longest])}

    def served(self, from_ns: int, to_ns: int) -> int:
        """Count the operations that ended `ok` in [`from_ns`, `to_ns`)."""
        first, last = np.searchsorted(self.served_ns, [from_ns, to_ns])
        return int(last - first)

    def next_ok_ns(self, from_ns: int) -> int | None:
        """Return when the first operation ended `ok` at or after `from_ns`; None if none did."""
        at = int(np.searchsorted(self.served_ns, from_ns))
        return int(self.served_ns[at]) if at < len(self.served_ns) else None

    def latencies(self, from_ns: int, to_ns: int) -> Row:
        """Quantiles (nearest rank) of what was invoked in [`from_ns`, `to_ns`) and ended `ok`."""
        first, last = np.searchsorted(self._invoked_ns, [from_ns, to_ns])
        ok = np.sort(self._latency_ns[first:last][self._ok[first:last]])
        return {
            "latency_ns_p50": int(ok[(len(ok) - 1) // 2]) if len(ok) else None,
            "latency_ns_p99": int(ok[int(0.99 * (len(ok) - 1))]) if len(ok) else None,
        }


def clients_of(columns: OperationColumns) -> list[_Clients]:
    """Return the clients of all nodes together, then those of each node."""
    return [_Clients(columns, node) for node in (None, *sorted(set(columns.nodes)))]


def service_table(history: History, clients: Sequence[_Clients]) -> Any:
    """Lay out the service of each node in each segment (-> SERVICE)."""
    return SERVICE.of_rows([row for segment in segments(history) for row in _segment_rows(history, segment, clients)])


def segments(history: History) -> list[tuple[int, int]]:
    """Return [from, to) of every segment, in order and without gaps."""
    end_ns = history.end_ns + 1
    cuts = {0, end_ns} | {start for start, _ in history.phases.values()}
    for fault in history.faults:
        cuts |= {fault.began_ns, _end_ns(fault, end_ns)}
    bounds = sorted(cuts)
    return list(pairwise(bounds))


def _segment_rows(history: History, segment: tuple[int, int], clients: Sequence[_Clients]) -> list[Row]:
    from_ns, to_ns = segment
    phase = next((name.value for name, (start, end) in history.phases.items() if start <= from_ns < end), None)
    faults = [f.fault_id for f in history.faults if f.began_ns <= from_ns < _end_ns(f, history.end_ns + 1)]
    shared = {"phase": phase, "fault_ids": faults, "from_ns": from_ns, "to_ns": to_ns}
    return [
        {
            "node": one.node,
            **shared,
            **one.outcomes(from_ns, to_ns),
            "served": one.served(from_ns, to_ns),
            **one.gap(from_ns, to_ns),
        }
        for one in clients
    ]


def phases_table(history: History, everyone: _Clients) -> Any:
    """Lay out the service in each phase (-> PHASES)."""
    return PHASES.of_rows(
        [
            {"phase": phase.value, "from_ns": start, "to_ns": end}
            | everyone.outcomes(start, end)
            | everyone.gap(start, end)
            for phase, (start, end) in history.phases.items()
        ]
    )


def recovery_table(history: History, clients: Sequence[_Clients], begins: Sequence[EpochBegin]) -> Any:
    """Lay out the service in and after each fault (-> RECOVERY); `begins` are the beginnings of the leaders' epochs."""
    return RECOVERY.of_rows([_recovery(history, fault, one, begins) for fault in history.faults for one in clients])


def _recovery(history: History, fault: FaultSpan, clients: _Clients, begins: Sequence[EpochBegin]) -> Row:
    began_ns, to_ns = fault.began_ns, _end_ns(fault, history.end_ns + 1)
    after_ns = None if fault.ended_ns is None else clients.next_ok_ns(fault.ended_ns)
    new = _new_epoch(history, fault, begins) if clients.node is None else None
    return {
        "fault_id": fault.fault_id,
        "node": clients.node,
        "new_epoch": None if new is None else new.epoch,
        "new_leader_after_ns": None if new is None else new.at_ns - began_ns,
        "recovered_after_ns": None if after_ns is None or fault.ended_ns is None else after_ns - fault.ended_ns,
        **clients.outcomes(began_ns, to_ns),
        **clients.gap(began_ns, to_ns),
        **clients.latencies(began_ns, to_ns),
    }


def _new_epoch(history: History, fault: FaultSpan, begins: Sequence[EpochBegin]) -> EpochBegin | None:
    """Return the first epoch that began in the fault, or before the next one, above all that had begun before."""
    next_ns = min((f.began_ns for f in history.faults if f.began_ns > fault.began_ns), default=NEVER_NS)
    before = begin_at(begins, fault.began_ns - 1)
    new = next_begin(begins, None if before is None else before.epoch, fault.began_ns - 1)
    return new if new is not None and new.at_ns < next_ns else None


def _end_ns(fault: FaultSpan, never_ns: int) -> int:
    return never_ns if fault.ended_ns is None else fault.ended_ns


def _running(flags: Flags) -> Longs:
    return np.concatenate(([0], np.cumsum(flags, dtype=np.int64)))
