"""Judge a history that stands alone: without a plan, a system or faults, by its operations only.

The guarantee is that of the model which fits the operations, and it decides. Coverage is not judged: whoever brings a
history knows what was tested. A history in which nothing could have gone wrong is still `unknown`.
"""

import re
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import Contradiction, MalformedHistory, UsageError
from fencepost.harness.history import Outcome
from fencepost.harness.interchange.formats.family import TRANSACTIONS, judged
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory
from fencepost.harness.judging.judgement import Judgement, conclude
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Facts, SearchBudget, Validity, Verdict, Witness
from fencepost.harness.verdict.by_guarantee import plain_verdict

_TEXT_MAX: Final = 200
#: What the budget has for each operation, where that is more than the usual one.
_STEPS_PER_OPERATION: Final = 100
_WALL_S_PER_OPERATION: Final = 60e-6
_EVENT: Final = re.compile(r"\bevent (\d+)\b")
#: A moment of a history whose times are the numbers of its events.
_MOMENT: Final = re.compile(r"\bat (\d+) ns\b")
#: What orders transactions of different sessions by time, and the strongest model that does not.
_BY_TIME: Final = ("strict-serializable", "strong-snapshot-isolation")
_WITHOUT_TIMES: Final = "strong-session-serializable"
#: Reads of what nobody wrote, and what a user can do who knows where it came from.
_OF_NOBODY: Final = frozenset(
    {"phantom-read", "cas-phantom-read", "garbage-read", "phantom-element", "invented-element", "impossible-value"}
)
_WAS_THERE: Final = "If it was there before the first operation, say so: --initial VALUE, or --initial KEY=VALUE."
#: Version of the document that `--json` prints.
FORMAT: Final = 2


def judge_foreign(imported: Imported, source: str, consistency: str | None = None) -> Judgement:
    """Judge a foreign history by the checker of its family.

    Args:
        imported: the history, with the model that fits its operations.
        source: the file's name, for messages.
        consistency: the model that transactions are held to, in place of strict serializability.

    Returns:
        The judgement; `unknown` for a history without operations.

    Raises:
        UsageError: no checker knows the model, or `consistency` is given for something else than transactions.
        MalformedHistory: the events contradict each other; the message begins with `source`.
    """
    if consistency is not None and imported.family.name not in TRANSACTIONS:
        raise UsageError(
            f"{source}: --consistency is about transactions, and this history is of the model {imported.family.name}",
            hint=f"models of transactions: {', '.join(TRANSACTIONS)}",
        )
    operations = imported.history.operations
    if not operations:
        return _empty(imported, consistency)
    family = judged(imported.family, source)
    facts = _facts(_guarantee(imported, source, consistency), family.name, family.parameter)
    facts = msgspec.structs.replace(facts, budget=_budget(len(operations)))
    try:
        is_held = family.model is not None or (family.is_users and family.name in registry.MODELS)
        named = registry.checker(family.checker) if not is_held else None
        check = named or registry.checker_of_model(family.name, family.model)
        verdicts = check(imported.history, facts)
    except MalformedHistory as error:
        raise MalformedHistory(f"{source}: {_placed(error.message, imported.history)}", hint=error.hint) from None
    except Contradiction as error:
        doubt = Verdict(
            checker=family.checker,
            guarantee=facts.read_guarantee,
            validity=Validity.UNKNOWN,
            reason=error.message,
            cause=Cause.FAILED,
        )
        verdicts = [doubt]
    return conclude(imported.history, facts, tuple(_in_file(verdict, imported) for verdict in verdicts))


def _budget(operations: int) -> SearchBudget:
    """Return the usual budget, or more for a long history: files grow without bound."""
    usual = SearchBudget()
    return SearchBudget(
        steps=max(usual.steps, _STEPS_PER_OPERATION * operations),
        memory_bytes=usual.memory_bytes,
        wall_s=max(usual.wall_s, _WALL_S_PER_OPERATION * operations),
    )


def _guarantee(imported: Imported, source: str, consistency: str | None) -> str:
    """Return what the history is held to; raises UsageError for what nobody can tell without times."""
    guarantee = consistency or imported.family.guarantee
    if imported.has_times or imported.family.name not in TRANSACTIONS or guarantee not in _BY_TIME:
        return guarantee
    if consistency is None:
        return _WITHOUT_TIMES
    raise UsageError(
        f"{source}: {consistency} orders transactions of different sessions by time, and this file has no times",
        hint=f"--consistency {_WITHOUT_TIMES}, causal, read-atomic, ...",
    )


def _placed(message: str, history: ImportedHistory) -> str:
    """Name the places in the file in place of the events."""
    in_file = history.in_file
    return message if in_file is None else _EVENT.sub(lambda match: in_file.place(int(match[1])), message)


def _in_file(verdict: Verdict, imported: Imported) -> Verdict:
    """Add to each witness where the file has the answer that is at fault, and what may explain it.

    Where the file has no times, moments are told by the events.
    """
    if not verdict.witnesses:
        return verdict
    history, in_file = imported.history, imported.history.in_file
    answers = {op.invoke_index: op for op in history.operations if op.type is Outcome.OK}
    has_times = any(op.invoked_ns != op.invoke_index for op in history.operations)
    number = {op.invoke_index: number for number, op in history.transactions.items()}

    def with_answer(witness: Witness) -> Witness:
        if not has_times:
            steps = tuple(_MOMENT.sub(r"at event \1", step) for step in witness.steps)
            witness = msgspec.structs.replace(witness, steps=steps)
        if witness.anomaly in _OF_NOBODY and not imported.has_initial:
            witness = msgspec.structs.replace(witness, steps=(*witness.steps, _WAS_THERE))
        if imported.form == "transactions" and in_file is not None and witness.proof is not None:
            named = [f"T{number[row]} is {in_file.place(row)}" for row in witness.proof.rows]
            return msgspec.structs.replace(witness, steps=(*witness.steps, f"In the table {', '.join(named)}."))
        match = _EVENT.search(witness.steps[0]) if witness.steps else None
        op = answers.get(int(match[1])) if match else None
        if op is None or op.complete_index is None or in_file is None:
            return witness
        where, text = (find(op.complete_index) for find in in_file)
        step = f"The file has its answer in {where}: {text[:_TEXT_MAX]}{'...' if len(text) > _TEXT_MAX else ''}"
        return msgspec.structs.replace(witness, steps=(*witness.steps, f"{step}."))

    return msgspec.structs.replace(verdict, witnesses=tuple(map(with_answer, verdict.witnesses)))


def document(imported: Imported, judgement: Judgement, source: str) -> dict[str, Any]:
    """The judgement as plain data."""
    return {
        "format": FORMAT,
        "validity": judgement.validity.value,
        "exit_code": int(judgement.exit_code),
        "headline": judgement.headline,
        "file": source,
        "form": imported.form,
        "model": imported.family.name,
        "keyed": imported.keyed,
        "events": len(imported.history.events),
        "operations": len(imported.history.operations),
        "verdicts": [plain_verdict(verdict) for verdict in judgement.verdicts],
    }


def _facts(guarantee: str, model: str, parameter: str = "") -> Facts:
    return Facts(
        system="",
        workload=model,
        nodes=(),
        guarantees=(),
        required=(guarantee,),
        read_guarantee=guarantee,
        options={"parameter": parameter} if parameter else {},
    )


def _empty(imported: Imported, consistency: str | None) -> Judgement:
    guarantee = consistency or imported.family.guarantee or imported.family.name
    reason = "nothing to judge: no operation in this history"
    verdict = Verdict(
        checker="history",
        guarantee=guarantee,
        validity=Validity.UNKNOWN,
        reason=reason,
        cause=Cause.NO_EXPOSURE,
    )
    facts = _facts(guarantee, imported.family.name)
    return Judgement(validity=Validity.UNKNOWN, headline=reason, verdicts=(verdict,), facts=facts)
