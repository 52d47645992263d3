"""Drawings on a terminal, as they are to look; no line is wider than asked for, and nothing in a value acts on it."""

import io
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fencepost.harness.cli import main
from fencepost.harness.history import History, OpEvent, Outcome
from fencepost.harness.interchange.formats.jepsen import read_edn
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.report.drawing.cells import cells, clipped, plain, wrapped
from fencepost.harness.report.drawing.cycle import cycle_of
from fencepost.harness.report.drawing.scene import OPERATIONS_MAX, operation_words, scene
from fencepost.harness.report.drawing.terminal import Terminal, of_stdout
from fencepost.harness.report.drawing.text import drawing
from fencepost.harness.verdict import Witness
from tests.interchange.formats.histories import edn
from tests.interchange.formats.test_objects import CASES
from tests.interchange.formats.test_objects import edn as objects_edn
from tests.report.drawing import scenes

Found = tuple[Witness, History]

_STALE = "0(w1 0) 0(w2 0) 1(r 1)1"
_UNKNOWN = "0(w1 1(w2 0! 1? 2(r 2)3 3(w4"
_FAILED = """\
{:type :invoke :process 0 :f :txn :value [[:append :x 1]]}
{:type :fail :process 0 :f :txn :value [[:append :x 1]]}
{:type :invoke :process 1 :f :txn :value [[:r :x nil]]}
{:type :ok :process 1 :f :txn :value [[:r :x [1]]]}
"""

GOLDEN: dict[str, tuple[Callable[[], Found], Terminal, str]] = {
    "stale read": (
        lambda: scenes.registers(_STALE),
        Terminal(),
        """
process 0  ├─ write 1 ─┤ ├─ write 2 ─┤
process 1                              ┝━ read = 1 ━┥
                                       ▲▲▲▲▲▲▲▲▲▲▲▲▲▲ stale-read
event      0           1 2           3 4            5

Events in order, not to scale.
""",
    ),
    "stale read, narrow": (
        lambda: scenes.registers(_STALE),
        Terminal(width=30),
        """
p0     ├a┤ ├b┤
p1             ┝c┥
               ▲▲▲ stale-read
event  0 1 2 3 4 5

Events in order, not to scale.
a  write 1 (events 0 and 1)
b  write 2 (events 2 and 3)
c  read = 1 (events 4 and 5)
""",
    ),
    "a lost update, overlapping": (
        lambda: scenes.registers("0(w1 0) 1(c1,2 2(c1,3 1) 2)"),
        Terminal(unicode=False),
        """
process 0  |- write 1 -|
process 1                |- cas 1 -> 2 -|
process 2                  |= cas 1 -> 3 =|
                           ^^^^^^^^^^^^^^^^ cas-lost-update
event      0           1 2 3            4 5

Events in order, not to scale.
""",
    ),
    "a long value, nodes": (
        scenes.of_run,
        Terminal(unicode=False),
        """
process 0 on n1  |- write a long value a long value a long va... -|
process 2 on n3                                                     |= read = nothing =|
                                                                    ^^^^^^^^^^^^^^^^^^^^ stale-read
event            0                                                1 3                  5

Events in order, not to scale.
""",
    ),
    "unknown and failed": (
        lambda: scenes.named(_UNKNOWN, tuple(range(7)), "It was the read (event 4)."),
        Terminal(unicode=False),
        """
process 0  |x write 1 (failed) x|
process 1    |- write 2 ..........................................
process 2                         |= read = 3 =|
                                  ^^^^^^^^^^^^^^ by-hand
process 3                                        |- write 4 ......
event      0 1                  2 4            5 6

Events in order, not to scale. ... outcome unknown: it may take effect at any later time, or never.
""",
    ),
    "a list where no picture fits": (
        lambda: scenes.named(_UNKNOWN, tuple(range(7)), "It was the read (event 4)."),
        Terminal(width=20),
        """
- process 0: write 1
  (events 0 and 2),
  failed
- process 1: write 2
  (events 1 and 3),
  unknown, may
  happen later
> process 2: read =
  3 (events 4 and 5)
- process 3: write 4
  (event 6),
  unknown, may
  happen later
  (never completed)
""",
    ),
    "a transaction reads of one that failed": (
        lambda: scenes.judged(_FAILED),
        Terminal(unicode=False, width=60),
        """
process 0  |T0|
process 1       |T1|
                ^^^^ G1a
event      0  1 2  3

Events in order, not to scale.
T0  append :x 1 (events 0 and 1), failed
T1  r :x = [1] (events 2 and 3)
""",
    ),
    "nothing but one operation is named": (
        lambda: scenes.registers("0(w1 0) 0(w2 0) 1(w3 2(r 2)7 1)"),
        Terminal(unicode=False),
        """
process 0  |- (write 1) -| |- (write 2) -|
process 1                                  |-- (write 3) ---|
process 2                                    |= read = 7 =|
                                             ^^^^^^^^^^^^^^ phantom-read
event      0             1 2             3 4 5            6 7

Events in order, not to scale. In brackets: not named by the witness, but just before or beside it.
""",
    ),
    "two transactions in a cycle": (
        lambda: scenes.judged(scenes.ring(2)),
        Terminal(),
        """
┌─▶ T1  process 1, events 1 and 4
│       append :k1 1; r :k0 = []
│   │
│   │ rw  T1 read [] from key :k0, without 0, which T0 appended: it did so later
│   ▼
│   T0  process 0, events 0 and 3
│       append :k0 0; r :k1 = []
│   │
│   │ rw  T0 read [] from key :k1, without 1, which T1 appended: it did so later
└───┘
""",
    ),
    "versions of a register": (
        lambda: scenes.judged(
            scenes.transactions(
                ("[[:w :x 1]]", "[[:w :x 1]]"),
                ("[[:w :x 2]]", "[[:w :x 2]]"),
                ("[[:r :x nil]]", "[[:r :x 1]]"),
                one_by_one=True,
            )
        ),
        Terminal(unicode=False, width=60),
        """
+-> 1  a version of key :x
|   |
|   | before  T0 met the one, and was completed before T1
|   |         was invoked, which met the other
|   v
|   2  a version of key :x
|   |
|   | before  T1 met the one, and was completed before T2
|   |         was invoked, which met the other
+---+

T0  process 0, events 0 and 1: w :x 1
T1  process 1, events 2 and 3: w :x 2
T2  process 2, events 4 and 5: r :x = 1
""",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    make, terminal, wanted = GOLDEN[name]
    assert drawing(*make(), terminal).lines == wanted.strip("\n").split("\n")


def _crowd(rng: random.Random) -> Found:
    """Operations of up to ten processes, each of which acts once or twice."""
    words, open_ops, left = [], list[int](), {p: rng.randint(1, 2) for p in range(rng.randint(1, 10))}
    while left or open_ops:
        if left and (not open_ops or rng.random() < 0.5):
            process = rng.choice(list(left))
            if process in open_ops:
                open_ops.remove(process)
                words.append(f"{process})")
            left[process] -= 1
            if not left[process]:
                del left[process]
            value = rng.choice(['"1"', '"' + "x" * rng.randint(1, 90) + '"', '"日本語のとても長い値"'])
            words.append(f"{process}(w{value}")
            open_ops.append(process)
        else:
            process = open_ops.pop(rng.randrange(len(open_ops)))
            words.append(f"{process}{rng.choice([')', '!', '?'])}")
            left = {p: n for p, n in left.items() if p != process or not words[-1].endswith("?")}
    return scenes.named(" ".join(words), tuple(range(len(words))), f"It was that (event {rng.randrange(len(words))}).")


@pytest.mark.parametrize("width", [20, 33, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    rng = random.Random(width)
    crowds = [_crowd(rng) for _ in range(40)]
    rings = [scenes.judged(scenes.ring(count, value)) for count in (2, 5) for value in ("{}", '"' + "v" * 70 + '-{}"')]
    faults = [scenes.disturbed(healed=healed) for healed in (True, False)]
    for found in [*crowds, *rings, *faults]:
        for unicode in (True, False):
            lines = drawing(*found, Terminal(width=width, unicode=unicode)).lines
            assert lines and max(cells(line) for line in lines) <= width, "\n".join(lines)
            assert unicode or "".join(lines).isascii()


def test_bars_stand_under_each_other_as_they_happened() -> None:
    """Of any two operations, the columns of their ends are in the order of the events."""
    rng = random.Random(7)
    for _ in range(40):
        witness, history = _crowd(rng)
        lines = drawing(witness, history, Terminal(unicode=False, width=1000)).lines
        found = scene(witness, history)
        assert found is not None
        ends = dict[int, int]()
        bars = [line for line in lines[: lines.index("")] if line.startswith("process")]
        for lane, line in zip(found.lanes, bars, strict=True):
            columns = [m.span() for m in re.finditer(r"\|[-=x][^|]*?(?:\||\.\.+$)", line)]
            for bar, (begin, end) in zip(lane.bars, columns, strict=True):
                ends[bar.begin] = begin
                if bar.end is not None:
                    ends[bar.end] = end - 1
        assert [ends[m] for m in sorted(ends)] == sorted(set(ends.values()))
        assert sorted(ends) == list(found.moments)


def test_many_operations_are_cut_to_those_that_are_named() -> None:
    words = " ".join(f"0(w{n} 0)" for n in range(20))
    witness, history = scenes.named(words, tuple(range(40)), "It was the first (event 0).")
    found = scene(witness, history)
    assert found is not None and found.left_out == 20 - OPERATIONS_MAX
    assert [bar.begin for bar in found.bars] == [0, *range(18, 40, 2)]
    assert [bar.begin for bar in found.bars if bar.marked] == [0]
    assert "8 more operations of this witness left out." in "\n".join(drawing(witness, history, Terminal()).lines)


def test_the_axis_tells_the_events_of_what_is_marked() -> None:
    """Where numbers have no room beside each other, those go first."""
    rng, seen = random.Random(11), 0
    for _ in range(60):
        witness, history = _crowd(rng)
        lines = drawing(witness, history, Terminal(unicode=False, width=60)).lines
        axis = next((line for line in lines if line.startswith("event ")), "")
        found = scene(witness, history)
        assert found is not None
        for bar in found.bars:
            if axis and bar.marked:
                assert str(bar.begin) in axis.split()
                seen += len(axis.split()) - 1 < len(found.moments)
    assert seen > 5


def test_what_came_before_is_of_the_same_key() -> None:
    found = scene(*scenes.registers("0(w[:x,1] 0) 0(w[:y,2] 0) 0(w[:x,5] 0) 1(r[:y,nil] 1)[:y,9]"))
    assert found is not None and [bar.begin for bar in found.bars] == [2, 6]


OBJECTS = [(model, lines, wanted) for model, lines, wanted in CASES if wanted != "valid"]


@pytest.mark.parametrize(("model", "lines", "wanted"), OBJECTS, ids=[f"{n}-{c[2]}" for n, c in enumerate(OBJECTS)])
def test_witnesses_of_all_models_are_drawn(model: str | None, lines: list[str], wanted: str) -> None:
    """Their checkers know nothing of drawings: what the witness is about is marked, and what led to it is there."""
    found = read_edn(io.BytesIO(objects_edn(*lines).encode()), "a.edn", model=model)
    (verdict,) = judge_foreign(found, "a.edn").verdicts
    made = scene(verdict.witnesses[0], found.history)
    assert made is not None and len([bar for bar in made.bars if bar.marked]) == 1
    starts = [bar.begin for bar in made.bars]
    alone = len([op for op in found.history.operations if op.type is not Outcome.FAIL]) == 1 or starts == [0]
    assert made.left_out == 0 and len(starts) == len(set(starts)) > (0 if alone else 1)
    lines = drawing(verdict.witnesses[0], found.history, Terminal(unicode=False)).lines
    assert re.search(rf"\^ {wanted}$|{wanted} \^+$", "\n".join(lines), re.MULTILINE)


def test_words_of_operations() -> None:
    events = [
        (Outcome.INVOKE, "contains", 1),
        (Outcome.OK, "contains", True),
        (Outcome.INVOKE, "dequeue", None),
        (Outcome.OK, "dequeue", None),
        (Outcome.INVOKE, "acquire", None),
        (Outcome.OK, "acquire", None),
        (Outcome.INVOKE, "read", None),
        (Outcome.OK, "read", {"0": 5, "a": [None, 1]}),
    ]
    history = History(
        [
            OpEvent(index=i, time_ns=i, type=kind, process=0, f=f, node="n1", value=value)
            for i, (kind, f, value) in enumerate(events)
        ]
    )
    said = [operation_words(op) for op in history.operations]
    assert said == ["contains 1 = true", "dequeue = nothing", "acquire", "read = {0 5, a [nil 1]}"]


def test_a_witness_without_operations_has_no_drawing() -> None:
    witness, history = scenes.named(_STALE, (), "Nobody was there.")
    assert drawing(witness, history, Terminal()).lines == []


def test_faults_stand_above() -> None:
    """Those that were certainly in force meanwhile: neither one that was skipped, nor one that came later."""
    terminal = Terminal(unicode=False)
    assert drawing(*scenes.disturbed(healed=True), terminal).lines[:6] == [
        "fault                            |~ pause n2 ~|",
        "process 0 on n1  |- write 1 -|",
        "process 1 on n2                |--- write 2 ----|",
        "process 2 on n3                                   |= read = 1 =|",
        "                                                  ^^^^^^^^^^^^^^ by-hand",
        "event            0           1 2 6            7 8 9            10",
    ]
    endless = "fault                            |~~~~~~~ pause n2 ~~~~~~~~"
    assert drawing(*scenes.disturbed(healed=False), terminal).lines[0] == endless
    lettered = drawing(*scenes.disturbed(healed=True), Terminal(unicode=False, width=40)).lines
    assert lettered[0] == "fault        |pause n2|" and "a  write 1 on n1 (events 0 and 1)" in lettered
    listed = drawing(*scenes.disturbed(healed=True), Terminal(width=20)).lines
    assert listed[-4:] == ["- fault: pause n2", "  (proven at event", "  6, healed from", "  event 7 on)"]


def test_what_a_cycle_tells_is_not_told_again() -> None:
    witness, history = scenes.judged(scenes.ring(3))
    assert set(witness.steps) - drawing(witness, history, Terminal()).sentences == {witness.steps[-1]}


@pytest.mark.parametrize("count", [2, 3, 6])
def test_every_cycle_of_the_checkers_is_understood(count: int) -> None:
    witness, history = scenes.judged(scenes.ring(count))
    found = cycle_of(witness, history)
    assert found is not None and len(found.nodes) == count
    for node, edge, after in zip(found.nodes, found.edges, [*found.nodes[1:], found.nodes[0]], strict=True):
        assert f"{node.name} < {after.name} ({edge.kind}): {edge.text}" in witness.steps


def test_steps_that_do_not_close_are_no_cycle() -> None:
    witness, history = scenes.judged(scenes.ring(3))
    broken = msgspec.structs.replace(witness, steps=witness.steps[1:], edges=witness.edges[1:])
    assert cycle_of(broken, history) is None
    others = msgspec.structs.replace(witness, events=(0, 4))
    assert cycle_of(others, history) is None
    assert "T0" in "".join(drawing(broken, history, Terminal()).lines)


def test_colours_are_only_for_those_who_want_them() -> None:
    found = scenes.registers(_STALE)
    coloured, not_coloured = (drawing(*found, Terminal(colour=c)).lines for c in (True, False))
    assert "\x1b[" in "".join(coloured) and "\x1b[" not in "".join(not_coloured)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == not_coloured


def test_values_cannot_act_on_a_terminal() -> None:
    assert plain("a\x1b[2Jb\u202ec\nd", unicode=True) == "a\\u001b[2Jb\\u202ec\\u000ad"
    assert plain("é\U0001f600", unicode=False) == "\\u00e9\\U0001f600"
    witness, history = scenes.registers('0(w"a\u009b2J" 0) 1(r 1)"\u202eb"')
    assert all(line.isprintable() for line in drawing(witness, history, Terminal()).lines)


def _said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **environment: str) -> tuple[int, str]:
    """What `fencepost check` writes to a pipe."""
    path = tmp_path / "history.edn"
    path.write_text(edn(_STALE.replace("w1", 'w"\u00e9"').replace("w2", 'w"b"').replace(")1", ')"\u00e9"')), "utf-8")
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=environment.pop("encoding"), write_through=True)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", out)
    code = main(["check", str(path)])
    return code, raw.getvalue().decode()


@pytest.mark.parametrize("encoding", ["ascii", "iso8859-5"])
def test_a_terminal_that_is_not_of_unicode_gets_ascii(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoding: str
) -> None:
    code, said = _said(monkeypatch, tmp_path, encoding=encoding, COLUMNS="80")
    assert code == 1 and "|= read = \\u00e9 =|" in said and "^ stale-read" in said
    drawn = said[said.index("witness") : said.index("\n  - ")]
    assert drawn.isascii()


class _Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("make", "no_color", "colour"), [(_Screen, "", True), (_Screen, "1", False), (io.TextIOWrapper, "", False)]
)
def test_colour_is_for_terminals(
    monkeypatch: pytest.MonkeyPatch, make: type[io.TextIOWrapper], no_color: str, colour: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr(sys, "stdout", make(io.BytesIO(), encoding="utf-8"))
    assert of_stdout().colour is colour


def test_an_edge_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "history.edn").write_text(scenes.ring(2), "utf-8")
    assert main(["check", str(tmp_path / "history.edn")]) == 1
    said = capsys.readouterr().out
    assert said.count("T1 read [] from key :k0") == said.count("each would have to come before the next") == 1


def test_columns_are_honoured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, said = _said(monkeypatch, tmp_path, encoding="utf-8", COLUMNS="36")
    assert "  p0     ├a┤ ├b┤\n" in said
    _, said = _said(monkeypatch, tmp_path, encoding="utf-8", COLUMNS="120")
    assert "├─ write é ─┤" in said and "\x1b[" not in said


def test_cells() -> None:
    assert (cells("ab"), cells("日本"), cells("e\u0301")) == (2, 4, 1)
    assert (clipped("abcdef", 4), clipped("日本語", 4), clipped("abc", 3)) == ("abc…", "日…", "abc")
    assert wrapped("one two three", 7, "", "  ") == ["one two", "  three"]
    assert wrapped("abcdefgh i", 4) == ["abcd", "efgh", "i"]
