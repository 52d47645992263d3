"""Triggers: a fault that acts relative to what is seen of the cluster, such as "300 ms after a new leader appeared".

`when=leader+300ms` waits from the fault's nominal time on, at most `within=` (10 s unless it says otherwise), and then
the delay. When the deadline passes the fault acts anyway, or is skipped with `otherwise=skip`; either is recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.base.errors import UsageError

#: What can be waited for.
TRIGGERS: Final = {
    "leader": "a node leads that did not when the fault was due, or leads in a higher epoch",
    "restart": "a server was started again after the fault was due; the target `restarted` is that node",
}
#: Options of every fault, as `Fault.options` lists a fault's own.
COMMON_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {"when": (), "within": (), "otherwise": ("act", "skip")}
_WITHIN: Final = "10s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What is waited for, how long after it the fault acts, and what becomes of it when nothing is seen."""

    text: str
    what: str
    delay_ns: int
    within_ns: int
    acts_anyway: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a trigger waited for and saw; `seen_at_ns` counts from the main phase, `waited_ns` from the nominal time."""

    trigger: str
    met: bool
    waited_ns: int
    seen: str | None = None
    node: str | None = None
    epoch: int | None = None
    seen_at_ns: int | None = None


def trigger_of(options: Mapping[str, str]) -> Trigger | None:
    """The trigger that a fault's options ask for; raises UsageError."""
    text = options.get("when")
    if text is None:
        strange = next((name for name in COMMON_OPTIONS if name in options), None)
        if strange:
            raise UsageError(f"{strange}= belongs to when=", hint="such as when=leader+300ms:within=5s")
        return None
    what, plus, delay = text.partition("+")
    if what not in TRIGGERS:
        raise UsageError(
            f"when={text!r}: {what!r} is nothing to wait for",
            hint=f"choose from: {', '.join(TRIGGERS)}, with a delay: leader+300ms",
        )
    return Trigger(
        text=text,
        what=what,
        delay_ns=parse_duration_ns(delay, what="when=") if plus else 0,
        within_ns=parse_duration_ns(options.get("within", _WITHIN), what="within="),
        acts_anyway=options.get("otherwise", "act") == "act",
    )
