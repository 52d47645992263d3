"""`fencepost check A B DIR`: every file has its line, one exit code says the gravest, and imports are paid once."""

import json
import os
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fencepost.harness.cli import main
from fencepost.harness.cli.check.foreign import judge

_WRITE = "{:process 0, :type :invoke, :f :write, :value 1}\n{:process 0, :type :ok, :f :write, :value 1}\n"
_READ = "{:process 1, :type :invoke, :f :read, :value nil}\n{:process 1, :type :ok, :f :read, :value %d}\n"
_VALID, _INVALID = _WRITE + _READ % 1, _WRITE + _READ % 2
_UNKNOWN = "{:process 0, :type :invoke, :f :write, :value 1}\n"
_CODES = {"valid": 0, "invalid": 1, "unknown": 2, "refused": 254}
_TEXTS = {"valid": _VALID, "invalid": _INVALID, "unknown": _UNKNOWN, "refused": "{:process 0"}


def run(capsys: Any, *arguments: object) -> tuple[int, list[str], str]:
    code = main(["check", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err


def kept(folder: Path, *names: str) -> list[Path]:
    """Files of these verdicts, by name."""
    folder.mkdir(exist_ok=True)
    files = [folder / f"{number}-{name}.edn" for number, name in enumerate(names)]
    for file, name in zip(files, names, strict=True):
        file.write_text(_TEXTS[name])
    return files


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("valid", "valid", "valid"), 0),
        (("valid", "unknown"), 2),
        (("unknown", "refused", "valid"), 254),
        (("refused", "valid", "invalid", "unknown"), 1),
    ],
)
def test_every_file_has_its_line_and_the_gravest_decides(
    tmp_path: Path, capsys: Any, names: tuple[str, ...], code: int
) -> None:
    files = kept(tmp_path, *names)
    ended, lines, err = run(capsys, *files)
    assert ended == code, lines
    for file, name, line in zip(files, names, lines[1:], strict=False):
        assert line.startswith(str(file)) and name in line.removeprefix(str(file)).split()
    assert err.count("error: ") == names.count("refused")
    assert any(line.startswith(f"{len(names)} histories: ") for line in lines)


def test_a_folder_stands_for_its_histories(tmp_path: Path, capsys: Any) -> None:
    kept(tmp_path / "deep", "invalid")
    (tmp_path / "jepsen").mkdir()
    (tmp_path / "jepsen" / "history.edn").write_text(_VALID)
    (tmp_path / "jepsen" / "results.edn").write_text("{:valid? true}")
    (tmp_path / "notes.txt").write_text("nothing to judge")
    code, lines, _ = run(capsys, tmp_path)
    assert code == 1
    assert [line.split()[0] for line in lines[1:3]] == [
        str(tmp_path / "deep" / "0-invalid.edn"),
        str(tmp_path / "jepsen"),
    ]
    assert "edn, model register" in lines[2] and "2 histories: " in lines[3]
    assert f"Next: fencepost check {tmp_path}" in lines[4]


def test_what_cannot_be_judged_costs_no_other_its_verdict(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty").mkdir()
    code, lines, err = run(capsys, tmp_path / "absent.edn", tmp_path / "empty", *kept(tmp_path, "valid", "valid"))
    assert code == 254 and lines[-1] == "4 histories: 2 refused, 2 valid"
    assert "absent.edn: No such file" in err and "there is no history in this folder" in err


def test_a_process_that_dies_costs_one_history(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()

    def deadly(path: Path, reading: Any) -> Any:
        if "1-" in path.name and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return judge(path, reading)

    monkeypatch.setattr("fencepost.harness.cli.check.many.judge", deadly)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    files = kept(tmp_path, "valid", "invalid", "invalid", "invalid", "invalid")
    code, lines, err = run(capsys, *files)
    assert (code, lines[-2]) == (1, "5 histories: 3 invalid, 1 valid, 1 failed")
    assert f"error: {files[1]}: the process that judged it ended with status -9" in err


def test_json_and_junit_have_every_file(tmp_path: Path, capsys: Any) -> None:
    names = ("valid", "invalid", "unknown", "refused")
    junit = tmp_path / "junit.xml"
    code, lines, _ = run(capsys, *kept(tmp_path, *names), "--json", "--junit", junit)
    document = json.loads("\n".join(lines))
    assert code == document["exit_code"] == 1
    assert [file["exit_code"] for file in document["files"]] == [_CODES[name] for name in names]
    suite = ET.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "2")
    assert suite[1][0].get("type") == "phantom-read" and "Nobody ever wrote 2" in (suite[1][0].text or "")
    # One file has the text that it always has.
    (alone,) = kept(tmp_path / "alone", "valid")
    plain = run(capsys, alone)
    assert run(capsys, alone, "--junit", junit) == plain
    assert ET.parse(junit).getroot().get("tests") == "1"


@pytest.mark.parametrize("flags", [("--report", "out.html"), ("--also", "porcupine"), ("--spark",), ("-",)])
def test_what_is_for_one_history_is_refused(tmp_path: Path, capsys: Any, flags: tuple[str, ...]) -> None:
    code, lines, err = run(capsys, *kept(tmp_path, "valid", "valid"), *flags)
    assert (code, lines) == (254, []) and "hint: " in err


def test_junit_needs_a_folder(tmp_path: Path, capsys: Any) -> None:
    code, _, err = run(capsys, *kept(tmp_path, "valid", "valid"), "--junit", tmp_path / "no" / "junit.xml")
    assert code == 254 and "cannot be written" in err


def test_imports_are_paid_once(tmp_path: Path, capsys: Any) -> None:
    files = kept(tmp_path, *["valid"] * 100)
    assert run(capsys, *files)[0] == 0
    before, children = _spent_s(), _children()
    assert run(capsys, *files)[0] == 0
    # A call alone takes half a second.
    assert _spent_s() - before < 10
    # A test before this one may have left a machine of Java.
    assert _children() <= children


def _children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def _spent_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
