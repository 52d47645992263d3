"""Families: the kind of object that the operations of a history act on, and the checker that judges it.

The user names the family, or the functions and the results of reads decide it if they leave only one choice: a history
of only reads may be of a register or a counter, so the user must say which. Additions that no answer tells from those
of a counter are judged as those of a set, with a note. A history of no known family, or of
a family without a checker, is refused as a whole, because a verdict must cover every operation.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.history import OpEvent, Outcome
from fencepost.harness.plugins import registry

NO_JUDGE: Final = "its operations are read, but nothing judges them yet"


#: The registry key of the checker for a model that a user wrote.
USER_MODEL: Final = "user-model"


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A family: `functions` may occur in its histories; `checker` is a registry key, empty without a checker."""

    name: str
    about: str
    functions: frozenset[str]
    checker: str = ""
    guarantee: str = ""
    #: The part of the name after the colon, as in `semaphore:3`; for a user's model the whole name.
    parameter: str = ""
    #: A user's model itself, where Python handed it over; the name is then for people.
    model: Any = None
    #: What to say of a model that was taken without an answer that shows it.
    note: str = ""

    @property
    def is_users(self) -> bool:
        """Say whether this is a user's model, which alone knows the values that operations may carry."""
        return self.checker == USER_MODEL

    @property
    def splits_by_key(self) -> bool:
        """Say whether each key is an object by itself, so that shares of the keys can be judged apart."""
        return self.guarantee == "linearizable" and "txn" not in self.functions and not self.is_users


def _family(name: str, about: str, functions: str, checker: str = "", guarantee: str = "") -> Family:
    return Family(name=name, about=about, functions=frozenset(functions.split()), checker=checker, guarantee=guarantee)


FAMILIES: Final = {
    family.name: family
    for family in (
        _family("register", "reads and writes", "read write", "linearizable", "linearizable"),
        _family("cas-register", "with compare-and-set", "read write cas", "linearizable", "linearizable"),
        _family(
            "set", "adds; reads after all of them must show them", "add read", "set", "no-lost-acknowledged-writes"
        ),
        _family("set-full", "adds; every read must be fresh", "add read", "set", "no-lost-acknowledged-writes"),
        _family("list-append", "transactions that append to lists", "txn", "list-append", "strict-serializable"),
        _family("rw-register", "transactions that write registers", "txn", "rw-register", "strict-serializable"),
        _family("counter", "additions and reads of a sum", "add increment decrement read", "counter", "linearizable"),
        _family(
            "eventual-counter", "only last reads are judged", "add increment decrement read", "counter", "linearizable"
        ),
        _family("unique-ids", "each is given once", "generate", "unique-ids", "unique-ids"),
        _family("queue", "first in, first out", "enqueue dequeue drain", "queue", "linearizable"),
        _family("bag", "what was enqueued, in no order", "enqueue dequeue drain", "bag", "linearizable"),
        _family("stack", "last in, first out", "push pop", "stack", "linearizable"),
        _family("priority-queue", "the least first", "enqueue dequeue drain", "priority-queue", "linearizable"),
        _family("bank", "transfers and reads of all accounts", "transfer read", "bank", "linearizable"),
        _family("bank-totals", "as snapshots show them", "transfer read", "bank-totals", "snapshot-totals"),
        _family(
            "log",
            "Kafka's sends and polls",
            "send poll txn assign subscribe crash debug-topic-partitions",
            "kafka-log",
            "log-consistency",
        ),
        _family("key-value", "strings, with append", "get put append", "key-value", "linearizable"),
        _family("append-log", "appends, and reads by offset", "append read", "append-log", "linearizable"),
        _family("mutex", "a lock that anyone may release", "acquire release", "mutex", "linearizable"),
        _family("owner-mutex", "a lock that its holder releases", "acquire release", "owner-mutex", "linearizable"),
        _family("fenced-mutex", "whose tokens grow", "acquire release", "fenced-mutex", "linearizable"),
        _family("semaphore", "so many permits: semaphore:3", "acquire release", "semaphore", "linearizable"),
        _family("grow-only-set", "adds and reads", "add contains read", "linearizable-set", "linearizable"),
        _family("add-remove-set", "with removals", "add remove contains read", "linearizable-set", "linearizable"),
        _family("multi-register", "transactions of several registers", "txn", "multi-register", "linearizable"),
    )
}

#: Without a name, the first of these families whose functions cover the history's functions is chosen.
_BY_FUNCTIONS: Final = (
    *("register", "cas-register", "queue", "stack", "bank", "log", "append-log", "unique-ids", "key-value"),
)
#: What stands behind the colon is what it holds at first, as JSON; of a semaphore how many permits it has.
_WITH_PARAMETER: Final = tuple(name for name, family in FAMILIES.items() if family.checker in registry.OBJECTS)
#: By model that is guessed, another of the same operations that promises less.
WEAKER: Final = {"queue": "bag", "bank": "bank-totals", "counter": "eventual-counter"}
#: Models of transactions: these can be judged by any of the consistency models.
TRANSACTIONS: Final = ("list-append", "rw-register")
JUDGED: Final = tuple(name for name, family in FAMILIES.items() if family.checker)


_OR_COUNTER: Final = "no answer shows whether this is a set or a counter; --model counter judges it as a counter"
#: So many values of a function decide which family a history is of.
SAMPLES_MAX: Final = 1_000
#: Returns values of a function that help to recognise the family, at most `SAMPLES_MAX`.
Samples = Callable[[str], Sequence[Any]]


class SequentialModel(Protocol):
    """A user's model, as `checkers.Model` describes it."""

    def init(self) -> Any: ...
    def step(self, state: Any, f: str, value: Any, result: Any) -> Any: ...


#: A model by its name, or itself: a class without arguments, or an instance. None: the operations show which.
ModelChoice = str | type[SequentialModel] | SequentialModel | None


def choose(name: ModelChoice, functions: Collection[str], samples: Samples, source: str) -> Family:
    """Choose the family of a history.

    Args:
        name: the model that the user named or handed over, or None.
        functions: the functions of all operations in the history.
        samples: returns values of `ok` completions of a function; of transactions, their requests first.
        source: the file, for messages.

    Raises:
        UsageError: no family has all the functions, or several have them and the samples do not decide.
    """
    if name is not None and not isinstance(name, str):
        of = name if isinstance(name, type) else type(name)
        return msgspec.structs.replace(_users(of.__qualname__, functions), model=name)
    family = _named(name, functions) if name else _recognised(set(functions), samples)
    if family is None and (open_between := _open_between(set(functions))):
        raise UsageError(
            f"{source}: operations {', '.join(sorted(functions))}: their results do not show which of "
            f"{', '.join(open_between)} this is",
            hint=f"name the model: --model {open_between[0]}",
        )
    if family is None:
        raise UsageError(
            f"{source}: operations {', '.join(sorted(functions))}: no model understands all of these",
            hint=f"models that are judged: {', '.join(JUDGED)}",
        )
    strange = sorted(set(functions) - family.functions)
    if strange:
        raise UsageError(
            f"{source}: the model {family.name} has no operation {', '.join(strange)}; "
            f"expected {', '.join(sorted(family.functions))}",
            hint="nothing of this history was judged; take the operations out, or choose another --model",
        )
    return family


def judged(family: Family, source: str) -> Family:
    """Return the family if there is a checker for it; raise UsageError if there is none."""
    if not family.checker:
        raise UsageError(
            f"{source}: a history of the model {family.name} ({family.about}): {NO_JUDGE}",
            hint=f"models that are judged: {', '.join(JUDGED)}; `fencepost export` writes it in other forms",
        )
    return family


def _named(whole: str, functions: Collection[str]) -> Family:
    name, _, parameter = whole.partition(":")
    if whole in registry.MODELS:
        return _users(whole, functions, "a model of a plug-in")
    if name not in FAMILIES and all(part.isidentifier() for part in (*name.split("."), *parameter.split("."))):
        return _users(whole, functions)
    if name not in FAMILIES:
        registry.refuse("models", name)
        raise unknown_choice("model", name, [*FAMILIES, *registry.MODELS, "module:attribute"])
    if parameter and name not in _WITH_PARAMETER:
        raise UsageError(
            f"the model {name} takes no parameter, as in {name}:{parameter}",
            hint=f"models that take one: {', '.join(_WITH_PARAMETER)}",
        )
    return msgspec.structs.replace(FAMILIES[name], parameter=parameter)


def _users(name: str, functions: Collection[str], about: str = "a model of its own") -> Family:
    return Family(
        name=name,
        about=about,
        functions=frozenset(functions),
        checker=USER_MODEL,
        guarantee="linearizable",
        parameter=name,
    )


def _recognised(functions: set[str], samples: Samples) -> Family | None:
    if functions <= {"add", "read", "members"} and functions & {"add", "members"}:
        # A broken store may answer some reads with anything: what most of them are decides.
        types = Counter(type(value) for value in samples("read"))
        numbers, lists = types[int] + types[float], types[list]
        if "members" in functions or lists >= max(numbers, 1):
            return FAMILIES["set"]
        return FAMILIES["counter"] if numbers else msgspec.structs.replace(FAMILIES["set"], note=_OR_COUNTER)
    if functions <= {"increment", "decrement", "add", "read"} and functions - {"read"}:
        return FAMILIES["counter"]
    if functions == {"txn"} and not isinstance(next(iter(samples("txn")), None), dict):
        kind = next(filter(None, map(_transactions, samples("txn"))), "")
        return FAMILIES[kind] if kind else None
    if functions and functions <= {"acquire", "release"}:
        # A number may be a token or a count of permits; without a number it may be any lock or a semaphore.
        return FAMILIES["fenced-mutex"] if {"fence", "token"} & _fields(samples("acquire")) else None
    if functions == {"read"} and (read := samples("read")):
        return FAMILIES["bank"] if any(map(_has_balances, read)) else None
    if functions & {"remove", "contains"}:
        return next(FAMILIES[n] for n in ("grow-only-set", "add-remove-set") if functions <= FAMILIES[n].functions)
    return next((FAMILIES[name] for name in _BY_FUNCTIONS if functions <= FAMILIES[name].functions), None)


def _has_balances(value: Any) -> bool:
    return isinstance(value, dict) and any(type(balance) is int for balance in value.values())


def _fields(values: Sequence[Any]) -> set[str]:
    """Return the names of the fields of all answers that are maps, without the colon of EDN."""
    return {str(field).removeprefix(":") for value in values if isinstance(value, dict) for field in value}


def _open_between(functions: set[str]) -> tuple[str, ...]:
    """Return the models between which only an answer could decide, for these functions."""
    if functions == {"read"}:
        return ("register", "counter", "bank", "set")
    if functions == {"txn"}:
        return ("list-append", "rw-register")
    if functions and functions <= {"acquire", "release"}:
        return ("mutex", "owner-mutex", "fenced-mutex", "semaphore:N")
    return ()


def _transactions(value: Any) -> str:
    """Recognise the model of one transaction by its micro-operations; empty if they do not decide."""
    named = _micro_functions(value)
    if named & {"send", "poll"}:
        return "log"
    return "rw-register" if "w" in named else "list-append" if "append" in named else ""


def _micro_functions(value: Any) -> set[str]:
    micros = value if isinstance(value, list) else ()
    return {str(micro[0]).removeprefix(":") for micro in micros if isinstance(micro, list) and micro}


def tells(f: str, value: Any) -> bool:
    """Say whether an answer helps to recognise its family: not nil, and not a transaction that only reads."""
    return value is not None and (f != "txn" or not isinstance(value, list) or _micro_functions(value) != {"r"})


def sampler(events: Collection[Any]) -> Samples:
    """Return the function that finds values of a function in events."""

    def samples(f: str) -> list[Any]:
        # The request of a transaction also shows what it does; a failed transaction may have nothing else.
        kinds = (Outcome.INVOKE, Outcome.OK) if f == "txn" else (Outcome.OK,)
        values = (
            event.value
            for kind in kinds
            for event in events
            if type(event) is OpEvent and event.f == f and event.type is kind and tells(f, event.value)
        )
        return list(islice(values, SAMPLES_MAX))

    return samples
