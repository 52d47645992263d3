"""Judged histories that are drawn: each from a line of the tests' tiny languages."""

from fencepost.checkers.storage.registers import check as linearizable
from fencepost.harness.history import (
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    OpEvent,
    Outcome,
)
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.verdict import Facts, Witness
from tests.interchange.formats.histories import edn, read

FACTS = Facts(system="", workload="register", nodes=(), guarantees=(), required=("linearizable",))


def registers(words: str) -> tuple[Witness, History]:
    """The first witness of a history in the language of `tests.interchange.formats.histories`."""
    found = read(edn(words))
    return linearizable(found.history, FACTS)[0].witnesses[0], found.history


def named(words: str, events: tuple[int, ...], *steps: str) -> tuple[Witness, History]:
    """A witness made by hand, of these events."""
    found = read(edn(words))
    return Witness(anomaly="by-hand", events=events, steps=steps, from_ns=0, to_ns=1), found.history


def transactions(*rows: tuple[str, str], one_by_one: bool = False) -> str:
    """EDN of transactions, each as invoked and as completed, all at once or one after the other."""
    lines = [_line("invoke", process, asked) for process, (asked, _) in enumerate(rows)]
    ends = [_line("ok", process, done) for process, (_, done) in enumerate(rows)]
    ordered = [line for pair in zip(lines, ends, strict=True) for line in pair] if one_by_one else lines + ends
    return "\n".join(ordered)


def _line(kind: str, process: int, value: str) -> str:
    return f"{{:type :{kind} :process {process} :f :txn :value {value}}}"


def ring(count: int, value: str = "{}") -> str:
    """So many transactions, each of which misses what the next one appended; and one more that reads all of it."""
    rows = []
    for place in range(count):
        own, other = f":k{place}", f":k{(place + 1) % count}"
        append = f"[:append {own} {value.format(place)}]"
        rows.append((f"[{append} [:r {other} nil]]", f"[{append} [:r {other} []]]"))
    asked = " ".join(f"[:r :k{place} nil]" for place in range(count))
    done = " ".join(f"[:r :k{place} [{value.format(place)}]]" for place in range(count))
    return transactions(*rows, (f"[{asked}]", f"[{done}]"))


def judged(text: str) -> tuple[Witness, History]:
    """The first witness of transactions that append to lists, or write registers."""
    found = read(text)
    return judge_foreign(found, "a.edn").verdicts[0].witnesses[0], found.history


def of_run() -> tuple[Witness, History]:
    """As a run of ours records it: nodes with names, a key, a value of some length."""
    rows: list[tuple[Outcome, int, str, object]] = [
        (Outcome.INVOKE, 0, "write", "a long value " * 9),
        (Outcome.OK, 0, "write", "a long value " * 9),
        (Outcome.INVOKE, 1, "write", 2),
        (Outcome.INVOKE, 2, "read", None),
        (Outcome.INFO, 1, "write", 2),
        (Outcome.OK, 2, "read", None),
    ]
    events: list[Event] = [
        OpEvent(index=i, time_ns=i * 1000, type=kind, process=p, f=f, node=f"n{p + 1}", key="r0", value=value)
        for i, (kind, p, f, value) in enumerate(rows)
    ]
    history = History(events)
    return linearizable(history, FACTS)[0].witnesses[0], history


def disturbed(*, healed: bool) -> tuple[Witness, History]:
    """A pause that is proven while the second write is open; another that was skipped, and one when all is over."""
    rows: list[tuple[Outcome, int] | tuple[FaultAction, FaultStage, FaultOutcome, int]] = [
        (Outcome.INVOKE, 0),
        (Outcome.OK, 0),
        (Outcome.INVOKE, 1),
        (FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING, 1),
        (FaultAction.INJECT, FaultStage.END, FaultOutcome.SKIPPED, 1),
        (FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING, 2),
        (FaultAction.INJECT, FaultStage.END, FaultOutcome.INSTALLED, 2),
        *([(FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING, 2)] * healed),
        (Outcome.OK, 1),
        (Outcome.INVOKE, 2),
        (Outcome.OK, 2),
        (FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING, 3),
        (FaultAction.INJECT, FaultStage.END, FaultOutcome.INSTALLED, 3),
    ]
    operations = (("write", 1), ("write", 2), ("read", 1))
    events: list[Event] = []
    for i, row in enumerate(rows):
        if len(row) == 2:
            kind, p = row
            f, value = operations[p]
            done = None if f == "read" and kind is Outcome.INVOKE else value
            events.append(OpEvent(index=i, time_ns=i, type=kind, process=p, f=f, node=f"n{p + 1}", value=done))
        else:
            action, stage, outcome, number = row
            node = f"n{number}"
            events.append(
                FaultEvent(
                    index=i,
                    time_ns=i,
                    fault_id=number,
                    fault="pause",
                    action=action,
                    stage=stage,
                    outcome=outcome,
                    target="one",
                    nodes=(node,),
                )
            )
    read_at = 9 if healed else 8
    step = f"It was the read (event {read_at})."
    named = tuple(i for i, row in enumerate(rows) if len(row) == 2)
    return Witness(anomaly="by-hand", events=named, steps=(step,), from_ns=0, to_ns=1), History(events)
