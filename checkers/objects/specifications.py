"""Every built-in object as a plain sequential specification, by its name."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from fencepost.checkers.objects.plain_collections import LogObject, QueueObject, SetObject
from fencepost.checkers.objects.plain_locks import FencedMutex, Mutex, OwnerMutex, Semaphore
from fencepost.checkers.objects.plain_registers import MultiRegisterObject
from fencepost.checkers.objects.plain_sums import BankObject, CounterObject
from fencepost.checkers.objects.specification import Specification
from fencepost.harness.history import Operation

_SPECIFICATIONS: Final[dict[str, Callable[[Sequence[Operation], Collection[str] | None], Specification]]] = {
    "mutex": Mutex,
    "owner-mutex": OwnerMutex,
    "fenced-mutex": FencedMutex,
    "counter": CounterObject,
    "linearizable-set": SetObject,
    "queue": QueueObject,
    "append-log": LogObject,
    "multi-register": MultiRegisterObject,
    "bank": BankObject,
}


def specification(name: str, operations: Sequence[Operation], about: Collection[str] | None) -> Specification | None:
    """The object of this name, a semaphore's with its permits (`semaphore:3`); None where there is none."""
    plain, _, parameter = name.partition(":")
    if plain == "semaphore" and parameter.isdigit():
        return Semaphore(operations, about, int(parameter))
    made = _SPECIFICATIONS.get(name)
    return None if made is None else made(operations, about)
