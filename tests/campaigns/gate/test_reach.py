"""What a gate does not show: never green without an effective fault, and no canary speaks for another system."""

from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from fencepost.campaigns.gate.decision import decide
from fencepost.campaigns.gate.documents import files_of
from fencepost.campaigns.gate.evidence import GateEvidence, MeasureFiles
from fencepost.campaigns.gate.planned import Candidate, plan_gate
from fencepost.campaigns.gate.requirement import RequirementKind, RequirementStatus
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.documents import write_each
from fencepost.campaigns.night.night import Night
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import UsageError
from fencepost.harness.plugins import registry
from tests.campaigns.gate.made import clean, evidence, exception, linearizable, policy, violation
from tests.campaigns.night.made import FINGERPRINT, attempt, caught, cell, night


def planned(name: str, *, canary: bool = False, **plan: str) -> NightCell:
    made = cell(name, required=not canary, canary=canary)
    return msgspec.structs.replace(made, plan=msgspec.structs.replace(made.plan, **plan))


def gate_of(canary: NightCell, *cells: NightCell) -> GateEvidence:
    runs = {each.id: 1 for each in cells}
    attempts = [caught(), *(clean(each.id) for each in cells)]
    return GateEvidence(policy=policy(runs=runs), night=night([canary, *cells], attempts))


def test_a_gate_whose_only_cell_has_no_fault_is_never_green() -> None:
    made = evidence([clean(faults={})], cells=[planned("c0", nemesis="none")])
    decision = decide(made)
    assert decision.exit_code == 2 and "no clean run had an effective fault" in decision.sentence
    (row,) = (r for r in decision.requirements if r.status is RequirementStatus.MISSING)
    assert row.kind is RequirementKind.FAULT
    # The cell by itself has its clean run: whoever asks for no fault gets what was asked for, and it says so.
    assert (
        next(r.reason for r in decision.requirements if r.kind is RequirementKind.CELL)
        == "1 clean run, without any fault"
    )


@pytest.mark.parametrize("nemesis", ["kill", "partition:leader", "all", "pause,kill"])
@pytest.mark.parametrize("faults", [{}, {"kill": 0}, {"kill": 0, "pause": 0}])
def test_a_cell_without_an_effective_fault_is_not_clean(nemesis: str, faults: dict[str, int]) -> None:
    made = evidence([clean(faults=faults)], cells=[planned("c0", nemesis=nemesis)])
    decision = decide(made)
    assert decision.exit_code == 2 and "run 1 had no effective fault" in decision.sentence


def test_tests_without_a_fault_meet_no_guarantee() -> None:
    cells = [planned("c0", nemesis="none"), planned("c1", nemesis="kill")]
    made = policy(runs={"c0": 1, "c1": 1}, guarantees=(linearizable(50),))
    both = [clean("c0", faults={}, tested=900), clean("c1", tested=49)]
    decision = decide(evidence(both, made, cells=cells))
    assert decision.exit_code == 2 and "linearizable: tested 49 times in 1 clean run" in decision.sentence
    none = [clean("c0", faults={}, tested=900), attempt("c1", RunClass.VALID, exposures={"set": 5})]
    decision = decide(evidence(none, msgspec.structs.replace(made, runs={"c0": 1, "c1": 1}), cells=cells))
    assert "linearizable: no cell tests it under a fault: 2 other clean runs (needs: tested" in decision.sentence


@pytest.mark.parametrize(
    ("canary", "text"),
    [
        ({"system": "example"}, "no canary of etcd"),
        ({"system": "zookeeper"}, "no canary of etcd"),
        ({"system": "etcd", "workload": "set"}, "no canary with the workload and faults of: cut, killed"),
        ({"system": "etcd", "nemesis": "pause"}, "no canary with the workload and faults of: cut, killed"),
        ({"system": "etcd", "nemesis": "kill:all"}, "no canary with the workload and faults of: cut"),
        ({"system": "etcd", "nemesis": "kill, partition:leader"}, ""),
        ({"system": "etcd", "nemesis": "kill:one+partition:leader"}, ""),
        ({"system": "etcd", "nemesis": "pause+kill, partition:leader:when=leader+300ms"}, ""),
        ({"system": "etcd", "nemesis": "kill:one+pause"}, "no canary with the workload and faults of: cut"),
    ],
)
def test_a_canary_counts_for_its_own_system_workload_and_faults_only(canary: dict[str, str], text: str) -> None:
    cells = [
        planned("cut", system="etcd", nemesis="partition:leader"),
        planned("killed", system="etcd", nemesis="kill"),
    ]
    decision = decide(gate_of(planned("canary", canary=True, **canary), *cells))
    assert decision.is_green
    if text:
        assert text in decision.reach[0] and text in decision.sentence
    else:
        assert decision.reach == () and decision.sentence == "all 3 requirements are met"
    (row,) = (r for r in decision.requirements if r.kind is RequirementKind.CANARY)
    is_own = canary["system"] == "etcd"
    assert ("not shown for etcd" in row.reason and "says nothing of etcd" in row.reason) is not is_own
    assert row.status is (RequirementStatus.MET if is_own else RequirementStatus.ELSEWHERE)
    assert decision.sentence.startswith("all 3 requirements are met" if is_own else "2 of 3 requirements are met; ")
    assert canary["system"] in row.need


def test_the_first_line_names_every_requirement_that_is_not_met_and_what_it_needs() -> None:
    cells = [cell(name, required=True) for name in ("c0", "c1", "c2")]
    made = policy(runs={"c0": 1, "c1": 1, "c2": 2}, guarantees=(linearizable(500, 3),))
    attempts = [violation("c0", reason="it is stale"), attempt("c1", RunClass.LOST, reason="gone"), clean("c2")]
    decision = decide(evidence(attempts, made, cells=cells, canary=[attempt("canary", RunClass.HARNESS, reason="why")]))
    assert decision.exit_code == 1
    assert decision.sentence.startswith("1 of 5 requirements failed: c0: a violation: it is stale; 4 lack evidence: ")
    for text in (
        "c1: run 1 is lost: gone (needs: 1 clean run",
        "c2: 1 of 2 clean runs (needs: 2 clean runs",
        "linearizable: tested 40 times in 1 clean run",
        "(needs: tested at least 500 times in at least 3 clean runs)",
        "canary: it is harness: why (needs: shows stale-read",
    ):
        assert text in decision.sentence


def written(folder: Path, made: GateEvidence) -> tuple[str, ET.Element]:
    warnings: list[str] = []
    write_each(files_of(MeasureFiles(folder).evidence(made.policy, made.night), folder), folder, warnings.append)
    assert warnings == []
    return unescape((folder / "gate.html").read_text()), ET.parse(folder / "junit.xml").getroot()


def on_a_machine(made: Night) -> Night:
    facts = {"kernel": "6.1.0", "architecture": "x86_64", "cores": 2, "python": "3.12.1", "git_commit": "2807d41f"}
    return msgspec.structs.replace(made, machine=facts, fencepost="0.1.0")


def test_the_page_names_what_was_tested_where_and_what_a_failure_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    report = "runs/c0-1-1/etcd-register-kill/20261123T200100Z/report.html"
    broken = violation(report=report, version="3.5.24", seconds=20.0, lag_ms=700, company=3, reason="it is stale")
    cells = [planned("c0", system="etcd", nemesis="partition:leader")]
    made = evidence([broken], policy(guarantees=(linearizable(1),)), cells=cells)
    made = msgspec.structs.replace(made, night=on_a_machine(made.night))
    folder = tmp_path / "results" / "n"
    folder.mkdir(parents=True)
    page, root = written(folder, made)
    again = "fencepost replay results/n/runs/c0-1-1/etcd-register-kill/20261123T200100Z"
    for text in (
        "etcd, version 3.5.24",
        "etcd, workload register, faults partition:leader, 3 nodes",
        "example, workload register, faults kill, 3 nodes",
        "2 cores, x86_64, kernel 6.1.0, Python 3.12.1; fencepost 0.1.0 at 2807d41f",
        "What this gate does not show",
        "no canary of etcd",
        f"fingerprint: {FINGERPRINT}",
        again,
        "late by 700 ms, 3 runs beside it",
    ):
        assert text in page, text
    failure = next(root.iter("failure"))
    assert FINGERPRINT in (failure.text or "") and again in (failure.text or "")


def test_the_times_of_the_cases_are_those_of_the_runs_each_once(tmp_path: Path) -> None:
    cells = [cell(name, required=True) for name in ("c0", "c1")]
    attempts = [clean("c0", seconds=20.0), clean("c0", run=2, seconds=30.0), clean("c1", seconds=5.0)]
    made = policy(
        runs={"c0": 2, "c1": 1}, guarantees=(linearizable(1), msgspec.structs.replace(linearizable(1), name="x"))
    )
    _, root = written(tmp_path, evidence(attempts, made, cells=cells))
    (suite,) = root
    assert sum(float(case.get("time", "0")) for case in suite) == 55.0
    assert {name: root.get(name) for name in ("tests", "errors", "failures")} == {
        name: suite.get(name) for name in ("tests", "errors", "failures")
    }
    properties = {p.get("name"): p.get("value") for case in suite for p in case.iter("property")}
    assert {"need", "status", "seed", "command", "faults", "expected"} <= properties.keys()
    assert all((case[1].text or "").strip() for case in suite if case.find("error") is not None)


# -- refused before the start -----------------------------------------------------------------------------------------

POLICY = """name = "p"
[plan]
system = "{system}"
workload = "{workload}"
[[cell]]
name = "own"
nemesis = "{nemesis}"
[[cell]]
canary = true
anomaly = "stale-read"
system = "example"
workload = "register"
nemesis = "kill:all"
system_options = {{ defect = "forgets" }}
"""
NEED = '[[guarantee]]\nname = "{}"\ntested = 1\n'


def refusal(tmp_path: Path, text: str, **words: str) -> str:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY.format(**{"system": "etcd", "workload": "register", "nemesis": "kill", **words}) + text)
    try:
        plan_gate(path, Candidate(name=registry.system(words.get("system", "etcd")).releases.default))
    except UsageError as error:
        return f"{error.message}\n{error.hint}"
    return ""


@pytest.mark.parametrize("system", ["etcd", "example"])
def test_a_policy_without_any_fault_is_refused(tmp_path: Path, system: str) -> None:
    assert "no required cell has a fault" in refusal(tmp_path, "", system=system, nemesis="none")


@pytest.mark.parametrize(
    ("system", "workload", "guarantee", "able"),
    [
        ("etcd", "register", "group-listener-converges", "members"),
        ("etcd", "register", "no-lost-acknowledged-writes", "set"),
        ("etcd", "set", "linearizable", "register"),
        ("nats", "log", "no-lost-acknowledged-writes", "set"),
        ("example", "set", "session-order", "register"),
    ],
)
def test_a_guarantee_that_no_cell_can_test_is_refused_and_says_what_would(
    tmp_path: Path, system: str, workload: str, guarantee: str, able: str
) -> None:
    message = refusal(tmp_path, NEED.format(guarantee), system=system, workload=workload)
    assert f"no required cell with faults can test '{guarantee}': own tests " in message
    assert able in message.partition("with a workload that tests it: ")[2], message


@pytest.mark.parametrize(
    ("system", "workload", "guarantee"),
    [
        ("etcd", "register", "linearizable"),
        ("etcd", "register", "superseded-leader-does-not-act"),
        ("etcd", "set", "no-lost-acknowledged-writes"),
        ("zookeeper", "register", "session-order"),
        ("example", "register", "linearizable"),
        # Only a run shows whether these are tested.
        ("etcd", "set", "lock-mutual-exclusion"),
        ("zookeeper", "register", "fresh-after-sync"),
    ],
)
def test_a_guarantee_that_a_cell_tests_is_accepted(tmp_path: Path, system: str, workload: str, guarantee: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY.format(system=system, workload=workload, nemesis="kill") + NEED.format(guarantee))
    default = registry.system(system).releases.default
    assert plan_gate(path, Candidate(name=default)).policy.guarantees[0].name == guarantee


def test_known_violations_without_an_effective_fault_are_no_evidence_either() -> None:
    issue = exception(fingerprint=FINGERPRINT)
    for faults, is_green in (({}, False), ({"kill": 0}, False), ({"kill": 1}, True)):
        known = attempt("c0", RunClass.KNOWN, known=(FINGERPRINT,), fingerprints=(FINGERPRINT,), faults=faults)
        assert decide(evidence([known], policy(exceptions=(issue,)))).is_green is is_green
    # Whoever takes on missing evidence of every cell takes on that nothing was disturbed.
    assert decide(evidence([], policy(exceptions=(exception(cell="c0"),)))).is_green
