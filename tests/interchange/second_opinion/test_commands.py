"""`fencepost check --also`: what is asked of the tools, what is made of their answers, and the exit codes."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.cli import main
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.interchange.second_opinion import porcupine
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.run.conclude import Result
from fencepost.harness.runtime.artifacts import tool
from fencepost.harness.verdict import Facts, Validity, Verdict
from tests.checkers.transactions.transaction_histories import told
from tests.interchange.formats.histories import edn
from tests.interchange.tables.transaction_tables import table

_VALID = edn("0(w1 0) 1(r 1)1 0(w2 0? 1(r 1)1")
_STALE = edn("0(w1 0) 0(w2 0) 1(r 1)1")
_KEYED = edn("0(w[:x,1] 0) 0(w[:y,2] 0) 1(r[:x,nil] 1)[:x,1] 1(r[:y,nil] 1)[:y,2]")
#: Says the same of every file.
_SAYS = """
for file in "$@"; do case $file in *.edn) echo "$file \t {}";; esac; done
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Fake":
    for name in ("FENCEPOST_KNOSSOS", "FENCEPOST_ELLE"):
        monkeypatch.delenv(name, raising=False)
    return Fake(tmp_path)


class Fake:
    """A tool that is a shell script; `words` are the arguments of its last call, `files` the histories it was given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def command(self, script: str, name: str = "tool") -> str:
        keeps = f'printf "%s\\n" "$@" > {self._folder}/words; cp *.edn {self._folder}/ 2>/dev/null'
        path = self._folder / name
        path.write_text(f"#!/bin/sh\n{keeps}\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    @property
    def words(self) -> list[str]:
        return (self._folder / "words").read_text(encoding="utf-8").split()

    @property
    def files(self) -> list[Path]:
        return sorted(self._folder.glob("history-*.edn"))


def run(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    code = main(["check", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def kept(folder: Path, text: str) -> str:
    (folder / "given.edn").write_text(text)
    return str(folder / "given.edn")


@pytest.mark.parametrize(
    ("text", "script", "code", "standing", "said"),
    [
        (_VALID, _SAYS.format("true"), 0, "agrees", "valid, as ours"),
        (_STALE, _SAYS.format("false") + "exit 1", 1, "agrees", "invalid, as ours"),
        (_VALID, _SAYS.format("false"), 255, "disagrees", "INVALID, but ours is VALID: one of the two is mistaken"),
        (_STALE, _SAYS.format("true"), 255, "disagrees", "VALID, but ours is INVALID: one of the two is mistaken"),
        (_VALID, _SAYS.format(":unknown"), 0, "undecided", "unknown, and ours is valid: nothing to compare"),
        (edn("0(w1 0)"), _SAYS.format("false"), 2, "undecided", "invalid, and ours is unknown: nothing to compare"),
        (_STALE, _SAYS.format("true") + "exit 1", 1, "no-answer", "1 of 1 answers could be read; it ended with 1"),
        (
            _VALID,
            "echo 'true'; echo 'Oh dear'; exit 3",
            0,
            "no-answer",
            "0 of 1 answers could be read; it ended with 3",
        ),
        (
            _VALID,
            "echo 'other.edn true'",
            0,
            "no-answer",
            "0 of 1 answers could be read; it ended with 0: other.edn true",
        ),
        (_VALID, _SAYS.format("true or so"), 0, "no-answer", "0 of 1 answers could be read"),
        (_VALID, "head -c 3000 /dev/urandom", 0, "no-answer", "0 of 1 answers could be read"),
        (_VALID, "kill -9 $$", 0, "no-answer", "it ended with -9"),
    ],
)
def test_what_comes_of_an_answer(
    tmp_path: Path, capsys: Any, fake: Fake, text: str, script: str, code: int, standing: str, said: str
) -> None:
    command = f"knossos={fake.command(script)}"
    path = kept(tmp_path, text)
    found, out, _ = run(capsys, path, "--also", "knossos", "--also-command", command)
    assert (found, said in out) == (code, True), out
    found, out, err = run(capsys, path, "--json", "--also-command", command)
    document = json.loads(out)
    assert (found, document["exit_code"]) == (code, code) and said in err
    opinion = document["second_opinions"][0]
    assert (opinion["tool"], opinion["standing"], opinion["ours"]) == ("knossos", standing, document["validity"])


def test_both_verdicts_are_kept(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    path = kept(tmp_path, _STALE)
    _, out, _ = run(capsys, path, "--json", "--also-command", f"knossos={fake.command(_SAYS.format('true'))}")
    document = json.loads(out)
    assert document["validity"] == "invalid" and document["verdicts"][0]["witnesses"]
    assert document["second_opinions"][0]["validity"] == "valid"
    _, out, _ = run(capsys, path, "--json")
    assert "second_opinions" not in json.loads(out), "nobody was asked"


def late(capsys: Any, path: str, command: str, reached: Path) -> tuple[int, str]:
    """What comes of asking a `command` that never ends, when its time was over after it had written the file `reached`.

    A busy machine may keep it from that for longer than the limit: then there is nothing to see, and it gets more time.
    """
    for limit_ms in (300, 1_000, 4_000, 16_000):
        limit = f"{limit_ms}ms"
        code, out, _ = run(capsys, path, "--also-command", f"knossos={command}", "--also-time-limit", limit)
        if reached.exists() and reached.read_text().endswith("\n"):
            return code, out.replace(f"within {limit_ms / 1000:g} s", "within its time")
    pytest.fail(f"{reached.name} was never reached: {out}")


def test_too_late_is_no_answer_and_leaves_nothing(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    grandchild = tmp_path / "grandchild"
    command = fake.command(f"sh -c 'echo $$ > {grandchild}; exec sleep 600' & wait")
    # The grandchild outlives the test's own limit: whoever waits for it never comes back.
    code, out = late(capsys, kept(tmp_path, _VALID), command, grandchild)
    assert code == 0 and "no answer within its time" in out
    assert_ended(int(grandchild.read_text()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_tool_and_leaves_nothing(tmp_path: Path, fake: Fake, number: signal.Signals) -> None:
    script = f"echo $$ > {tmp_path}/begun; exec sleep 600"
    (tmp_path / "scratch").mkdir()
    # As from a terminal: whoever runs this may ignore Ctrl-C, and what is ignored goes on being ignored.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from fencepost.harness.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code]
    child = subprocess.Popen(
        [*command, "check", kept(tmp_path, _VALID), "--also-command", f"knossos={fake.command(script)}"],
        env={**os.environ, "TMPDIR": str(tmp_path / "scratch")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with child:
        try:
            deadline = time.monotonic() + 60
            while not (begun := tmp_path / "begun").exists() or not begun.read_text().endswith("\n"):
                assert child.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            child.send_signal(number)
            out, _ = child.communicate(timeout=50)
        finally:
            child.kill()
    assert child.returncode == 130 and b"valid" in out, "our own verdict had been said"
    assert not list((tmp_path / "scratch").iterdir())
    assert_ended(int(begun.read_text()))


def test_a_signal_while_the_tool_starts_is_not_lost(tmp_path: Path, fake: Fake) -> None:
    """It comes when the tool runs already, and Python's own hooks behind a fork do not yet: they swallow exceptions."""
    code = "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGINT)); "
    code += "from fencepost.harness.cli import main; sys.exit(main())"
    words = ["check", kept(tmp_path, _VALID), "--also-command", f"knossos={fake.command('exec sleep 600')}"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, timeout=50, check=False)
    assert done.returncode == 130 and b"valid" in done.stdout and done.stderr.count(b"Exception ignored") == 0


def assert_ended(pid: int) -> None:
    """Whoever is killed needs a moment to be gone, unless it was waited for."""
    deadline = time.monotonic() + 30
    while _runs(pid):
        assert time.monotonic() < deadline, f"{pid} runs on"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_one_false_is_an_answer_though_the_rest_is_late(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    said = tmp_path / "said"
    script = (
        f'for file in "$@"; do case $file in *-0.edn) echo "$file false";; esac; done; echo > {said}; exec sleep 600'
    )
    code, out = late(capsys, kept(tmp_path, _KEYED), fake.command(script), said)
    assert code == 255 and "INVALID, but ours is VALID" in out


def test_each_key_is_a_history_of_its_own(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    command = fake.command(_SAYS.format("true"))
    assert run(capsys, kept(tmp_path, _KEYED), "--also-command", f"knossos={command}")[0] == 0
    assert fake.words[:2] == ["--model", "cas-register"] and len(fake.words) == 4
    for file, value in zip(fake.files, (1, 2), strict=True):
        found = read_foreign(file)
        assert not found.keyed and [op.value for op in found.history.operations if op.f == "write"] == [value]


def test_a_lock_goes_to_knossos_as_it_is(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    text = "".join(
        f"{{:type {kind} :process {process} :f {f} :value nil}}\n"
        for process, f in ((0, ":acquire"), (1, ":acquire"))
        for kind in (":invoke", ":ok")
    )
    command = f"knossos={fake.command(_SAYS.format('false'))}"
    assert run(capsys, kept(tmp_path, text), "--model", "mutex", "--also-command", command)[0] == 1
    assert fake.words[:2] == ["--model", "mutex"]
    events = list(read_foreign(fake.files[0], model="mutex").history.events)
    assert events == list(read_foreign(tmp_path / "given.edn", model="mutex").history.events)


def test_nil_has_a_name_where_it_was_seen(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    """Knossos takes a read of nil as one of unknown result; `none` was read after 1 was written."""
    command = fake.command(_SAYS.format("false"))
    text = edn("0(w:a 0) 1(r 1)nil 2(c:a,nil 2) 3(r 3? 4(r")
    assert run(capsys, kept(tmp_path, text), "--also-command", f"knossos={command}")[0] == 1
    operations = read_foreign(fake.files[0]).history.operations
    said = [(op.f, op.type.value, op.value if op.f != "read" else op.result) for op in operations]
    nothing = ":fencepost/nothing"
    assert said == [
        ("write", "ok", nothing),
        ("write", "ok", ":a"),
        ("read", "ok", nothing),
        ("cas", "ok", [":a", nothing]),
        ("read", "info", None),
        ("read", "info", None),
    ]
    assert operations[0].complete_index is not None and operations[0].complete_index < operations[1].invoke_index
    assert operations[0].process not in {op.process for op in operations[1:]}


def test_transactions_go_to_elle(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    text = "".join(
        f"{{:type {kind} :process 0 :f :txn :value {value}}}\n"
        for kind, value in (
            (":invoke", "[[:append :x 1] [:r :x nil]]"),
            (":ok", "[[:append :x 1] [:r :x [1]]]"),
            (":invoke", "[[:r :x nil]]"),
            (":ok", "[[:r :x [1]]]"),
        )
    )
    path = kept(tmp_path, text)
    command = shlex.quote(fake.command(_SAYS.format("true")))
    code, out, err = run(capsys, path, "--also", "elle", "--also", "porcupine", "--also-command", f"elle={command}")
    assert code == 0 and "second opinion of elle on strict-serializable: valid, as ours" in out
    assert fake.words[:4] == ["--model", "list-append", "--consistency-models", "strict-serializable"]
    assert run(capsys, path, "--consistency", "serializable", "--also-command", f"elle={command}")[0] == 0
    assert fake.words[2:4] == ["--consistency-models", "serializable"]
    assert "no model list-append for causal" in run(capsys, path, "--consistency", "causal", "--also", "elle")[1]
    assert "porcupine on strict-serializable: not asked: it has no model list-append" in out
    assert "hint: porcupine can judge register, cas-register, " in err
    assert read_foreign(fake.files[0]).history.operations == read_foreign(Path(path)).history.operations


def test_transactions_of_a_table_go_to_elle(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    """A process that went on after an unknown outcome has another number there."""
    words = ("ax1 rx1 @0-5 #1", "ax2 ry? @6-7 #1 !info", "rx1,2 ry @8-9 #1", "ax3 @8-9 #2 !fail", "ry @9-10 #2")
    path = tmp_path / "table.parquet"
    pq.write_table(table(told(*words), lists=True), path)
    command = f"elle={shlex.quote(fake.command(_SAYS.format('true')))}"
    code, out, _ = run(capsys, str(path), "--also-command", command)
    assert code == 0 and "second opinion of elle on strict-serializable: valid, as ours" in out
    assert fake.words[:4] == ["--model", "list-append", "--consistency-models", "strict-serializable"]
    (file,) = fake.files
    assert [(op.process, op.type.value, op.invoked_ns, op.result) for op in read_foreign(file).history.operations] == [
        (1, "ok", 0, [[":append", 0, 1], [":r", 0, [1]]]),
        (1, "info", 6, None),
        (3, "ok", 8, [[":r", 0, [1, 2]], [":r", 1, []]]),
        (2, "fail", 8, [[":append", 0, 3]]),
        (2, "ok", 9, [[":r", 1, []]]),
    ]
    command = f"elle={shlex.quote(fake.command(_SAYS.format('false')))}"
    code, out, err = run(capsys, str(path), "--json", "--also-command", command, "--consistency", "serializable")
    document = json.loads(out)
    assert (code, document["exit_code"], document["validity"]) == (255, 255, "valid")
    assert document["second_opinions"][0]["standing"] == "disagrees"
    assert "INVALID, but ours is VALID" in err and fake.words[2:4] == ["--consistency-models", "serializable"]


def test_registers_of_a_table_go_to_elle(tmp_path: Path, capsys: Any, fake: Fake) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(table(told("rx_ wx1 @0-5", "rx1 @6-8"), lists=False), path)
    command = f"elle={shlex.quote(fake.command(_SAYS.format('true')))}"
    assert run(capsys, str(path), "--also-command", command)[0] == 0
    assert fake.words[:2] == ["--model", "rw-register"]
    results = [op.result for op in read_foreign(fake.files[0]).history.operations]
    assert results == [[[":r", 0, None], [":w", 0, 1]], [[":r", 0, 1]]]


def test_a_tool_that_is_missing_is_skipped(
    tmp_path: Path, capsys: Any, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kept(tmp_path, _VALID)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    code, out, err = run(capsys, path, "--also", "knossos")
    assert code == 0 and "knossos on linearizable: not asked: no knossos or elle-cli on the PATH" in out
    assert "hint: install elle-cli, or name its command: --also-command knossos=" in err
    code, out, _ = run(capsys, path, "--also-command", "knossos=no-such-program -x")
    assert code == 0 and "not asked: no-such-program does not start: No such file" in out
    monkeypatch.setenv("FENCEPOST_KNOSSOS", fake.command(_SAYS.format("true")))
    monkeypatch.setenv("PATH", os.defpath)
    assert "valid, as ours" in run(capsys, path, "--also", "knossos")[1]
    monkeypatch.delenv("FENCEPOST_KNOSSOS")
    fake.command(_SAYS.format("true"), name="elle-cli")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    assert "valid, as ours" in run(capsys, path, "--also", "knossos")[1]


def test_without_go_porcupine_is_skipped(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tool, "path_of", lambda name: None)
    code, out, err = run(capsys, kept(tmp_path, _STALE), "--also", "porcupine")
    assert code == 1 and "not asked: building the program that asks Porcupine: there is no `go` on the PATH" in out
    assert "hint: install Go" in err


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ('echo \'{"result": "Illegal"}\'', 255, "INVALID, but ours is VALID"),
        ('echo \'{"result": "Ok"}\'', 0, "valid, as ours"),
        ('echo \'{"result": "Unknown"}\'', 0, "no answer within 7 s"),
        ("exit 4", 0, "no answer within 7 s"),
        ("exit 3", 0, "no answer within 4 GiB of memory"),
        ('echo \'{"result": "Perhaps"}\'', 0, "no answer: it ended with 0"),
        ("echo what; echo 'no model' >&2; exit 1", 0, "no answer: it ended with 1: no model"),
        ("echo '[]'", 0, "no answer: it ended with 0"),
    ],
)
def test_what_porcupines_program_says(
    tmp_path: Path, capsys: Any, fake: Fake, monkeypatch: pytest.MonkeyPatch, script: str, code: int, said: str
) -> None:
    program = Path(fake.command(script))
    monkeypatch.setattr(porcupine, "built", lambda: program)
    found, out, _ = run(capsys, kept(tmp_path, _VALID), "--also", "porcupine", "--also-time-limit", "7s")
    assert (found, said in out) == (code, True), out
    assert fake.words[0] == "check" and fake.words[2] == "7"


def test_a_build_that_fails_says_why(tmp_path: Path, capsys: Any, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fake.command("echo 'dial tcp: no such host' >&2; exit 1", name="go")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    code, out, err = run(capsys, kept(tmp_path, _VALID), "--also", "porcupine")
    assert code == 0 and "not asked: building the program that asks Porcupine: `go` ended with 1" in out
    assert "GOPROXY" in err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--also", "jepsen"], "unknown tool 'jepsen'"),
        (["--also-command", "porcupine=x"], "--also-command porcupine: it has no command"),
        (["--also-command", "knossos"], "expected NAME=COMMAND"),
        (["--also", "porcupine", "--also-time-limit", "60"], "'60' is not a duration"),
        (["--also", "porcupine", "--also-time-limit", "0s"], "leaves no time"),
    ],
)
def test_flags_that_mean_nothing(tmp_path: Path, capsys: Any, flags: list[str], said: str) -> None:
    code, out, err = run(capsys, kept(tmp_path, _VALID), *flags)
    assert (code, out) == (254, "") and said in err


def test_a_command_that_cannot_be_split(tmp_path: Path, capsys: Any) -> None:
    code, out, _ = run(capsys, kept(tmp_path, _VALID), "--also-command", 'knossos=java "-jar')
    assert code == 0 and "No closing quotation" in out


def test_a_cache_that_cannot_be_made_is_no_contradiction(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise MachineError("no cache", hint="make room")

    monkeypatch.setattr(porcupine, "built", refuse)
    code, out, err = run(capsys, kept(tmp_path, _VALID), "--also", "porcupine")
    assert code == 0 and "not asked: no cache" in out and "hint: make room" in err


@pytest.mark.parametrize(("theirs", "code"), [("Ok", 0), ("Illegal", 255)])
def test_a_run(
    tmp_path: Path, capsys: Any, fake: Fake, monkeypatch: pytest.MonkeyPatch, theirs: str, code: int
) -> None:
    """The run's verdict about linearizability is the one that is asked about; its document has the opinions."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "plan.toml").write_text('system = "etcd"\nworkload = "register"\nseed = 1\n')
    events = read_foreign(Path(kept(tmp_path, _VALID))).history.events
    (folder / "history.jsonl").write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    verdicts = tuple(
        Verdict(checker=checker, guarantee=guarantee, validity=Validity.VALID)
        for checker, guarantee in (("coverage", "coverage"), ("linearizable", "linearizable"))
    )
    facts = Facts(system="etcd", workload="register", nodes=(), guarantees=())
    judgement = Judgement(validity=Validity.VALID, headline="well", verdicts=verdicts, facts=facts)
    result = Result(folder=folder, judgement=judgement, warnings=(), document={"exit_code": 0, "validity": "valid"})
    monkeypatch.setattr("fencepost.harness.cli.check.run.judge_stored", lambda found, progress: result)
    program = Path(fake.command(f'echo \'{{"result": "{theirs}"}}\''))
    monkeypatch.setattr(porcupine, "built", lambda: program)
    found, out, _ = run(capsys, str(folder), "--also", "porcupine", "--json")
    document = json.loads(out)
    assert (found, document["exit_code"], document["validity"]) == (code, code, "valid")
    assert document["second_opinions"][0]["guarantee"] == "linearizable"
    found, out, _ = run(capsys, str(folder), "--also", "porcupine", "--also", "elle")
    assert found == code and "VALID: well" in out and "elle on linearizable: not asked: it has no model" in out
    assert "second_opinions" not in run(capsys, str(folder), "--json")[1]


def test_every_validity_has_a_place() -> None:
    assert set(porcupine._SAYS.values()) == set(Validity)
