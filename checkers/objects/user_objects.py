"""Judge a history by a model that a user wrote, named as `module:attribute`: a class without arguments, or an instance.

Each key is an object of its own. The model is not believed: whatever it raises, returns or changes that a model must
not ends as a mistake of the model's, with its name and the operation, never as a verdict.
"""

import importlib
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from fencepost.checkers import _core
from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.facts.positions import exposed, is_ok, not_failed
from fencepost.checkers.findings.finding import Doubt, Finding, Findings, describe, rule
from fencepost.checkers.objects.judging import GUARANTEE, NON_LINEARIZABLE, times
from fencepost.checkers.objects.python_search import SearchedCall, fault_in, kinds_of
from fencepost.checkers.objects.user_model import UNKNOWN
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, SearchBudget, Stop, Verdict

CHECKER: Final = "user-model"
EXPOSURE_OF: Final = "ok operations with another before or behind them"
#: A call of `step` costs microseconds; the search asks once for each state and call, and remembers the answer.
CALLS_MAX: Final = 5_000_000
_CALLS_FIRST: Final = 20_000
_CALLS_GROW: Final = 16
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
    return checked(name, model)


def checked(name: str, model: Any) -> Any:
    """Return the model; raises UsageError for one that lacks a method."""
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

    Cost: that of the native search, and at most `CALLS_MAX` calls of the model's `step`: one for each state and call
    that the search meets.
    """
    budget = Spending(facts.budget)
    groups: dict[Hashable, list[Operation]] = {}
    key = getattr(model, "key", None)
    for op in history.operations:
        groups.setdefault(op.key if key is None else (op.key, _key_of(name, key, op)), []).append(op)
    flaws, stops = _decide([_Object(name, model, operations) for operations in groups.values()], budget)
    seen = [op for group in groups.values() for op in exposed(group, lambda op: True, lambda op: True)]
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


def _decide(waiting: list["_Object"], budget: "Spending") -> tuple[list[Finding], list[Stop]]:
    """What is wrong with the objects, and what ended the search of those that were not finished.

    Each search may first ask the model few times. Those that did not finish begin again and may ask more often, until
    none is left, the budget is spent, or one object is found wrong: then the verdict stands, and the rest is counted as
    not finished.
    """
    flaws, calls = list[Finding](), _CALLS_FIRST
    while True:
        ended = [(key, key.judged(budget, calls)) for key in waiting]
        flaws += [
            key.flaw(answer) for key, answer in ended if not isinstance(answer, Stop) and answer.failed is not None
        ]
        stops = [answer for _, answer in ended if isinstance(answer, Stop)]
        if flaws or not stops or calls > budget.calls or budget.wall_s == 0:
            return flaws, stops
        waiting = [key for key, answer in ended if isinstance(answer, Stop)]
        calls *= _CALLS_GROW


def _key_of(name: str, of: Callable[[str, Any], Hashable], op: Operation) -> Hashable:
    """Which object of the model's an operation is about, by the model's own word; raises UsageError."""
    try:
        key = of(op.f, op.value)
        hash(key)
    except (Exception, SystemExit) as error:
        raise _wrong(name, f"key() for {describe(op)} raised {type(error).__name__}: {str(error)[:200]}") from None
    return key


class Spending:
    """What is left of a budget."""

    def __init__(self, budget: SearchBudget) -> None:
        self._steps = budget.steps
        self._deadline = time.monotonic() + budget.wall_s
        self.memory_bytes = budget.memory_bytes
        self.calls = CALLS_MAX
        self.spent = 0

    @property
    def steps(self) -> int:
        return max(self._steps - self.spent, 0)

    @property
    def wall_s(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)


class _Spent(Exception):
    """No more calls of the model's step are allowed."""


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
            SearchedCall(kind, op.invoke_index, op.complete_index if is_ok(op) else None)
            for kind, op in zip(kinds, self._operations, strict=True)
        ]
        reads = getattr(model, "reads", ())
        if isinstance(reads, str):
            raise self._wrong(f"reads is the text {reads!r:.80}; expected names in a set or list")
        self._reads = self._guarded(lambda: frozenset(reads), "reads")
        self._states: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._calls_left = 0
        initial = self._guarded(model.init, "init()")
        if initial is None:
            raise self._wrong("init() returned None; expected a state")
        self._number(initial, None)

    def judged(self, budget: Spending, calls: int) -> "_core.ObjectResult | Stop":
        """The search's word, with an order confirmed by asking the model again; or what stopped it."""
        self._calls_left = calls = min(calls, budget.calls)
        try:
            result = _core.check_model(
                np.array([call.kind for call in self._calls], np.int64),
                np.array([op.f in self._reads for op in self._operations], np.int64),
                np.array([call.invoked for call in self._calls], np.int64),
                np.array([-1 if call.returned is None else call.returned for call in self._calls], np.int64),
                self._step,
                steps=budget.steps,
                memory_bytes=budget.memory_bytes,
                wall_s=budget.wall_s,
            )
        except _Spent:
            return Stop.STEPS
        finally:
            budget.calls -= calls - self._calls_left
        budget.spent += result.steps
        if result.stop is not None:
            return Stop(result.stop)
        self._calls_left += len(result.order)
        if result.failed is None and (fault := fault_in(self._calls, self._step, result.order)):
            raise self._wrong(f"step() answered otherwise when it was asked again: {fault}")
        return result

    def flaw(self, result: "_core.ObjectResult") -> Finding:
        """What the search refused, in words."""
        assert result.failed is not None
        failed = self._operations[result.failed]
        open_then = [op for call in result.open if (op := self._operations[call]) is not failed]
        states = self._guarded(
            lambda: [repr(self._states[state])[:80] for (state,) in result.states], "the repr of a state"
        )
        more = len(states) > _SHOWN_MAX or result.states_count > len(states)
        held = " or ".join(dict.fromkeys(states[:_SHOWN_MAX])) + (", or others" if more else "")
        steps = [
            f"{describe(failed)} {times(failed)}.",
            f"Up to its answer one order explains {len(result.order)} operations; in no order may it come next.",
            f"The state can be only {held}.",
        ]
        if open_then:
            steps.append(f"Open at that moment: {'; '.join(describe(op) for op in open_then[:_SHOWN_MAX])}.")
        return Finding(about=0, anomaly=NON_LINEARIZABLE, operations=(failed, *open_then[:8]), steps=tuple(steps))

    def _step(self, state: int, kind: int) -> int | None:
        """The number of the state after a call; raises UsageError, and _Spent. Asked more often than all else here."""
        if not self._calls_left:
            raise _Spent
        self._calls_left -= 1
        f, value, result, op = self._asked[kind]
        try:
            after = self._model.step(self._states[state], f, value, result)
        except (Exception, SystemExit) as error:
            raise self._wrong(f"step() for {describe(op)} raised {type(error).__name__}: {str(error)[:200]}") from None
        if after is None:
            return None
        number = self._number(after, op)
        if number != state and f in self._reads:
            raise self._wrong(f"reads names {f}, and step() for {describe(op)} changed the state")
        return number

    def _number(self, state: Any, op: Operation | None) -> int:
        try:
            number = self._numbers.setdefault(state, len(self._states))
        except (Exception, SystemExit) as error:
            where = "init()" if op is None else f"step() for {describe(op)}"
            what = f"the hash of the state that {where} returned raised {type(error).__name__}"
            raise self._wrong(f"{what}: {str(error)[:200]}") from None
        if number == len(self._states):
            self._states.append(state)
        return number

    def _guarded(self, ask: Callable[[], T], where: str) -> T:
        try:
            return ask()
        except (Exception, SystemExit) as error:
            raise self._wrong(f"{where} raised {type(error).__name__}: {str(error)[:200]}") from None

    def _wrong(self, message: str) -> UsageError:
        return _wrong(self._name, message)


def _wrong(name: str, message: str) -> UsageError:
    return UsageError(
        f"the model {name}: {message}",
        hint="states are hashable, and never None; step(state, f, value, result) returns the next one, or None where "
        "the state forbids the result, and changes nothing; reads names functions that leave states as they are; "
        "key(f, value) returns something hashable",
    )


def _text(f: str, value: Any, result: Any) -> tuple[str, bytes, bytes | None]:
    """The call as something that can be looked up: equal where it is equal as JSON."""
    encode = msgspec.json.Encoder(order="deterministic").encode
    return f, encode(value), None if result is UNKNOWN else encode(result)
