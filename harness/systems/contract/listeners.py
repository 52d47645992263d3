"""How a system's data-change listeners work, for the systems that have them."""

from typing import Protocol, runtime_checkable

from fencepost.harness.coordination import WatchMode


@runtime_checkable
class OffersWatches(Protocol):
    """Its sessions take listeners to changes of data (`harness.coordination.Watchable`)."""

    @property
    def watch_modes(self) -> tuple[WatchMode, ...]:
        """The first one is the default."""
        ...

    @property
    def resumes_watches(self) -> bool:
        """Whether a watch may begin at a position of the past, as far back as history was not compacted."""
        ...
