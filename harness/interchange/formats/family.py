"""Families: what the operations of a history are about, told by their functions; who judges it, or why nobody does.

A family is chosen by a name given, else by the functions and by what reads return, where these leave one choice: a
history of reads alone may be of a register, a counter or a bank, and its owner is asked. A history whose operations are
of no family, or of one that nothing judges yet, is refused as a whole: what is judged is judged completely.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.history import OpEvent, Outcome

NO_JUDGE: Final = "its operations are read, but nothing judges them yet"


#: The registry key of what judges by a model that a user wrote.
USER_MODEL: Final = "user-model"


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """`functions` are those that its histories may have; `checker` is a registry key, empty when there is none."""

    name: str
    about: str
    functions: frozenset[str]
    checker: str = ""
    guarantee: str = ""
    #: What a name says of its model behind a colon, as `semaphore:3`; of a user's model the whole name.
    parameter: str = ""

    @property
    def is_users(self) -> bool:
        """Whether what its operations may carry is known to its model alone."""
        return self.checker == USER_MODEL


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
        _family("queue", "first in, first out", "enqueue dequeue drain", "queue", "linearizable"),
        _family("bank", "transfers and reads of all accounts", "transfer read", "bank", "linearizable"),
        _family(
            "log",
            "Kafka's sends and polls",
            "send poll txn assign subscribe crash debug-topic-partitions",
            "kafka-log",
            "log-consistency",
        ),
        _family("append-log", "appends, and reads by offset", "append read", "append-log", "linearizable"),
        _family("mutex", "a lock that anyone may release", "acquire release", "mutex", "linearizable"),
        _family("owner-mutex", "a lock that its holder releases", "acquire release", "owner-mutex", "linearizable"),
        _family("fenced-mutex", "whose tokens grow", "acquire release", "fenced-mutex", "linearizable"),
        _family("semaphore", "so many permits: semaphore:3", "acquire release", "semaphore", "linearizable"),
        _family("grow-only-set", "adds and reads", "add contains read", "linearizable-set", "linearizable"),
        _family("add-remove-set", "with removals", "add remove contains read", "linearizable-set", "linearizable"),
        _family("etcd-kv", "keys with revisions", "read write put cas create delete txn", "etcd-kv", "linearizable"),
        _family(
            "zookeeper-kv",
            "znodes with zxids",
            "read write cas create delete sync",
            "zookeeper-kv",
            "ordered-sequential",
        ),
        _family("multi-register", "transactions of several registers", "txn", "multi-register", "linearizable"),
    )
}

#: Asked for no name, the first of these whose functions cover the history's is taken.
_BY_FUNCTIONS: Final = ("register", "cas-register", "queue", "bank", "log", "append-log")
_WITH_PARAMETER: Final = ("semaphore", "etcd-kv", "zookeeper-kv")
#: Models whose values are what the store's replies say; their checkers read these by themselves.
STORES: Final = ("etcd-kv", "zookeeper-kv")
#: Models of transactions: these can be held to any of the consistency models.
TRANSACTIONS: Final = ("list-append", "rw-register")
JUDGED: Final = tuple(name for name, family in FAMILIES.items() if family.checker)


def choose(name: str | None, functions: Collection[str], sample: Callable[[str], Any], source: str) -> Family:
    """The family of a history with these functions; raises UsageError.

    `sample(f)` is the value of an `ok` completion of `f`, or None.
    """
    family = _named(name, functions) if name else _recognised(set(functions), sample)
    if family is None and (open_between := _open_between(set(functions))):
        raise UsageError(
            f"{source}: operations {', '.join(sorted(functions))}: what they answer does not tell which of "
            f"{', '.join(open_between)} this is",
            hint=f"say it: --model {open_between[0]}",
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
    """The family, if there is a checker for it; raises UsageError."""
    if not family.checker:
        raise UsageError(
            f"{source}: a history of the model {family.name} ({family.about}): {NO_JUDGE}",
            hint=f"models that are judged: {', '.join(JUDGED)}; `fencepost export` writes it in other forms",
        )
    return family


def _named(whole: str, functions: Collection[str]) -> Family:
    name, _, parameter = whole.partition(":")
    if name not in FAMILIES and all(part.isidentifier() for part in (*name.split("."), *parameter.split("."))):
        return Family(
            name=whole,
            about="a model of its own",
            functions=frozenset(functions),
            checker=USER_MODEL,
            guarantee="linearizable",
            parameter=whole,
        )
    if name not in FAMILIES:
        raise unknown_choice("model", name, [*FAMILIES, "module:attribute"])
    if parameter and name not in _WITH_PARAMETER:
        raise UsageError(
            f"the model {name} takes no parameter, as in {name}:{parameter}",
            hint=f"models that take one: {', '.join(_WITH_PARAMETER)}",
        )
    return msgspec.structs.replace(FAMILIES[name], parameter=parameter)


def _recognised(functions: set[str], sample: Callable[[str], Any]) -> Family | None:
    if functions <= {"add", "read", "members"} and functions & {"add", "members"}:
        seen = sample("read")
        numbers = isinstance(seen, (int, float)) and not isinstance(seen, bool)
        is_set = "members" in functions or isinstance(seen, list)
        return FAMILIES["counter"] if numbers else FAMILIES["set"] if is_set else None
    if functions <= {"increment", "decrement", "add", "read"} and functions - {"read"}:
        return FAMILIES["counter"]
    if functions == {"txn"} and not isinstance(sample("txn"), dict):
        kind = _transactions(sample("txn"))
        return FAMILIES[kind] if kind else None
    if functions and functions <= {"acquire", "release"}:
        return FAMILIES["mutex" if sample("acquire") is None else "fenced-mutex"]
    if (store := _store(functions, sample)) is not None:
        return store
    if functions == {"read"} and sample("read") is not None:
        return None
    if "sync" in functions and functions <= FAMILIES["zookeeper-kv"].functions:
        return FAMILIES["zookeeper-kv"]
    if functions & {"remove", "contains"}:
        return next(FAMILIES[n] for n in ("grow-only-set", "add-remove-set") if functions <= FAMILIES[n].functions)
    return next((FAMILIES[name] for name in _BY_FUNCTIONS if functions <= FAMILIES[name].functions), None)


def _store(functions: set[str], sample: Callable[[str], Any]) -> Family | None:
    """The store with numbered writes whose replies these are, told by their fields."""
    for name, number in (("etcd-kv", "revision"), ("zookeeper-kv", "mzxid"), ("zookeeper-kv", "zxid")):
        family = FAMILIES[name]
        for f in functions if functions <= family.functions else ():
            seen = sample(f)
            if isinstance(seen, dict) and number in {str(field).removeprefix(":") for field in seen}:
                return family
    return None


def _open_between(functions: set[str]) -> tuple[str, ...]:
    """The models between which these functions leave the choice open where no answer settles it."""
    if functions == {"read"}:
        return ("register", "counter", "bank", "set")
    if functions == {"txn"}:
        return ("list-append", "rw-register")
    return ("counter", "set") if "add" in functions and functions <= {"add", "read"} else ()


def _transactions(value: Any) -> str:
    """By the functions of the micro-operations of one transaction; empty where they do not tell."""
    named = _micro_functions(value)
    if named & {"send", "poll"}:
        return "log"
    return "rw-register" if "w" in named else "list-append" if "append" in named else ""


def _micro_functions(value: Any) -> set[str]:
    micros = value if isinstance(value, list) else ()
    return {str(micro[0]).removeprefix(":") for micro in micros if isinstance(micro, list) and micro}


def tells(f: str, value: Any) -> bool:
    """Whether an answer helps to tell its family: it is not nil, and a transaction does more than read."""
    return value is not None and (f != "txn" or not isinstance(value, list) or _micro_functions(value) != {"r"})


def sampler(events: Collection[Any]) -> Callable[[str], Any]:
    """The value of the first `ok` completion of a function that tells something."""

    def sample(f: str) -> Any:
        for event in events:
            if type(event) is OpEvent and event.f == f and event.type is Outcome.OK and tells(f, event.value):
                return event.value
        return None

    return sample
