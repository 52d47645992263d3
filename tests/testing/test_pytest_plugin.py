"""Plans as pytest tests: what passes, fails, is skipped or is an error, and with which words.

The plugin itself is loaded by its entry point, as in a user's environment. Runs are played by a stand-in but in the
last test, which starts real nodes.
"""

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


def test_each_plan_file_is_a_test(pytester: pytest.Pytester) -> None:
    for name, seed in (("kept", 1), ("violated", 2), ("unknown", 3), ("failed", 4)):
        _plan(pytester, name, seed)
    result = _played(pytester, "-rA")
    result.assert_outcomes(passed=1, failed=2, errors=1)
    result.stdout.fnmatch_lines(["PASSED kept.plan.toml::kept"])


def test_a_violation_fails_with_its_witness(pytester: pytest.Pytester) -> None:
    _plan(pytester, "nightly", 2)
    _played(pytester).stdout.fnmatch_lines(
        [
            "invalid: the headline of example",
            "witness (stale-read):",
            "  - read 1 after 2 was written",
            "report: *results/folder/report.html",
            "seed 2; repeat with: fencepost run *results/folder/plan.toml",
        ]
    )


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


def test_what_the_harness_could_not_do_has_its_hint_and_no_traceback(pytester: pytest.Pytester) -> None:
    _plan(pytester, "nightly", 4)
    result = _played(pytester)
    result.stdout.fnmatch_lines(["the cluster did not start", "hint: look into its log"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_marked_test_is_held_to_what_it_expects(pytester: pytest.Pytester) -> None:
    tests = [_marked(i, f", seed={seed}", more) for i, (seed, more, _) in enumerate(MARKED)]
    pytester.makepyfile("import pytest\n" + "".join(tests))
    result = _played(pytester, "-rA")
    lines = result.stdout.str().splitlines()
    ends = {
        word.lower(): {
            int(line.rpartition("test_")[2].partition(" ")[0]) for line in lines if line.startswith(f"{word} ")
        }
        for word in ("PASSED", "FAILED", "ERROR")
    }
    expected = {end: {i for i, (*_, of) in enumerate(MARKED) if of == end} for end in ("passed", "failed", "error")}
    assert ends == expected


ISSUE: Final = """
    [[issue]]
    fingerprint = "example:linearizable:stale-read:read+change"
    link = "https://issues.example/1"
    owner = "us"
    expires = {expires}
"""


@pytest.mark.parametrize(
    ("seed", "more", "expires", "outcome"),
    [
        (2, "", "2100-01-01", "xfailed"),
        (2, "", "2020-01-01", "failed"),
        (1, "", "2100-01-01", "passed"),
        (2, ", known='https://issues.example/1'", "2100-01-01", "xfailed"),
        # A bug that is gone must leave the list.
        (1, ", known='https://issues.example/1'", "2100-01-01", "failed"),
        (2, ", known='https://issues.example/1'", "2020-01-01", "failed"),
        (2, ", known='https://issues.example/2'", "2100-01-01", "failed"),
    ],
)
def test_a_known_issue_is_an_expected_failure_until_it_expires(
    pytester: pytest.Pytester, seed: int, more: str, expires: str, outcome: str
) -> None:
    (pytester.path / "known-issues.toml").write_text(textwrap.dedent(ISSUE.format(expires=expires)))
    pytester.makepyfile("import pytest\n" + _marked(0, f", seed={seed}", more))
    _played(pytester, "--fencepost-known", "known-issues.toml").assert_outcomes(**{outcome: 1})


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


def test_junit_has_seed_command_and_report(pytester: pytest.Pytester) -> None:
    _plan(pytester, "nightly", 1)
    _played(pytester, "--junitxml=out.xml")
    text = (pytester.path / "out.xml").read_text()
    assert 'name="fencepost_seed" value="1"' in text
    assert 'name="fencepost_command" value="fencepost run' in text
    assert 'name="fencepost_report"' in text


def test_plans_are_chosen_by_name(pytester: pytest.Pytester) -> None:
    for name, seed in (("quick", 1), ("slow", 2)):
        _plan(pytester, name, seed)
    _played(pytester, "-k", "quick").assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("more", ["", ", expect='invalid', anomaly='lost-update'"])
@pytest.mark.parametrize("ci", ["", "true"])
def test_what_went_wrong_is_printed_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str, seed: int, more: str
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    pytester.makepyfile("import pytest\n" + _marked(0, f", seed={seed}", more))
    # Under CI pytest repeats each message whole in its own summary at the end.
    failures, _, _ = _played(pytester).stdout.str().partition("short test summary info")
    assert failures.count("report: ") == 1 and "During handling" not in failures


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "example"\nworkload = "register"\nnemesi = "none"\n', "nemesi"),
        ('system = "example"\nworkload = 7\n', "workload"),
        ("system = \n", "nightly.plan.toml"),
    ],
)
def test_a_plan_that_is_wrong_is_an_error_with_properties(pytester: pytest.Pytester, text: str, message: str) -> None:
    (pytester.path / "nightly.plan.toml").write_text(text)
    result = _played(pytester, "--junitxml=out.xml")
    result.assert_outcomes(errors=1)
    assert message in result.stdout.str() and "Traceback" not in result.stdout.str()
    xml = (pytester.path / "out.xml").read_text()
    assert "<error " in xml and "<failure" not in xml
    assert 'name="fencepost_plan"' in xml and 'name="fencepost_command" value="fencepost run' in xml


def test_a_run_that_the_harness_could_not_make_has_its_seed_and_command(pytester: pytest.Pytester) -> None:
    _plan(pytester, "nightly", 4)
    _played(pytester, "--junitxml=out.xml").assert_outcomes(errors=1)
    xml = (pytester.path / "out.xml").read_text()
    assert 'name="fencepost_seed" value="4"' in xml and 'name="fencepost_command" value="fencepost run' in xml


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
