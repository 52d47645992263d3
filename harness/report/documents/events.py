"""Rows of a stored history as JSON lines (docs/reference/history-format.md), to check what a report claims."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.results.reader import read_history

_HINT = "all, or indexes and ranges of them: 7,9-12"


def event_lines(folder: Path, wanted: str) -> Iterator[str]:
    """The rows of the run in `folder` that `wanted` names, in its order; UsageError when one is not there."""
    events = read_history(folder).events
    for first, last in _ranges(wanted, len(events)):
        for event in events[first : last + 1]:
            yield msgspec.json.encode(event).decode()


def _ranges(wanted: str, count: int) -> list[tuple[int, int]]:
    if wanted.strip() == "all":
        return [(0, count - 1)]
    spans = []
    for part in wanted.replace(" ", ",").split(","):
        if not part:
            continue
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()) or part.endswith("-"):
            raise UsageError(f"--events: {part!r} names no row", hint=_HINT)
        span = int(first), int(last or first)
        if not span[0] <= span[1] < count:
            raise UsageError(f"--events: {part}: the rows of this history are 0 to {count - 1}", hint=_HINT)
        spans.append(span)
    if not spans:
        raise UsageError("--events: no row is named", hint=_HINT)
    return spans
