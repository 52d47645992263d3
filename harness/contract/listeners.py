"""Data-change listeners, for systems that have them."""

from typing import Protocol, runtime_checkable

from fencepost.harness.coordination import WatchMode


@runtime_checkable
class OffersWatches(Protocol):
    """Its sessions can listen for changes of data (`harness.coordination.Watchable`)."""

    @property
    def watch_modes(self) -> tuple[WatchMode, ...]:
        """The modes that it has; the first is the default."""
        ...

    @property
    def resumes_watches(self) -> bool:
        """Whether a watch may begin at a past position, as long as history was not compacted there."""
        ...

    @property
    def changes_keys_together(self) -> bool:
        """Whether one transaction changes several watched keys at one position."""
        ...
