"""The guarantees about KIP-273's metastore (`checkers.metastore`), with one text for all systems."""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.membership_guarantees import Source
from fencepost.harness.verdict import Guarantee

TEXTS: Final[Mapping[str, str]] = {
    "session-requests-in-order": "Requests of one session take effect and are answered in the order sent, and its reads"
    " see its earlier writes.",
    "batches-go-on": "After a request of a batch is refused, the others are carried out.",
    "versions-count-writes": "A version is 0 after the creation and grows by one with every write.",
    "ephemerals-belong-to-sessions": "An ephemeral goes with its session and has no children.",
    "no-orphan-children": "A parent with children cannot be deleted.",
    "ended-session-is-refused": "A request in a session that is over is refused.",
    "events-before-answers": "A session hears of a change by its watch before an answer shows the change.",
}


def metastore_guarantees(sources: Mapping[str, Source]) -> tuple[Guarantee, ...]:
    return tuple(
        Guarantee(name=name, standing=sources[name].standing, text=text, source=sources[name].source)
        for name, text in TEXTS.items()
    )
