"""What a fault does to nodes and links while it is in force. Histories, checkers and tables know nothing else of it.

A fault declares its effects (`FaultKind.effects`), and each of its events carries them. Events of schema version 1 have
only the fault's name, those of version 2 say nothing of disks: `recorded_effects` is the only place where names matter.

What every event of a history has.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec


# Events hold JSON values without cycles, so the garbage collector need not visit a million of them (gc=False).
class BaseEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """Every event: `index` counts from 0 without gaps and is the order; `time_ns` never decreases with it."""

    index: int
    time_ns: int


class Stops(StrEnum):
    """Whether the servers of the fault's nodes stop."""

    #: From the proof to the beginning of the healing none of them runs: each is frozen or dead.
    CERTAIN = "certain"
    #: At any moment from the fault's beginning to the end of its healing, one of them may be stopped.
    POSSIBLE = "possible"
    NO = "no"


class Disk(StrEnum):
    """What a fault leaves on the disks of its nodes when it is over."""

    #: Everything that the server wrote.
    KEPT = "kept"
    #: What the server had synced; what it had only written may be gone (detail `lost` of the fault names it).
    UNSYNCED = "unsynced"
    #: What the server wrote may read as something else, synced or not.
    DAMAGED = "damaged"


class Effects(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The effects of one fault on its `nodes` and links; by default none."""

    stops: Stops = Stops.NO
    #: Links carry no packets, or their connections are ended.
    cuts: bool = False
    #: Threads of a running server may be held in a system call for as long as the fault lasts.
    holds: bool = False
    #: Links are slow, lossy, narrow or disordered.
    delays: bool = False
    #: Clocks do not show true time; `ClockEvent`s say what they show instead.
    skews: bool = False
    #: Members are removed and added.
    changes_members: bool = False
    #: A server may end by itself: it cannot write. Until then it runs.
    ends: bool = False
    disk: Disk = Disk.KEPT

    @property
    def may_stop(self) -> bool:
        """Whether a server of the fault's nodes may be inactive for a while, proven or not."""
        return self.stops is not Stops.NO or self.holds


_DEAD: Final = Effects(stops=Stops.CERTAIN)
_AT_TIMES: Final = Effects(stops=Stops.POSSIBLE)
_CUTS: Final = Effects(cuts=True)

_VERSION_1: Final[Mapping[str, Effects]] = {
    "churn": _AT_TIMES,
    "clock-skew": Effects(skews=True),
    "damage": Effects(stops=Stops.POSSIBLE, disk=Disk.DAMAGED),
    "depose": _DEAD,
    "disk": Effects(holds=True, ends=True),
    "flapping": _CUTS,
    "gray": _AT_TIMES,
    "kill": _DEAD,
    "link": Effects(cuts=True, delays=True),
    "lost-write": Effects(stops=Stops.CERTAIN, holds=True),
    "membership": Effects(stops=Stops.POSSIBLE, changes_members=True),
    "partition": _CUTS,
    "pause": _DEAD,
    "power-loss": Effects(stops=Stops.CERTAIN, disk=Disk.UNSYNCED),
    "rolling": _AT_TIMES,
    "toxic": Effects(cuts=True, delays=True),
}


def recorded_effects(fault: str, effects: Effects | None) -> Effects:
    """Complete the effects of an event of an earlier schema version by what its fault's name meant then."""
    if effects is None:
        return effects_of_version_1(fault)
    if effects.disk is Disk.KEPT:
        return msgspec.structs.replace(effects, disk=effects_of_version_1(fault).disk)
    return effects


def effects_of_version_1(fault: str) -> Effects:
    """Return the effects of a fault whose events carry none; none for a kind that no release of version 1 had."""
    return _VERSION_1.get(fault, Effects())
