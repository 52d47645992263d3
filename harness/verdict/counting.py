"""How often each anomaly was found, each violation counted once.

Two rules may name the same operation: a stale read that a superseded leader answered is one violation with two names.
So anomalies are counted by their rows of the history. An anomaly whose rows all belong to another one, too, is shown
behind that one, as a part of it.
"""

from collections.abc import Sequence

import msgspec

from fencepost.harness.verdict.anomaly_words import anomaly_count, anomaly_noun
from fencepost.harness.verdict.verdict import Verdict, violations_of


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """One anomaly over all the verdicts that name it.

    `rows` has one row for each violation, where every checker names its rows. `among` is the anomaly that these
    violations are counted under, too; `allowed_by` is the guarantee that allows them.
    """

    anomaly: str
    count: int
    rows: tuple[int, ...] = ()
    among: str | None = None
    allowed_by: str | None = None


def counts(verdicts: Sequence[Verdict]) -> list[Count]:
    """Count every anomaly of these verdicts, each violation once.

    Returns:
        The most frequent first; behind each one those that are a part of it (`among`).
    """
    violations = violations_of(verdicts)
    allowed = {name: v.guarantee for v in verdicts for name in v.allowed if name not in violations}
    by_frequency = sorted(
        (_count(name, verdicts, allowed.get(name)) for name in dict.fromkeys(n for v in verdicts for n in v.anomalies)),
        key=lambda count: -count.count,
    )
    ordered: list[Count] = []
    for count in by_frequency:
        above = next((c for c in ordered if c.among is None and _includes(c, count)), None)
        if above is None:
            ordered.append(count)
        else:
            place = max(i for i, c in enumerate(ordered) if above.anomaly in (c.anomaly, c.among))
            ordered.insert(place + 1, msgspec.structs.replace(count, among=above.anomaly))
    return ordered


def counts_in_words(verdicts: Sequence[Verdict]) -> str:
    """Say all violations, as "8 stale reads (all of them stale answers by a superseded leader)"."""
    return one_line([count for count in counts(verdicts) if count.allowed_by is None])


def one_line(all_counts: Sequence[Count]) -> str:
    """Say these counts in one line."""
    parts = []
    for count in all_counts:
        if count.among is not None and any(c.anomaly == count.among for c in all_counts):
            continue
        within = ", ".join(share(inner, count) for inner in all_counts if inner.among == count.anomaly)
        parts.append(anomaly_count(count.count, count.anomaly) + (f" ({within})" if within else ""))
    return ", ".join(parts)


def share(inner: Count, outer: Count) -> str:
    """Say which part of `outer` has the other name, too."""
    return f"{'all' if inner.count == outer.count else inner.count} of them {anomaly_noun(inner.count, inner.anomaly)}"


def _count(name: str, verdicts: Sequence[Verdict], allowed: str | None) -> Count:
    own = [(v.anomalies[name], v.evidence.get(f"anomalies.{name}", ())) for v in verdicts if name in v.anomalies]
    rows = tuple(sorted({row for _, named in own for row in named}))
    each_named = all(len(set(named)) == count for count, named in own)
    return Count(
        anomaly=name,
        count=len(rows) if each_named else sum(count for count, _ in own),
        rows=rows,
        allowed_by=allowed,
    )


def _includes(outer: Count, inner: Count) -> bool:
    known = len(outer.rows) == outer.count and len(inner.rows) == inner.count
    return known and outer.allowed_by == inner.allowed_by and set(inner.rows) <= set(outer.rows)
