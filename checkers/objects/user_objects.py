"""Judge a history by a model that a user wrote, named as `module:attribute`: a class without arguments, or an instance.

Each key is an object of its own. The model is not believed: whatever it raises, returns or changes that a model must
not ends as a mistake of the model's, with its name and the operation, never as a verdict.
"""

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.facts.positions import exposed, is_ok, not_failed
from fencepost.checkers.findings.finding import Finding, describe, rule
from fencepost.checkers.findings.ladder import Doubt, Findings
from fencepost.checkers.objects.judging import GUARANTEE, NON_LINEARIZABLE, times
from fencepost.checkers.objects.python_search import Call, Found, fault_in, kinds_of, search
from fencepost.checkers.objects.user_model import UNKNOWN
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Budget, Cause, Facts, Stop, Verdict

CHECKER: Final = "user-model"
EXPOSURE_OF: Final = "ok operations with another before or behind them"
#: A step in Python costs microseconds: what a native search may spend would be hours.
STEPS_MAX: Final = 5_000_000
_SHOWN_MAX: Final = 6

T = TypeVar("T")


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge by the model that `facts.options["parameter"]` names; see `judge`."""
    name = str(facts.options.get("parameter", ""))
    return judge(name, load(name), history, facts)


def load(name: str) -> Any:
    """The model of this name, made new where it is a class; raises UsageError."""
    module, _, attribute = name.partition(":")
    # As with python -m: what stands in the current folder can be named.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        target: Any = importlib.import_module(module)
        for part in attribute.split("."):
            target = getattr(target, part)
        model = target() if isinstance(target, type) else target
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the model {name} cannot be imported: {type(error).__name__}: {error}",
            hint="expected module:attribute, a class without arguments or an instance; the module is looked for in the "
            "current folder and where Python looks",
        ) from None
    for method in ("init", "step"):
        if not callable(getattr(model, method, None)):
            raise UsageError(
                f"the model {name} is of type {type(model).__name__}, which has no {method}()",
                hint="a model has init() and step(state, f, value, result), as checkers.Model has",
            )
    return model


def judge(name: str, model: Any, history: History, facts: Facts) -> list[Verdict]:
    """Judge all operations by a model that a user wrote, key by key.

    Returns:
        One verdict, as for the built-in objects, without proofs.

    Raises:
        UsageError: the model raised, returned or changed what it must not; names the model and the operation.

    Cost: at most `STEPS_MAX` calls of the model's `step`.
    """
    budget = Spending(facts.budget)
    groups: dict[str | None, list[Operation]] = {}
    for op in history.operations:
        groups.setdefault(op.key, []).append(op)
    flaws, stops, seen = list[Finding](), list[Stop](), list[Operation]()
    for operations in groups.values():
        key = _Object(name, model, operations)
        result = key.judged(budget)
        seen += exposed(operations, lambda op: True, lambda op: True)
        if result.stop is not None:
            stops.append(result.stop)
        elif result.failed is not None:
            flaws.append(key.flaw(result))
    operations = [op for group in groups.values() for op in group]
    unknown = [op for op in operations if op.type is Outcome.INFO]
    more = f"; {len(stops)} more were not finished" if stops else ""
    ended = stops[0].sentence if stops else ""
    unfinished = f"{len(stops)} of {len(groups)} keys were not finished, none is invalid; {ended}"
    return [
        Findings(
            checker=CHECKER,
            guarantee=GUARANTEE,
            findings=flaws,
            broken=f"no order explains {len(flaws)} of {len(groups)} keys{more}",
            doubt=Doubt(Cause.OUT_OF_BUDGET, unfinished) if stops else None,
            exposed=rows(seen),
            exposure_of=EXPOSURE_OF,
            rules=(rule(NON_LINEARIZABLE, sum(is_ok(op) for op in operations), "no operation was answered"),),
            counted={"operations": rows(operations), "info_operations": rows(unknown)},
            figures={"model": name, "keys": len(groups), "steps": budget.spent},
        ).verdict(facts)
    ]


class Spending:
    """What is left of a budget."""

    def __init__(self, budget: Budget) -> None:
        self._steps = min(budget.steps, STEPS_MAX)
        self._deadline = time.monotonic() + budget.wall_s
        self.spent = 0

    @property
    def steps(self) -> int:
        return self._steps - self.spent

    @property
    def wall_s(self) -> float:
        return self._deadline - time.monotonic()


class _Object:
    """One key's operations, and the states that the model makes of them, numbered as they were met."""

    def __init__(self, name: str, model: Any, operations: Sequence[Operation]) -> None:
        self._name = name
        self._model = model
        self._operations = not_failed(operations)
        contents = [(op.f, op.value, op.result if is_ok(op) else UNKNOWN) for op in self._operations]
        kinds = kinds_of([_text(f, value, result) for f, value, result in contents])
        self._asked = {kind: (*what, op) for kind, what, op in zip(kinds, contents, self._operations, strict=True)}
        self._calls = [
            Call(kind, op.invoke_index, op.complete_index if is_ok(op) else None)
            for kind, op in zip(kinds, self._operations, strict=True)
        ]
        self._states: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._after: dict[tuple[int, int], int | None] = {}
        initial = self._guarded(model.init, "init()")
        if initial is None:
            raise self._wrong("init() returned None; expected a state")
        self._number(initial, "init()")

    def judged(self, budget: Spending) -> Found:
        """The search's word, with an order confirmed by asking the model again."""
        result = search(self._calls, self._remembered, steps=budget.steps, wall_s=budget.wall_s)
        budget.spent += result.steps
        if result.stop is None and result.failed is None and (fault := fault_in(self._calls, self._step, result.order)):
            raise self._wrong(f"step() answered otherwise when it was asked again: {fault}")
        return result

    def flaw(self, result: Found) -> Finding:
        """What the search refused, in words."""
        assert result.failed is not None
        failed = self._operations[result.failed]
        open_then = [self._operations[call] for call in result.open]
        states = self._guarded(
            lambda: [repr(self._states[state])[:80] for state in result.states], "the repr of a state"
        )
        held = " or ".join(dict.fromkeys(states[:_SHOWN_MAX])) + (", or others" if len(states) > _SHOWN_MAX else "")
        steps = [
            f"{describe(failed)} {times(failed)}.",
            f"Up to its answer one order explains {len(result.order)} operations; in no order may it come next.",
            f"The state can be only {held}.",
        ]
        if open_then:
            steps.append(f"Open at that moment: {'; '.join(describe(op) for op in open_then[:_SHOWN_MAX])}.")
        return Finding(about=0, anomaly=NON_LINEARIZABLE, operations=(failed, *open_then[:8]), steps=tuple(steps))

    def _remembered(self, state: int, kind: int) -> int | None:
        way = state, kind
        if way not in self._after:
            self._after[way] = self._step(state, kind)
        return self._after[way]

    def _step(self, state: int, kind: int) -> int | None:
        f, value, result, op = self._asked[kind]
        where = f"step() for {describe(op)}"
        after = self._guarded(lambda: self._model.step(self._states[state], f, value, result), where)
        return None if after is None else self._number(after, where)

    def _number(self, state: Any, where: str) -> int:
        def numbered() -> int:
            if state not in self._numbers:
                self._numbers[state] = len(self._states)
                self._states.append(state)
            return self._numbers[state]

        return self._guarded(numbered, f"the hash of the state that {where} returned")

    def _guarded(self, ask: Callable[[], T], where: str) -> T:
        try:
            return ask()
        except (Exception, SystemExit) as error:
            raise self._wrong(f"{where} raised {type(error).__name__}: {str(error)[:200]}") from None

    def _wrong(self, message: str) -> UsageError:
        return UsageError(
            f"the model {self._name}: {message}",
            hint="states are hashable, and never None; step(state, f, value, result) returns the next one, or None "
            "where the state forbids the result, and changes nothing",
        )


def _text(f: str, value: Any, result: Any) -> tuple[str, bytes, bytes | None]:
    """The call as something that can be looked up: equal where it is equal as JSON."""
    encode = msgspec.json.Encoder(order="deterministic").encode
    return f, encode(value), None if result is UNKNOWN else encode(result)
