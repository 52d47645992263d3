"""What a built-in model says of itself beside `init` and `step`: how its operations are read, and words for violations.

A call is what a model is asked: the numbers in it stand for values (`Kind.names`), so that equal calls are equal as
JSON. Which rules about an object could have fired is counted by the functions that were called: a rule is named for the
anomaly that it finds, and its chances are the ok answers that could have shown it; some need another operation on the
same object, that may have taken effect.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import msgspec

from fencepost.checkers.derived.positions import is_ok, not_failed
from fencepost.checkers.objects.model import Model
from fencepost.checkers.rules import Rule
from fencepost.checkers.violations.finding import Finding
from fencepost.checkers.violations.impossible import Numbers, unreadable
from fencepost.harness.history import Operation, Value
from fencepost.harness.verdict import SearchBudget

if TYPE_CHECKING:
    from fencepost.checkers.objects.search import Answer

GUARANTEE: Final = "linearizable"
NON_LINEARIZABLE: Final = "non-linearizable"
_SHOWN_MAX: Final = 8


class Call(NamedTuple):
    """One call of a model's `step`, in its numbers."""

    f: str
    value: Any = None
    result: Any = None


#: By function: the anomaly that a refused call is, and why.
Refusals = Mapping[str, tuple[str, str]]
#: The calls that did not fail, with the operations that made them.
Calls = Sequence[tuple[Operation, Call]]


class Chance(msgspec.Struct, frozen=True):
    """What can show the anomaly `name`: an ok answer of `answers`, beside another operation of `others` if these are
    given."""

    name: str
    answers: frozenset[str]
    others: frozenset[str] = frozenset()

    def count(self, called: Mapping[str, int], answered: Mapping[str, int]) -> int:
        """The chances on one object, by how often each function was called without a failure, and answered ok."""
        if not self.others:
            return sum([answered[f] for f in self.answers])
        others = sum([called[f] for f in self.others])
        return sum([answered[f] for f in self.answers if others > (f in self.others)])

    @property
    def lacks(self) -> str:
        """What an object lacked where there was no chance."""
        beside = f" beside another {' or '.join(sorted(self.others))}" if self.others else ""
        return f"no {' or '.join(sorted(self.answers))} was answered{beside}"


def chance(name: str, answers: str, others: str = "") -> Chance:
    return Chance(name, frozenset(answers.split()), frozenset(others.split()))


def rules_of(kind: "Kind", objects: Mapping[str | None, Sequence[Operation]]) -> dict[Rule, int]:
    """The rules, each with its chances in the operations on all objects."""
    counts = [
        (Counter([op.f for op in not_failed(own)]), Counter([op.f for op in own if is_ok(op)]))
        for own in objects.values()
    ]
    tested = kind.exposure_of
    return {
        Rule(guarantee=GUARANTEE, anomaly=each.name, tested=tested, lacks=each.lacks): sum(
            [each.count(called, answered) for called, answered in counts]
        )
        for each in kind.rules
    }


class Kind(Model):
    """A built-in model. An instance numbers the values of one history: `calls` is asked for every key before `init`.

    `changes` and `tells` are its functions: an ok answer of `tells` that an ordered operation could contradict is an
    exposure (`checkers.derived.positions`). `refusals` name what a refused call of a function is, and say why.
    """

    name: str = ""
    changes: frozenset[str]
    tells: frozenset[str]
    #: What can show each anomaly but the one that has no better name.
    chances: tuple[Chance, ...] = ()
    refusals: ClassVar[Refusals] = MappingProxyType({})
    #: Whether an object with an impossible answer has a rest that can be judged, as if that had not been answered.
    has_rest = True

    def __init__(self) -> None:
        self.names = Numbers()
        #: The calls of operations that could be read as they are, by invocation.
        self._known: dict[int, Call | None] = {}

    @property
    def functions(self) -> frozenset[str]:
        return self.changes | self.tells

    @property
    def exposure_of(self) -> str:
        answers, others = (" or ".join(sorted(names)) for names in (self.tells, self.functions))
        return f"ok {answers} with another {others} before or behind"

    @property
    def rules(self) -> tuple[Chance, ...]:
        """What can show each anomaly."""
        return (*self.chances, Chance(NON_LINEARIZABLE, self.functions, self.functions))

    def number(self, value: Value) -> int:
        return self.names.number(value)

    def value_of(self, number: int) -> Value:
        return self.names.named[number]

    def read(self, op: Operation) -> Call | None:
        """The call that an operation is; None where it cannot matter. Raises MalformedHistory for one of no meaning."""
        raise NotImplementedError

    def impossible(self, operations: Sequence[Operation]) -> Iterable[tuple[Operation, str]]:
        """Answers that no such object can give, of all keys; what follows never sees them."""

        def read(op: Operation) -> None:
            self._known[op.invoke_index] = self.read(op)

        return unreadable(read)(operations)

    def calls(self, operations: Sequence[Operation]) -> list[tuple[Operation, Call]]:
        """One key's operations as calls. One operation may be several."""
        known = self._known
        calls = [
            (op, known[op.invoke_index] if op.invoke_index in known else self.read(op)) for op in not_failed(operations)
        ]
        return [(op, call) for op, call in calls if call is not None]

    def flaws(self, operations: Sequence[Operation], calls: Calls) -> Iterator[Finding]:
        """What is wrong with one key's operations, as far as that is plain without a search; `calls` are theirs."""
        return iter(())

    def searched(self, keys: Mapping[str | None, Calls], budget: SearchBudget) -> "dict[str | None, Answer] | None":
        """What a native search of its own says of each key; None: the model is asked, in parts by `quick`."""
        return None

    def quick(self, operations: Sequence[Operation], calls: Calls) -> "Quick":
        """What is searched for one key without flaws; `calls` are those of its operations."""
        return Quick(self, {None: calls})

    def explain(self, failed: Call, states: Sequence[Any], others: Calls) -> tuple[str, str]:
        """The name of what the search refused, and why; `states` are all that there may be, if they are few."""
        return self.refusals.get(failed.f, (NON_LINEARIZABLE, ""))

    def whole(self, part: str, states: Sequence[Any], calls: Sequence[Call]) -> tuple[Sequence[Any], Sequence[Call]]:
        """States and calls of a part that was searched alone, as those of the object."""
        raise NotImplementedError

    def show(self, state: Any) -> str:
        """The state for a sentence."""
        return f"{state!r:.80}"

    def reads_only(self, call: Call) -> bool:
        """Whether `call` leaves every state as it is."""
        return call.f in self.reads

    def is_spare(self, call: Call) -> bool:
        """Whether `call` may be left out of every order."""
        return self.reads_only(call)

    def makes(self, call: Call) -> Iterable[Any]:
        """What `call` alone brings about. It may be left out of every order in which nobody sees any of it."""
        return ()

    def sees(self, call: Call) -> Iterable[Any]:
        """What must have been made before `call` takes effect."""
        return ()

    def after(self, call: Call, about: Collection[str] | None) -> Any:
        """The state after the ok `call` whatever was before; None where that depends."""
        return None

    def parts(self, call: Call) -> Iterable[str]:
        """What `call` is about, as JSON, where parts of the object can be judged without the others."""
        return ()

    def only(self, calls: Calls, about: Collection[str]) -> Calls:
        """What `calls` do to these parts; without those that do nothing to them."""
        return calls

    def start(self, about: Collection[str] | None) -> Any:
        """What these parts hold at first; None: all parts."""
        return self.init()

    def narrowed(self, calls: Sequence[Call]) -> "Kind":
        """A model with the same orders of these calls, which may forget of a state what none of them sees."""
        return self

    def refutes(self, start: Any, must: Sequence[Call], may: Sequence[Call]) -> bool:
        """Whether it can be seen without a search that no order explains `must`, with or without any of `may`."""
        return False

    def listed(self, numbers: Iterable[int]) -> str:
        """Values by their numbers, for a sentence."""
        every = [self.value_of(number) for number in numbers]
        shown = ", ".join(f"{value!r:.40}" for value in every[:_SHOWN_MAX])
        return shown + (f" and {len(every) - _SHOWN_MAX} more" if len(every) > _SHOWN_MAX else "")


class Quick(NamedTuple):
    """What is searched in place of an object: a model that allows the same orders, and its calls by part, in order."""

    model: Kind
    parts: Mapping[str | None, Calls]
