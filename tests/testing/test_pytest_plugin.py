"""Plans as pytest tests: what passes, fails, is skipped or is an error, and with which words.

The plugin itself is loaded by its entry point, as in a user's environment. Runs are played by a stand-in but in the
last test, which starts real nodes.
"""

import re
import textwrap
from pathlib import Path
from typing import Final

import pytest

from tests.lab_scenario import require_lab

pytest_plugins = ["pytester"]

#: Stands in for runs: a plan's seed decides how its run ends (1 valid, 2 invalid, 3 unknown, 4 the harness fails).
STAND_IN: Final = """
    from pathlib import Path
    from fencepost.harness.base.errors import HarnessError
    from fencepost.harness.testing import one_run
    from fencepost.harness.verdict import Validity, Witness

    def run_plan(plan, results, expected=""):
        if plan.seed == 4:
            raise HarnessError("the cluster did not start", hint="look into its log")
        validity = {2: Validity.INVALID, 3: Validity.UNKNOWN}.get(plan.seed, Validity.VALID)
        broken = validity is Validity.INVALID
        witness = Witness(anomaly="stale-read", events=(1,), steps=("read 1 after 2 was written",), from_ns=0, to_ns=1)
        return one_run.FinishedRun(
            validity=validity,
            headline=f"the headline of {plan.system}",
            folder=Path(results) / "folder",
            seed=plan.seed,
            version="1.0",
            fingerprints=("example:linearizable:stale-read:read+change",) * broken,
            anomalies=("stale-read",) * broken,
            witnesses=(witness,) * broken,
        )

    one_run.run_plan = run_plan
"""

#: What a marked test names beside its seed, and how it then ends.
MARKED: Final = (
    (1, "", "passed"),
    (2, "", "failed"),
    (3, "", "failed"),
    # The harness' own failure is an error of the set-up.
    (4, "", "error"),
    (2, ", expect='invalid'", "passed"),
    (2, ", expect='invalid', anomaly='stale-read'", "passed"),
    (2, ", expect='invalid', anomaly='lost-update'", "failed"),
    (1, ", expect='invalid'", "failed"),
    (3, ", expect='invalid'", "failed"),
    (1, ", expect='green'", "error"),
    (1, ", time_limits='3s'", "error"),
    (1, ", time_limit=3", "error"),
)


def _marked(number: int, seed: str, more: str) -> str:
    return (
        f"@pytest.mark.fencepost(system='example', workload='register', nemesis='none'{seed}{more})\n"
        f"def test_{number}(fencepost_run):\n"
        f"    assert fencepost_run.headline\n"
    )


def _plan(pytester: pytest.Pytester, name: str, seed: int) -> None:
    text = f'system = "example"\nworkload = "register"\nnemesis = "none"\nseed = {seed}\n'
    (pytester.path / f"{name}.plan.toml").write_text(text)


def _played(pytester: pytest.Pytester, *flags: str) -> pytest.RunResult:
    pytester.makeconftest(STAND_IN)
    return pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", *flags)


def test_each_plan_file_is_a_test_that_says_how_it_ended(pytester: pytest.Pytester) -> None:
    for name, seed in (("kept", 1), ("violated", 2), ("unknown", 3), ("failed", 4)):
        _plan(pytester, name, seed)
    result = _played(pytester, "-rA", "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=2, errors=1)
    result.stdout.fnmatch_lines(["PASSED kept.plan.toml::kept"])
    result.stdout.fnmatch_lines(
        [
            "invalid: the headline of example",
            "witness (stale-read):",
            "  - read 1 after 2 was written",
            "report: *results/folder/report.html",
            "seed 2; repeat with: fencepost run *results/folder/plan.toml",
        ]
    )
    # What the harness could not do has its hint and no traceback.
    result.stdout.fnmatch_lines(["the cluster did not start", "hint: look into its log"])
    result.stdout.no_fnmatch_line("*Traceback*")
    # JUnit has seed and command of each, and the report of those that ran.
    xml = (pytester.path / "out.xml").read_text()
    for seed in (1, 2, 3, 4):
        case = next(part for part in xml.split("<testcase ") if f'name="fencepost_seed" value="{seed}"' in part)
        assert 'name="fencepost_command" value="fencepost run' in case
        assert ('name="fencepost_report"' in case) == (seed < 4)


def test_an_unknown_run_is_skipped_where_that_is_asked_for(pytester: pytest.Pytester) -> None:
    _plan(pytester, "nightly", 3)
    _played(pytester, "--fencepost-unknown", "skip").assert_outcomes(skipped=1)
    pytester.makeini("[pytest]\nfencepost_unknown = skip\n")
    _played(pytester).assert_outcomes(skipped=1)


def test_a_setting_that_is_no_choice_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nfencepost_unknown = green\n")
    result = _played(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*fencepost_unknown: choose from fail, skip*"])


def test_a_marked_test_is_held_to_what_it_expects(pytester: pytest.Pytester) -> None:
    tests = [_marked(i, f", seed={seed}", more) for i, (seed, more, _) in enumerate(MARKED)]
    pytester.makepyfile("import pytest\n" + "".join(tests))
    ends = _ends(_played(pytester, "-rA"))
    assert ends == {i: end for i, (*_, end) in enumerate(MARKED)}


def _ends(result: pytest.RunResult) -> dict[int, str]:
    """How each marked test ended, by its number."""
    lines = re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) .*?test_(\d+)\b", result.stdout.str(), re.MULTILINE)
    return {int(number): word.lower() for word, number in lines}


ISSUE: Final = """
    [[issue]]
    fingerprint = "example:linearizable:stale-read:read+change"
    link = "https://issues.example/1"
    owner = "us"
    expires = {expires}
"""


@pytest.mark.parametrize(
    ("expires", "tests"),
    [
        (
            "2100-01-01",
            [
                (2, "", "xfail"),
                (1, "", "passed"),
                (2, ", known='https://issues.example/1'", "xfail"),
                # A bug that is gone must leave the list.
                (1, ", known='https://issues.example/1'", "failed"),
                (2, ", known='https://issues.example/2'", "failed"),
            ],
        ),
        ("2020-01-01", [(2, "", "failed"), (2, ", known='https://issues.example/1'", "failed")]),
    ],
)
def test_a_known_issue_is_an_expected_failure_until_it_expires(
    pytester: pytest.Pytester, expires: str, tests: list[tuple[int, str, str]]
) -> None:
    (pytester.path / "known-issues.toml").write_text(textwrap.dedent(ISSUE.format(expires=expires)))
    marked = [_marked(i, f", seed={seed}", more) for i, (seed, more, _) in enumerate(tests)]
    pytester.makepyfile("import pytest\n" + "".join(marked))
    ends = _ends(_played(pytester, "-rA", "--fencepost-known", "known-issues.toml"))
    assert ends == {i: end for i, (*_, end) in enumerate(tests)}


def test_a_run_without_a_plan_is_told_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(fencepost_run): pass")
    result = _played(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.fencepost(system=*"])


def test_workers_and_their_parent_draw_the_same_seeds(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n" + _marked(0, "", ""))
    alone = _played(pytester, "--fencepost-seed", "7", "-rA", "--junitxml=alone.xml")
    beside = _played(pytester, "--fencepost-seed", "7", "-n", "1", "--junitxml=beside.xml")
    alone.assert_outcomes(passed=1)
    beside.assert_outcomes(passed=1)
    seeds = [
        line
        for name in ("alone.xml", "beside.xml")
        for line in (pytester.path / name).read_text().split("<property ")
        if 'name="fencepost_seed"' in line
    ]
    assert len(seeds) == 2
    assert seeds[0] == seeds[1]


def test_plans_are_chosen_by_name(pytester: pytest.Pytester) -> None:
    for name, seed in (("quick", 1), ("slow", 2)):
        _plan(pytester, name, seed)
    _played(pytester, "-k", "quick").assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize("ci", ["", "true"])
def test_what_went_wrong_is_printed_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    wrong = [(seed, more) for seed in (2, 3) for more in ("", ", expect='invalid', anomaly='lost-update'")]
    marked = [_marked(i, f", seed={seed}", more) for i, (seed, more) in enumerate(wrong)]
    pytester.makepyfile("import pytest\n" + "".join(marked))
    # Under CI pytest repeats each message whole in its own summary at the end.
    failures, _, _ = _played(pytester).stdout.str().partition("short test summary info")
    assert "During handling" not in failures
    _, *each = re.split(r"_{3,} test_\d _{3,}|_{3,} ERROR at setup of test_\d _{3,}", failures)
    assert [part.count("report: ") for part in each] == [1] * len(wrong)


def test_a_plan_that_is_wrong_is_an_error_with_properties(pytester: pytest.Pytester) -> None:
    wrong = {
        "misspelt": ('system = "example"\nworkload = "register"\nnemesi = "none"\n', "nemesi"),
        "number": ('system = "example"\nworkload = 7\n', "workload"),
        "torn": ("system = \n", "torn.plan.toml"),
    }
    for name, (text, _) in wrong.items():
        (pytester.path / f"{name}.plan.toml").write_text(text)
    result = _played(pytester, "--junitxml=out.xml")
    result.assert_outcomes(errors=3)
    assert "Traceback" not in result.stdout.str()
    _, *cases = (pytester.path / "out.xml").read_text().split("<testcase ")
    assert len(cases) == 3
    for case, (_, message) in zip(cases, wrong.values(), strict=True):
        assert "<error " in case and "<failure" not in case and message in case
        assert 'name="fencepost_plan"' in case and 'name="fencepost_command" value="fencepost run' in case


@pytest.mark.cluster
def test_a_real_run_with_a_planted_defect_is_found(pytester: pytest.Pytester, tmp_path: Path) -> None:
    require_lab()
    pytester.makepyfile(
        """
        import json
        import pytest

        @pytest.mark.fencepost(
            system="example", workload="set", nemesis="kill:all", time_limit="8s", quiet="1s",
            system_options={"defect": "forgets"}, expect="invalid", anomaly="lost-write",
        )
        def test_it(fencepost_run):
            assert (fencepost_run.folder / "history.parquet").is_file()
            assert json.loads((fencepost_run.folder / "run.json").read_text())["expected"] == "invalid"
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=1)
