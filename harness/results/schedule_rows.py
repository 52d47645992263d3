"""A schedule as rows: read from `schedule.jsonl` or the short form, reduced to the faults that were injected, written.

The format is docs/reference/schedule-format.md. What a row's fault means is not known here.

The short form is for people: one fault a line, who, what, from when until when.

    # two nodes stop one by one and come back in another order, while the leader is slow
    n1      kill                      2s..28s
    n2      kill                      10s..20s
    leader  link:latency=200ms        5s..25s
    leader  pause                     30s..34s

A line is TARGET FAULT[:key=value]... FROM..TO; times count from the beginning of the main phase. Whatever stands behind
a `#` is a comment. Faults that overlap go to workers of their own, as `+` joins them in a plan.
"""

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quantities import parse_duration_ns, parse_json

#: Version of the rows that lines become; that of `schedule.jsonl`.
ROWS_FORMAT: Final = 2
_TEXT_HINT: Final = "write TARGET FAULT[:key=value]... FROM..TO, such as: n1 kill 2s..28s"
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
        raise UsageError(f"{where}: expected 3 words, got {len(fields)}: {line}", hint=_TEXT_HINT)
    target, fault, times = fields
    begin, dots, end = times.partition("..")
    if not dots:
        raise UsageError(f"{where}: {times!r} is not FROM..TO", hint=_TEXT_HINT)
    from_ns, to_ns = (parse_duration_ns(time, what=where) for time in (begin, end))
    if to_ns <= from_ns:
        raise UsageError(f"{where}: {times} ends before it begins", hint=_TEXT_HINT)
    kind, colon, options = fault.partition(":")
    if re.search(r"(^|:)for=", options):
        raise UsageError(f"{where}: 'for=' and {times} both say how long", hint="leave out for=")
    return f"{kind}:{target}{colon}{options}", from_ns, to_ns


#: Version of the lines.
FORMAT: Final = ROWS_FORMAT

Row = Mapping[str, Any]

#: The keys that repeating a fault needs, with the types of their values.
_NEEDED: Final[Mapping[str, tuple[type, ...]]] = {
    "fault_id": (int,),
    "worker": (int,),
    "number": (int,),
    "part_of": (int, type(None)),
    "spec": (str,),
    "action": (str,),
    "stage": (str,),
    "outcome": (str,),
    "nominal_ns": (int,),
    "at_ns": (int,),
    "duration_ns": (int,),
    "draw_seed": (int,),
    "when": (dict, type(None)),
}
#: Keys that record what the target meant at that time; repeating a fault ignores them.
_FACTS: Final = ("nodes", "severed", "details", "leader")
#: Where a line that cannot be read is explained.
_HINT: Final = "one JSON object per line, see docs/reference/schedule-format.md"
_ANOTHER: Final = "run the plan again, which writes its schedule in the present format"


def read_rows(path: Path) -> list[Row]:
    """Every line, of either form; raises UsageError with file and line. A torn last line of JSON is no line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UsageError(f"{path}: {reason}", hint="a schedule is the schedule.jsonl of a run's folder") from None
    if is_short_form(text):
        return list(parse_short_form(text, str(path)))
    *lines, last = text.split("\n")
    if _is_json(last):
        lines.append(last)
    return [_row(f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line]


def refuse_torn(path: Path) -> None:
    """Raise UsageError for a readable schedule whose last line is cut off: with it a fault would be lost unseen.

    Only a run that was killed leaves such a file, and what it had begun stands in its whole lines.
    """
    text = path.read_text(encoding="utf-8")
    last = text.rpartition("\n")[2]
    if last and not is_short_form(text) and not _is_json(last):
        raise UsageError(f"{path}: its last line is cut off", hint="complete the line, or remove it with its fault")


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def _row(where: str, line: str) -> Row:
    try:
        row = parse_json(line)
    except ValueError:
        raise UsageError(f"{where}: not JSON", hint=_HINT) from None
    if not isinstance(row, dict):
        raise UsageError(f"{where}: expected an object", hint=_HINT)
    _refuse_format(row, f"{where}: a line")
    for key, types in _NEEDED.items():
        if not isinstance(row.get(key, ...), types) or isinstance(row[key], bool):
            expected = " or ".join("null" if t is type(None) else t.__name__ for t in types)
            raise UsageError(
                f"{where}: {key!r}: expected {expected}, got {row.get(key, 'nothing')!r:.60}", hint=_ANOTHER
            )
    nodes = row.get("nodes") or []
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise UsageError(f"{where}: 'nodes': expected a list of names, got {nodes!r:.60}", hint=_ANOTHER)
    negative = next((key for key in ("nominal_ns", "at_ns", "duration_ns") if row[key] < 0), None)
    if negative:
        raise UsageError(f"{where}: {negative!r} is negative", hint="times count from the beginning of the main phase")
    return row


def _refuse_format(row: Row, what: str) -> None:
    if row.get("format") != FORMAT:
        raise UsageError(f"{what} of format {row.get('format')!r} where {FORMAT} was expected", hint=_ANOTHER)


def injected(rows: Iterable[Row]) -> list[Row]:
    """Return the first row of each injected fault, by worker and number, without parts and skipped faults.

    Raises UsageError for rows of another format.
    """
    begun: dict[int, Row] = {}
    skipped: set[int] = set()
    for row in rows:
        _refuse_format(row, "a schedule's line")
        if row["action"] != "inject" or row["part_of"] is not None:
            continue
        if row["stage"] == "begin":
            begun[row["fault_id"]] = row
        elif row["outcome"] == "skipped":
            skipped.add(row["fault_id"])
    kept = (row for fault_id, row in begun.items() if fault_id not in skipped)
    return sorted(kept, key=lambda row: (row["worker"], row["number"]))


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Write the keys that repeating these faults needs, and the nodes on which they acted."""
    kept = ("format", *_NEEDED, *_FACTS)
    lines = [json.dumps({key: row[key] for key in kept if key in row}) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
