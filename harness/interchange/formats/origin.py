"""The origin of an exported history: a first-line comment that other tools skip and `fencepost check` repeats.

A run is judged for more than the model that fits its operations, so the comment names the run and the guarantees that
decided it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.command_line import command_line
from fencepost.harness.history import Event, OpEvent
from fencepost.harness.results import run_folder as store

_HEAD: Final = "; exported by fencepost: "


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a history: `judged_for` names the guarantees that decided the run; empty if it was not judged.

    `keyed` says whether every value is [key value]; None if some operations have no key.
    """

    run: str
    judged_for: tuple[str, ...] = ()
    keyed: bool | None = None

    @property
    def sentence(self) -> str:
        judged = f"the run was judged for {', '.join(self.judged_for)}" if self.judged_for else "the run was not judged"
        return f"{judged}: {command_line('check', self.run)}"


class _Guarantee(msgspec.Struct, frozen=True):
    name: str
    decides: bool = False


class _Judged(msgspec.Struct, frozen=True):
    guarantees: tuple[_Guarantee, ...] = ()


def origin_of(folder: Path, events: Iterable[Event]) -> Origin:
    """Return the origin of a history that is exported from a run's folder."""
    keyed = {event.key is not None for event in events if type(event) is OpEvent} == {True} or None
    try:
        kept = msgspec.json.decode((folder / store.VERDICT).read_bytes(), type=_Judged)
    except (OSError, msgspec.DecodeError, RecursionError):
        return Origin(run=str(folder), keyed=keyed)
    return Origin(run=str(folder), judged_for=tuple(g.name for g in kept.guarantees if g.decides), keyed=keyed)


def comment(origin: Origin) -> str:
    return f"{_HEAD}{msgspec.json.encode(origin).decode()}\n"


def stated_origin(start: bytes) -> Origin | None:
    """Return the origin that the first line states, if it is such a comment."""
    first = start.partition(b"\n")[0]
    if not first.startswith(_HEAD.encode()):
        return None
    try:
        return msgspec.json.decode(first.removeprefix(_HEAD.encode()), type=Origin)
    except (msgspec.DecodeError, RecursionError):
        return None
