"""Sets of moments, as intervals [from, to] in ns since the run began."""

Intervals = list[tuple[int, int]]


def merged(intervals: Intervals) -> Intervals:
    """Return the same set of moments as disjoint intervals in order."""
    out: Intervals = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def within(intervals: Intervals, from_ns: int, to_ns: int) -> int:
    """Return how many ns of [`from_ns`, `to_ns`] the disjoint `intervals` cover."""
    return sum(max(0, min(end, to_ns) - max(start, from_ns)) for start, end in intervals)


def clipped(intervals: Intervals, from_ns: int, to_ns: int) -> Intervals:
    """Return the parts of the intervals that lie in [`from_ns`, `to_ns`], without those of no length."""
    inside = [(max(start, from_ns), min(end, to_ns)) for start, end in intervals]
    return [(start, end) for start, end in inside if start < end]


def outside(intervals: Intervals, from_ns: int, to_ns: int) -> Intervals:
    """Return the parts of [`from_ns`, `to_ns`] that the disjoint `intervals`, in order, do not cover."""
    left: Intervals = []
    for start, end in intervals:
        if from_ns < min(start, to_ns):
            left.append((from_ns, min(start, to_ns)))
        from_ns = max(from_ns, end)
    return [*left, (from_ns, to_ns)] if from_ns < to_ns else left
