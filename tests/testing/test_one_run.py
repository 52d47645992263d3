"""`fencepost.run`: what a plan's words come to; the run itself is that of the command."""

from pathlib import Path

import pytest

import fencepost
from fencepost.harness.plan import Plan
from fencepost.harness.testing import one_run


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Plan, Path]]:
    made: list[tuple[Plan, Path]] = []
    monkeypatch.setattr(one_run, "run_plan", lambda plan, results: made.append((plan, results)))
    return made


def test_words_are_a_plan(carried_out: list[tuple[Plan, Path]]) -> None:
    fencepost.run(system="etcd", workload="register", nemesis="kill", seed=3, results="kept")
    ((plan, results),) = carried_out
    assert (plan.system, plan.workload, plan.nemesis, plan.seed, results) == (
        "etcd",
        "register",
        "kill",
        3,
        Path("kept"),
    )


def test_a_plan_and_its_file_are_taken_as_they_are(carried_out: list[tuple[Plan, Path]], tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    file.write_text('system = "etcd"\nworkload = "set"\nnemesis = "none"\nseed = 5\n')
    fencepost.run(file)
    fencepost.run(carried_out[0][0])
    assert [(plan.workload, plan.seed) for plan, _ in carried_out] == [("set", 5), ("set", 5)]


@pytest.mark.parametrize(
    ("plan", "words", "message"),
    [
        ("a.toml", {"system": "etcd"}, "a plan and keys of one were given"),
        (None, {"systen": "etcd"}, "a plan has no 'systen'"),
        (None, {}, "the plan: Object missing required field `system`"),
    ],
)
def test_what_is_no_plan_is_refused(plan: str | None, words: dict[str, str], message: str) -> None:
    with pytest.raises(fencepost.UsageError, match=message):
        fencepost.run(plan, **words)
