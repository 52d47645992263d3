"""Judge a history by a model that a user wrote, named as `module:attribute`: a class without arguments, or an instance.

Each key is an object of its own. The model is not believed: whatever it raises, returns or changes that a model must
not ends as a mistake of the model's, with its name and the operation, never as a verdict.
"""

import importlib
import sys
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.positions import exposed, is_ok, not_failed
from fencepost.checkers.objects.judging import search_words, times
from fencepost.checkers.objects.kind import GUARANTEE, NON_LINEARIZABLE, Call, Calls
from fencepost.checkers.objects.model import UNKNOWN
from fencepost.checkers.objects.search import Answer, search
from fencepost.checkers.objects.sub_history import determined
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding, describe, stopped
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts, SearchBudget, Stop, Verdict

RULE: Final = Rule(
    guarantee=GUARANTEE,
    anomaly=NON_LINEARIZABLE,
    tested="ok operations with another before or behind them",
    lacks="no operation was answered",
)

_PLAIN: Final = frozenset({int, str, bool, type(None)})
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")

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

    Cost: that of the native search, which calls `step` once for each state and call that it meets.
    """
    groups: dict[Hashable, list[tuple[Operation, Any]]] = {}
    key = getattr(model, "key", None)
    for op in not_failed(history.operations):
        # In place of a `Call`, which takes longer to make than to ask about.
        call = (op.f, op.value, op.result if is_ok(op) else UNKNOWN)
        groups.setdefault(op.key if key is None else (op.key, _key_of(name, key, op)), []).append((op, call))
    answers = _Asked(name, model).search(groups, facts.budget) if groups else {}
    flaws = [_flaw(name, answer) for answer in answers.values() if answer.failed is not None]
    stops = [Stop(answer.result.stop) for answer in answers.values() if answer.result.stop is not None]
    objects = [[op for op, _ in group] for group in groups.values()]
    operations = [op for own in objects for op in own]
    unknown = [op for op in operations if not is_ok(op)]
    seen = exposed(objects)
    more = f"; {len(stops)} more were not finished" if stops else ""
    ended = stops[0].sentence if stops else ""
    unfinished = f"{len(stops)} of {len(groups)} keys were not finished, none is invalid; {ended}"
    return [
        verdict(
            facts,
            RULE.tally(flaws, len(operations) - len(unknown)),
            broken=f"no order explains {len(flaws)} of {len(groups)} keys{more}",
            doubt=stopped(stops, unfinished),
            exposed=rows(seen),
            untested=f"no {RULE.tested}",
            figures={
                "operations": number_of(operations),
                "info_operations": number_of(unknown),
                "model": name,
                "keys": len(groups),
                "steps": sum(a.result.steps for a in answers.values()),
            },
        )
    ]


def _key_of(name: str, of: Callable[[str, Any], Hashable], op: Operation) -> Hashable:
    """Which object of the model's an operation is about, by the model's own word; raises UsageError."""
    try:
        key = of(op.f, op.value)
        hash(key)
    except (Exception, SystemExit) as error:
        raise _wrong(name, f"key() for {describe(op)} raised {type(error).__name__}: {str(error)[:200]}") from None
    return key


class _Asked:
    """A user's model as the search asks it: whatever it does that a model must not ends as a UsageError."""

    def __init__(self, name: str, model: Any) -> None:
        self._name = name
        self._model = model
        self.step = model.step
        reads = getattr(model, "reads", ())
        if isinstance(reads, str):
            raise _wrong(name, f"reads is the text {reads!r:.80}; expected names in a set or list")
        self.reads: frozenset[str] = _guarded(name, lambda: frozenset(reads), "reads")

    def init(self) -> Any:
        initial = _guarded(self._name, self._model.init, "init()")
        if initial is None:
            raise _wrong(self._name, "init() returned None; expected a state")
        _guarded(self._name, lambda: hash(initial), "the hash of the state that init() returned")
        return initial

    def search(self, groups: Mapping[Hashable, Calls], budget: SearchBudget) -> dict[Hashable, Answer]:
        """The search's word on each object; each order is confirmed by asking the model again."""
        answers = search(self, groups, budget, wrong=self._fault, same=text)
        ask, initial = determined(self), self.init()
        for subject, answer in answers.items():
            if answer.result.stop is None and answer.failed is None:
                calls, state = {op.invoke_index: call for op, call in groups[subject]}, initial
                for op in answer.order:
                    state = self._again(ask, state, op, calls[op.invoke_index])
        return answers

    def _again(self, ask: Callable[[Any, Call], Any], state: Any, op: Operation, call: Call) -> Any:
        """The state after a call of an order that was found, when the model is asked once more."""
        try:
            after = ask(state, call)
        except (Exception, SystemExit) as error:
            raise self._fault(op, error) from None
        if after is None:
            raise _wrong(self._name, f"step() answered otherwise when it was asked again for {describe(op)}")
        return after

    def _fault(self, op: Operation, what: BaseException | str) -> BaseException:
        if isinstance(what, str):
            return _wrong(self._name, what.replace("step()", f"step() for {describe(op)}"))
        if not isinstance(what, (Exception, SystemExit)):
            return what
        return _wrong(self._name, f"step() for {describe(op)} raised {type(what).__name__}: {str(what)[:200]}")


def _flaw(name: str, answer: Answer) -> Finding:
    """What the search refused, in words."""
    assert answer.failed is not None
    failed, _ = answer.failed
    beside = [op for op in answer.open if op is not failed]
    states = _guarded(name, lambda: [repr(state)[:80] for state in answer.states], "the repr of a state")
    sentences = search_words(answer, beside, list(dict.fromkeys(states)), "The state")
    steps = (f"{describe(failed)} {times(failed)}.", *sentences)
    return RULE.finding(failed, *beside[:8], about=0, steps=steps)


def _guarded(name: str, ask: Callable[[], T], where: str) -> T:
    try:
        return ask()
    except (Exception, SystemExit) as error:
        raise _wrong(name, f"{where} raised {type(error).__name__}: {str(error)[:200]}") from None


def _wrong(name: str, message: str) -> UsageError:
    return UsageError(
        f"the model {name}: {message}",
        hint="states are hashable, and never None; step(state, f, value, result) returns the next one, or None where "
        "the state forbids the result, and changes nothing; reads names functions that leave states as they are; "
        "key(f, value) returns something hashable",
    )


def text(call: Call) -> Hashable:
    """The call as something that can be looked up: equal where it is equal as JSON."""
    f, value, result = call
    if type(value) in _PLAIN and type(result) in _PLAIN:
        return f, type(value), value, type(result), result
    return f, _ENCODER.encode(value), None if result is UNKNOWN else _ENCODER.encode(result)
