"""The options that every kind of fault has; a kind adds its own in a subclass."""

from dataclasses import replace
from typing import Annotated, Final, Literal

from msgspec import UNSET, UnsetType

from fencepost.harness.base.durations import NEVER_NS
from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.faults.trigger import Moment, Trigger


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
        if self.when is UNSET:
            return None
        return Trigger(
            text=self.when.text,
            what=self.when.event,
            node=self.when.node,
            delay_ns=self.when.delay_ns,
            within_ns=self.within,
            acts_anyway=self.otherwise == "act",
        )

    @property
    def ending(self) -> Trigger | None:
        """What ends it early; a fault whose event does not come ends by its length."""
        if self.during is not UNSET:
            return replace(self._during(self.during), within_ns=self.for_, acts_anyway=True, leaves=True)
        if self.end is UNSET:
            return None
        return Trigger(
            text=self.end.text,
            what=self.end.event,
            node=self.end.node,
            delay_ns=self.end.delay_ns,
            within_ns=self.for_,
            acts_anyway=True,
        )

    @staticmethod
    def _during(phase: str) -> Trigger:
        return Trigger(
            text=phase,
            what=phase,
            node="",
            delay_ns=0,
            within_ns=NEVER_NS,
            acts_anyway=False,
            during=True,
        )


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
