"""`fencepost check FILE --model module:attribute`: a user's own model judges, and one that misbehaves is told so."""

import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.checkers.objects import search
from fencepost.harness.cli import main
from tests.interchange.formats.test_objects import both, edn

_VALID = edn(*both("0 push 1", "0 push 2", "1 pop nil -> 2", "1 pop nil -> 1"))
_INVALID = edn(*both("0 push 1", "0 push 2", "1 pop nil -> 1"))
_UNKNOWN = edn("0 push 1", "0 :info", *both("1 pop nil -> 1"))
_HERE = "tests.interchange.formats.user_stack"


def run(capsys: Any, folder: Path, text: str, *arguments: str) -> tuple[int, str, str]:
    path = folder / "history.edn"
    path.write_text(text)
    code = main(["check", str(path), *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("name", ["Stack", "Duck", "INSTANCE"])
def test_a_model_judges(tmp_path: Path, capsys: Any, name: str) -> None:
    model = f"{_HERE}:{name}"
    code, out, err = run(capsys, tmp_path, _VALID, "--model", model)
    assert code == 0 and "VALID: 4 operations" in out and f"model {model}" in err
    code, out, _ = run(capsys, tmp_path, _INVALID, "--model", model)
    assert code == 1 and "1 history that no order explains" in out
    assert "pop by process 1" in out and "The state can be only (1, 2)." in out
    assert run(capsys, tmp_path, edn("0 push 1", "0 :info", "1 pop", "1 :ok 1"), "--model", model)[0] == 2


def test_what_had_no_answer_may_have_returned_anything(tmp_path: Path, capsys: Any) -> None:
    text = edn(*both("0 push 1", "0 push 2"), "1 pop", "1 :info", *both("2 pop nil -> 1"))
    assert run(capsys, tmp_path, text, "--model", f"{_HERE}:Stack")[0] == 0


def test_what_its_values_mean_is_known_to_the_model_alone(tmp_path: Path, capsys: Any) -> None:
    """A push that completes with another value, or values of mixed type, are the model's business."""
    text = edn(*both('0 push 1 -> "pushed"', "0 push :a", "1 pop nil -> :a", "1 write nil -> 5"))
    code, out, _ = run(capsys, tmp_path, text, "--model", f"{_HERE}:Stack")
    assert code == 1 and "write by process 1" in out.replace(" of None", "")


def test_keys_are_judged_apart(tmp_path: Path, capsys: Any) -> None:
    text = edn(*both("0 push [:a 1]", "0 push [:b 2]", "1 pop [:a nil] -> [:a 1]"))
    assert run(capsys, tmp_path, text, "--model", f"{_HERE}:Stack", "--keyed")[0] == 0


def test_a_model_names_its_objects_and_its_reads(tmp_path: Path, capsys: Any) -> None:
    valid = both('0 push ["a" 1]', '0 push ["b" 2]', '1 peek ["a" nil] -> 1', '1 pop ["a" nil] -> 1')
    model = f"{_HERE}:Peeked"
    assert run(capsys, tmp_path, edn(*valid), "--model", model)[0] == 0
    wrong = edn(*valid, *both('2 peek ["b" nil] -> 1'))
    code, out, _ = run(capsys, tmp_path, wrong, "--model", model)
    assert code == 1 and "peek of" in out and "The state can be only (2,)." in out


def test_one_object_that_is_wrong_decides(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the others would take: they were asked as often as that one, and are counted as not finished."""
    monkeypatch.setattr(search, "ASKED_FIRST", 20)
    pushes = [f'{process} push ["hard" {process}]' for process in range(12)]
    hard = [*pushes, *(f"{process} :ok" for process in range(12)), *both('12 pop ["hard" nil] -> 99')]
    easy = both('13 push ["easy" 1]', '13 pop ["easy" nil] -> 2')
    code, out, _ = run(capsys, tmp_path, edn(*hard, *easy), "--model", f"{_HERE}:Peeked", "--json")
    assert code == 1 and "no order explains 1 of 2 keys; 1 more were not finished" in out


def test_a_module_in_the_current_folder(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_alone.py").write_text("from tests.interchange.formats.user_stack import Stack as Mine\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert run(capsys, tmp_path, _VALID, "--model", "mine_alone:Mine")[0] == 0
    sys.modules.pop("mine_alone")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("no_such_module:Stack", "cannot be imported: ModuleNotFoundError"),
        (f"{_HERE}:Nobody", "cannot be imported: AttributeError"),
        (f"{_HERE}:Arguments", "cannot be imported: TypeError"),
        (f"{_HERE}:NOTHING", "is of type int, which has no init()"),
        (f"{_HERE}:NoStep", "is of type NoStep, which has no step()"),
        (f"{_HERE}:UnhashableStart", "init() returned raised TypeError: unhashable type: 'list'"),
        (f"{_HERE}:Unhashable", "step() for push of 1 by process 0"),
        (f"{_HERE}:NoneAtFirst", "init() returned None; expected a state"),
        (f"{_HERE}:Raises", "raised KeyError: 'push'"),
        (f"{_HERE}:Exits", "raised SystemExit"),
        (f"{_HERE}:Forgetful", "step() answered otherwise when it was asked again"),
        (f"{_HERE}:Changing", "reads names push, and step() for push of 1 by process 0"),
        (f"{_HERE}:NoNames", "reads raised TypeError"),
        (f"{_HERE}:OneName", "reads is the text 'pop'; expected names in a set or list"),
        (f"{_HERE}:Unnamed", "key() for push of 1 by process 0"),
        ("stuck", "unknown model 'stuck'"),
        ("no/such.py:Stack", "unknown model 'no/such.py'"),
        ("cas-register:3", "the model cas-register takes no parameter"),
    ],
)
def test_a_model_that_is_none(tmp_path: Path, capsys: Any, model: str, said: str) -> None:
    code, out, err = run(capsys, tmp_path, _VALID, "--model", model)
    assert (code, out) == (254, "")
    assert said in err and "hint: " in err and "Traceback" not in err


def test_the_budget_ends(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ASKED_MAX", 20)
    pushes = [f"{process} push {process}" for process in range(8)]
    text = edn(*pushes, *(f"{process} :ok" for process in range(8)), *both("8 pop nil -> 99"))
    code, out, _ = run(capsys, tmp_path, text, "--model", f"{_HERE}:Stack")
    assert code == 2 and "1 of 1 keys were not finished, none is invalid; the budget of steps is spent" in out
