"""Lines of text as histories, and every form that is written as the same history when it is read again."""

import random
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import Event, OpEvent, Outcome, pair
from fencepost.harness.interchange.formats.exported import EXPORTS
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.judging.stand_alone import judge_foreign

_STALE = (("0", ":write 1"), ("1", ":write 2"), ("2", ":read 1"))
#: The prefixes that Jepsen's releases and history.txt give a line.
_PREFIXES = ("", "INFO  jepsen.util - ", "2024-05-04 12:00:00,123{GMT}\tINFO\t[jepsen worker 0] jepsen.util: ")


def _judged(tmp_path: Path, text: str, consistency: str | None = None) -> tuple[str, str]:
    (tmp_path / "a.txt").write_text(text)
    imported = read_foreign(tmp_path / "a.txt")
    return imported.form, judge_foreign(imported, "a.txt", consistency).validity.value


@pytest.mark.parametrize("prefix", _PREFIXES)
def test_a_log_of_jepsen(tmp_path: Path, prefix: str) -> None:
    lines = ["INFO  jepsen.core - Worker 0 starting"]
    for process, asked in _STALE:
        f, value = asked.split()
        requests = ("nil" if f == ":read" else value, value)
        lines += [f"{prefix}{process}\t{kind}\t{f}\t{v}" for kind, v in zip((":invoke", ":ok"), requests, strict=True)]
    lines += [f"{prefix}:nemesis\t:info\t:start\tnil", f"{prefix}3\t:invoke\t:write\t7", "gone"]
    lines += [f"{prefix}3\t:info\t:write\t7\t:timed-out"]
    assert _judged(tmp_path, "\n".join(lines)) == ("log", "invalid")
    assert read_foreign(tmp_path / "a.txt").history.in_file.place(5) == "line 7, column 1"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "kept", "broken"),
    [
        ("w 0 0\n=====\nr 0 0\nw 0 1\n=====\nr 0 0\nw 0 2", "causal", "snapshot-isolation"),
        (
            "w 0 0\nw 1 0\n=====\nr 1 0\nw 0 1\nw 1 1\n=====\nr 0 1\n-----\nw 0 2\n=====\nr 0 2\nr 1 0",
            "read-uncommitted",
            "causal",
        ),
        ("r(0,0,1,1)\nw(0,1,1,1)\nr(0,0,2,2)\nw(0,2,2,2)", "causal", None),
        ("w(0,1,1,-1)\nr(0,1,2,2)\nw(0,2,2,2)", "read-uncommitted", "read-committed"),
    ],
)
def test_sessions_without_times(tmp_path: Path, text: str, kept: str, broken: str | None) -> None:
    assert _judged(tmp_path, text, kept)[1] != "invalid"
    assert _judged(tmp_path, text, broken) == ("awdit" if " " in text else "plume", "invalid")
    with pytest.raises(UsageError, match="this file has no times"):
        _judged(tmp_path, text, "strict-serializable")


@pytest.mark.parametrize("text", ["r 0 0\nx 1 1", "r(0,0,1,1)\nr(0,0,1)", "w 0 1\nw 0"])
def test_a_line_of_another_kind_is_refused_at_its_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="line 2, column 1: `"):
        _judged(tmp_path, text)


def _events(draw: random.Random, *, transactions: bool) -> list[Event]:
    """A sequential register, some of whose calls fail or stay unknown; or transactions that are all acknowledged."""
    events: list[Event] = []
    process, state = 0, 0
    for number in range(draw.randrange(1, 12)):
        kind = Outcome.OK if transactions else draw.choice((Outcome.OK, Outcome.OK, Outcome.FAIL, Outcome.INFO))
        f = "txn" if transactions else draw.choice(("read", "write", "cas"))
        value: Any = {"read": None, "write": number, "cas": [state, number], "txn": [["r", 0, None], ["w", 0, number]]}[
            f
        ]
        answer = {"read": state, "txn": [["r", 0, state or None], ["w", 0, number]]}.get(f, value)
        answer = [["w", 0, number]] if f == "txn" and not state else answer
        value = [["w", 0, number]] if f == "txn" and not state else value
        for outcome, spoken in ((Outcome.INVOKE, value), (kind, answer if kind is Outcome.OK else value)):
            index = len(events)
            events.append(
                OpEvent(index=index, time_ns=index * 7, type=outcome, process=process, f=f, node="", value=spoken)
            )
        state = number if kind is Outcome.OK and f != "read" else state
        process += kind is Outcome.INFO
    return events


@pytest.mark.parametrize("form", EXPORTS)
@pytest.mark.parametrize("seed", range(20))
def test_every_form_is_read_as_it_was_written(tmp_path: Path, form: str, seed: int) -> None:
    events = _events(random.Random(seed), transactions=form == "awdit")
    kept = [op for op in pair(events) if op.type is not Outcome.FAIL or form != "porcupine"]
    file = tmp_path / ("a.jsonl" if form == "jsonl" else "a")
    file.write_text("".join(EXPORTS[form].write(events)))
    model = "rw-register" if form == "awdit" else "cas-register"
    again = read_foreign(file, form=form, model=model, keyed=None if form in ("porcupine", "jsonl") else False)

    def plain(operations: Any) -> list[tuple[object, ...]]:
        return [
            (op.f, str(op.value).replace(":", ""), op.type, str(op.result).replace(":", "") * (op.type == "ok"))
            for op in operations
        ]

    assert plain(again.history.operations) == plain(kept)
