"""Several runs by one command: one JUnit file whose cases are told apart, and no run missing from it."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast
from xml.etree import ElementTree as ET

import pytest

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli import main
from fencepost.harness.cli.output.outcome import CommandSession, MadeRun, junit_of, say_times
from fencepost.harness.results import run_folder as store
from fencepost.harness.run.conclude import Result
from fencepost.harness.verdict import Validity

SUITE = """<testsuites><testsuite name="fencepost etcd" tests="2" failures="{failures}" errors="0" skipped="0">
<properties/><testcase classname="fencepost.etcd.register" name="linearizable">{failure}</testcase>
<testcase classname="fencepost.etcd.register" name="coverage"/></testsuite></testsuites>"""


def made(folder: Path, seed: int, failures: int = 0) -> MadeRun:
    run = folder / f"2026112{seed}T000000.000Z"
    run.mkdir()
    (run / store.JUNIT).write_text(SUITE.format(failures=failures, failure="<failure/>" * failures))
    return MadeRun(seed=seed, folder=run)


def test_every_case_of_every_run_has_a_name_of_its_own(tmp_path: Path) -> None:
    root = ET.fromstring(junit_of([made(tmp_path, 1), made(tmp_path, 2, failures=1)]))
    assert [suite.get("name") for suite in root] == ["fencepost etcd seed 1", "fencepost etcd seed 2"]
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names) == 4
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "1", "0")


def test_a_run_that_failed_or_left_no_file_is_an_error(tmp_path: Path) -> None:
    bare = made(tmp_path, 2)
    assert bare.folder is not None
    (bare.folder / store.JUNIT).write_text("half <of")
    root = ET.fromstring(junit_of([made(tmp_path, 1), bare, MadeRun(seed=3, failure="n1 ended before it was ready")]))
    assert root.get("errors") == "2"
    messages = [error.get("message") for error in root.iter("error")]
    assert messages == ["the run left no readable junit.xml", "n1 ended before it was ready"]


def test_the_summary_counts_verdicts_and_names_the_seeds_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [made(tmp_path, seed) for seed in (1, 2, 3)]
    validities = (Validity.VALID, Validity.UNKNOWN, Validity.VALID)
    results = [cast(Result, SimpleNamespace(judgement=SimpleNamespace(validity=v))) for v in validities]
    say_times(results, [*runs, MadeRun(seed=4, failure="no memory")])
    out, err = capsys.readouterr()
    assert out == "4 runs: 1 of 4 failed (seeds 4), 1 of 4 unknown (seeds 2), 2 of 4 valid\n"
    path = tmp_path / "junit-20261121T000000.000Z.xml"
    assert err.endswith(f"{path.name}\n")
    assert len(ET.parse(path).getroot()) == 4


@pytest.mark.parametrize(("stopped_in", "code"), [(None, ExitCode.VALID), (2, ExitCode.VALID), (1, ExitCode.UNKNOWN)])
def test_runs_that_were_never_begun_are_no_pass(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stopped_in: int | None,
    code: ExitCode,
) -> None:
    """Ctrl-C while run `stopped_in` of two is judged: that run is whole, and a later one is missing."""
    number = 0

    def execute(session: CommandSession, *_: object) -> Result:
        nonlocal number
        number += 1
        folder = made(tmp_path, number).folder
        if number == stopped_in:
            session.stop.request(by_hand=True)
        judged = SimpleNamespace(validity=Validity.VALID, exit_code=ExitCode.VALID)
        return cast(Result, SimpleNamespace(folder=folder, judgement=judged, warnings=(), document={}))

    monkeypatch.setattr(CommandSession, "execute", execute)
    plan = ("--system", "example", "--workload", "register", "--nemesis", "none", "--seed", "1")
    assert main(["run", *plan, "--times", "2", "--json", "--results", str(tmp_path)]) == code
    root = ET.parse(tmp_path / "junit-20261121T000000.000Z.xml").getroot()
    assert len(root) == 2
    assert root.get("errors") == ("1" if code is ExitCode.UNKNOWN else "0")
    said = capsys.readouterr().out
    assert ("2 runs: 1 of 2 not begun (seeds 2), 1 of 2 valid" in said) is (code is ExitCode.UNKNOWN)
