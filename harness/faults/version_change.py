"""What a node's command becomes when its server is to be another release, whatever else was changed of it before.

The system tells how a node begins from the old artifacts and from the new ones. Only what differs between the two is
changed in the spec that the node has now: another fault may have given it words of its own, such as whom to join.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from fencepost.harness.runtime.node import NodeSpec

T = TypeVar("T")


class Entangled(Exception):
    """What differs between the releases was changed by somebody else as well; says what."""


def changed(now: NodeSpec, old: NodeSpec, new: NodeSpec, *, image: str = "") -> NodeSpec:
    """`now` with the difference between `old` and `new`; what fills an empty data directory stays.

    Raises Entangled.
    """
    return replace(
        now,
        argv=_words(now.argv, old.argv, new.argv),
        environment=_entries("environment", now.environment, old.environment, new.environment),
        files=_entries("file", now.files, old.files, new.files),
        image=image,
    )


def _words(now: tuple[str, ...], old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    if now == old or old == new:
        return new if now == old else now
    if len(old) != len(new):
        raise Entangled("its command was changed by another fault")
    instead = {before: after for before, after in zip(old, new, strict=True) if before != after}
    if not instead.keys() <= set(now):
        raise Entangled("its command was changed by another fault")
    return tuple(instead.get(word, word) for word in now)


def _entries(what: str, now: Mapping[str, T], old: Mapping[str, T], new: Mapping[str, T]) -> dict[str, T]:
    found = dict(now)
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) == new.get(name):
            continue
        if now.get(name) != old.get(name):
            raise Entangled(f"its {what} {name} was changed by another fault")
        if name in new:
            found[name] = new[name]
        else:
            del found[name]
    return found
