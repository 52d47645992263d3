"""The messages between the harness and its clock daemon: one JSON object per line, over a pair of sockets.

This whole package imports only the standard library, so that the clock daemon starts quickly.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from fencepost.harness.runtime.clocks.setting import Settings


class How(StrEnum):
    """When in its life a process was armed."""

    LIVE = "while it ran"
    EXEC = "before its first instruction"
    NEWCOMER = "soon after it began"
    INHERITED = "by birth"


class WaitsState(StrEnum):
    """Whether the timed waits of a process follow its skewed clocks."""

    UNNEEDED = "relative"
    PENDING = "pending"
    TRANSLATED = "translated"
    FAILED = "not translated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Arm all processes of the node whose first one is `pid` (as /proc numbers it), now and later.

    With `through_gate` the first one is a gate to open. The answer is `ClockDone`, once all present ones are armed.
    """

    id: int
    node: str
    pid: int
    settings: Settings
    through_gate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """Give new processes of the node these settings from now on. There is no answer."""

    node: str
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRelease:
    """Disarm all processes of the node and forget it. The answer is `ClockDone`."""

    id: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """Report that a process was armed; `why` says why its waits are not translated. Sent again once they are."""

    node: str
    pid: int
    how: How
    waits: WaitsState
    took_ms: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotArmed:
    """Report that a process could not be armed or disarmed; `ended` means that it ended in that time."""

    node: str
    pid: int
    why: str
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockDone:
    """Report that the request `id` is done; the reports of all processes came before."""

    id: int


Message = Arm | ClockChange | ClockRelease | Armed | NotArmed | ClockDone

_KINDS: Final[dict[str, type[Message]]] = {
    kind.__name__: kind for kind in (Arm, ClockChange, ClockRelease, Armed, NotArmed, ClockDone)
}


def encode(message: Message) -> bytes:
    """Write a message as one line."""
    fields: dict[str, Any] = asdict(message)
    if isinstance(message, Arm | ClockChange):
        fields["settings"] = message.settings.pack().hex()
    return json.dumps({"kind": type(message).__name__, **fields}).encode() + b"\n"


def decode(line: bytes) -> Message:
    fields = json.loads(line)
    kind = _KINDS[fields.pop("kind")]
    if kind in (Arm, ClockChange):
        fields["settings"] = Settings.unpack(bytes.fromhex(fields["settings"]))
    if kind is Armed:
        fields |= {"how": How(fields["how"]), "waits": WaitsState(fields["waits"])}
    return kind(**fields)
