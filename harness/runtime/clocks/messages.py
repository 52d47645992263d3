"""What the harness and its keeper tell each other: one JSON object per line, over a pair of sockets.

Only the standard library is used, here as in all of this package: the keeper has to start quickly.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from fencepost.harness.runtime.clocks.setting import Settings


class How(StrEnum):
    """At which moment of its life a process was armed."""

    LIVE = "while it ran"
    EXEC = "before its first instruction"
    NEWCOMER = "soon after it began"
    INHERITED = "by birth"


class WaitsState(StrEnum):
    """Whether the timed waits of a process keep to its skewed clocks."""

    UNNEEDED = "relative"
    PENDING = "pending"
    TRANSLATED = "translated"
    FAILED = "not translated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Arm all processes of the node whose first one is `pid` (as /proc numbers it), and whoever joins them.

    `through_gate`: the first one is a gate, to be opened. Answered by `Done`, once those of now are armed.
    """

    id: int
    node: str
    pid: int
    settings: Settings
    through_gate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Newcomers of the node get these settings from now on. Not answered."""

    node: str
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Disarm all processes of the node and forget it. Answered by `Done`."""

    id: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """A process of a kept node was armed; `why` says why its waits were not translated. Told again when they were."""

    node: str
    pid: int
    how: How
    waits: WaitsState
    took_ms: float
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A process of a kept node could not be armed, or disarmed; `ended`: because it ended meanwhile."""

    node: str
    pid: int
    why: str
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The request `id` is done; what became of each process was told before."""

    id: int


Message = Keep | Change | Release | Armed | Failed | Done

_KINDS: Final[dict[str, type[Message]]] = {kind.__name__: kind for kind in (Keep, Change, Release, Armed, Failed, Done)}


def encode(message: Message) -> bytes:
    """One line."""
    fields: dict[str, Any] = asdict(message)
    if isinstance(message, Keep | Change):
        fields["settings"] = message.settings.pack().hex()
    return json.dumps({"kind": type(message).__name__, **fields}).encode() + b"\n"


def decode(line: bytes) -> Message:
    fields = json.loads(line)
    kind = _KINDS[fields.pop("kind")]
    if kind in (Keep, Change):
        fields["settings"] = Settings.unpack(bytes.fromhex(fields["settings"]))
    if kind is Armed:
        fields |= {"how": How(fields["how"]), "waits": WaitsState(fields["waits"])}
    return kind(**fields)
