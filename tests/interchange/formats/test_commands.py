"""`fencepost check FILE` and `fencepost export`: exit codes, what is said, and that nothing is written beside it."""

import io
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.cli import main
from fencepost.harness.history import Event, OpEvent, Outcome, PhaseEvent, PhaseName
from fencepost.harness.interchange.formats import recognise
from fencepost.harness.results.reader import read_history, to_parquet
from tests.interchange.formats.histories import edn

_VALID = edn("0(w1 0) 1(r 1)1 0(w2 0? 1(r 1)1")
_STALE = edn("0(w1 0) 0(w2 0) 1(r 1)1")


def run(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


def kept(folder: Path, text: str | bytes, name: str = "history.edn") -> str:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return str(folder / name)


def _txns(*both: tuple[str, str]) -> str:
    """Transactions one after the other, as invoked and as completed."""
    return "".join(
        f"{{:type {kind} :process 0 :f :txn :value {value}}}\n"
        for pair in both
        for kind, value in zip((":invoke", ":ok"), pair, strict=True)
    )


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (_VALID, 0, "VALID: 4 operations: no violation of linearizable was found"),
        (_STALE, 1, "INVALID: linearizable is violated: 1 stale read"),
        ("", 2, "UNKNOWN: nothing to judge: no operation in this history"),
        ("[]", 2, "UNKNOWN: nothing to judge"),
        ("{:type :info :process :nemesis :f :start}", 2, "UNKNOWN: nothing to judge"),
        (edn("0(w1 0)"), 2, "UNKNOWN: no ok reads and cas"),
        (edn("0(a1 0) 0(a2 0) 1(r 1)#{1,2}"), 0, "VALID: 3 operations: no violation of no-lost-acknowledged-writes"),
        (edn("0(a1 0) 0(a2 0) 1(r 1)#{1}"), 1, "1 lost write"),
        (_txns(("[[:append :x 1]]", "[[:append :x 1]]"), ("[[:r :x nil]]", "[[:r :x [1]]]")), 0, "VALID: 2 operations"),
        (_txns(("[[:append :x 1]]", "[[:append :x 1]]")), 2, "UNKNOWN: no ok transaction read what another one writes"),
        (
            _txns(("[[:append :x 1]]", "[[:append :x 1]]"), ("[[:r :x nil]]", "[[:r :x nil]]")),
            1,
            "strict-serializable is violated",
        ),
        (_txns(("[[:w 1 1]]", "[[:w 1 1]]"), ("[[:r 1 nil]]", "[[:r 1 1]]")), 0, "VALID: 2 operations"),
    ],
)
def test_check(tmp_path: Path, capsys: Any, text: str, code: int, said: str) -> None:
    found, out, _ = run(capsys, "check", kept(tmp_path, text))
    assert (found, said in out) == (code, True), out
    assert [path.name for path in tmp_path.iterdir()] == ["history.edn"]


def test_keys_are_judged_apart(tmp_path: Path, capsys: Any) -> None:
    text = edn("0(w[:x,1] 0) 0(w[:y,2] 0) 1(r[:x,nil] 1)[:x,1] 1(r[:y,nil] 1)[:y,3]")
    code, out, err = run(capsys, "check", kept(tmp_path, text))
    assert code == 1 and "Nobody ever wrote 3 to :y." in out
    assert "model register, keyed" in err
    assert "(invoked at 6000 ns, answered at 7000 ns)" in out
    untimed = kept(tmp_path, re.sub(", :time [0-9]+", "", text))
    assert "(invoked at event 6, answered at event 7)" in run(capsys, "check", untimed)[1]


def test_a_model_that_no_answer_shows_is_said(tmp_path: Path, capsys: Any) -> None:
    code, _, err = run(capsys, "check", kept(tmp_path, edn("0(a1 0) 1(a1 1) 0(r 0)nil")))
    assert code == 1 and "model set" in err and "note: no answer shows" in err and "--model counter" in err
    code, _, err = run(capsys, "check", kept(tmp_path, edn("0(a1 0) 0(r 0)[1]")))
    assert code == 0 and "note:" not in err


def test_check_as_json(tmp_path: Path, capsys: Any) -> None:
    code, out, _ = run(capsys, "check", "--json", kept(tmp_path, _STALE))
    document = json.loads(out)
    assert code == document["exit_code"] == 1
    assert (document["validity"], document["model"], document["form"]) == ("invalid", "register", "edn")
    assert document["verdicts"][0]["anomalies"]["stale-read"]["value"] == 1


def test_a_folder_of_jepsen(tmp_path: Path, capsys: Any) -> None:
    kept(tmp_path, _VALID)
    kept(tmp_path, b"JEPSEN\x00\x00", "test.jepsen")
    assert run(capsys, "check", str(tmp_path))[0] == 0
    code, _, err = run(capsys, "check", str(tmp_path / "test.jepsen"))
    assert code == 254 and "give history.edn" in err


def test_standard_input(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Standard:
        buffer = io.BytesIO(_STALE.encode())

    monkeypatch.setattr(sys, "stdin", Standard)
    assert run(capsys, "check", "-")[0] == 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"\x7fELF", ["line 1, column 1: not the start of a history; expected EDN, JSON, a log or Parquet"]),
        (b"PAR1 and no more", ["to be read as parquet, the file's name must end in .parquet"]),
        (_VALID[:-40], ["it is truncated", "hint: nothing of this history was judged"]),
        (edn("0(w1 0) 1(w:a"), ["line 3, column 1: the value :a is a keyword; expected an integer as in line 1"]),
        (_txns(("[[:append 1 1]]", "[[:append 1 1]]"), ("[[:r :x nil]]", "[[:r :x nil]]")), ["line 3", "is a string"]),
        (_txns(("[[:append :x 1]]", "[[:append :x 1]]")) * 2, ["history.edn: "]),
        ('{"kind":"op","index":3}\n', ["line 1: Object missing required field"]),
    ],
)
def test_what_is_refused(tmp_path: Path, capsys: Any, text: str | bytes, wanted: list[str]) -> None:
    code, out, err = run(
        capsys, "check", kept(tmp_path, text, "history.jsonl" if "kind" in str(text) else "history.edn")
    )
    assert (code, out) == (254, "")
    for words in wanted:
        assert words in err


def test_flags_that_mean_nothing(tmp_path: Path, capsys: Any) -> None:
    path = kept(tmp_path, _VALID)
    for flags, said in (
        (["--model", "trie"], "unknown model 'trie'"),
        (["--format", "xml"], "unknown format 'xml'"),
        (["--model", "set"], "the model set has no operation write"),
        (["--format", "porcupine", "--keyed"], "--keyed is an option for EDN only"),
    ):
        code, _, err = run(capsys, "check", path, *flags)
        assert code == 254 and said in err
    assert run(capsys, "check", str(tmp_path / "none.edn"))[0] == 254


def _own() -> list[Event]:
    """The events of a history of ours, keyed and with nodes."""
    value: dict[str, Any] = {"index": 0, "time_ns": 1, "process": 0, "node": "n1", "key": "r1"}
    return [
        OpEvent(**{**value, "f": "write", "type": Outcome.INVOKE, "value": 1}),
        OpEvent(**{**value, "index": 1, "time_ns": 5, "f": "write", "type": Outcome.OK, "value": 1, "position": 7}),
        OpEvent(**{**value, "index": 2, "time_ns": 5, "f": "read", "type": Outcome.INVOKE, "process": 1}),
        OpEvent(**{**value, "index": 3, "time_ns": 9, "f": "read", "type": Outcome.OK, "process": 1, "value": 1}),
    ]


def test_our_own_files_without_a_plan(tmp_path: Path, capsys: Any) -> None:
    parquet = tmp_path / "some.parquet"
    to_parquet(_own(), parquet)
    assert run(capsys, "check", str(parquet))[0] == 0
    lines = tmp_path / "some.jsonl"
    assert run(capsys, "export", str(parquet), "--format", "jsonl", "-o", str(lines))[0] == 0
    assert read_history(lines).events == _own()
    assert run(capsys, "check", str(lines))[0] == 0


@pytest.mark.parametrize(("form", "name"), [("edn", "h.edn"), ("porcupine", "h.json"), ("jsonl", "h.jsonl")])
def test_export_and_check_again(tmp_path: Path, capsys: Any, form: str, name: str) -> None:
    for text, wanted in ((_VALID, 0), (_STALE, 1)):
        folder = tmp_path / str(wanted)
        folder.mkdir()
        output = folder / name
        source = kept(tmp_path, text, f"source{wanted}.edn")
        assert run(capsys, "export", source, "--format", form, "-o", str(output))[0] == 0
        assert run(capsys, "check", str(output))[0] == wanted
        code, _, err = run(capsys, "export", source, "--format", form, "-o", str(output))
        assert code == 254 and "exists already" in err


def test_export_says_what_it_leaves_out(tmp_path: Path, capsys: Any) -> None:
    source = kept(tmp_path, edn("0(w1 0! 1(r 1)nil"))
    code, out, err = run(capsys, "export", source, "--format", "porcupine")
    assert code == 0 and len(json.loads(out)) == 1
    assert "left out: 1 events that are no operations, and operations that failed" in err


def test_transactions_are_held_to_the_model_that_is_named(tmp_path: Path, capsys: Any) -> None:
    skew = (("[[:r :x nil] [:append :y 1]]", "[[:r :x []] [:append :y 1]]"),)
    other = _txns(*skew).replace(":x", ":z").replace(":y", ":x").replace(":z", ":y").replace(":process 0", ":process 1")
    (first, ended), (begun, last) = _txns(*skew).splitlines(), other.splitlines()
    file = kept(tmp_path, "\n".join((first, begun, ended, last)))
    assert run(capsys, "check", file)[0] == 1
    code, said, _ = run(capsys, "check", file, "--consistency", "snapshot-isolation")
    assert (code, "no violation of snapshot-isolation was found" in said) == (0, True)
    code, said, _ = run(capsys, "check", file, "--consistency", "repeatable-read")
    assert (code, "repeatable-read is violated: 1 G2-item anomaly" in said) == (1, True)
    code, _, told = run(capsys, "check", file, "--consistency", "eventual")
    assert (code, "unknown consistency model 'eventual'" in told) == (254, True)
    code, _, told = run(capsys, "check", kept(tmp_path, _VALID, "r.edn"), "--consistency", "causal")
    assert (code, "--consistency is about transactions" in told) == (254, True)


_HALF = b'{"kind":"op","index":0,"value":"' + b"a" * 5_000_000
_DEEP = b'{"kind":"op","index":0,"time_ns":0,"type":"invoke","process":0,"f":"write","node":"","value":'
#: Files that nobody can mean: name, bytes, what is said.
_UNREADABLE = {
    "half a line": ("h.jsonl", _HALF, f"its {len(_HALF)} bytes hold no complete line"),
    "deep lines": ("h.jsonl", _DEEP + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "line 1: nested too deeply"),
    "deep edn": ("h.edn", b"{:type :invoke :value " + b"[" * 100_000, "nested deeper than"),
}


@pytest.mark.parametrize("name", _UNREADABLE)
def test_a_file_that_is_no_history_is_refused_in_one_sentence(tmp_path: Path, capsys: Any, name: str) -> None:
    file, data, said = _UNREADABLE[name]
    code, _, err = run(capsys, "check", kept(tmp_path, data, file))
    assert (code, said in err, "Traceback" in err) == (254, True, False), err


def test_a_plan_that_is_not_utf_8_is_refused(tmp_path: Path, capsys: Any) -> None:
    kept(tmp_path, b"seed = 1\n# \xff\n", "plan.toml")
    code, _, err = run(capsys, "check", str(tmp_path))
    assert (code, "plan.toml: the byte 0xff at 11 is not UTF-8" in err) == (254, True), err


@pytest.mark.parametrize("name", ["verdict.json", "junit.xml", "report.html"])
def test_a_folder_where_the_judgement_is_written_is_refused(tmp_path: Path, capsys: Any, name: str) -> None:
    kept(tmp_path, "seed = 1\n", "plan.toml")
    (tmp_path / name).mkdir()
    code, _, err = run(capsys, "check", str(tmp_path))
    assert (code, f"{name}: is a folder" in err) == (254, True), err


def test_a_pipe_that_nobody_writes_is_given_up(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognise, "PIPE_WAIT_S", 0)
    os.mkfifo(tmp_path / "pipe")
    code, _, err = run(capsys, "check", str(tmp_path / "pipe"))
    assert (code, "no program wrote to this pipe" in err) == (254, True), err


def test_a_pipe_is_read_once_somebody_writes(tmp_path: Path, capsys: Any) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(_STALE.encode(),))
    writer.start()
    code, said, _ = run(capsys, "check", str(pipe))
    writer.join()
    assert (code, "1 stale read" in said) == (1, True)


def _run_folder(folder: Path) -> Path:
    """A run whose history begins with an event that is no operation, and its verdict."""
    folder.mkdir()
    kept(folder, "seed = 1\n", "plan.toml")
    events: list[Event] = [PhaseEvent(index=0, time_ns=0, phase=PhaseName.MAIN)]
    events += [
        OpEvent(index=i, time_ns=i, type=kind, process=0, f="write", node="n1", key="x", value=1)
        for i, kind in ((1, Outcome.INVOKE), (2, Outcome.OK))
    ]
    to_parquet(events, folder / "history.parquet")
    guarantees = [{"name": "fresh-after-sync", "decides": True}, {"name": "session-order", "decides": False}]
    kept(folder, json.dumps({"guarantees": guarantees}), "verdict.json")
    return folder


def test_an_exported_run_keeps_its_numbers_and_what_it_was_judged_for(tmp_path: Path, capsys: Any) -> None:
    folder, file = _run_folder(tmp_path / "run"), tmp_path / "h.edn"
    assert run(capsys, "export", str(folder), "--format", "edn", "-o", str(file))[0] == 0
    assert [line.partition(":history-index ")[2] for line in file.read_text().splitlines()[1:]] == ["1}", "2}"]
    _, _, err = run(capsys, "check", str(file))
    assert f"judged as linearizable; the run was judged for fresh-after-sync: fencepost check {folder}" in err
    # Another tool's comment says nothing.
    code, _, err = run(capsys, "check", kept(tmp_path, "; exported by fencepost: {]\n" + _VALID, "other.edn"))
    assert (code, "the run was" in err) == (0, False)


def test_flags_for_files_are_refused_for_a_run(tmp_path: Path, capsys: Any) -> None:
    folder = _run_folder(tmp_path / "run")
    for flags in (("--model", "queue"), ("--format", "edn"), ("--consistency", "causal")):
        code, _, err = run(capsys, "check", str(folder), *flags)
        assert (code, f"{flags[0]}: a run is judged by its plan" in err) == (254, True), err


def test_a_folder_with_a_history_and_no_plan_is_no_table(tmp_path: Path, capsys: Any) -> None:
    folder = _run_folder(tmp_path / "run")
    (folder / "plan.toml").unlink()
    code, _, err = run(capsys, "check", str(folder))
    assert (code, "no plan.toml" in err) == (254, True), err


def test_a_format_that_a_name_contradicts_is_refused_by_the_name(tmp_path: Path, capsys: Any) -> None:
    code, _, err = run(capsys, "check", kept(tmp_path, _VALID), "--format", "jsonl")
    assert (code, "to be read as jsonl, the file's name must end in .jsonl" in err) == (254, True), err


@pytest.mark.parametrize("unit", [1, 7, 10, 999, 1_000, 1_000_000, 10**9])
def test_moments_that_differ_are_told_differently(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], unit: int
) -> None:
    calls = [
        {"ClientId": 0, "Input": {"op": "write", "value": 1}, "Call": 0, "Output": {}, "Return": 10 * unit},
        {"ClientId": 0, "Input": {"op": "write", "value": 2}, "Call": 11 * unit, "Output": {}, "Return": 20 * unit},
        {"ClientId": 1, "Input": {"op": "read"}, "Call": 25 * unit, "Output": {"value": 1}, "Return": 35 * unit},
    ]
    (tmp_path / "a.json").write_text(json.dumps(calls))
    assert main(["check", str(tmp_path / "a.json")]) == 1
    told = re.findall(r"(?:invoked|answered|acknowledged) at ([\d.]+ n?s)", capsys.readouterr().out)
    # The two moments of the read, the acknowledgements of two writes, and the first of the read's again.
    assert len(told) == 5 and len(set(told)) == 4, told
