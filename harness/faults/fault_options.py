"""The options that every kind of fault has, and the triggers that they may name; a kind adds its own in a subclass.

A trigger is a fault that waits for an event of the cluster, or ends with it: "300 ms after a new leader appeared".

`when=leader+300ms` waits for the event from the fault's nominal time on, at most `within=` (10 s unless given), and
then for the delay. When the event does not come, the fault acts anyway, or is skipped with `otherwise=skip`. The
schedule records which. An event of one node alone is `restart@b2+2s`.

`end=claim+50ms` ends a fault when the event is seen, and its delay later, but never after its `for=`. A fault may have
phases (`FaultKind.phases`), and each of them is an event for others. `during=` does both: the fault acts in this phase
and ends with it.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, Self

from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.base.quantities import NEVER_NS, Quantity, parse_duration_ns
from fencepost.harness.contract.logs import BecameLeader, CaughtUp, LineEvent, LogMoment, LogTable, Reached, TookOver
from fencepost.harness.history import CatchUp

LEADER: Final = "leader"
RESTART: Final = "restart"
CLAIM: Final = "claim"
CATCH_UP: Final = "catch-up"
#: The events that servers log, after the fault was due; each is seen within some 10 ms.
LOGGED: Final[dict[str, str]] = {
    CLAIM: "a server logged that it leads now",
    LogMoment.ELECTION: "a server logged that it stands for leader, or looks for one",
    CATCH_UP: "a server logged that it caught up, in one of the next three ways",
    CatchUp.DIFFERENCE: "a server logged that it caught up by the changes that it lacked",
    CatchUp.SNAPSHOT: "a server logged that it caught up by a snapshot of the whole state",
    CatchUp.TRUNCATION: "a server logged that it cut off what it had too much",
    CatchUp.LOADED: "a server logged that it reads a snapshot, its own or one that it was sent",
    CatchUp.SAVED: "a server logged that it saved a snapshot of its own",
    LogMoment.COMPACTION: "a server logged that it gave up the older part of its log, or of its history of values",
}
#: The events to wait for. For `end=` read "was injected" for "was due".
TRIGGERS: Final[dict[str, str]] = {
    LEADER: "a node leads that did not lead when the fault was due, or it leads in a higher epoch",
    RESTART: "a server was restarted after the fault was due; the target `restarted` is that node",
    **LOGGED,
}
_WAYS: Final = frozenset({CatchUp.DIFFERENCE, CatchUp.SNAPSHOT, CatchUp.TRUNCATION})
#: Joins such an event and the one node whose events count.
AT: Final = "@"


def triggers_of(event: LineEvent) -> tuple[str, ...]:
    """The triggers that wait for such an event of a log, the most precise one first."""
    match event:
        case BecameLeader() | TookOver():
            return (CLAIM,)
        case CaughtUp(way):
            return (way, CATCH_UP) if way in _WAYS else (way,)
        case Reached(moment):
            return (moment,)
    return ()


def triggers_told_by(logs: LogTable | None) -> list[str]:
    """The triggers that wait for what such logs tell, in the order of `LOGGED`."""
    if logs is None:
        return []
    events: list[LineEvent] = [*map(CaughtUp, logs.caught_up.values()), *map(Reached, logs.reached.values())]
    events += [BecameLeader(0)] * logs.tells_leaders
    triggers = {trigger for event in events for trigger in triggers_of(event)}
    return [trigger for trigger in LOGGED if trigger in triggers]


@dataclass(frozen=True, slots=True)
class Moment(Quantity):
    """An event and a delay after it: `leader+300ms`. `node`: only events of this node count; empty: of any.

    Whether there is such an event is known with the kinds of faults (`nemesis_text`), since these may have phases.
    """

    text: str
    event: str
    delay_ns: int
    node: str = ""

    kind = "an event with a delay, such as leader+300ms"

    @classmethod
    def read(cls, text: str, *, what: str) -> Self:
        whole, plus, delay = text.partition("+")
        event, at, node = whole.partition(AT)
        if at and not node:
            raise UsageError(f"{what}={text!r}: no node stands after {AT}", hint=f"such as restart{AT}n2+200ms")
        return cls(text, event, parse_duration_ns(delay, what=what) if plus else 0, node)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """The event of one fault, the delay after it, and whether the fault acts when the event does not come.

    `node`: only events of this node count; empty: of any. `during`: it has the whole phase `what`, and no phase that is
    over. `leaves`: the event is the end of that phase.
    """

    text: str
    what: str
    node: str
    delay_ns: int
    within_ns: int
    acts_anyway: bool
    during: bool = False
    leaves: bool = False

    @property
    def missed(self) -> str:
        """Why a fault did not act whose event did not come."""
        if self.during:
            return f"the migration was not in its phase {self.what}"
        return f"the event of when={self.text} did not come within {self.within_ns / 1e9:g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a trigger waited for and saw.

    `seen_at_ns` counts from the beginning of the main phase, `waited_ns` from the fault's nominal time.
    """

    trigger: str
    met: bool
    waited_ns: int
    seen: str | None = None
    node: str | None = None
    epoch: int | None = None
    seen_at_ns: int | None = None


class FaultOptions(Options, frozen=True, kw_only=True):
    """Options of every fault. Each kind sets its own default of `for_`."""

    for_: Annotated[Duration, about("how long it stays in force, from the proof to the healing")] = seconds(5)
    when: Annotated[
        Moment | UnsetType,
        about("event to wait for, of any node or of one, with a delay: leader+300ms, restart@n2+200ms"),
    ] = UNSET
    within: Annotated[Duration, about("longest wait for the event of when=")] = seconds(10)
    otherwise: Annotated[
        Literal["act", "skip"], about("whether it acts or is skipped when the event of when= does not come")
    ] = "act"

    end: Annotated[Moment | UnsetType, about("event that ends it before for= is over: claim+50ms")] = UNSET
    during: Annotated[
        str | UnsetType,
        about(
            "phase of a fault that has phases: it waits for the phase, ends with it, and is skipped when the phase"
            " does not come"
        ),
    ] = UNSET

    @property
    def trigger(self) -> Trigger | None:
        """What it waits for before it acts."""
        if self.during is not UNSET:
            return self._during(self.during)
        return None if self.when is UNSET else self._of(self.when, self.within, acts_anyway=self.otherwise == "act")

    @property
    def ending(self) -> Trigger | None:
        """What ends it early; a fault whose event does not come ends by its length."""
        if self.during is not UNSET:
            return replace(self._during(self.during), within_ns=self.for_, acts_anyway=True, leaves=True)
        return None if self.end is UNSET else self._of(self.end, self.for_, acts_anyway=True)

    @staticmethod
    def _of(moment: Moment, within_ns: int, *, acts_anyway: bool) -> Trigger:
        return Trigger(
            text=moment.text,
            what=moment.event,
            node=moment.node,
            delay_ns=moment.delay_ns,
            within_ns=within_ns,
            acts_anyway=acts_anyway,
        )

    @staticmethod
    def _during(phase: str) -> Trigger:
        moment = Moment(text=phase, event=phase, delay_ns=0)
        return replace(FaultOptions._of(moment, NEVER_NS, acts_anyway=False), during=True)


class LastingOptions(FaultOptions, frozen=True, kw_only=True):
    """Options of a fault whose effect stays when it is healed: disks that were damaged, or lost what was not synced."""

    fixed: Annotated[
        bool,
        about("whether a target such as one or minority means the same nodes for the whole run, or others each time"),
    ] = True


#: The options that every kind has, by name.
OF_EVERY_FAULT: Final[tuple[str, ...]] = ("for", "when", "within", "otherwise", "end", "during")
#: Those of them that mean nothing without `when=`.
OF_TRIGGERS: Final[tuple[str, ...]] = ("within", "otherwise")
#: Those that say when it acts or ends, which `during=` says by itself.
OF_MOMENTS: Final[tuple[str, ...]] = ("when", "end")
