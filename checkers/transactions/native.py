"""Calls of the native core that judge transactions: its errors translated, its answers as values."""

from typing import NamedTuple

from fencepost.checkers import _core
from fencepost.checkers.transactions.columns import TransactionColumns
from fencepost.checkers.transactions.proof import Anomaly, Cycle, Step
from fencepost.harness.base.errors import Contradiction, MalformedHistory


class Assumed(NamedTuple):
    """What a register's order of versions is inferred from; see `checkers.transactions.anomalies.check_register`."""

    wfr: bool = True
    sequential: bool = False
    linearizable: bool = False


def judge_lists(
    columns: TransactionColumns, *, sessions: bool, realtime: bool, steps: int, realtime_cycles: bool = True
) -> _core.TransactionReport:
    """Judge lists natively (`_core.check_list_append`).

    Raises:
        MalformedHistory: columns that mean nothing.
        Contradiction: the native core does not confirm its own answer.
    """
    c = columns
    try:
        return _core.check_list_append(
            c.process,
            c.outcome,
            c.invoked,
            c.completed,
            c.first,
            c.kind,
            c.key,
            c.value,
            c.start,
            c.elements,
            sessions=sessions,
            realtime=realtime,
            realtime_cycles=realtime_cycles,
            steps=steps,
        )
    except ValueError as error:
        raise MalformedHistory(str(error)) from error
    except RuntimeError as error:
        raise Contradiction(f"the native checker of transactions does not confirm its answer: {error}") from error


def judge_registers(
    columns: TransactionColumns,
    assumed: Assumed,
    *,
    sessions: bool,
    realtime: bool,
    steps: int,
    realtime_cycles: bool = True,
    thorough: bool = True,
) -> _core.TransactionReport:
    """Judge registers natively (`_core.check_rw_register`).

    Raises: as `judge_lists`.
    """
    c = columns
    try:
        return _core.check_rw_register(
            c.process,
            c.outcome,
            c.invoked,
            c.completed,
            c.first,
            c.kind,
            c.key,
            c.value,
            sessions=sessions,
            realtime=realtime,
            realtime_cycles=realtime_cycles,
            thorough=thorough,
            steps=steps,
            **assumed._asdict(),
        )
    except ValueError as error:
        raise MalformedHistory(str(error)) from error
    except RuntimeError as error:
        raise Contradiction(f"the native checker of transactions does not confirm its answer: {error}") from error


def findings_of(report: _core.TransactionReport) -> tuple[list[Anomaly], list[Cycle]]:
    """The report's anomalies and cycles as values."""
    anomalies = [Anomaly(*fields) for fields in report.anomalies]
    cycles = [Cycle(name, shortest, tuple(Step(*step) for step in steps)) for name, shortest, steps in report.cycles]
    return anomalies, cycles
