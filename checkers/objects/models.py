"""The built-in models by their names. What stands behind a colon, as in `semaphore:3`, is their option, as JSON."""

from collections.abc import Callable
from typing import Final, get_type_hints

import msgspec

from fencepost.checkers.objects.collections import Bag, PriorityQueue, Queue, Set, Stack
from fencepost.checkers.objects.key_value import KeyValue
from fencepost.checkers.objects.kind import Kind
from fencepost.checkers.objects.locks import FencedMutex, Mutex, OwnerMutex, Semaphore
from fencepost.checkers.objects.values import AppendLog, Bank, Counter, MultiRegister
from fencepost.harness.base.errors import UsageError

#: A semaphore's option is how many permits it has; that of the others is what they hold at first.
MODELS: Final[dict[str, Callable[..., Kind]]] = {
    **{kind.name: kind for kind in (Mutex, OwnerMutex, FencedMutex, Set, Queue, Bag, Stack, PriorityQueue)},
    **{kind.name: kind for kind in (Semaphore, Counter, Bank, MultiRegister, AppendLog, KeyValue)},
}


def model_of(name: str) -> Kind:
    """A new instance of the model of this name; raises UsageError for an option that it does not take."""
    plain, colon, option = name.partition(":")
    kind = MODELS[plain]
    if not colon and plain != Semaphore.name:
        return kind()
    takes = [hint for of, hint in get_type_hints(kind.__init__).items() if of != "return"]
    try:
        if not takes:
            raise ValueError("it has no option")
        chosen = kind(msgspec.json.decode(option.encode(), type=takes[0]) if option else None)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(
            f"the model {plain} does not take {option!r:.80}: {error}",
            hint="behind the colon stands what it holds at first, as JSON: counter:5, linearizable-set:[1,2]; of a "
            "semaphore how many permits it has: semaphore:3",
        ) from None
    chosen.name = name  # Proofs are asked again of the model with this option.
    return chosen
