"""The short form of a schedule, for people: one fault a line, who, what, from when until when.

    # two nodes stop one by one and come back in another order, while the leader is slow
    n1      kill                      2s..28s
    n2      kill                      10s..20s
    leader  link:latency=200ms        5s..25s
    leader  pause                     30s..34s

A line is TARGET FAULT[:key=value]... FROM..TO; times count from the beginning of the main phase. Whatever stands behind
a `#` is a comment. Faults that overlap go to workers of their own, as `+` joins them in a plan.
"""

import re
import zlib
from typing import Final

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.base.errors import UsageError

#: Version of the rows that lines become; that of `schedule.jsonl`.
ROWS_FORMAT: Final = 2
_HINT: Final = "write TARGET FAULT[:key=value]... FROM..TO, such as: n1 kill 2s..28s"
_FIELDS: Final = 3
_TRIGGER: Final = re.compile(r":(?:when|during)=([^:]+)")
#: A worker heals one fault, and proves it, before it goes on with the next; shorter breaks get another worker.
_BREAK_NS: Final = 1_000_000_000


def is_short_form(text: str) -> bool:
    """Whether a schedule is written for people: JSON lines begin with a brace."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "{")
    return first[0] not in '{"[' and first.isprintable()


def parse_short_form(text: str, path: str) -> list[dict[str, object]]:
    """Each line as the row of `schedule.jsonl` that begins its fault, in the order of their times.

    Raises:
        UsageError: names the line, what was expected and what stands there.
    """
    faults = [
        _parse_line(line, f"{path}, line {number}")
        for number, whole in enumerate(text.splitlines(), 1)
        if (line := whole.partition("#")[0].strip())
    ]
    faults.sort(key=lambda fault: fault[1:])
    rows: list[dict[str, object]] = []
    free_ns: list[int] = []
    numbers: list[int] = []
    for fault_id, (spec, from_ns, to_ns) in enumerate(faults):
        worker = next((i for i, free in enumerate(free_ns) if free + _BREAK_NS <= from_ns), len(free_ns))
        if worker == len(free_ns):
            free_ns.append(0)
            numbers.append(0)
        trigger = _TRIGGER.search(spec)
        rows.append(
            {
                "format": ROWS_FORMAT,
                "fault_id": fault_id,
                "worker": worker,
                "number": numbers[worker],
                "part_of": None,
                "spec": spec,
                "action": "inject",
                "stage": "begin",
                "outcome": "pending",
                "nominal_ns": from_ns,
                "at_ns": from_ns,
                "duration_ns": to_ns - from_ns,
                # The same file draws the same nodes, whatever else stands in it.
                "draw_seed": zlib.crc32(f"{spec} {from_ns}".encode()),
                "when": {"trigger": trigger[1]} if trigger else None,
            }
        )
        free_ns[worker] = to_ns
        numbers[worker] += 1
    return rows


def _parse_line(line: str, where: str) -> tuple[str, int, int]:
    fields = line.split()
    if len(fields) != _FIELDS:
        raise UsageError(f"{where}: expected 3 words, got {len(fields)}: {line}", hint=_HINT)
    target, fault, times = fields
    begin, dots, end = times.partition("..")
    if not dots:
        raise UsageError(f"{where}: {times!r} is not FROM..TO", hint=_HINT)
    from_ns, to_ns = (parse_duration_ns(time, what=where) for time in (begin, end))
    if to_ns <= from_ns:
        raise UsageError(f"{where}: {times} ends before it begins", hint=_HINT)
    kind, colon, options = fault.partition(":")
    if re.search(r"(^|:)for=", options):
        raise UsageError(f"{where}: 'for=' and {times} both say how long", hint="leave out for=")
    return f"{kind}:{target}{colon}{options}", from_ns, to_ns
