"""Lists of operations on a terminal; no line is wider than asked for, and nothing in a value acts on the terminal."""

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
from fencepost.harness.report.drawing import (
    OPERATIONS_MAX,
    Terminal,
    cells,
    clipped,
    cycle_of,
    listing,
    of_stdout,
    operation_words,
    plain,
    scene,
    wrapped,
)
from fencepost.harness.verdict import Witness
from tests.interchange.formats.histories import edn
from tests.interchange.formats.test_objects import CASES
from tests.interchange.formats.test_objects import edn as objects_edn
from tests.report.drawing import scenes

Found = tuple[Witness, History]

_STALE = "0(w1 0) 0(w2 0) 1(r 1)1"
_UNKNOWN = "0(w1 1(w2 0! 1? 2(r 2)3 3(w4"

GOLDEN: dict[str, tuple[Callable[[], Found], Terminal, str]] = {
    "stale read": (
        lambda: scenes.registers(_STALE),
        Terminal(),
        """
- process 0: write 1 (events 0 and 1)
- process 0: write 2 (events 2 and 3)
> process 1: read = 1 (events 4 and 5)
""",
    ),
    "a long value, nodes": (
        scenes.of_run,
        Terminal(unicode=False, width=60),
        """
- process 0: write a long value a long value a long value a
  long value a long value a long value a long value a long
  value a long ... on n1 (events 0 and 1)
> process 2: read = nothing on n3 (events 3 and 5)
""",
    ),
    "unknown and failed, narrow": (
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
    "nothing but one operation is named": (
        lambda: scenes.registers("0(w1 0) 0(w2 0) 1(w3 2(r 2)7 1)"),
        Terminal(unicode=False),
        """
- process 0: (write 1) (events 0 and 1)
- process 0: (write 2) (events 2 and 3)
- process 1: (write 3) (events 4 and 7)
> process 2: read = 7 (events 5 and 6)
""",
    ),
    "a fault in force": (
        lambda: scenes.disturbed(healed=True),
        Terminal(),
        """
- process 0: write 1 on n1 (events 0 and 1)
- process 1: write 2 on n2 (events 2 and 8)
- fault: pause n2 (proven at event 6, healed from event 7 on)
> process 2: read = 1 on n3 (events 9 and 10)
""",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str) -> None:
    make, terminal, wanted = GOLDEN[name]
    assert listing(*make(), terminal) == wanted.strip("\n").split("\n")


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
            lines = listing(*found, Terminal(width=width, unicode=unicode))
            assert lines and max(cells(line) for line in lines) <= width, "\n".join(lines)
            assert unicode or "".join(lines).isascii()


def test_many_operations_are_cut_to_those_that_are_named() -> None:
    words = " ".join(f"0(w{n} 0)" for n in range(20))
    witness, history = scenes.named(words, tuple(range(40)), "It was the first (event 0).")
    found = scene(witness, history)
    assert found is not None and found.left_out == 20 - OPERATIONS_MAX
    assert [each.operation.invoke_index for each in found.operations] == [0, *range(18, 40, 2)]
    assert [each.operation.invoke_index for each in found.operations if each.marked] == [0]
    assert listing(witness, history, Terminal())[-1] == "8 more left out."


def test_what_came_before_is_of_the_same_key() -> None:
    found = scene(*scenes.registers("0(w[:x,1] 0) 0(w[:y,2] 0) 0(w[:x,5] 0) 1(r[:y,nil] 1)[:y,9]"))
    assert found is not None and [each.operation.invoke_index for each in found.operations] == [2, 6]


OBJECTS = [(model, lines, wanted) for model, lines, wanted in CASES if wanted != "valid"]


@pytest.mark.parametrize(("model", "lines", "wanted"), OBJECTS, ids=[f"{n}-{c[2]}" for n, c in enumerate(OBJECTS)])
def test_witnesses_of_all_models_are_listed(model: str | None, lines: list[str], wanted: str) -> None:
    """Their checkers know nothing of lists: what the witness is about is marked, and what led to it is there."""
    found = read_edn(io.BytesIO(objects_edn(*lines).encode()), "a.edn", model=model)
    (verdict,) = judge_foreign(found, "a.edn").verdicts
    made = scene(verdict.witnesses[0], found.history)
    assert made is not None and len([each for each in made.operations if each.marked]) == 1
    starts = [each.operation.invoke_index for each in made.operations]
    alone = len([op for op in found.history.operations if op.type is not Outcome.FAIL]) == 1 or starts == [0]
    assert made.left_out == 0 and len(starts) == len(set(starts)) > (0 if alone else 1)
    assert len([line for line in listing(verdict.witnesses[0], found.history, Terminal()) if line[0] == ">"]) == 1


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
        (Outcome.INVOKE, "members", None),
        (Outcome.OK, "members", [1, 2]),
    ]
    history = History(
        [
            OpEvent(index=i, time_ns=i, type=kind, process=0, f=f, node="n1", value=value)
            for i, (kind, f, value) in enumerate(events)
        ]
    )
    said = [operation_words(op) for op in history.operations]
    assert said == ["contains 1 = true", "dequeue = nothing", "acquire", "read = {0 5, a [nil 1]}", "read = [1 2]"]


def test_a_witness_without_operations_has_no_list() -> None:
    witness, history = scenes.named(_STALE, (), "Nobody was there.")
    assert listing(witness, history, Terminal()) == []


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
    assert "T0" in "".join(listing(broken, history, Terminal()))


def test_colours_are_only_for_those_who_want_them() -> None:
    found = scenes.registers(_STALE)
    coloured, not_coloured = (listing(*found, Terminal(colour=c)) for c in (True, False))
    assert "\x1b[" in "".join(coloured) and "\x1b[" not in "".join(not_coloured)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == not_coloured


def test_values_cannot_act_on_a_terminal() -> None:
    assert plain("a\x1b[2Jb\u202ec\nd", unicode=True) == "a\\u001b[2Jb\\u202ec\\u000ad"
    assert plain("é\U0001f600", unicode=False) == "\\u00e9\\U0001f600"
    witness, history = scenes.registers('0(w"a\u009b2J" 0) 1(r 1)"\u202eb"')
    assert all(line.isprintable() for line in listing(witness, history, Terminal()))


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
    assert code == 1 and "> process 1: read = \\u00e9 (events 4 and 5)" in said
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


def test_columns_are_honoured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, narrow = _said(monkeypatch, tmp_path, encoding="utf-8", COLUMNS="36")
    assert "> process 1: read = é (events 4\n    and 5)" in narrow
    _, wide = _said(monkeypatch, tmp_path, encoding="utf-8", COLUMNS="120")
    assert "> process 1: read = é (events 4 and 5)\n" in wide and "\x1b[" not in wide


def test_cells() -> None:
    assert (cells("ab"), cells("日本"), cells("e\u0301")) == (2, 4, 1)
    assert (clipped("abcdef", 4), clipped("日本語", 4), clipped("abc", 3)) == ("abc…", "日…", "abc")
    assert wrapped("one two three", 7, "", "  ") == ["one two", "  three"]
    assert wrapped("abcdefgh i", 4) == ["abcd", "efgh", "i"]
