"""What etcd promises of watches: its six words, each a guarantee of its own, and that an event tells the truth.

Of a watch's delay it promises nothing: "there is no limit and events in unhealthy clusters might never arrive" (the
same page). So an event that has not come is late; only one that a later event passed over is lost.

Bookmarks that are asked for hold since 3.4.25 and 3.5.8. Earlier releases answer the question beside the stream of
events, with the store's revision, whatever still waits to be sent (etcd#15220); the page that promises otherwise is
younger than they are. Users build on it (Kubernetes reads from its cache by it), so there it is relied upon.
"""

import re
from typing import Final

import msgspec

from fencepost.harness.verdict import Guarantee, Standing

_API: Final = "etcd.io/docs/v3.5/learning/api_guarantees, section Watch APIs"

_BOOKMARKS: Final = Guarantee(
    name="watch-bookmarkable",
    standing=Standing.PROMISED,
    text="Progress notification events guarantee that all events up to a revision have been already delivered.",
    source=f"{_API}: Bookmarkable",
)
_BOOKMARKS_BEFORE: Final = msgspec.structs.replace(
    _BOOKMARKS,
    standing=Standing.RELIED_UPON,
    source=f"{_BOOKMARKS.source}; that page is younger than this release",
    known_issue="etcd#15220: before 3.4.25 and 3.5.8 a progress notification that is asked for overtakes events",
)

WATCH_GUARANTEES: Final = (
    Guarantee(
        name="watch-ordered",
        standing=Standing.PROMISED,
        text="Events are ordered by revision; an event never appears on a watch if it precedes one that was posted, or"
        " the watch's start.",
        source=f"{_API}: Ordered; etcd.io/docs/v3.5/learning/api, section Watch streams: start_revision",
        known_issue="etcd#20221: a watch that starts at a revision its member has not reached may get older events",
    ),
    Guarantee(
        name="watch-unique",
        standing=Standing.PROMISED,
        text="An event never appears on a watch twice.",
        source=f"{_API}: Unique",
    ),
    Guarantee(
        name="watch-reliable",
        standing=Standing.PROMISED,
        text="A sequence of events never drops a part of itself: a watch that gets a and c, with a < b < c, gets b.",
        source=f"{_API}: Reliable",
        known_issue="etcd#17529, etcd#19179: events may be lost when history is compacted",
    ),
    Guarantee(
        name="watch-atomic",
        standing=Standing.PROMISED,
        text="A list of events holds complete revisions: what one transaction changed is not split over several lists.",
        source=f"{_API}: Atomic",
    ),
    Guarantee(
        name="watch-resumable",
        standing=Standing.PROMISED,
        text="A broken watch can be resumed by a new one that starts after the last revision received, as long as that"
        " is in the history window; nothing in between is lost.",
        source=f"{_API}: Resumable",
        known_issue="etcd#18089: before 3.4.34 and 3.5.16 a deletion is lost when history is compacted at its revision",
    ),
    _BOOKMARKS,
    Guarantee(
        name="watch-truthful",
        standing=Standing.PROMISED,
        text="An event tells of a change that was made, with its key, its value and its revision.",
        source="etcd.io/docs/v3.5/learning/api, section Events: a put carries the current key-value pair, a delete the"
        " deleted key with its modification revision",
    ),
)

_FIXED: Final = {(3, 4): 25, (3, 5): 8}


def watch_guarantees(version: str) -> tuple[Guarantee, ...]:
    """As this release is held to them."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return WATCH_GUARANTEES
    major, minor, patch = (int(number) for number in found.groups())
    if patch >= _FIXED.get((major, minor), 0 if (major, minor) > (3, 5) else 1 << 30):
        return WATCH_GUARANTEES
    return tuple(_BOOKMARKS_BEFORE if one is _BOOKMARKS else one for one in WATCH_GUARANTEES)
