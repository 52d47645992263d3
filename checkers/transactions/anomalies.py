"""Judge transactions: which anomalies a history shows, why, and which consistency models that rules out.

Two kinds of histories: lists to which transactions append (`check_list_append`), whose reads show the order of
versions; and registers of which every write writes a value of its own (`check_register`), where that order is inferred
as far as is sound. The native core finds anomalies and shortest cycles, or an order of all transactions.

A verdict is about one consistency model, and confirmed before it is given. `invalid` rests on findings that
`checkers.transactions.proof` and `checkers.transactions.weak_isolation` derived again from the rows that they name;
`valid` on an order that was carried out and returned what the history returned: a serial order, a schedule of starts
and commits, or an order of commits, as the model demands. What fails that is a defect: it counts for nothing, and
without a confirmed violation the verdict is `unknown`.

Transactions that failed never happened; one of unknown outcome happened if an ok transaction read what it wrote, and
may be left out else.

Sources: Adya, "Weak Consistency" (1999); Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental
Observations" (VLDB 2020); those of `harness.verdict.consistency_models` and `checkers.transactions.weak_isolation`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers import _core
from fencepost.checkers.transactions import exhaustion, weak_isolation
from fencepost.checkers.transactions.columns import FAIL, INFO, TransactionColumns
from fencepost.checkers.transactions.findings import TransactionFindings, chances_of, rules_of
from fencepost.checkers.transactions.native import call_core, cycles_of
from fencepost.checkers.transactions.words import TransactionFinding
from fencepost.checkers.violations.finding import Conclusion, Doubt, conclude, contradicted
from fencepost.harness.base.errors import Contradiction, unknown_choice
from fencepost.harness.verdict import Cause, Rule, Stop, Validity
from fencepost.harness.verdict.consistency_models import NAMES, implied, weakest
from fencepost.harness.verdict.figures import RULED_OUT, TRANSACTIONS, UNFINISHED, WEAKEST_RULED_OUT

STRICT: Final = "strict-serializable"
NOTHING_TESTED: Final = "no ok transaction read what another one writes: there is nothing to judge"
#: Steps that the search for shortest cycles may take; whether there is a cycle costs none of them.
STEPS: Final = 30_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionVerdict:
    """What a history of transactions shows.

    `anomalies` counts by name, `findings` tells some of each; `allowed` are those of them that do not rule out the
    model that was asked for. `ruled_out` are the consistency models that the history does not keep, weakest first;
    `weakest` are those of them that no other of them is implied by. `order` proves `valid`: rows of transactions.
    `unfinished` are classes of cycles that the budget left unsearched, but for those that rule out no further model.
    `stop` is set where the answer is unknown because a search ended by its budget. `rules` say how often each could
    have fired; `exposure` counts the reads that another transaction could have contradicted.
    """

    validity: Validity
    model: str
    reason: str = ""
    cause: Cause | None = None
    anomalies: dict[str, int]
    allowed: tuple[str, ...] = ()
    findings: tuple[TransactionFinding, ...] = ()
    ruled_out: tuple[str, ...] = ()
    weakest: tuple[str, ...] = ()
    order: NDArray[np.uint32] | None = None
    certificate: str = ""
    unfinished: tuple[str, ...] = ()
    stop: Stop | None = None
    rules: tuple[Rule, ...] = ()
    exposure: int
    figures: dict[str, Any]


class _Certificate(NamedTuple):
    """What shows a model, and with it all that the model implies."""

    model: str
    text: str
    order: NDArray[np.uint32]


#: Serial orders by the model that they show, weakest first: whether sessions, whether real time is kept; in words.
_SERIAL: Final = {
    "serializable": (False, False, "a serial order"),
    "strong-session-serializable": (True, False, "a serial order that keeps the order of each process"),
    STRICT: (False, True, "a serial order that keeps real time"),
}
_SCHEDULES: Final = {
    "snapshot-isolation": "a schedule of starts and commits",
    "strong-session-snapshot-isolation": "a schedule of starts and commits that keeps the order of each process",
    "strong-snapshot-isolation": "a schedule of starts and commits that keeps real time",
}
#: What each order that `exhaustion` finds is.
_TRIED: Final = (
    {name: text for name, (_, _, text) in _SERIAL.items()}
    | _SCHEDULES
    | dict.fromkeys(exhaustion.VERSIONS, "an order of versions without a cycle of at most one anti-dependency")
)


def check_list_append(columns: TransactionColumns, *, model: str = STRICT, steps: int = STEPS) -> TransactionVerdict:
    """Judge lists to which transactions append values, each value to a key once.

    Args:
        columns: the transactions (`checkers.transactions.columns`).
        model: the consistency model to decide.
        steps: what the search for shortest cycles may spend; whether there is a cycle does not depend on it.

    Returns:
        `invalid` with confirmed findings that rule out `model`; `valid` with an order that shows it; else `unknown`.

    Raises:
        MalformedHistory: columns that mean nothing, a process with two open transactions, a value appended twice.

    Cost: O(n log n) in transactions, linear in micro-operations and elements read, and `steps`; for models that
    `checkers.transactions.weak_isolation` decides, what that costs besides.
    Source: Adya (1999); Kingsbury & Alvaro, Elle (2020).
    """
    _known(model)
    if (verdict := _by_itself(columns, model, lists=True)) is not None:
        return verdict
    check, timed = _core.check_list_append, asks_for_real_time(model)
    report = call_core(columns, check, sessions=False, realtime=True, steps=steps, realtime_cycles=timed)
    findings = TransactionFindings(columns, lists=True)
    findings.take(report)
    findings.take_cycles(cycles_of(report))
    return _verdict(
        columns, model, report, findings, lambda **kept: call_core(columns, check, steps=0, **kept), lists=True
    )


def check_register(columns: TransactionColumns, *, model: str = STRICT, steps: int = STEPS) -> TransactionVerdict:
    """Judge registers, each value written to a key once. The order of versions is inferred:

    within one transaction, a version that it wrote follows the one that it read before, as read committed demands;
    where the model demands it, they follow each other as the transactions of one process met them (strong session
    snapshot isolation), or as transactions met them of which one was completed before the other was invoked (strong
    snapshot isolation). A finding that rests on it ends in `-process` or `-realtime`, and rules out such models only.

    Nothing, the initial value, precedes every version. `unknown` when neither an anomaly nor an order was found:
    serializability of registers is hard (Papadimitriou 1979), and orders are tried within bounds.

    Raises:
        MalformedHistory: columns that mean nothing, a process with two open transactions, a value written twice.
    """
    _known(model)
    if (verdict := _by_itself(columns, model, lists=False)) is not None:
        return verdict
    findings = TransactionFindings(columns, lists=False)
    # Where real time need not be kept, an order that keeps it is looked for at length only after others.
    timed = asks_for_real_time(model)
    in_sessions = "strong-session-snapshot-isolation" in implied(model)

    def judge(*, sequential: bool, linearizable: bool, **options: object) -> _core.TransactionReport:
        return call_core(
            columns, _core.check_rw_register, wfr=True, sequential=sequential, linearizable=linearizable, **options
        )

    kept = {"sessions": False, "realtime": True, "steps": steps, "realtime_cycles": timed}
    report = judge(sequential=False, linearizable=False, **kept, thorough=False)
    findings.take(report)
    findings.take_cycles(cycles_of(report))
    if in_sessions and report.order is None:
        # What was inferred from the model itself counts against such models alone.
        base, suffix = (
            ("strong-snapshot-isolation", "-realtime") if timed else ("strong-session-snapshot-isolation", "-process")
        )
        if base not in findings.ruled_out():
            report = judge(sequential=in_sessions, linearizable=timed, **kept)
            findings.take_cycles(cycles_of(report), suffix)

    def ask(*, sessions: bool, realtime: bool) -> _core.TransactionReport:
        return judge(sequential=sessions, linearizable=realtime, sessions=sessions, realtime=realtime, steps=0)

    return _verdict(columns, model, report, findings, ask, lists=False)


def _by_itself(columns: TransactionColumns, model: str, *, lists: bool) -> TransactionVerdict | None:
    """Return `valid` where an order of commits shows a weak model and nothing rules it out.

    What would break other models is not looked for then; `allowed` and `ruled_out` tell only what single reads show.
    """
    if model not in weak_isolation.COMMITS:
        return None
    findings = TransactionFindings(columns, lists=lists)
    chances = chances_of(columns, lists=lists)
    # Processes are the few chains that cover all transactions; without their order it takes many more, and longer.
    for shown in ("causal", model) if model == "causal-cerone" else (model,):
        try:
            report = weak_isolation.order_of_commits(columns, shown, lists=lists)
        except Contradiction:
            return None
        if not findings.counts:
            findings.take(report)
        if findings.misses_own or findings.contradictions or model in findings.ruled_out() or not chances["tested"]:
            return None
        if report.order is not None:
            certificate = _Certificate(shown, _order_of_commits(shown), report.order)
            return _assemble(columns, model, None, findings, certificate, chances, lists=lists)
    return None


def asks_for_real_time(model: str) -> bool:
    """Whether cycles with real time rule out `model`. Others can have many: clocks of sessions may have nothing in
    common."""
    return "strong-snapshot-isolation" in implied(model)


class _Ask(Protocol):
    """The native report of one kind of serial order."""

    def __call__(self, *, sessions: bool, realtime: bool) -> _core.TransactionReport: ...


def _verdict(
    columns: TransactionColumns,
    model: str,
    report: _core.TransactionReport,
    findings: TransactionFindings,
    ask: _Ask,
    *,
    lists: bool,
) -> TransactionVerdict:
    certificate: _Certificate | None = None
    stop = None if report.stop is None else Stop(report.stop)
    chances = chances_of(columns, lists=lists)
    if report.order is not None:
        certificate = _Certificate(STRICT, _SERIAL[STRICT][2], report.order)
    elif model not in findings.ruled_out() and chances["tested"] and not findings.contradictions:
        try:
            match _certify(columns, model, findings, ask, lists=lists):
                case Stop() as later:
                    stop = stop or later
                case order:
                    certificate = order
        except Contradiction as error:
            findings.contradictions.append(error.message)
    return _assemble(columns, model, report, findings, certificate, chances, lists=lists, stop=stop)


def _assemble(  # noqa: PLR0913  # everything that a verdict is made of
    columns: TransactionColumns,
    model: str,
    report: _core.TransactionReport | None,
    findings: TransactionFindings,
    certificate: _Certificate | None,
    chances: Mapping[str, int],
    *,
    lists: bool,
    stop: Stop | None = None,
) -> TransactionVerdict:
    """Put the verdict together; without a `report` nothing but the model was looked at."""
    out, tested = findings.ruled_out(), chances["tested"] > 0
    unfinished = tuple(report.unfinished) if report else ()
    conclusion = _conclude(model, out, findings, certificate, tested=tested, unfinished=bool(unfinished))
    validity, reason, cause = conclusion
    proven = certificate if validity is Validity.VALID else None
    return TransactionVerdict(
        validity=validity,
        model=model,
        reason=reason,
        cause=cause,
        anomalies=dict(findings.counts),
        allowed=tuple(name for name in findings.counts if name not in findings.against(model)),
        findings=tuple(findings.told),
        ruled_out=out,
        weakest=weakest(out),
        order=proven.order if proven else None,
        certificate=proven.text if proven else "",
        unfinished=unfinished,
        stop=stop if validity is Validity.UNKNOWN and tested else None,
        rules=rules_of(model, chances, lists=lists, transactions=int(np.count_nonzero(columns.outcome != FAIL))),
        exposure=chances["tested"],
        figures={
            TRANSACTIONS: len(columns),
            "micro_operations": len(columns.kind),
            "info_transactions": int(np.count_nonzero(columns.outcome == INFO)),
            "edges": report.edges if report else 0,
            "components": report.components if report else 0,
            "largest_component": report.largest if report else 0,
            "steps": report.steps if report else 0,
            RULED_OUT: out,
            WEAKEST_RULED_OUT: weakest(out),
            UNFINISHED: unfinished,
            **({"certificate": proven.text} if proven else {}),
        },
    )


def _certify(
    columns: TransactionColumns, model: str, findings: TransactionFindings, ask: _Ask, *, lists: bool
) -> _Certificate | Stop | None:
    """Look for an order that shows a model which nothing rules out so far; what forbids one becomes a finding.

    Where none was found, what ended the first search that did not come to its end.
    """
    stops = list[Stop]()
    if model in weak_isolation.COMMITS:
        return _commits(columns, model, findings, lists=lists)
    # What shows a stronger model is looked for where the weakest that shows this one is.
    name = next((name for name in _SCHEDULES if model in implied(name)), None)
    if name and name not in findings.ruled_out():
        match weak_isolation.schedule(columns, name, lists=lists):
            case Stop() as stop:
                stops.append(stop)
            case None:
                pass
            case order:
                return _Certificate(name, _SCHEDULES[name], order)
    # Only without any finding is there a serial order; that with real time was looked for before.
    name = next(name for name in _SERIAL if model in implied(name))
    if name != STRICT and name not in findings.ruled_out():
        sessions, realtime, text = _SERIAL[name]
        report = ask(sessions=sessions, realtime=realtime)
        if report.order is not None:
            return _Certificate(name, text, report.order)
        stops += [] if report.stop is None else [Stop(report.stop)]
    needed = [name for name in weak_isolation.COMMITS if name in implied(model)]
    if needed:
        result = _commits(columns, needed[-1], findings, lists=lists, steps=weak_isolation.REFUTING_STEPS)
        if isinstance(result, _Certificate) and model in implied(result.model):
            return result
        stops += [result] if isinstance(result, Stop) else []
    if model in exhaustion.OWN_WRITES and findings.misses_own:
        return stops[0] if stops else None
    match exhaustion.tried(columns, model, lists=lists):
        case None:
            return stops[0] if stops else None
        case exhaustion.Exhaustion() as nothing:
            findings.take_exhaustion(nothing)
            return None
        case order:
            shows = "serializable" if model == "repeatable-read" else model
            return _Certificate(shows, _TRIED[shows], order)


def _commits(
    columns: TransactionColumns,
    model: str,
    findings: TransactionFindings,
    *,
    lists: bool,
    steps: int = weak_isolation.STEPS,
) -> _Certificate | Stop | None:
    if findings.misses_own:
        return None
    if model == "causal-cerone":
        # Processes are the few chains that cover all transactions; without their order it takes many more, and longer.
        result = weak_isolation.commits(columns, "causal", lists=lists, steps=steps)
        if isinstance(result, np.ndarray):
            return _Certificate("causal", _order_of_commits("causal"), result)
    result = weak_isolation.commits(columns, model, lists=lists, steps=steps)
    if isinstance(result, weak_isolation.CommitCircle):
        findings.take_circle(result)
        return None
    if result is None or isinstance(result, Stop):
        return result
    return _Certificate(model, _order_of_commits(model), result)


def _order_of_commits(model: str) -> str:
    seen = "" if model == "read-committed" else " and has what each transaction must have seen before what it read"
    kept = " keeps the order of each process" if weak_isolation.COMMITS[model][1] else ""
    return "an order of commits that" + " and".join(filter(None, (kept, " has writers before readers"))) + seen


def _known(model: str) -> None:
    if model not in NAMES:
        raise unknown_choice("consistency model", model, NAMES)


def _conclude(
    model: str,
    out: Sequence[str],
    findings: TransactionFindings,
    proof: _Certificate | None,
    *,
    tested: bool,
    unfinished: bool,
) -> Conclusion:
    beside = f"{', '.join(findings.counts)} do not rule out {model}" if findings.counts else ""
    kept, doubt = "", contradicted(findings.contradictions)
    if doubt is not None:
        pass
    elif not beside and not tested:
        doubt = Doubt(Cause.NO_EXPOSURE, NOTHING_TESTED)
    elif proof is not None and model in implied(proof.model):
        shows = f"{proof.text} shows it"
        kept = "" if proof.model == STRICT else f"{beside}; {shows}" if beside else shows
    elif beside:
        doubt = Doubt(Cause.UNDECIDED, f"{beside}, and no order of the transactions proves it")
    elif unfinished:
        doubt = Doubt(Cause.OUT_OF_BUDGET, "there are cycles; the budget ended before any of them was found")
    else:
        why = "no anomaly was found, and no order of the transactions that explains what they returned"
        doubt = Doubt(Cause.UNDECIDED, why)
    broken = f"{model} is ruled out by {', '.join(findings.against(model))}" if model in out else ""
    return conclude(broken=broken, doubt=doubt, kept=kept)
