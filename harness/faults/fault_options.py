"""What every kind of fault can be told; the struct of a kind's own options builds on it."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, UnsetType

from fencepost.harness.base.options import Duration, Options, about, seconds
from fencepost.harness.faults.trigger import Moment, Trigger


class FaultOptions(Options, frozen=True, kw_only=True):
    """A kind says how long it lasts by its own default of `for_`."""

    for_: Annotated[Duration, about("time from the proof that it took hold to its healing")] = seconds(5)
    when: Annotated[Moment | UnsetType, about("event that it waits for, and how long it acts after that")] = UNSET
    within: Annotated[Duration, about("how long the event of when= is waited for")] = seconds(10)
    otherwise: Annotated[Literal["act", "skip"], about("what it does when the event of when= did not come")] = "act"

    @property
    def trigger(self) -> Trigger | None:
        if self.when is UNSET:
            return None
        return Trigger(
            text=self.when.text,
            what=self.when.event,
            delay_ns=self.when.delay_ns,
            within_ns=self.within,
            acts_anyway=self.otherwise == "act",
        )


#: The options that every kind has, by name.
OF_EVERY_FAULT: Final[tuple[str, ...]] = ("for", "when", "within", "otherwise")
#: Those of them that mean nothing without `when=`.
OF_TRIGGERS: Final[tuple[str, ...]] = ("within", "otherwise")
