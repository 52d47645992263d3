"""Changes a node's command to another release of its server, and keeps what other faults have changed.

The system says how a node starts from the old artifacts and from the new ones. Only the differences between the two are
applied to the node's present spec: another fault may have added arguments of its own, such as which cluster to join.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from fencepost.harness.runtime.node import NodeSpec

T = TypeVar("T")


class Entangled(Exception):
    """A part that differs between the releases was changed by another fault too; the message names it."""


def changed(now: NodeSpec, old: NodeSpec, new: NodeSpec, *, image: str = "") -> NodeSpec:
    """Apply the difference between `old` and `new` to `now`; the files of an empty data directory stay as they are.

    Raises Entangled.
    """
    return replace(
        now,
        argv=_changed_command(now.argv, old.argv, new.argv),
        environment=_entries("environment", now.environment, old.environment, new.environment),
        files=_entries("file", now.files, old.files, new.files),
        image=image,
    )


def _changed_command(now: tuple[str, ...], old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    if now == old or old == new:
        return new if now == old else now
    if len(old) != len(new):
        raise Entangled("its command was changed by another fault")
    instead = {before: after for before, after in zip(old, new, strict=True) if before != after}
    if not instead.keys() <= set(now):
        raise Entangled("its command was changed by another fault")
    return tuple(instead.get(word, word) for word in now)


def _entries(what: str, now: Mapping[str, T], old: Mapping[str, T], new: Mapping[str, T]) -> dict[str, T]:
    entries = dict(now)
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) == new.get(name):
            continue
        if now.get(name) != old.get(name):
            raise Entangled(f"its {what} {name} was changed by another fault")
        if name in new:
            entries[name] = new[name]
        else:
            del entries[name]
    return entries
