"""Judge a history that stands alone: no plan, no system, no faults are known of it, only what its operations say.

The guarantee is that of the model which fits the operations, and it decides. There is no coverage to ask for: the
person who brings a history knows what was tested. A history in which nothing could have gone wrong is still `unknown`.
"""

from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.interchange.formats.family import TRANSACTIONS, judged
from fencepost.harness.interchange.formats.imported import Imported
from fencepost.harness.judging.judge import Judgement, conclude
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Facts, Validity, Verdict

#: Version of the document that `--json` prints.
FORMAT: Final = 1


def judge_foreign(found: Imported, source: str, consistency: str | None = None) -> Judgement:
    """The verdict of the checker of the history's family; raises UsageError when there is none.

    `consistency`: the model that transactions are held to, in place of strict serializability.
    """
    if consistency is not None and found.family.name not in TRANSACTIONS:
        raise UsageError(
            f"{source}: --consistency is about transactions, and this history is of the model {found.family.name}",
            hint=f"models of transactions: {', '.join(TRANSACTIONS)}",
        )
    operations = found.history.operations
    if not operations:
        return _empty(found, consistency)
    family = judged(found.family, source)
    facts = _facts(consistency or family.guarantee, family.name, family.parameter)
    try:
        verdicts = registry.checker(family.checker)(found.history, facts)
    except MalformedHistory as error:
        raise MalformedHistory(f"{source}: {error.message}", hint=error.hint) from None
    return conclude(found.history, facts, tuple(verdicts))


def document(found: Imported, judgement: Judgement, source: str) -> dict[str, Any]:
    """The judgement as plain data."""
    return {
        "format": FORMAT,
        "validity": judgement.validity.value,
        "exit_code": int(judgement.exit_code),
        "headline": judgement.headline,
        "file": source,
        "form": found.form,
        "model": found.family.name,
        "keyed": found.keyed,
        "events": len(found.history.events),
        "operations": len(found.history.operations),
        "verdicts": [msgspec.to_builtins(verdict) for verdict in judgement.verdicts],
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


def _empty(found: Imported, consistency: str | None) -> Judgement:
    guarantee = consistency or found.family.guarantee or found.family.name
    reason = "nothing to judge: no operation in this history"
    verdict = Verdict(
        checker="history",
        guarantee=guarantee,
        validity=Validity.UNKNOWN,
        reason=reason,
        cause=Cause.NO_EXPOSURE,
    )
    facts = _facts(guarantee, found.family.name)
    return Judgement(validity=Validity.UNKNOWN, headline=reason, verdicts=(verdict,), facts=facts)
