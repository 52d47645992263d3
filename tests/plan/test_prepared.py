"""What the child that holds a cluster is handed: the checked plan as one document, so that it reads and checks none."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import Prepared, check_plan
from fencepost.harness.run.execute import look_ahead
from fencepost.harness.runtime.artifacts import Artifacts
from tests.faults.test_given_schedule import row, written

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = Artifacts(version="0.1.0", paths={"python": "/a/python"}, sha256={"python": "ab"})
OTHERS = {"next": Artifacts(version="0.2.0", paths={}, sha256={})}


def plan(nemesis: str) -> Plan:
    return Plan(system="example", workload="register", seed=7, nemesis=nemesis)


@pytest.mark.parametrize(
    "asked",
    [
        plan("none"),
        plan("partition:leader:for=2s+pause:n1,kill"),
        Plan(
            system="example",
            workload="register",
            seed=7,
            nemesis="kill",
            quorum="keep",
            keep_data=True,
            deadline="3m",
            workload_options={"keys": 3},
            system_options={"defect": "stale-reads"},
        ),
    ],
)
def test_the_child_gets_what_was_checked(tmp_path: Path, asked: Plan) -> None:
    checked = check_plan(asked)
    request = look_ahead(checked).request
    Prepared(checked=replace(checked, request=request), artifacts=ARTIFACTS, others=OTHERS).write(tmp_path)
    taken = Prepared.take(tmp_path)
    assert not list(tmp_path.iterdir()), "a run's folder keeps its plan, not the document"
    assert (taken.artifacts, taken.others) == (ARTIFACTS, OTHERS)
    assert taken.checked.plan == checked.plan
    assert (taken.checked.options, taken.checked.system_options) == (checked.options, checked.system_options)
    assert (taken.checked.members, taken.checked.placement) == (checked.members, checked.placement)
    assert (taken.checked.request.workers, taken.checked.given) == (request.workers, None)


def test_the_faults_of_a_schedule_are_handed_on_without_its_file(tmp_path: Path) -> None:
    path = written(tmp_path, row("kill:one"), row("pause:leader", 3, number=1))
    checked = check_plan(Plan(system="etcd", workload="set", seed=1, schedule=str(path)))
    Prepared(checked=checked, artifacts=ARTIFACTS, others={}).write(tmp_path)
    path.unlink()
    given = Prepared.take(tmp_path).checked.given
    assert given == checked.given and given


def test_what_holds_a_cluster_reads_no_plan_and_checks_none() -> None:
    files = [*(ROOT / "harness" / "runner").glob("*.py"), ROOT / "harness" / "conformance" / "playing.py"]
    for path in files:
        assert not re.search(r"\b(read_plan|check_plan|read_run|read_json)\b", path.read_text(encoding="utf-8")), path
