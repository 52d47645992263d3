"""`fencepost.check`: what Python holds is judged as the command judges a file, and what it cannot take is refused."""

import doctest
import importlib
import json
import subprocess
import sys
from collections import namedtuple
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pytest

import fencepost
from fencepost.checkers import UNKNOWN
from fencepost.harness.cli import main
from fencepost.harness.cli.check import in_python
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.interchange.formats.rows import COLUMNS
from tests.docs.pages import ROOT

_VALID: Final = [("a", "write", "x", 1, 0, 10), ("b", "write", "x", 2, 20, None), ("c", "read", "x", 2, 30, 40)]
_STALE: Final = [*_VALID, ("c", "read", "x", 1, 50, 60)]
_EDN: Final = """\
{:process 0, :type :invoke, :f :write, :value 1}
{:process 0, :type :ok, :f :write, :value 1}
{:process 1, :type :invoke, :f :read, :value nil}
{:process 1, :type :ok, :f :read, :value 2}
"""


class Stack:
    def init(self) -> tuple[Any, ...]:
        return ()

    def step(self, state: tuple[Any, ...], f: str, value: Any, result: Any) -> tuple[Any, ...] | None:
        if f == "push":
            return (*state, value)
        return state[:-1] if state and result in (state[-1], UNKNOWN) else None


def _frame(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _dicts(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


_FORMS: Final[dict[str, Any]] = {
    "tuples": list,
    "generator": iter,
    "named tuples": lambda rows: [namedtuple("Row", COLUMNS)(*row) for row in rows],
    "dicts": _dicts,
    "pandas": _frame,
    "pandas with NA": lambda rows: _frame(rows).convert_dtypes(),
    "arrow": lambda rows: pa.Table.from_pylist(_dicts(rows)),
}


@pytest.mark.parametrize("form", _FORMS)
def test_every_kind_of_table_is_judged(form: str) -> None:
    valid = fencepost.check(_FORMS[form](_VALID), model="register")
    assert (valid.validity, valid.witness) == ("valid", None), valid
    stale = fencepost.check(_FORMS[form](_STALE))
    assert stale.validity == "invalid" and stale.witness is not None and stale.witness.anomaly == "stale-read"
    assert "row 3" in stale.explain() and repr(stale).startswith("<INVALID: linearizable is violated")


def _moment(hours: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours)


@pytest.mark.parametrize("clock", [float, lambda t: t / 7, lambda t: 1_700_000_000 + t / 64, _moment, pd.Timestamp])
def test_times_are_of_any_clock(clock: Any) -> None:
    rows = [(*row[:4], clock(row[4]), None if row[5] is None else clock(row[5])) for row in _STALE]
    for history in (rows, _frame(rows)):
        assert fencepost.check(history).validity == "invalid"
        assert fencepost.check(history[:3]).validity == "valid"


@pytest.mark.parametrize("one", ["a", 1.5, Decimal("1.50"), (1, "a"), frozenset({3, 1}), {"k": 1}, b"x", datetime.max])
@pytest.mark.parametrize("key", ["x", 1, ("x", 1), None, True])
def test_keys_and_values_are_of_any_type(one: Any, key: Any) -> None:
    rows = [("a", "write", key, one, 0, 1), ("b", "read", key, one, 2, 3)]
    assert fencepost.check(rows).validity == "valid"
    assert fencepost.check([*rows, ("b", "read", key, None, 4, 5)]).validity == "invalid"


def test_keys_that_look_alike_are_not_the_same() -> None:
    rows = [("a", "write", 1, 5, 0, 1), ("a", "read", "1", None, 2, 3), ("a", "read", True, None, 4, 5)]
    assert fencepost.check(rows, model="register").validity != "invalid"
    assert "of 1 by process" in fencepost.check([("a", "read", 1, 7, 0, 1)], model="register").explain()


def test_outcomes_and_results_have_columns() -> None:
    rows = [
        {"f": "write", "value": 1, "start": 0, "end": 1, "type": "ok"},
        {"f": "write", "value": 2, "start": 2, "end": 3, "type": "fail"},
        {"f": "write", "value": 3, "start": 4, "end": 5, "type": "info"},
        {"f": "read", "value": 3, "start": 6, "end": 7},
    ]
    assert fencepost.check(rows).validity == "valid"
    assert fencepost.check([*rows, {"f": "read", "value": 2, "start": 8, "end": 9}]).validity == "invalid"
    enqueued = [{"f": "enqueue", "value": v, "start": v, "end": v} for v in (1, 2)]
    assert fencepost.check([*enqueued, {"f": "dequeue", "value": 2, "start": 3, "end": 4}]).validity == "invalid"
    appended = [("a", "txn", None, [["append", "x", 1]], 0, 1), ("a", "txn", None, [["r", "x", [1]]], 2, 3)]
    assert fencepost.check(appended, consistency="serializable").validity == "valid"


@pytest.mark.parametrize("model", [Stack, Stack()])
def test_a_model_is_a_class_or_an_instance(model: Any) -> None:
    class Local(Stack):
        """Nobody can import it."""

    for one in (model, Local):
        pops = [
            {"f": f, "value": v, "result": v, "start": i, "end": i}
            for i, (f, v) in enumerate([("push", 1), ("pop", 1), ("push", 2), ("pop", 3)])
        ]
        assert fencepost.check(pops[:3], model=one).validity == "valid"
        assert "The state can be only (2,)." in fencepost.check(pops, model=one).explain()


def test_a_path_and_events_are_judged_as_the_command_does(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "history.edn"
    file.write_text(_EDN)
    result = fencepost.check(file)
    assert main(["check", str(file)]) == 1 and capsys.readouterr().out == result.explain()
    assert main(["check", str(file), "--json"]) == 1
    documents = json.loads(capsys.readouterr().out), json.loads(json.dumps(result.document()))
    for document in documents:
        assert document["verdicts"][0]["figures"].pop("wall_ms") >= 0
    assert documents[0] == documents[1]
    history = read_foreign(file).history
    for events in (history, list(history.events)):
        assert fencepost.check(events, "register").headline == result.headline
    assert fencepost.check(str(file), model=Stack).validity == "invalid"
    calls = tmp_path / "calls.json"
    calls.write_text('[{"ClientId": 1, "Input": {"op": "write", "value": 1}, "Call": 1, "Output": null, "Return": 2}]')
    assert fencepost.check(calls, model=Stack).validity == "invalid"


def test_a_report_and_a_notebook_draw_the_witness(tmp_path: Path) -> None:
    result = fencepost.check(_STALE)
    page = result.report(tmp_path / "report.html").read_text()
    assert "<svg" in page and "fencepost.check(history, model=&#39;register&#39;)" in page
    assert "&lt;svg" in result._repr_html_()
    with pytest.raises(fencepost.UsageError, match="exists already"):
        result.report(tmp_path / "report.html")


_BAD: Final = {
    "is no history": 5,
    "No such file": "absent.edn",
    "row 0 is \\(1, 2\\)": [(1, 2)],
    "row 0 has finish": [{"f": "write", "start": 0, "finish": 3}],
    "the table lacks end": _frame(_VALID).drop(columns="end"),
    "the table has node": _frame(_VALID).assign(node="n1"),
    "row 0 has no start": [("a", "write", "x", 1, None, 1)],
    "row 0 ends before it starts": [("a", "write", "x", 1, 5, 1)],
    "row 0 has no end, but is ok": [{"f": "write", "value": 1, "start": 0, "type": "ok"}],
    "is of the type 'maybe'": [{"f": "write", "value": 1, "start": 0, "end": 1, "type": "maybe"}],
    "row 1 starts while row 0 of the same process a": [("a", "read", "x", 1, 0, 5), ("a", "read", "x", 1, 3, 6)],
    "row 1 has no key": [("a", "write", "x", 1, 0, 5), ("a", "read", None, 1, 6, 7)],
    "start and end are float, str": [("a", "write", "x", 1, 0.5, "1")],
    "a time is out of reach": [("a", "write", "x", 1, 0, 2**63)],
    "f is None": [("a", None, "x", 1, 0, 1)],
    "of type object has no text": [("a", "write", "x", object(), 0, 1)],
    "'a' is a string; expected an integer as at <history>: row 0": [
        ("a", "write", "x", 1, 0, 1),
        ("a", "write", "x", "a", 2, 3),
    ],
    "no model understands": [("a", "juggle", "x", 1, 0, 1)],
}


@pytest.mark.parametrize("said", _BAD)
def test_what_cannot_be_taken_is_refused_with_a_hint(said: str) -> None:
    with pytest.raises(fencepost.UsageError, match=said) as refused:
        fencepost.check(_BAD[said])
    assert refused.value.hint


@pytest.mark.parametrize("flags", [{"model": "regster"}, {"consistency": "causal"}, {"format": "edn"}, {"model": dict}])
def test_what_is_asked_wrongly_is_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(fencepost.UsageError) as refused:
        fencepost.check(_VALID, **flags)
    assert refused.value.hint


def test_a_run_is_for_the_command(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text("seed = 1\n")
    with pytest.raises(fencepost.UsageError, match="a run is judged by its plan"):
        fencepost.check(tmp_path)


def test_the_import_is_cheap() -> None:
    count = "import fencepost, sys; print(*(name for name in sys.modules if name.startswith('fencepost')))"
    done = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fencepost"]
    with pytest.raises(AttributeError):
        importlib.import_module("fencepost").__getattr__("nothing")


def test_the_examples_do_what_they_say(capsys: Any) -> None:
    assert doctest.testmod(in_python).failed == 0
    notebook = json.loads((ROOT / "examples" / "judge-a-table.ipynb").read_text())
    shown: dict[str, Any] = {}
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
        *before, last = "".join(cell["source"]).rsplit("\n", 1)
        exec(before[0], shown)
        shown[cell["id"]] = eval(last, shown)
    results = [value for name, value in shown.items() if name.startswith("cell-")]
    assert [result.validity for result in results] == ["invalid", "valid"]
    assert "stale-read" in capsys.readouterr().out
