"""What can be wrong with one topic partition; each finding has the few operations that show it.

  lost-append          an acknowledged value is nowhere in the final content, which reaches beyond its offset
  reassigned-offset    one offset held two values (by what was acknowledged and what was read)
  moved-record         a value was acknowledged at one offset and stands at another
  duplicated-record    one value was read at two offsets
  append-order         a process got a lower offset for a later append
  unordered-poll       a reply's offsets do not ascend, or begin before the offset asked for
  skipped-record       a reply left out a record that stands between its own
  vanished-read        a record was read and the final content lacks it (read-uncommitted: above the high watermark)
  phantom-record       a value was read that nobody had appended by then, or whose append definitely failed
  stale-leader-epoch   an append was acknowledged in an epoch though a higher one had begun before it was sent
  epoch-went-back      a record stands after one of a higher epoch

Source: Jepsen's tests of Kafka and Redpanda name the same families; there, too, all reads are trusted and only the
order of acknowledged sends.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from fencepost.checkers.derived.evidence import grouped
from fencepost.checkers.derived.partitions import PartitionRow, PartitionView
from fencepost.checkers.violations.finding import Finding, by, seconds
from fencepost.harness.history import Operation, Outcome


def lost(view: PartitionView) -> Iterator[Finding]:
    """Find acknowledged values that the final content lacks."""
    for append in view.acknowledged:
        if append.value in view.final_values or not _must_show(view, append):
            continue
        scan = view.scan_over(append.position or 0)
        assert scan is not None
        shown = [view.shown[offset, append.value] for offset in view.offsets_of.get(append.value, ())]
        seen = f"It was read by the {_which(shown[-1])}." if shown else "No read ever showed it."
        held = view.final.get(append.position or 0)
        instead = f"offset {append.position} holds {held.value}" if held else f"offset {append.position} holds nothing"
        steps = (
            f"{_which(append)} was acknowledged at {_at(append)} with offset {append.position}.",
            seen,
            f"The {_which(scan)}, invoked after healing at {seconds(scan.invoked_ns)}, passes that offset: {instead}, "
            f"and {append.value} stands nowhere else.",
        )
        yield Finding(about=0, anomaly="lost-append", operations=(append, *shown[-1:], scan), steps=steps)


def _must_show(view: PartitionView, append: Operation) -> bool:
    """Whether the final content reaches the append's offset, and was read after it was acknowledged."""
    if not view.scans or append.completed_ns is None or append.completed_ns >= view.scans[0].invoked_ns:
        return False
    return view.complete or (append.position or 0) < view.covered_to


def unseen(view: PartitionView) -> list[Operation]:
    """List the acknowledged appends that cannot be judged: the final content does not reach them."""
    return [a for a in view.acknowledged if a.value not in view.final_values and not _must_show(view, a)]


def unstable(view: PartitionView) -> Iterator[Finding]:
    """Find offsets that held two values, and values that moved."""
    acknowledged = grouped(view.acknowledged, lambda append: append.position or 0)
    for offset in sorted(acknowledged.keys() | view.values_at.keys()):
        holders = {value: view.shown[offset, value] for value in view.values_at.get(offset, ())}
        for append in acknowledged.get(offset, ()):
            holders.setdefault(append.value, append)
        for (first, one), (second, other) in pairwise(holders.items()):
            steps = (
                f"By the {_which(one)}, ended at {_at(one)}, offset {offset} of {view.key} holds {first}.",
                f"By the {_which(other)}, ended at {_at(other)}, it holds {second}.",
            )
            yield Finding(about=0, anomaly="reassigned-offset", operations=(one, other), steps=steps)
    for append in view.acknowledged:
        offsets = view.offsets_of.get(append.value, ())
        if offsets and append.position not in offsets:
            read = view.shown[offsets[0], append.value]
            steps = (
                f"{_which(append)} was acknowledged with offset {append.position}.",
                f"The {_which(read)} shows it at offset {offsets[0]}.",
            )
            yield Finding(about=0, anomaly="moved-record", operations=(append, read), steps=steps)


def duplicated(view: PartitionView) -> Iterator[Finding]:
    """Find values that were read at several offsets; clients never send a value twice."""
    appends = {append.value: append for append in view.appends}
    for value, offsets in view.offsets_of.items():
        if len(offsets) < 2:
            continue
        first, second = (view.shown[offset, value] for offset in offsets[:2])
        sent = [appends[value]] if value in appends else []
        steps = (
            *(f"{_which(a)} was sent once and ended {a.type}." for a in sent),
            f"The {_which(first)} shows {value} at offset {offsets[0]}.",
            f"The {_which(second)} shows it at offset {offsets[1]}.",
        )
        shown = (*sent, first) if first is second else (*sent, first, second)
        yield Finding(about=0, anomaly="duplicated-record", operations=shown, steps=steps)


def disordered(view: PartitionView) -> Iterator[Finding]:
    """Find appends of one process, and records of one reply, that stand in the wrong order."""
    last: dict[int, Operation] = {}
    for append in view.acknowledged:
        before = last.get(append.process)
        if before is not None and (append.position or 0) <= (before.position or 0):
            steps = (
                f"{_which(before)} was acknowledged at {_at(before)} with offset {before.position}.",
                f"{_which(append)}, sent by the same process after that, got offset {append.position}.",
            )
            yield Finding(about=0, anomaly="append-order", operations=(before, append), steps=steps)
        last[append.process] = append
    for read in view.reads:
        yield from _disordered_reply(view, read, view.rows[read.invoke_index])


def _disordered_reply(view: PartitionView, read: Operation, rows: list[PartitionRow]) -> Iterator[Finding]:
    offsets = [row.offset for row in rows]
    if any(b <= a for a, b in pairwise(offsets)) or (offsets and offsets[0] < read.value):
        steps = (
            f"The {_which(read)} asked for offset {read.value} and got offsets {_few(offsets)}.",
            "A reply's offsets ascend, from the one asked for on.",
        )
        yield Finding(about=0, anomaly="unordered-poll", operations=(read,), steps=steps)
        return
    skipped = _skipped(view, read.value, rows)
    if skipped is None:
        return
    row, scan = view.final[skipped], view.scan_over(skipped)
    steps = (
        f"The {_which(read)} asked for offset {read.value} and got offsets {_few(offsets)}.",
        f"It left out offset {skipped}, where {row.value} stands by the final scan.",
    )
    shown = (read,) if scan is None else (read, scan)
    yield Finding(about=0, anomaly="skipped-record", operations=shown, steps=steps)


def _skipped(view: PartitionView, from_offset: int, rows: list[PartitionRow]) -> int | None:
    """Return an offset of the final content that lies between those of a reply but is missing from it."""
    order = view.final_order
    at = bisect_left(order, from_offset)
    for row in rows:
        held = view.final.get(row.offset)
        if held is None or held.value != row.value:
            return None  # of a content that vanished, which is a finding of its own
        if at < len(order) and order[at] < row.offset:
            return order[at]
        at += 1
    return None


def uncommitted(view: PartitionView) -> Iterator[Finding]:
    """Find records that were read and are gone, and records that nobody wrote."""
    appends = {append.value: append for append in view.appends}
    for (offset, value), read in view.shown.items():
        append = appends.get(value)
        unsent = append is None or append.type is Outcome.FAIL or append.invoked_ns > (read.completed_ns or 0)
        if unsent:
            yield _phantom(value, read, append)
        elif offset < view.covered_to and value not in view.final_values and read.f != "scan":
            yield _vanished(view, offset, value, read)


def is_above(offset: int, read: Operation) -> bool:
    """Whether a read showed this offset above the high watermark that it named: not yet committed."""
    return read.position is not None and offset >= read.position


def _vanished(view: PartitionView, offset: int, value: int, read: Operation) -> Finding:
    above = is_above(offset, read)
    held = view.final.get(offset)
    scan = view.scan_over(offset)
    where = f"high watermark {read.position}, so it was {'not yet' if above else ''} committed".replace("  ", " ")
    steps = (
        f"The {_which(read)} shows {value} at offset {offset} ({where}).",
        f"The final scan passes that offset: it holds {held.value if held else 'nothing'}, and {value} stands nowhere "
        "else.",
    )
    shown = (read,) if scan is None else (read, scan)
    return Finding(about=0, anomaly="read-uncommitted" if above else "vanished-read", operations=shown, steps=steps)


def _phantom(value: int, read: Operation, append: Operation | None) -> Finding:
    if append is None:
        why = "Nobody ever appended it."
    elif append.type is Outcome.FAIL:
        why = f"{_which(append)} failed definitely ({append.error or 'no error named'})."
    else:
        why = f"{_which(append)} was invoked only later, at {seconds(append.invoked_ns)}."
    shown = (read,) if append is None else (append, read)
    return Finding(
        about=0, anomaly="phantom-record", operations=shown, steps=(f"The {_which(read)} shows {value}.", why)
    )


def stale_epochs(view: PartitionView) -> Iterator[Finding]:
    """Find appends acknowledged in a superseded epoch, and records behind those of a higher epoch."""
    times = [begun.at_ns for begun in view.begun]
    for append in view.acknowledged:
        epoch = view.epoch_of(append)
        at = bisect_left(times, append.invoked_ns)
        if epoch is None or not at or view.begun[at - 1].epoch <= epoch:
            continue
        begun = view.begun[at - 1]
        steps = (
            f"Epoch {begun.epoch} had begun by {seconds(begun.at_ns)}, as the {_which(begun.proof)} shows.",
            f"{_which(append)}, sent after that at {seconds(append.invoked_ns)}, was acknowledged with offset "
            f"{append.position} in the superseded epoch {epoch}.",
        )
        yield Finding(about=0, anomaly="stale-leader-epoch", operations=(begun.proof, append), steps=steps)
    highest: PartitionRow | None = None
    for offset in view.final_order:
        row = view.final[offset]
        if highest is not None and row.epoch is not None and row.epoch < (highest.epoch or 0):
            read = view.shown[row.offset, row.value]
            steps = (
                f"By the {_which(read)}, {highest.value} at offset {highest.offset} is of epoch {highest.epoch}.",
                f"{row.value} stands after it, at offset {row.offset}, and is of epoch {row.epoch}.",
            )
            yield Finding(about=0, anomaly="epoch-went-back", operations=(read,), steps=steps)
        elif row.epoch is not None and (highest is None or row.epoch > (highest.epoch or 0)):
            highest = row


def sent_after_change(view: PartitionView) -> list[Operation]:
    """List the acknowledged appends of a known epoch that were sent after the partition had changed its leader."""
    if len(view.begun) < 2:
        return []
    since_ns = view.begun[1].at_ns
    return [a for a in view.acknowledged if a.invoked_ns > since_ns and view.epoch_of(a) is not None]


def real_time_inversions(appends: Iterable[Operation]) -> list[Operation]:
    """List the acknowledged appends with a lower offset than one acknowledged before they were sent."""
    done = sorted((o for o in appends if o.completed_ns is not None), key=lambda o: o.completed_ns or 0)
    times = [o.completed_ns or 0 for o in done]
    highest: list[int] = []
    for append in done:
        highest.append(max(highest[-1] if highest else -1, append.position or 0))
    inverted = []
    for append in done:
        before = bisect_right(times, append.invoked_ns - 1)
        if before > 0 and highest[before - 1] >= (append.position or 0):
            inverted.append(append)
    return inverted


def _which(op: Operation) -> str:
    what = f"append of {op.value}" if op.f == "append" else f"{op.f} from offset {op.value}"
    return f"{what} in {op.key} {by(op)}"


def _at(op: Operation) -> str:
    return seconds(op.completed_ns if op.completed_ns is not None else op.invoked_ns)


def _few(offsets: list[int]) -> str:
    if len(offsets) <= 8:
        return ", ".join(map(str, offsets)) or "none"
    return f"{', '.join(map(str, offsets[:5]))}, ... {offsets[-1]} ({len(offsets)} in all)"
