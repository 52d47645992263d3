"""The native core's word on transactions: its calls, its errors translated, its answers as values."""

from fencepost.checkers import _core
from fencepost.checkers.transactions.columns import TransactionColumns
from fencepost.checkers.transactions.proof import Anomaly, Cycle, Step
from fencepost.harness.base.errors import HarnessError, MalformedHistory


def judge_lists(columns: TransactionColumns, *, sessions: bool, realtime: bool, steps: int) -> _core.TransactionReport:
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
            steps=steps,
        )
    except ValueError as error:
        raise MalformedHistory(str(error)) from error
    except RuntimeError as error:
        raise HarnessError(f"the native checker of transactions: {error}") from error


def judge_registers(
    columns: TransactionColumns,
    *,
    sessions: bool,
    realtime: bool,
    steps: int,
    wfr: bool,
    sequential: bool,
    linearizable: bool,
    thorough: bool = True,
) -> _core.TransactionReport:
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
            wfr=wfr,
            sequential=sequential,
            linearizable=linearizable,
            thorough=thorough,
            steps=steps,
        )
    except ValueError as error:
        raise MalformedHistory(str(error)) from error
    except RuntimeError as error:
        raise HarnessError(f"the native checker of transactions: {error}") from error


def found_in(report: _core.TransactionReport) -> tuple[list[Anomaly], list[Cycle]]:
    anomalies = [Anomaly(*found) for found in report.anomalies]
    cycles = [Cycle(name, shortest, tuple(Step(*step) for step in steps)) for name, shortest, steps in report.cycles]
    return anomalies, cycles
